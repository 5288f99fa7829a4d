"""Progress: one line per batch of a running query, and why a query failed.

Everything is read: what Spark keeps of a query's last batches, and what the directory sink publishes
with each of them. Nothing is registered with the session, and nothing slows the query down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError, ConservationError
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.sources import NEVER
from anabranch.model.events import FOREVER
from anabranch.spark.sinks import Frontiers, read_frontiers, read_ledger

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_S = 1

_OURS = re.compile(r"^\s*(?:\w+: )*anabranch\.[\w.]*?(\w+Error): (.*)$")
_THEIRS = re.compile(r"^\s*(?:at \S+\(|Traceback|File \"|\.\.\. \d+ more|Caused by|JVM stacktrace)")


class QueryError(AnabranchError, RuntimeError):
    """A query on Spark stopped; what it had published before stays."""


def describe_progress(query: StreamingQuery, folder: str | Path | None = None) -> str:
    """Say what a query's last batch did; `folder` is where `write_directory` publishes it."""
    recent = query.recentProgress
    return describe_batch(recent[-1], folder) if recent else "no batch yet"


def follow(
    query: StreamingQuery,
    tell: Callable[[str], Any],
    folder: str | Path | None = None,
    *,
    interval_s: int = INTERVAL_S,
) -> None:
    """Wait for a query to end, and tell of each batch when it is done.

    A query that fails ends in `QueryError`, or in `ConservationError` if events went missing.
    """
    from pyspark.errors import StreamingQueryException

    told = -1
    over = False
    while not over:
        try:
            over = bool(query.awaitTermination(interval_s))
        except StreamingQueryException as error:
            raise explain_failure(str(error)) from error
        for batch in query.recentProgress:
            if batch["batchId"] > told:
                told = batch["batchId"]
                tell(describe_batch(batch, folder))


def describe_batch(batch: Mapping[str, Any], folder: str | Path | None = None) -> str:
    """Say what a batch did: rows, rates, the ledger, the state, the frontier and who holds it back.

    `batch` is Spark's progress of it. The ledger counts everything since the query's first start.
    """
    rows, rate = batch["numInputRows"], batch.get("processedRowsPerSecond")
    parts = [f"batch {batch['batchId']}", f"{rows:,} rows"]
    if rate:
        parts[-1] += f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.1f}/s"
    place = None if folder is None else Path(folder) / f"batch={batch['batchId']}"
    published = place is not None and place.is_dir()
    if place is not None and published:
        parts.append(_describe_ledger(read_ledger(place)))
    state = describe_state(batch.get("stateOperators") or ())
    if state:
        parts.append(state)
    if place is not None and published:
        parts.append(describe_frontiers(read_frontiers(place)))
    return "  ".join(part for part in parts if part)


def describe_state(operators: Any) -> str:
    """Say how large the state is, over all stateful operators of a query."""
    rows = sum(operator.get("numRowsTotal", 0) for operator in operators)
    size = sum(operator.get("memoryUsedBytes", 0) for operator in operators)
    if not rows:
        return ""
    return f"state {rows:,} rows" + (f", {_name_size(size)}" if size else "")


def describe_frontiers(frontiers: Frontiers) -> str:
    """Say how far the sources have come, and who holds the others back.

    >>> describe_frontiers(Frontiers(4, {"north": 9, "south": 4}))
    'frontier 4, held back by south; north 9'
    >>> describe_frontiers(Frontiers(9, {"north": 9, "south": 9}))
    'frontier 9'
    """
    least, sources = frontiers
    slow = [name for name in sorted(sources) if sources[name] <= least]
    fast = [f"{name} {name_time(sources[name])}" for name in sorted(sources) if name not in slow]
    if not fast or least == FOREVER:
        return f"frontier {name_time(least)}"
    # The others are ahead, so whoever is not among them has not been heard of.
    names = ", ".join(slow) or "a source that has brought nothing yet"
    return f"frontier {name_time(least)}, held back by {names}; {', '.join(fast)}"


def name_time(time: int) -> int | str:
    """Return a frontier as a person would call it."""
    return {FOREVER: "ended", NEVER: "nothing promised"}.get(time, time)


def explain_failure(text: str) -> AnabranchError:
    """Find in what Spark says of a failed query what a user has to know.

    An error of ours comes wrapped in stack traces of Python and of the JVM; it is the last one.
    """
    lines = text.splitlines()
    for place in range(len(lines) - 1, -1, -1):
        ours = _OURS.match(lines[place])
        if ours is not None:
            kind, what = ours.groups()
            rest = _read_on(lines[place + 1 :])
            failure = ConservationError if kind == "ConservationError" else QueryError
            return failure("\n".join([what, *rest]))
    kept = [line for line in lines if line.strip() and not _THEIRS.match(line)]
    return QueryError(
        "the query failed", got=kept[0].strip() if kept else "no reason given", cure=_LOOK
    )


_LOOK = "run it again without --master: the reference names the event and the line of your program"


def _read_on(lines: list[str]) -> list[str]:
    """Return the rows of our own error: at, expected, got, to do."""
    rows: list[str] = []
    for line in lines:
        if not re.match(r"^\s+(?:at|expected|got|to do):", line):
            break
        rows.append(line.rstrip())
    return rows


def _describe_ledger(ledger: Ledger) -> str:
    counts = {"processed": ledger.processed, "late": ledger.late, "rejected": ledger.rejected}
    counts |= {"shed": ledger.shed} if ledger.shed else {}
    counts["pending"] = ledger.pending
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _name_size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
