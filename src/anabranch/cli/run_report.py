"""The report of a run on Spark, from the rows that it has published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.cli.spark_options import SparkRequest
from anabranch.eventtime.channels import NEVER, Channel
from anabranch.eventtime.hints import STRANGER, explain_strangers
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.tolerance import Sample, find_raising
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.speculative.row_barrier import read_id
from anabranch.model.events import FOREVER
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout
from anabranch.speculation.output_changes import Amount, Mode

Frame = Any
Session = Any
"""Spark's. Only `anabranch.spark` imports PySpark, for types too."""


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


def describe_samples(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """Return the kinds of reasons as JSON: an example of each, its event type, and its count."""
    return [{"reason": one.reason, "type": one.event_type, "count": one.times} for one in samples]


def describe_amount(amount: Amount, mode: Mode) -> dict[str, Any]:
    """Return the counts of emitted and still valid outputs of a speculative run; none for a settled run."""
    if mode == "settled":
        return {}
    return {"amount": {**amount._asdict(), "ratio": round(amount.ratio, 4)}}


def read_report(
    session: Session,
    order: SparkRequest,
    job: Job,
    channels: tuple[Channel, ...],
    folder: Path,
    page: int | None,
) -> RunReport:
    """Return a report with the first `page` published rows of each kind, or all of them."""
    from anabranch.spark.sinks.directory import find_last_batch, read_ledger, read_watermarks
    from anabranch.spark.sinks.published import read_late, read_outputs, read_rejected
    from anabranch.spark.sinks.rejection_counts import sample_reasons

    last = find_last_batch(folder)
    ended = order.folder is None
    watermarks = {} if last is None else read_watermarks(last).channels
    ledger = Ledger() if last is None else read_ledger(last)
    columns = OutputColumns(job.program.output_types)
    emitted, late, rejected = [], [], []
    amount, hint = Amount(0, 0), None
    reasons: tuple[Sample, ...] = ()
    raising: dict[str, int] = {}
    if last is not None:
        outputs, refused = read_outputs(session, folder), read_rejected(session, folder)
        _, _, op = columns.own
        counts = outputs.selectExpr(
            "count(*) AS emitted", f"coalesce(sum(`{op}`), 0) AS valid"
        ).first()
        assert counts is not None
        amount = Amount(counts.emitted, counts.valid)
        found = _take_outputs(outputs, columns, page, order.mode)
        emitted = [_read_output(row, columns, job.program, order.mode) for row in found]
        behind = read_late(session, folder)
        late = [_read_late(row) for row in _take(behind, page)]
        rejected = [_read_rejected(row) for row in _take(refused, page)]
        if ledger.rejected:
            hint = _find_hint(refused, channels)
            reasons = tuple(sample_reasons(refused))
            raising = _find_raising(behind, refused, job, ledger)
    return RunReport(
        job.layout,
        ledger,
        {s.name: FOREVER if ended else watermarks.get(s.name, NEVER) for s in channels},
        emitted,
        late,
        rejected,
        amount,
        ended,
        order.mode,
        hint,
        reasons,
        raising,
    )


def _find_raising(late: Frame, rejected: Frame, job: Job, ledger: Ledger) -> dict[str, int]:
    from anabranch.spark.sinks.rejection_counts import count_processed, count_raised

    raised, others = count_raised(late, rejected, job)
    if not raised or (ledger.processed and len(job.program.inputs) == 1):
        return {}
    processed = count_processed(job, raised, others) if ledger.processed else {}
    return find_raising(raised, processed)


def _find_hint(rejected: Frame, channels: tuple[Channel, ...]) -> str | None:
    strangers = rejected.where(f"startswith(reason, '{STRANGER}')").groupBy("channel").count()
    counts = {row["channel"]: row["count"] for row in strangers.collect()}
    return explain_strangers(counts, [channel.name for channel in channels])


def _take_outputs(
    outputs: Frame, columns: OutputColumns, page: int | None, mode: Mode
) -> list[dict[str, Any]]:
    """Return the first outputs in their total order, which is that of their ids."""
    name, time, op = columns.own
    key = f"substring_index(`{name}`, '#', length(`{name}`) - length(replace(`{name}`, '#', '')))"
    places = [f"get_json_object({key}, '$[{place}]')" for place in range(1, 4)]
    numbers = [f"CAST({places[0]} AS INT)", places[1], f"CAST({places[2]} AS BIGINT)"]
    index = f"CAST(substring_index(`{name}`, '#', -1) AS INT)"
    # A retraction follows the output that it withdraws, so the batch comes first in the order.
    first = [] if mode == "settled" else ["batch"]
    ordered = outputs.selectExpr(
        "*", *(f"{text} AS `#{n}`" for n, text in enumerate((*numbers, index)))
    ).orderBy(*first, f"`{time}`", "`#0`", "`#1`", "`#2`", "`#3`", f"`{op}`")
    found: list[dict[str, Any]] = (
        (ordered if page is None else ordered.limit(page)).toArrow().to_pylist()
    )
    return sorted(
        found,
        key=lambda row: [*(row[name] for name in first), *read_id(row[columns.own[0]]), row[op]],
    )


def _take(rows: Frame, page: int | None) -> list[Any]:
    ordered = rows.orderBy("time", "channel", "seq")
    found = (ordered if page is None else ordered.limit(page)).collect()
    # Late and rejected rows are ordered by their position in the channel.
    return sorted(
        found, key=lambda row: [row.channel or "", -1 if row.seq is None else row.seq, row.id]
    )


def _read_output(
    row: dict[str, Any], columns: OutputColumns, program: Program, mode: Mode
) -> dict[str, Any]:
    name, time, op = columns.own
    (_, rank, channel, seq, *_), index = read_id(row[name])
    return {
        **({} if mode == "settled" else {"op": row[op]}),
        "time": row[time],
        "type": program.rank[rank].__name__,
        "channel": channel,
        "seq": None if seq < 0 else seq,
        "index": index,
        "value": columns.describe(row),
    }


def _read_late(row: Any) -> dict[str, Any]:
    return {
        "type": row.type,
        "channel": row.channel,
        "seq": row.seq,
        "event": json.loads(row.event),
        # The column is limited to 2^63 - 1, the text is not.
        "distance": row.distance if row.distance < FOREVER else int(row.reason.partition(" ")[0]),
    }


def _flatten(late: dict[str, Any]) -> dict[str, Any]:
    """Return a late event as a row of a file of events, in the form of the reference run."""
    fields = late["event"]
    beside = {name: late[name] for name in ("type", "channel", "seq")}
    clear = {f"@{name}" if name in fields else name: value for name, value in beside.items()}
    return {**fields, **clear, "distance": late["distance"]}


def _read_rejected(row: Any) -> dict[str, Any]:
    # An event has fields; a row that could not be decoded has only its text.
    raw = row.raw if row.type is None else _read_fields(row.raw)
    return {"reason": row.reason, "channel": row.channel, "seq": row.seq, "raw": raw}


def _read_fields(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # The text was truncated.
