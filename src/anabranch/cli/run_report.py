"""What a run on Spark has published, as a report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.cli.spark_options import SparkRequest
from anabranch.eventtime.channels import NEVER, Source
from anabranch.eventtime.hints import STRANGER, explain_strangers
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER
from anabranch.plan.layouts import Layout
from anabranch.speculation.spoken import Amount, Mode

Frame = Any
Session = Any
"""Spark's. Only `anabranch.spark` imports PySpark, for types too."""


@dataclass(frozen=True)
class RunReport:
    """What Spark published: a page of each kind of row, and how many there are."""

    wiring: Layout
    ledger: Ledger
    frontiers: dict[str, int]
    outputs: list[dict[str, Any]]
    late: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    amount: Amount
    ended: bool
    mode: Mode
    hint: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return the report as a JSON document, with the names that the reference uses."""
        return {
            "outputs": self.outputs,
            **describe_amount(self.amount, self.mode),
            "ledger": self.ledger._asdict(),
            "late": [_flatten(late) for late in self.late],
            "rejected": self.rejected,
            "frontiers": self.frontiers,
            "wiring": {
                "way": self.wiring.way,
                "shards": self.wiring.shards,
                "reasons": list(self.wiring.reasons),
            },
            **({"hint": self.hint} if self.hint else {}),
        }


def describe_amount(amount: Amount, mode: Mode) -> dict[str, Any]:
    """Return how much a speculative run said in vain; a settled one says nothing in vain."""
    if mode == "settled":
        return {}
    return {"amount": {**amount._asdict(), "ratio": round(amount.ratio, 4)}}


def read_report(
    session: Session,
    order: SparkRequest,
    wiring: Layout,
    sources: tuple[Source, ...],
    folder: Path,
    page: int | None,
) -> RunReport:
    """Read the first `page` rows of each kind that were published, or all."""
    from anabranch.microbatch.exchange.result_rows import COLUMNS
    from anabranch.spark.sinks.directory import find_last_batch, read_frontiers, read_ledger

    last = find_last_batch(folder)
    ended = order.folder is None
    frontiers = {} if last is None else read_frontiers(last).sources
    reader = session.read.schema(f"{COLUMNS}, batch int").format(order.format)
    rows = reader.option("basePath", str(folder)).load(str(folder))
    outputs = rows.where("kind = 'output'")
    counts = outputs.selectExpr("count(*) AS said", "coalesce(sum(op), 0) AS valid").first()
    ledger = Ledger() if last is None else read_ledger(last)
    rejected = rows.where("kind = 'rejected'")
    return RunReport(
        wiring,
        ledger,
        {s.name: FOREVER if ended else frontiers.get(s.name, NEVER) for s in sources},
        [_read_output(row, order.mode) for row in _take(outputs, page, order.mode)],
        [_read_late(row) for row in _take(rows.where("kind = 'late'"), page)],
        [_read_rejected(row) for row in _take(rejected, page)],
        Amount(counts.said, counts.valid),
        ended,
        order.mode,
        _find_hint(rejected, sources) if ledger.rejected else None,
    )


def _find_hint(rejected: Frame, sources: tuple[Source, ...]) -> str | None:
    strangers = rejected.where(f"startswith(reason, '{STRANGER}')").groupBy("source").count()
    counts = {row["source"]: row["count"] for row in strangers.collect()}
    return explain_strangers(counts, [source.name for source in sources])


def _take(rows: Frame, page: int | None, mode: Mode = "settled") -> list[Any]:
    # What is taken back follows what was said: then it matters when that was.
    first = [] if mode == "settled" else ["batch"]
    ordered = rows.orderBy(*first, "time", "source", "seq", "index", "op")
    found = (ordered if page is None else ordered.limit(page)).collect()
    return sorted(found, key=lambda row: [*(row[name] for name in first), *_order_key(row)])


def _order_key(row: Any) -> list[Any]:
    # The id of an output is its order key; what was lost stands in its source's sequence.
    if row.kind == "output":
        return [*json.loads(row.id.rpartition("#")[0]), row["index"], row.op]
    return [row.source or "", -1 if row.seq is None else row.seq, row.id]


def _read_output(row: Any, mode: Mode) -> dict[str, Any]:
    spoken = {} if mode == "settled" else {"op": row.op}
    return {
        **spoken,
        "time": row.time,
        "tag": row.tag,
        "source": row.source,
        "seq": row.seq,
        "index": row["index"],
        "value": json.loads(row.value),
        "event": None if row.event is None else json.loads(row.event),  # A timer is no event.
    }


def _read_late(row: Any) -> dict[str, Any]:
    return {
        "tag": row.tag,
        "source": row.source,
        "seq": row.seq,
        "event": None if row.event is None else json.loads(row.event),  # A timer is no event.
        "distance": int(row.reason.partition(" ")[0]),
    }


def _flatten(late: dict[str, Any]) -> dict[str, Any]:
    """Return a late event as a row of a file of events, as the reference shows it."""
    fields = late["event"]
    beside = {name: late[name] for name in ("tag", "source", "seq")}
    clear = {f"@{name}" if name in fields else name: value for name, value in beside.items()}
    return {**fields, **clear, "distance": late["distance"]}


def _read_rejected(row: Any) -> dict[str, Any]:
    # Of an event we know the fields; of a row that is none, only the text.
    raw = row.event if row.tag is None else _read_fields(row.event)
    return {"reason": row.reason, "source": row.source, "seq": row.seq, "raw": raw}


def _read_fields(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # It was cut short.
