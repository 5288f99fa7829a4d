"""The verdict: the published rows compared with the oracle, and the first of them with the reference."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from anabranch.eventtime.channels import end_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER, Event, Item, Malformed
from anabranch.model.program import Program
from anabranch.reference.sequential import Answer, run
from anabranch.tour.oracle import OFFICES, Expected, Place, read_hours, read_office
from anabranch.tour.traffic import CHANNELS, CLOCK, HOUR_S

SAMPLE_END = 3 * HOUR_S
"""The reference folds the events of every channel up to its first event at or after this time."""


class Comparison(NamedTuple):
    """The comparison of two sets of rows of one kind, by their ids."""

    kind: str
    published: int
    expected: int
    missing: int
    twice: int
    different: int

    @property
    def agrees(self) -> bool:
        """Return whether the two sets are equal."""
        return not (self.missing or self.twice or self.different)


@dataclass(frozen=True)
class ReferenceSample:
    """The answer of the reference for the start of the stream, and its speed."""

    answer: Answer
    events: int
    seconds: float

    @property
    def rate(self) -> float:
        """Return its events per second."""
        return self.events / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class TourVerdict:
    """The comparisons of the published rows, and the two ledgers."""

    comparisons: list[Comparison]
    ledger: Ledger
    expected: Ledger

    @property
    def agrees(self) -> bool:
        """Return whether every row and every count is as expected."""
        same = all(comparison.agrees for comparison in self.comparisons)
        return same and self.ledger == self.expected and self.ledger.balanced


def judge(
    hours: Iterable[tuple[int, Any]],
    late: Iterable[tuple[Place, int]],
    rejected: Iterable[Place],
    ledger: Ledger,
    expected: Expected,
) -> TourVerdict:
    """Compare all published rows and counts with those of the oracle."""
    processed = expected.events - len(expected.late) - len(expected.rejected)
    counts = (len(expected.late), len(expected.rejected))
    return TourVerdict(
        [
            compare("hours", hours, expected.hours),
            compare("late", late, expected.late),
            compare("rejected", ((p, 0) for p in rejected), dict.fromkeys(expected.rejected, 0)),
        ],
        ledger,
        Ledger(expected.events, processed, *counts, 0, 0),
    )


def compare(
    kind: str,
    published: Iterable[tuple[Hashable, Any]],
    expected: Mapping[Any, Any],
) -> Comparison:
    """Compare rows by their ids, and then by their values.

    >>> compare("hours", [("a", 1), ("a", 1), ("c", 0)], {"a": 1, "b": 2, "c": 3})
    Comparison(kind='hours', published=3, expected=3, missing=1, twice=1, different=1)
    """
    rows = list(published)
    counts = Counter(name for name, _ in rows)
    wrong = sum(
        name not in expected or expected[name] != value for name, value in dict(rows).items()
    )
    twice = sum(count - 1 for count in counts.values())
    missing = len(expected.keys() - counts.keys())
    return Comparison(kind, len(rows), len(expected), missing, twice, wrong)


def fold_sample(
    module: ModuleType, program: Program, folder: Path, *, end: int | None = SAMPLE_END
) -> ReferenceSample:
    """Fold the start of every channel with the reference; with `end=None`, the whole channels."""
    items = list_items(module, folder, FOREVER if end is None else end)
    if end is None:
        items = end_channels(items, channels=CHANNELS)
    began_s = time.perf_counter()
    answer = run(program, items, CHANNELS)
    return ReferenceSample(answer, len(items), time.perf_counter() - began_s)


def list_items(module: ModuleType, folder: Path, end: int) -> list[Item]:
    """Return the items of every channel up to its first event at or after `end`."""
    items: list[Item] = [
        # One more hour: a marker is stable when its channel's watermark has passed it.
        Event(module.Hour(hour), CLOCK, seq)
        for seq, hour in enumerate(read_hours(folder))
        if hour <= end
    ]
    for name in OFFICES:
        for rows in read_office(folder / name):
            reached = rows.time >= end
            count = int(reached.argmax()) if reached.any() else len(rows.time)
            columns = (column[:count].tolist() for column in rows)
            for moment, taxi, amount, broken, seq in zip(*columns, strict=True):
                if broken:
                    items.append(Malformed(None, "no amount", name, seq))
                else:
                    items.append(Event(module.Tip(moment, taxi, amount), name, seq))
            if count < len(rows.time):
                break
    return items


def agrees_with_reference(answer: Answer, expected: Expected, *, whole: bool = False) -> bool:
    """Return whether the outputs and late events of the reference are among the oracle's, or with `whole` equal."""
    hours = {output.event.time: output.value for output in answer.outputs}
    late = {(late.event.channel, late.event.seq): late.distance for late in answer.late}
    if whole:
        return hours == expected.hours and late == expected.late
    return hours.items() <= expected.hours.items() and late.items() <= expected.late.items()
