"""Sinks that publish each batch exactly once, also if Spark replays it.

Spark replays a batch after a crash with the same id and, because a program's result is a function of its
input, with the same rows. So the sink publishes a batch by one rename. A replay of a published batch is
computed to its end, because Spark's state needs that, and dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.held_back import ChannelStatus
from anabranch.eventtime.idleness import record
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.tolerance import Sample, Tolerance, explain_excess, read_tolerance
from anabranch.microbatch.exchange.event_columns import REJECTED
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.model.events import Heartbeat
from anabranch.paths import resolve_path
from anabranch.publication import PARTIAL, publish_folder
from anabranch.spark.checkpoint.integrity import guard_checkpoint, refuse_damage
from anabranch.spark.checkpoint.locks import Lock
from anabranch.spark.checkpoint.ownership import PairingError, check_pair, read_begin, write_pair
from anabranch.spark.checkpoint.provenance import check_made_by
from anabranch.spark.session.partitions import spare_partitions
from anabranch.spark.sinks.part_files import (
    Format,
    check_format,
    explain_disk,
    write_nothing,
    write_rows,
)
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
LEDGER = "_ledger.json"
"""The ledger, beside the rows of a batch. Spark ignores names that begin with an underscore."""
OUTPUT_COLUMNS = "_output_columns.ddl"
"""The columns of the outputs as a Spark DDL string, which `read_outputs` uses as the schema."""
WATERMARKS = "_watermarks.json"
"""The watermarks of the program and of each channel after the batch."""


class Watermarks(NamedTuple):
    """The program's watermark, that of each channel, and the batch in which each moved last.

    `about` has the other fields of each channel's `ChannelStatus`.
    """

    program: int
    channels: dict[str, int]
    since: dict[str, int] | None = None
    about: dict[str, dict[str, Any]] | None = None

    @property
    def statuses(self) -> dict[str, ChannelStatus]:
        """Return the status of each channel."""
        about = self.about or {}
        return {
            name: ChannelStatus(time, **about.get(name, {})) for name, time in self.channels.items()
        }


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
    `{"processingTime": "10 seconds"}`. `format` is "parquet" (default) or "json". `name` is the name of the
    query in Spark's monitoring (default: the program's name).

    If more events are rejected than `most_rejected`, a count or a share such as "1%", the query publishes
    them and stops with `RejectionError`. An output folder belongs to one checkpoint (else `PairingError`),
    and a checkpoint to one driver at a time (else `BusyError`).
    """
    if format not in ("json", "parquet"):
        raise InputError(f"{format!r} is no format", expected="json or parquet", got=repr(format))
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
            if tolerance is not None and counts and tolerance.is_exceeded(_sum_up(counts)):
                samples = _sample(kept.rejected)
                raise explain_excess(
                    _sum_up(counts),
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
        _add_accounts(draft, batch, counts, format, result.columns)
    return True


def _add_accounts(
    draft: Path,
    batch: int,
    counts: list[dict[str, Any]],
    format: Format,  # noqa: A002
    columns: OutputColumns,
) -> None:
    """Write the ledger, the watermarks and the columns of outputs beside the rows of a batch."""
    balance, watermarks = _sum_up(counts), _find_watermarks(counts)
    before = find_last_batch(draft.parent, before=batch)
    if before is None:
        write_nothing(draft, format, columns)
    (draft / OUTPUT_COLUMNS).write_text(columns.ddl + "\n", encoding="utf-8")
    if not counts and before is not None:
        # Without input rows no shard has run: the counts of the batch before are still valid.
        balance, watermarks = read_ledger(before), read_watermarks(before)
    watermarks = _note_since(watermarks, None if before is None else read_watermarks(before), batch)
    (draft / LEDGER).write_text(json.dumps(balance._asdict()) + "\n", encoding="utf-8")
    text = json.dumps(watermarks._asdict(), sort_keys=True)
    (draft / WATERMARKS).write_text(text + "\n", encoding="utf-8")
    balance.check(f"batch {batch}")


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
    samples = _sample(session.read.schema(REJECTED).format(format).load(place))
    raise explain_excess(ledger, tolerance, samples, batch.name.replace("=", " "), place)


def read_ledger(batch: Path) -> Ledger:
    """Return the ledger that was published with a batch."""
    return Ledger(**json.loads((batch / LEDGER).read_text(encoding="utf-8")))


def read_watermarks(batch: Path) -> Watermarks:
    """Return the watermarks that were published with a batch."""
    return Watermarks(**json.loads((batch / WATERMARKS).read_text(encoding="utf-8")))


def read_waivers(output: str | Path) -> list[Heartbeat]:
    """Return the watermarks that a query set on behalf of its channels, as heartbeats.

    A channel that joined a running query got the watermark that was reached; an idle channel got one by the
    clock. With these heartbeats and the same input, the reference gives the same outputs as the query.
    """
    found: list[tuple[str, int, int | None]] = []
    known: dict[str, int] = {}
    joined: set[str] = set()
    for _, batch in sorted(list_batches(output).items()):
        for name, status in read_watermarks(batch).statuses.items():
            if status.joined is not None and name not in joined:
                joined.add(name)
                found.append((name, status.joined, None))
            if status.waived is not None and known.get(name) != status.waived:
                known[name] = status.waived
                found.append((name, status.waived, status.last))
    return record(found)


def list_batches(folder: str | Path) -> dict[int, Path]:
    """Return the published batches of a folder by number; raise `InputError` on other names `batch=…`."""
    found: dict[int, Path] = {}
    for path in resolve_path(folder, "output").glob("batch=*"):
        number = path.name.partition("=")[2]
        if not (number.isdecimal() and number.isascii() and path.is_dir()):
            raise InputError(
                f"{path} is not a batch of a query",
                expected="folders batch=0, batch=1, … and nothing else of that name in an output folder",
                got=path.name,
                cure="move it elsewhere: readers of the folder would take its rows for outputs",
            )
        found[int(number)] = path
    return found


def find_last_batch(folder: str | Path, before: int | None = None) -> Path | None:
    """Return the last published batch of a folder, or the last one before the number `before`."""
    numbers = list_batches(folder)
    known = [number for number in numbers if before is None or number < before]
    return numbers[max(known)] if known else None


def _count(result: Result) -> list[dict[str, Any]]:
    return [json.loads(row.counts) for row in result.ledger.collect()]


def _sum_up(counts: list[dict[str, Any]]) -> Ledger:
    return Ledger(*(sum(count[name] for count in counts) for name in Ledger._fields))


def _find_watermarks(counts: list[dict[str, Any]]) -> Watermarks:
    # All shards that report have the same watermark; shards without rows do not report.
    least = min((count["watermark"] for count in counts if "watermark" in count), default=NEVER)
    found: dict[str, int] = {}
    for count in counts:
        for name, time in count.get("channels", {}).items():
            found[name] = min(time, found.get(name, time))
    about = next((count["about"] for count in counts if "about" in count), None)
    return Watermarks(least, found, about=about)


def _note_since(watermarks: Watermarks, before: Watermarks | None, batch: int) -> Watermarks:
    """Add the batches in which each channel's watermark moved last, it sent rows last, and it joined."""
    old = Watermarks(NEVER, {}) if before is None else before
    unmoved = {
        name: (old.since or {}).get(name, batch)
        for name, time in watermarks.channels.items()
        if old.channels.get(name) == time
    }
    about = None
    if watermarks.about is not None:
        statuses, known = watermarks.statuses, old.statuses
        about = {
            name: {
                **fields,
                "heard": _find_heard(statuses[name], known.get(name), batch),
                "joined_in": _find_joined(statuses[name], known.get(name), batch),
            }
            for name, fields in watermarks.about.items()
        }
    since = dict.fromkeys(watermarks.channels, batch) | unmoved
    return watermarks._replace(since=since, about=about)


def _find_heard(status: ChannelStatus, before: ChannelStatus | None, batch: int) -> int | None:
    old = ChannelStatus(NEVER) if before is None else before
    own = status.watermark if status.watermark != status.waived else old.watermark
    moved = (status.largest, status.last, own) != (old.largest, old.last, old.watermark)
    return batch if moved else old.heard


def _find_joined(status: ChannelStatus, before: ChannelStatus | None, batch: int) -> int | None:
    if status.joined is None:
        return None
    return batch if before is None or before.joined is None else before.joined_in


def _sample(rejected: DataFrame) -> list[Sample]:
    found = rejected.select("reason", "raw").limit(MOST_SAMPLES).collect()
    return [Sample(row.reason, row.raw) for row in found]


def _check_pair(folder: Path, checkpoint: Path) -> None:
    try:
        check_pair(folder, checkpoint)
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
    lock.release_after(query, keeper.seal)
    return query


def find_retained(session: SparkSession) -> int:
    """Return the least number of batches of a checkpoint that Spark keeps."""
    return int(str(session.conf.get("spark.sql.streaming.minBatchesToRetain", "100")))
