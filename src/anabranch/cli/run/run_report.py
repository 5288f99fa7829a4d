"""The report of a run, embedded or on Spark, from the rows that it has published."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.cli.run.report_rows import Losses, Row, read_first_outputs, read_losses
from anabranch.cli.run.row_places import RowPlaces
from anabranch.cli.run.run_inputs import InputFolder, list_channels
from anabranch.cli.run.run_request import RunRequest
from anabranch.cli.run.run_verdict import describe_amount, describe_samples
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.hints import explain_strangers
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.tolerance import Sample, find_raising
from anabranch.local.published_tables import read_outputs
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.ingest.block_items import read_block
from anabranch.microbatch.ingest.file_rows import list_columns, number_rows
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.published_batches import (
    find_last_batch,
    read_ledger,
    read_watermarks,
)
from anabranch.microbatch.speculative.row_barrier import read_id
from anabranch.model.events import FOREVER, Event, field_names
from anabranch.model.program import Program
from anabranch.model.values.fields import encode_value, to_utc
from anabranch.model.values.value_types import LIST, RECORD, TUPLE, ValueType
from anabranch.plan.layouts import Layout
from anabranch.sources.files import Taken, list_files, read_file
from anabranch.speculation.output_changes import Amount, Mode

if TYPE_CHECKING:
    import pyarrow as pa

SPELLED = 100
"""Number of outputs whose values are shown as texts."""


@dataclass(frozen=True)
class RunReport:
    """The published rows of a run: the first of each kind, and their counts."""

    layout: Layout
    ledger: Ledger
    watermarks: dict[str, int]
    outputs: list[dict[str, Any]]
    late: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    amount: Amount
    ended: bool
    mode: Mode
    hint: str | None = None
    reasons: tuple[Sample, ...] = ()
    raising: Mapping[str, int] = field(default_factory=dict)
    """The event types for which a function raised on every event, with the number of events."""
    table: pa.Table | None = None
    """The outputs in the columns of results, if a CSV file is to be written."""
    spelled: tuple[str, ...] = ()
    """The values of the outputs as texts, for a person."""

    def describe(self) -> dict[str, Any]:
        """Return the report as a JSON document, with the names that the reference uses."""
        return {
            "outputs": self.outputs,
            **describe_amount(self.amount, self.mode),
            "ledger": self.ledger._asdict(),
            "late": [_flatten(late) for late in self.late],
            "rejected": self.rejected,
            "reasons": describe_samples(self.reasons),
            "watermarks": self.watermarks,
            "layout": {
                "way": self.layout.way,
                "shards": self.layout.shards,
                "reasons": list(self.layout.reasons),
            },
            **({"hint": self.hint} if self.hint else {}),
        }


def read_report(
    order: RunRequest,
    job: Job,
    inputs: Sequence[InputFolder],
    folder: Path,
    page: int | None,
) -> RunReport:
    """Return a report with the first `page` published rows of each kind, or all of them."""
    last = find_last_batch(folder)
    program, channels = job.program, list_channels(inputs)
    reached = {} if last is None else read_watermarks(last).channels
    watermarks = {s.name: FOREVER if job.ended else reached.get(s.name, NEVER) for s in channels}
    ledger = Ledger() if last is None else read_ledger(last)
    columns = OutputColumns(program.output_types, timestamped=program.timestamped)
    amount, rows = read_first_outputs(folder, columns, page, order.mode)
    losses = read_losses(folder, [t.__name__ for t in program.inputs], page)
    places = RowPlaces(job, {path: name for one in inputs for path, name in one.shown.items()})
    return RunReport(
        job.layout,
        ledger,
        watermarks,
        [_read_output(row, columns, program, order.mode) for row in rows],
        [_read_late(row, program) for row in losses.late],
        [_read_rejected(row, places) for row in losses.rejected],
        amount,
        job.ended,
        order.mode,
        explain_strangers(losses.strangers, [channel.name for channel in channels]),
        tuple(sample._replace(reason=places.name_reason(row)) for sample, row in losses.reasons),
        _find_raising(losses, job, ledger),
        spelled=tuple(spell_output(row, columns) for row in rows[:SPELLED]),
    )


def read_output_table(folder: Path) -> pa.Table:
    """Return the outputs of a run in the columns of results, in their total order."""
    table = read_outputs(folder)
    names = table.column_names
    if not len(table):
        return table
    ids = table.column(names[0]).to_pylist()
    order = sorted(range(len(ids)), key=lambda place: read_id(ids[place]))
    return table.take(order).select([name for name in names if name != "batch"])


def spell_output(row: Row, columns: OutputColumns) -> str:
    """Return the value of an output as a text: a record as its class would show it."""
    value, shown = columns.describe(row), columns.shown
    if not shown:
        return repr(value)
    number = 0
    if len(shown) > 1:
        number = next(n for n, (name, _) in enumerate(columns.fields) if row.get(name) is not None)
    return _spell(shown[number], value)


def _spell(type_: ValueType, value: Any) -> str:
    if value is None:
        return "None"
    if type_.kind == RECORD:
        parts = ", ".join(f"{name}={_spell(part, value[name])}" for name, part in type_.parts)
        return f"{type_.name.partition('[')[0]}({parts})"
    if type_.kind == TUPLE:
        spelled = [_spell(part, one) for (_, part), one in zip(type_.parts, value, strict=True)]
        return f"({', '.join(spelled)}{',' if len(spelled) == 1 else ''})"
    if type_.kind == LIST:
        return f"[{', '.join(_spell(type_.parts[0][1], one) for one in value)}]"
    return repr(value)


def _find_raising(losses: Losses, job: Job, ledger: Ledger) -> dict[str, int]:
    raised = losses.raised
    if not raised or (ledger.processed and len(job.program.inputs) == 1):
        return {}
    processed = count_processed(job, raised, losses.others) if ledger.processed else {}
    return find_raising(raised, processed)


def count_processed(job: Job, raised: dict[str, int], others: dict[str, int]) -> dict[str, int]:
    """Return how many events of each type in `raised` were processed, counted until each type has one.

    Shards count events, not their types. So this reads the files again, up to the first processed event of
    each type, and is called only if a function raised and its event type is not the only one.
    """
    left = Counter(
        {event_type: count + others.get(event_type, 0) for event_type, count in raised.items()}
    )
    for event in _read_events(job):
        name = type(event.data).__name__
        if name in left:
            left[name] -= 1
            if all(count < 0 for count in left.values()):
                break
    return {event_type: -count for event_type, count in left.items()}


def _read_events(job: Job) -> Iterator[Event]:
    for folder in job.folders:
        wanted = list_columns(job, folder.reading)
        for found in list_files(folder.files, Taken()):
            for batch in read_file(folder.files, found, wanted):
                items = read_block(job, number_rows(folder.reading, batch.schema), batch)
                yield from (item for item in items if isinstance(item, Event))


def _read_output(
    row: dict[str, Any], columns: OutputColumns, program: Program, mode: Mode
) -> dict[str, Any]:
    name, time, op = columns.own
    (_, rank, channel, seq, *_), index = read_id(row[name])
    moment = row[time]  # A JSON file has timestamps as texts.
    return {
        **({} if mode == "settled" else {"op": row[op]}),
        "time": encode_value(to_utc(moment) if isinstance(moment, datetime) else moment),
        "type": program.rank[rank].__name__,
        "channel": channel,
        "seq": None if seq < 0 else seq,
        "index": index,
        "value": columns.describe(row),
    }


def _read_late(row: Row, program: Program) -> dict[str, Any]:
    distance, found = row["distance"], json.loads(row["event"])
    event_type = next((t for t in program.inputs if t.__name__ == row["type"]), None)
    order = () if event_type is None else field_names(event_type)
    return {
        "type": row["type"],
        "channel": row["channel"],
        "seq": row["seq"],
        "event": {name: found[name] for name in order if name in found} | found,
        # The column is limited to 2^63 - 1, the text is not.
        "distance": distance if distance < FOREVER else int(row["reason"].partition(" ")[0]),
    }


def _flatten(late: dict[str, Any]) -> dict[str, Any]:
    """Return a late event as a row of a file of events, in the form of the reference run."""
    fields = late["event"]
    beside = {name: late[name] for name in ("type", "channel", "seq")}
    clear = {f"@{name}" if name in fields else name: value for name, value in beside.items()}
    return {**fields, **clear, "distance": late["distance"]}


def _read_rejected(row: Row, places: RowPlaces) -> dict[str, Any]:
    # An event has fields; a row that could not be decoded has only its text.
    raw = row["raw"] if row["type"] is None else _read_fields(row["raw"])
    reason = places.name_reason(row)
    return {"reason": reason, "channel": row["channel"], "seq": row["seq"], "raw": raw}


def _read_fields(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # The text was truncated.
