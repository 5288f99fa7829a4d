"""Progress: one line per batch of a running query, and the reason why a query failed.

This module only reads: Spark's progress of a query's last batches, and the files that the directory sink
publishes with each of them. It registers nothing with the session, and does not slow the query down.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import (
    AnabranchError,
    ConservationError,
    InputError,
    Location,
    RejectionError,
)
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.runs.batch_progress import Batch, describe_batch
from anabranch.microbatch.runs.ownership import read_begin
from anabranch.microbatch.runs.published_batches import read_ledger, read_watermarks
from anabranch.paths import resolve_path
from anabranch.spark.session.signals import hold_signals
from anabranch.spark.sinks.observed_metrics import read_metrics

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_S = 1

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)')
_RAISED = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:: .*)?$")

_OURS = re.compile(r"^\s*(?:\w+: )*anabranch\.[\w.]*?(\w+Error): (.*)$")
_THEIRS = re.compile(r"^\s*(?:at \S+\(|Traceback|File \"|\.\.\. \d+ more|Caused by|JVM stacktrace)")


class QueryError(AnabranchError, RuntimeError):
    """A query on Spark failed; the batches that it published before remain."""


def describe_progress(query: StreamingQuery, *, output: str | Path | None = None) -> str:
    """Return the progress of a query's last batch in one line; `write_directory` publishes to `output`."""
    recent = [progress for progress in query.recentProgress if _has_run(progress)]
    if not recent:
        return "no batch yet"
    return describe_batch(read_batch(recent[-1], output, find_first(query)))


def follow(
    query: StreamingQuery,
    show: Callable[[str], Any],
    *,
    output: str | Path | None = None,
    interval_s: int = INTERVAL_S,
) -> None:
    """Wait for a query to end, and call `show` with one line for each batch when it is done.

    If the query fails, `follow` raises `QueryError`, `ConservationError` if events are missing, or
    `RejectionError` if too many were rejected. Ctrl-C and SIGTERM first stop the query, and then have their
    usual effect: Ctrl-C raises `KeyboardInterrupt`. A second signal kills this process and its JVM.
    """
    for batch in watch(query, output=output, interval_s=interval_s):
        show(describe_batch(batch))


def watch(
    query: StreamingQuery, *, output: str | Path | None = None, interval_s: int = INTERVAL_S
) -> Iterator[Batch]:
    """Yield each batch of a query when it is done, until the query ends; raise as `follow` does."""
    from pyspark.errors import StreamingQueryException

    seen, first = -1, find_first(query)
    over = False
    recent: list[Any] = []
    while not over:
        with hold_signals(query.stop):
            try:
                over = bool(query.awaitTermination(interval_s))
            except StreamingQueryException as error:
                raise keep_trace(explain_failure(str(error)), str(error)) from error
            recent = query.recentProgress
        for progress in recent:
            if progress["batchId"] > seen and _has_run(progress):
                seen = progress["batchId"]
                yield read_batch(progress, output, first)


def _has_run(progress: Mapping[str, Any]) -> bool:
    """Return whether a batch has run; a query that waits reports the number of its next one."""
    durations = progress.get("durationMs")
    return durations is None or "addBatch" in durations


def find_first(query: StreamingQuery) -> int:
    """Return the number of a query's first published batch; a restored query continues the old numbers."""
    from anabranch.spark.checkpoint.state_values import find_checkpoint

    if not hasattr(query, "_jsq"):
        return 0
    try:
        return read_begin(resolve_path(find_checkpoint(query), "checkpoint")).first
    except InputError:
        return 0  # Not local; only local checkpoints are made from savepoints.


def read_batch(
    progress: Mapping[str, Any], folder: str | Path | None = None, first: int = 0
) -> Batch:
    """Return the progress of a batch, from Spark's progress and from the files that were published with it.

    Spark counts the batches of a checkpoint from 0, and they are published from `first` on.
    """
    operators = progress.get("stateOperators") or ()
    metrics = read_metrics(progress)
    rows, rate = _count_rows(progress, metrics)
    number = progress["batchId"] + first
    place = None if folder is None else resolve_path(folder, "output") / f"batch={number}"
    published = place if place is not None and place.is_dir() else None
    return Batch(
        number,
        rows,
        rate,
        sum(operator.get("numRowsTotal", 0) for operator in operators),
        sum(operator.get("memoryUsedBytes", 0) for operator in operators),
        _find_ledger(metrics) if published is None else read_ledger(published),
        None if published is None else read_watermarks(published),
        metrics.get("watermark"),
        metrics.get("held_back_by"),
    )


def _count_rows(progress: Mapping[str, Any], metrics: dict[str, Any]) -> tuple[int, float]:
    """Return the number of events of a batch and the rate per second; or of rows, which may be envelopes."""
    rate = progress.get("processedRowsPerSecond") or 0.0
    if "input_events" not in metrics:
        return progress["numInputRows"], rate
    events, duration_ms = metrics["input_events"], progress.get("batchDuration") or 0
    return events, 1000 * events / duration_ms if duration_ms else 0.0


def _find_ledger(metrics: dict[str, Any]) -> Ledger | None:
    return Ledger(*(metrics[name] for name in Ledger._fields)) if metrics else None


def explain_failure(text: str) -> AnabranchError:
    """Return the error that made a query fail, from the text of Spark's exception.

    An error of Anabranch is wrapped in stack traces of Python and of the JVM; it is the last one in the text.
    """
    lines = text.splitlines()
    for place in range(len(lines) - 1, -1, -1):
        ours = _OURS.match(lines[place])
        if ours is not None:
            kind, what = ours.groups()
            rest = _read_on(lines[place + 1 :])
            return _FAILURES.get(kind, QueryError)("\n".join([what, *rest]))
    where, got = _find_raised(lines)
    if got is None:
        kept = [line for line in lines if line.strip() and not _THEIRS.match(line)]
        got = kept[0].strip() if kept else "no reason given"
    return QueryError("the query failed", where=where, got=got, cure=_LOOK if where else None)


def _find_raised(lines: list[str]) -> tuple[Location | None, str | None]:
    """Return the last Python exception of a text, after the line of the user's program that raised it."""
    starts = [place for place, line in enumerate(lines) if "Traceback (most recent call" in line]
    if not starts:
        return None, None
    where = None
    for line in lines[starts[-1] + 1 :]:
        frame = _FRAME.match(line)
        if frame is not None:
            file = frame[1]
            ours = "site-packages" in file or "/pyspark/" in file or "/anabranch/" in file
            if not ours and not file.startswith(("<", sys.base_prefix)):
                where = Location(file, int(frame[2]))
        elif _RAISED.match(line):
            return where, line.strip()
    return where, None


def keep_trace(error: AnabranchError, text: str) -> AnabranchError:
    """Write Spark's text of a failure into a file, and add the name of the file to the error as a note."""
    number, name = tempfile.mkstemp(prefix="anabranch-failure-", suffix=".log")
    with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    error.add_note(f"  {'trace:':<10}{name}")
    return error


_FAILURES: dict[str, type[AnabranchError]] = {
    "ConservationError": ConservationError,
    "RejectionError": RejectionError,
}

_LOOK = "run it again with --reference, which names the event and the line of your program"


def _read_on(lines: list[str]) -> list[str]:
    """Return the rows of an Anabranch error: at, expected, got, to do."""
    rows: list[str] = []
    for line in lines:
        if not re.match(r"^\s+(?:at|expected|got|to do):|^ {12}\S", line):
            break
        rows.append(line.rstrip())
    return rows
