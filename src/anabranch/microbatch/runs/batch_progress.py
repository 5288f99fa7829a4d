"""The progress of a run: one line for each batch."""

from __future__ import annotations

from typing import NamedTuple

from anabranch.eventtime.held_back import describe_joining, explain_hold, find_holders, name_time
from anabranch.eventtime.ledger import Ledger
from anabranch.html_tables import show_line
from anabranch.microbatch.runs.published_batches import Watermarks
from anabranch.model.events import FOREVER


class Batch(NamedTuple):
    """The progress of a batch.

    `rows` counts events, or Spark's input rows if the query does not report Anabranch's metrics. `ledger` is
    set if the query reports them or `write_directory` has published the batch, `watermarks` only in the
    latter case.
    """

    number: int
    rows: int
    rows_per_s: float
    state_rows: int
    state_bytes: int
    ledger: Ledger | None = None
    watermarks: Watermarks | None = None
    watermark: int | None = None
    held_back_by: str | None = None

    def _repr_html_(self) -> str:
        return show_line("progress", describe_batch(self))


def describe_batch(batch: Batch) -> str:
    """Return one line on a batch: rows, rate, ledger, state, watermark, and the channels that hold it back.

    The ledger counts everything since the query's first start.
    """
    rate = batch.rows_per_s
    parts = [f"batch {batch.number}", f"{batch.rows:,} rows"]
    if rate:
        parts[-1] += f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.1f}/s"
    if batch.ledger is not None:
        parts.append(_describe_ledger(batch.ledger))
    if batch.state_rows:
        size = f", {name_size(batch.state_bytes)}" if batch.state_bytes else ""
        parts.append(f"state {batch.state_rows:,} rows{size}")
    if batch.watermarks is not None:
        parts.append(describe_watermarks(batch.watermarks, batch.number))
    elif batch.watermark is not None:
        held = f", held back by {batch.held_back_by}" if batch.held_back_by else ""
        parts.append(f"watermark {name_time(batch.watermark)}{held}")
    return "  ".join(parts)


def describe_watermarks(watermarks: Watermarks, batch: int | None = None) -> str:
    """Return the watermarks in one line: which channel holds the others back, why, and since which batch.

    >>> describe_watermarks(Watermarks(4, {"north": 9, "south": 4}))
    'watermark 4, held back by south; north 9'
    >>> describe_watermarks(Watermarks(4, {"north": 9, "south": 4}, {"north": 7, "south": 5}), 7)
    'watermark 4, held back by south since batch 5; north 9'
    >>> describe_watermarks(Watermarks(9, {"north": 9, "south": 9}))
    'watermark 9'
    """
    least, channels, since, about = watermarks
    slow = find_slowest(watermarks)
    statuses = watermarks.statuses
    fast = [
        f"{name} {'idle' if statuses[name].idle else name_time(channels[name])}"
        for name in sorted(channels)
        if name not in slow
    ]
    joined = "".join(
        f"; {name} {describe_joining(status._replace(joined_in=None))}"
        for name, status in sorted(statuses.items())
        if status.joined_in is not None and status.joined_in == batch
    )
    if not fast or least == FOREVER:
        return f"watermark {name_time(least)}{joined}"
    unmoved = {name: number for name, number in (since or {}).items() if number != batch}
    held = []
    for name in slow:
        why = "" if about is None else explain_hold(statuses[name], batch)
        if why.startswith("silent"):
            held.append(f"{name}, {why}")
            continue
        when = f" since batch {unmoved[name]}" if batch is not None and name in unmoved else ""
        held.append(f"{name}{when} ({why})" if why else f"{name}{when}")
    # All known channels are ahead, so a channel that has sent nothing holds the watermark back.
    names = ", ".join(held) or "a channel that has sent nothing yet"
    return f"watermark {name_time(least)}, held back by {names}; {', '.join(fast)}{joined}"


def find_slowest(watermarks: Watermarks) -> list[str]:
    """Return the channels that hold the program's watermark back."""
    return find_holders(watermarks.program, watermarks.statuses)


def _describe_ledger(ledger: Ledger) -> str:
    counts = {"processed": ledger.processed, "late": ledger.late, "rejected": ledger.rejected}
    counts |= {"shed": ledger.shed} if ledger.shed else {}
    counts["pending"] = ledger.pending
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def name_size(size: float) -> str:
    """Return a number of bytes with its unit: B, kB, MB or GB."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
