"""Sinks that publish each batch exactly once, also if Spark replays it.

Spark replays a batch after a crash with the same id and, because a program's result is a function of its
input, with the same rows. So the sink publishes a batch by one rename. A replay of a published batch is
computed to its end, because Spark's state needs that, and dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from anabranch.errors import InputError
from anabranch.eventtime.tolerance import Sample, Tolerance, explain_excess, read_tolerance
from anabranch.microbatch.exchange.csv_files import check_flat
from anabranch.microbatch.runs.checkpoint_locks import Lock
from anabranch.microbatch.runs.ownership import PairingError, check_pair, read_begin, write_pair
from anabranch.microbatch.runs.part_files import Format, check_format, explain_disk
from anabranch.microbatch.runs.published_batches import (
    add_accounts,
    find_last_batch,
    read_columns,
    read_ledger,
    sum_up,
)
from anabranch.paths import resolve_path
from anabranch.publication import PARTIAL, publish_folder
from anabranch.spark.checkpoint.integrity import guard_checkpoint, refuse_damage
from anabranch.spark.checkpoint.provenance import check_made_by, find_begun
from anabranch.spark.session.partitions import spare_partitions
from anabranch.spark.sinks.batch_parts import read_parts, write_rows
from anabranch.spark.sinks.query_names import choose_name
from anabranch.spark.sinks.results import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Bearable = float | str | Tolerance
"""How many events may be rejected: 100, "1%" or 0.01."""
MOST_SAMPLES = 10_000
"""The number of rejected rows whose reasons are counted."""


def write_directory(
    result: Result,
    *,
    output: str | Path,
    checkpoint: str | Path,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    name: str | None = None,
    available_now: bool = False,
    trigger: Mapping[str, Any] | None = None,
    most_rejected: Bearable | None = None,
) -> StreamingQuery:
    """Start a query that publishes each batch as a folder `output/batch=N`, exactly once.

    A batch has folders `outputs`, `late` and `rejected` with typed columns (`docs/result-columns.md`), a
    `_ledger.json` and a `_watermarks.json`. `read_outputs(spark, output)` reads the outputs of all batches,
    and so does `spark.read.parquet(f"{output}/batch=*/outputs")`.

    The query runs until it is stopped, one batch after the other. With `available_now=True` it processes the
    input that is available and ends. `trigger` has arguments of Spark's own `trigger`, such as
    `{"processingTime": "10 seconds"}`. `format` is "parquet" (default), "json", or "csv" for outputs without
    nested fields. `name` is the name of the query in Spark's monitoring (default: the program's name).

    If more events are rejected than `most_rejected`, a count or a share such as "1%", the query publishes
    them and stops with `RejectionError`. An output folder belongs to one checkpoint (else `PairingError`),
    and a checkpoint to one driver at a time (else `BusyError`).
    """
    check_writable(result, format)
    tolerance = None if most_rejected is None else read_tolerance(most_rejected)
    chosen = choose_trigger(trigger, available_now=available_now)
    target, local = resolve_path(output, "output"), resolve_path(checkpoint, "checkpoint")
    session = result.session
    check_format(target, format)
    _check_pair(target, local)  # Before the lock, which would leave a new checkpoint behind.

    def accept() -> None:
        _check_pair(target, local)
        last = find_last_batch(target)
        if tolerance is not None and last is not None:
            judge_batch(session, last, format, tolerance)
        with explain_disk("the output", target):
            target.mkdir(parents=True, exist_ok=True)
            write_pair(target, local)

    def take(taken: Result, batch: int) -> None:
        publish(taken, batch, target, format)
        if tolerance is not None:
            judge_batch(taken.session, target / f"batch={batch}", format, tolerance)

    return _start(result, local, take, chosen, accept, name=name)


def check_writable(result: Result, format: Format) -> None:  # noqa: A002 - Spark's own word
    """Raise `InputError` if results can't be written in a format."""
    if format not in get_args(Format):
        known = "parquet, json or csv"
        raise InputError(f"{format!r} is no format", expected=known, got=repr(format))
    if format == "csv":
        check_flat(result.columns, cure='use format="parquet" or "json"')


def for_each_batch(
    result: Result,
    function: Callable[[Result, int], Any],
    *,
    checkpoint: str | Path | None = None,
    name: str | None = None,
    available_now: bool = False,
    trigger: Mapping[str, Any] | None = None,
    most_rejected: Bearable | None = None,
) -> StreamingQuery:
    """Start a query that calls `function(batch, number)` for each batch, a `Result` of batch frames.

    The query runs until it is stopped, or with `available_now=True` until it has processed the available
    input. A batch is computed once, however many of its frames the function uses. After a crash the function
    may get a batch again, with the same number and the same `id`s. If more events are rejected than
    `most_rejected`, the query stops with `RejectionError` after the call. Without a checkpoint, each start
    reads the input from its beginning. `name` is the name of the query in Spark's monitoring (default: the
    program's name).
    """
    chosen = choose_trigger(trigger, available_now=available_now)
    tolerance = None if most_rejected is None else read_tolerance(most_rejected)

    def take(taken: Result, batch: int) -> None:
        kept = taken.with_packs(taken.packs.persist())
        try:
            counts = _count(
                kept
            )  # All of it: Spark's state needs a batch to be computed to its end.
            function(kept, batch)
            if tolerance is not None and counts and tolerance.is_exceeded(sum_up(counts)):
                samples = _sample(kept.rejected)
                raise explain_excess(
                    sum_up(counts),
                    tolerance,
                    samples,
                    f"batch {batch}",
                    "`rejected` of this batch",
                )
        finally:
            kept.packs.unpersist()

    return _start(result, checkpoint, take, chosen, name=name)


def choose_trigger(trigger: Mapping[str, Any] | None, *, available_now: bool) -> dict[str, Any]:
    """Return the arguments of Spark's `trigger`; none for Spark's default, one batch after the other."""
    if trigger is not None and available_now:
        raise InputError(
            "a query has two triggers",
            expected="available_now=True, or trigger=",
            got=f"both; trigger={dict(trigger)!r}",
        )
    return {"availableNow": True} if available_now else dict(trigger or {})


def start_writer(result: DataFrame, trigger: dict[str, Any]) -> DataStreamWriter:
    """Return a stream writer of a frame in append mode, with a trigger."""
    writer = result.writeStream.outputMode("append")
    return writer.trigger(**trigger) if trigger else writer


def publish(result: Result, batch: int, folder: Path, format: Format) -> bool:  # noqa: A002
    """Write a batch and make it visible by one rename; return False if it was already published."""
    folder = resolve_path(folder, "output")
    final = folder / f"batch={batch}"
    if final.exists():
        result.packs.write.format("noop").mode("overwrite").save()
        return False
    with explain_disk(f"batch {batch}", folder), publish_folder(final) as draft:
        counts = write_rows(result, draft, format)
        for partial in draft.rglob(f"{PARTIAL}*"):
            partial.unlink()  # From a task that died; its next attempt has written the file.
        add_accounts(draft, batch, counts, format, result.columns)
    return True


def judge_batch(
    session: SparkSession,
    batch: Path,
    format: Format,  # noqa: A002 - Spark's own word
    tolerance: Tolerance,
    *,
    ended: bool = False,
) -> None:
    """Raise `RejectionError` if more events were rejected, up to a published batch, than tolerated."""
    ledger = read_ledger(batch)
    if not tolerance.is_exceeded(ledger, ended=ended):
        return
    place = f"{batch.parent}/batch=*/rejected"
    samples = _sample(read_parts(session, [place], read_columns(batch)["rejected"], format))
    raise explain_excess(ledger, tolerance, samples, batch.name.replace("=", " "), place)


def _count(result: Result) -> list[dict[str, Any]]:
    return [json.loads(row.counts) for row in result.ledger.collect()]


def _sample(rejected: DataFrame) -> list[Sample]:
    found = rejected.select("reason", "raw").limit(MOST_SAMPLES).collect()
    return [Sample(row.reason, row.raw) for row in found]


def _check_pair(folder: Path, checkpoint: Path) -> None:
    try:
        check_pair(folder, checkpoint, find_begun(checkpoint))
    except PairingError:
        refuse_damage(checkpoint)  # Missing files are the more precise error.
        raise


def _start(
    result: Result,
    checkpoint: str | Path | None,
    function: Callable[[Result, int], Any],
    trigger: dict[str, Any],
    accept: Callable[[], None] = lambda: None,
    *,
    name: str | None = None,
) -> StreamingQuery:
    """Start a query after all checks; raise if another driver holds its checkpoint."""
    writer = start_writer(result.packs, trigger)
    chosen = choose_name(result.session, name, result.name)
    writer = writer if chosen is None else writer.queryName(chosen)

    def begin(take: Callable[[DataFrame, int], Any]) -> StreamingQuery:
        with spare_partitions(result.session, result.shards):
            return writer.foreachBatch(take).start()

    if checkpoint is None:
        return begin(lambda frame, batch: function(result.with_packs(frame), batch))
    local = resolve_path(checkpoint, "checkpoint")
    # With its scheme: Spark may have another default file system.
    writer = writer.option("checkpointLocation", f"file://{local}")
    lock = Lock(local)
    first = read_begin(local).first
    try:
        if result.made_by is not None:
            check_made_by(local, *result.made_by)
        accept()
        keeper = guard_checkpoint(local, find_retained(result.session))

        def take(frame: DataFrame, batch: int) -> None:
            function(result.with_packs(frame), batch + first)
            keeper.note(batch)

        query = begin(take)
    except BaseException:
        lock.release()
        raise
    lock.release_after(query.awaitTermination, keeper.seal)
    return query


def find_retained(session: SparkSession) -> int:
    """Return the least number of batches of a checkpoint that Spark keeps."""
    return int(str(session.conf.get("spark.sql.streaming.minBatchesToRetain", "100")))
