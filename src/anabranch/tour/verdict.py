"""The verdict: what Spark published, held against the sequential fold, row by row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.exchange.result_rows import encode_json, identify
from anabranch.model.program import Program
from anabranch.reference.event_files import read_items
from anabranch.reference.sequential import Answer, run
from anabranch.spark.sinks.directory import find_last_batch, read_ledger
from anabranch.tour.traffic import SOURCES
from anabranch.tour.view import Hour

Rows = list[tuple[str, str]]
"""What tells a row from every other, and what it says."""


class Comparison(NamedTuple):
    """Two sets of rows of one kind, by what tells them apart."""

    kind: str
    published: int
    expected: int
    missing: int
    twice: int
    different: int

    @property
    def agrees(self) -> bool:
        """Say whether they are the same."""
        return not (self.missing or self.twice or self.different)


@dataclass(frozen=True)
class TourVerdict:
    """How what was published compares, and the two ledgers."""

    comparisons: list[Comparison]
    ledger: Ledger
    expected: Ledger

    @property
    def agrees(self) -> bool:
        """Say whether everything is as the fold says."""
        same = all(comparison.agrees for comparison in self.comparisons)
        return same and self.ledger == self.expected and self.ledger.balanced


def fold_files(program: Program, files: Iterable[Path]) -> Answer:
    """Read the files one after the other, and fold their events in order: the reference."""
    return run(program, read_items(program, map(str, files)), SOURCES)


def judge(program: Program, answer: Answer, folder: Path) -> TourVerdict:
    """Compare every row of a folder of batches with the answer."""
    said = read_rows(folder, "outputs")
    columns = OutputColumns(program.output_types)
    name = columns.own[0]
    last = find_last_batch(folder)
    outputs = [(f"{identify(o.key)}#{o.index}", encode_json(o.value)) for o in answer.outputs]
    late = [(_place(late.event.source, late.event.seq), str(late.distance)) for late in answer.late]
    return TourVerdict(
        [
            compare("outputs", [(r[name], _SORTED(columns.describe(r))) for r in said], outputs),
            compare("late events", [_read_late(row) for row in read_rows(folder, "late")], late),
        ],
        Ledger() if last is None else read_ledger(last),
        answer.ledger,
    )


def compare(kind: str, published: Rows, expected: Rows) -> Comparison:
    """Compare rows by what tells them apart, and then by what they say.

    >>> compare("outputs", [("a", "1"), ("a", "1"), ("c", "0")], [("a", "1"), ("b", "2"), ("c", "3")])
    Comparison(kind='outputs', published=3, expected=3, missing=1, twice=1, different=1)
    """
    counts = Counter(name for name, _ in published)
    right = dict(expected)
    wrong = sum(right.get(name) != said for name, said in dict(published).items())
    twice = sum(count - 1 for count in counts.values())
    return Comparison(
        kind, len(published), len(expected), len(right.keys() - counts.keys()), twice, wrong
    )


def read_rows(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Read the rows of a kind that have been published, batch by batch."""
    rows = []
    for file in sorted(folder.glob(f"batch=*/{kind}/*.json")):
        rows += [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return rows


def read_hours(program: Program, folder: Path) -> list[Hour]:
    """Read what has been published of each hour, in order."""
    columns = OutputColumns(program.output_types)
    rows = read_rows(folder, "outputs")
    return sorted(Hour(row[columns.own[1]], columns.describe(row)) for row in rows)


_SORTED = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def _read_late(row: Mapping[str, Any]) -> tuple[str, str]:
    return _place(row["source"], row["seq"]), str(row["distance"])


def _place(source: str, seq: int | None) -> str:
    return f"{source} {seq}"
