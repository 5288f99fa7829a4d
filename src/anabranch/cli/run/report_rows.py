"""The published rows of a run, read with Arrow: the first of each kind, and their counts.

Embedded runs and runs on Spark publish the same files, so both have this one reader. Files are read one after the
other: of a large output, only the first rows are kept.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.hints import STRANGER
from anabranch.eventtime.tolerance import Sample, abstract
from anabranch.microbatch.exchange.event_columns import read_event_schema
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.runs.part_files import FOLDERS
from anabranch.microbatch.runs.part_reading import read_part
from anabranch.microbatch.runs.published_batches import list_batches, read_schema
from anabranch.microbatch.speculative.row_barrier import read_id
from anabranch.model.failures import was_raised
from anabranch.speculation.output_changes import Amount, Mode

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]

MOST_KINDS = 1000
"""The number of kinds of reasons that are kept; further kinds are rare."""


class Losses(NamedTuple):
    """The late and the rejected events of a run: the first of each, and counts of the rejected ones.

    `reasons` has a sample of each kind of reason, the most frequent first. `raised` counts, by event type, the
    events on which a function raised; `others` those that did not reach the function. `strangers` counts events of
    undeclared channels.
    """

    late: list[Row]
    rejected: list[Row]
    reasons: list[tuple[Sample, Row]]
    raised: dict[str, int]
    others: dict[str, int]
    strangers: dict[str, int]


def read_first_outputs(
    folder: Path, columns: OutputColumns, page: int | None, mode: Mode
) -> tuple[Amount, list[Row]]:
    """Return the counts of all outputs, and the first `page` of them, or all, in their total order."""
    name, time, op = columns.own

    def key(row: Row) -> list[Any]:
        # A retraction follows the output that it withdraws, so the batch comes first in the order.
        first = [] if mode == "settled" else [row["#batch"]]
        return [*first, *read_id(row[name]), row[op]]

    emitted = valid = 0
    found: list[Row] = []
    for batch, file in _list_files(folder, "output"):
        if file.suffix == ".json":
            rows = _read_lines(file)
            emitted, valid = emitted + len(rows), valid + sum(row[op] for row in rows)
        else:
            table = _read_table(file, "output")
            emitted += len(table)
            valid += sum(table.column(op).to_pylist()) if mode != "settled" else len(table)
            rows = _take_earliest(table, time, page).to_pylist()
        found += ({**row, "#batch": batch} for row in rows)
        if page is not None and len(found) > page:
            found = heapq.nsmallest(page, found, key)
    return Amount(emitted, valid), sorted(found, key=key)


def _take_earliest(table: pa.Table, time: str, page: int | None) -> pa.Table:
    """Return the rows with the earliest times: at least `page`, and all of the last of these times."""
    import pyarrow.compute as pc

    if page is None or len(table) <= page:
        return table
    first = pc.select_k_unstable(table, page, [(time, "ascending")])
    return table.filter(pc.less_equal(table.column(time), pc.max(table.column(time).take(first))))


def read_losses(folder: Path, event_types: Iterable[str], page: int | None) -> Losses:
    """Return the late and rejected events of a run: the first `page` of each kind, or all, and counts."""
    known = frozenset(event_types)
    raised: Counter[str] = Counter()
    others: Counter[str] = Counter()
    strangers: Counter[str] = Counter()
    times: Counter[tuple[str, str | None]] = Counter()
    first: dict[tuple[str, str | None], Row] = {}
    late: list[Row] = []
    for row in _read_rows(folder, "late"):
        late = _keep_first(late, row, page)
        others[row["type"]] += row["type"] in known
    rejected: list[Row] = []
    for row in _read_rows(folder, "rejected"):
        rejected = _keep_first(rejected, row, page)
        reason, event_type = row["reason"], row["type"]
        if event_type in known:
            (raised if was_raised(reason, event_type) else others)[event_type] += 1
        if reason.startswith(STRANGER):
            strangers[row["channel"]] += 1
        kind = abstract(reason), event_type
        times[kind] += 1
        first[kind] = min(first.get(kind, row), row, key=_find_position)
    # Kinds of equal counts in the order of their first events.
    ordered = sorted(times, key=lambda kind: (-times[kind], _find_position(first[kind])))
    reasons = [
        (Sample(first[kind]["reason"], first[kind]["raw"], times[kind], kind[1]), first[kind])
        for kind in ordered[:MOST_KINDS]
    ]
    return Losses(
        sorted(late, key=_find_position), sorted(rejected, key=_find_position), reasons,
        dict(raised), dict(others), dict(strangers),
    )  # fmt: skip


def _find_position(row: Row) -> tuple[Any, ...]:
    """Return the position of an event in its channel, as a sortable value."""
    return row["channel"] or "", -1 if row["seq"] is None else row["seq"], row["id"] or ""


def _keep_first(rows: list[Row], row: Row, page: int | None) -> list[Row]:
    rows.append(row)
    if page is None or len(rows) < 2 * page:
        return rows
    return heapq.nsmallest(page, rows, _find_position)


def _read_rows(folder: Path, kind: str) -> Iterator[Row]:
    names = read_event_schema(kind, timestamped=False).names
    for _, file in _list_files(folder, kind):
        if file.suffix == ".json":
            # A JSON file omits columns without a value.
            yield from ({**dict.fromkeys(names), **row} for row in _read_lines(file))
            continue
        for batch in _read_table(file, kind).to_batches(max_chunksize=10_000):
            yield from batch.to_pylist()


def _list_files(folder: Path, kind: str) -> Iterator[tuple[int, Path]]:
    for number, batch in sorted(list_batches(folder).items()):
        for file in sorted((batch / FOLDERS[kind]).glob("part-*")):
            yield number, file


def _read_table(file: Path, kind: str) -> pa.Table:
    return read_part(file, read_schema(file.parents[1], FOLDERS[kind]))


def _read_lines(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
