"""From a program and frames to a frame: the whole of a run, as an ordinary Spark query."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.eventtime.channels import Source
from anabranch.microbatch.exchange.envelopes import CLOCK, SCHEMA, make_batch
from anabranch.microbatch.exchange.packed_rows import PACK_SCHEMA
from anabranch.microbatch.ingest.column_reader import take_in_columns
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import can_foresee
from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES, Reading, take_in
from anabranch.microbatch.job.column_plan import ColumnPlan, plan_columns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.job.path_choice import (
    Columnar,
    describe_row_path,
    plan_path,
)
from anabranch.microbatch.job.shard_counts import SHARDS, choose_shards
from anabranch.microbatch.job.speculative_layout import check_mode, choose_speculative_layout
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout, choose_layout
from anabranch.sources.files import Files
from anabranch.sources.raw_rows import read_batch
from anabranch.spark.session.settings import check_settings
from anabranch.spark.session.shipping import ship_by_value
from anabranch.spark.sinks.results import Result
from anabranch.spark.sources.feeds import Feed
from anabranch.speculation.spoken import Mode
from anabranch.state.durable.codec import make_codec
from anabranch.state.durable.durability_check import check_durable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("anabranch")


def run(
    program: Program,
    feeds: Iterable[Feed],
    *,
    shards: int | None = None,
    hot: Iterable[Any] = (),
    columnar: Columnar = "auto",
    mode: Mode = "settled",
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Result:
    """Return what a program gives of its feeds: a `Result` of several frames.

    Streaming frames give streaming frames, to be written with any `writeStream` in append mode; batch frames
    give the answer of the whole input. `result.outputs` has the program's outputs in columns of their own
    types, `result.late` and `result.rejected` the events it could not use, `result.ledger` the counts of
    everything (`docs/result-columns.md`). The number of shards is fixed for a
    checkpoint (16, or 1 if leaves are folded where they are read, or 4 if windows are); Spark's
    partitions are free, and no more than shards. A key that is among the `hot` ones is not bound to one shard: what is free
    within it is folded in all of them (fixed for a checkpoint, too). An event of more than `max_record_bytes` is rejected.

    Events take the columnar path where the program allows it. With `columnar="auto"` a program that has to
    take the row path logs the reason once; with "require" it is refused with that reason; with "never"
    it takes the row path, where any Python value fits into a state.

    With `mode="speculative"` an output is said as soon as its event has come, as if everything were in
    order; if an event out of order proves it wrong, a row with `op` -1 takes it back. `settle` holds
    such a result back until it is what the settled mode says.

    Streams need some settings of the session; if they are wrong, the call is refused and says which.
    """
    feeds = list(feeds)
    job = make_job(
        program, feeds, shards=shards, hot=hot, columnar=columnar, mode=mode,
        max_record_bytes=max_record_bytes,
    )  # fmt: skip
    return run_job(job, feeds, max_record_bytes)


def run_job(job: Job, feeds: Sequence[Feed], max_record_bytes: int = MAX_RECORD_BYTES) -> Result:
    """Return what a job gives of its feeds, as `run` does."""
    if job.row_reason is not None:
        _LOG.warning("%s", describe_row_path(job.program, job.row_reason))
    spark = find_session(feeds)
    envelopes = list(_make_envelopes(spark, job, feeds, max_record_bytes))
    return fold_envelopes(job, reduce(lambda a, b: a.unionByName(b), envelopes))


def make_job(
    program: Program,
    feeds: Sequence[Feed],
    *,
    shards: int | None = None,
    hot: Iterable[Any] = (),
    columnar: Columnar = "auto",
    mode: Mode = "settled",
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Job:
    """Return all that `run` decides about a run before it starts, or refuse it."""
    if not feeds:
        raise InputError("there is nothing to run on", expected="at least one Feed", got="none")
    streaming = {feed.is_stream for feed in feeds}
    if len(streaming) > 1:
        raise InputError("some feeds are streams and some are not", cure="make all of them alike")
    sources: dict[str, Source] = {}
    for source in (source for feed in feeds for source in feed.declared()):
        if source.name in sources:
            raise InputError(f"source {source.name!r} is declared by two feeds")
        sources[source.name] = source
    check_mode(mode)
    _check_columns(feeds)
    spark = find_session(feeds)
    frames = [feed.frame for feed in feeds if not isinstance(feed.frame, Files)]
    if streaming == {True}:
        check_settings(frames, spark)
    ended = streaming == {False}
    folders = tuple(
        Folder(feed.frame, feed.reading(max_record_bytes))
        for feed in feeds
        if isinstance(feed.frame, Files)
    )

    check_durable(program)

    def make(shards: int) -> Job:
        speculative = mode == "speculative"
        wiring = (choose_speculative_layout if speculative else choose_layout)(program, shards, hot)
        plan = _plan_columns(program, wiring, feeds, sources, mode)
        found = plan_path(program, plan, columnar)
        codec = make_codec(program)
        return Job(program, wiring, sources, codec, ended, found.plan, folders, mode, found.reason)

    job = make(SHARDS if shards is None else shards)
    if shards is None and can_foresee(job):
        few = choose_shards(job.wiring, job.columns)
        job = job if few == SHARDS else make(few)
    ship_by_value(program)
    job.fingerprint()  # Found out here, on the driver, and shipped with the job.
    return job


def fold_envelopes(job: Job, envelopes: DataFrame) -> Result:
    """Return what a job gives of envelopes."""
    packs = _fold(job, _note_time(job, envelopes))
    return Result(packs, job.program.output_types, job.wiring.shards, job.fingerprint())


def _note_time(job: Job, envelopes: DataFrame) -> DataFrame:
    """Write on every envelope the time of its batch, if somebody has to know who is idle.

    Spark keeps that time with the batch's offsets, so that it is the same if the batch is repeated.
    """
    if job.ended or all(source.idle_after_s is None for source in job.sources.values()):
        return envelopes
    from pyspark.sql.functions import current_timestamp, unix_millis

    return envelopes.withColumn(CLOCK, unix_millis(current_timestamp()))


def find_session(feeds: Iterable[Feed]) -> SparkSession:
    """Return the session that frames belong to, or the one that is active."""
    from pyspark.sql import SparkSession

    for feed in feeds:
        if not isinstance(feed.frame, Files):
            return feed.frame.sparkSession
    found = SparkSession.getActiveSession()
    if found is None:
        raise InputError(
            "there is no Spark session yet",
            expected="an active session",
            cure="spark = anabranch.spark.start_session()",
        )
    return found


def _make_envelopes(
    spark: SparkSession, job: Job, feeds: Sequence[Feed], max_bytes: int
) -> Iterator[DataFrame]:
    for feed in feeds:
        if not isinstance(feed.frame, Files):
            yield feed.frame.mapInArrow(_make_mapper(job, feed.reading(max_bytes)), SCHEMA)
    if job.folders:
        from anabranch.spark.sources.envelope_source import make_source

        name = f"anabranch_{uuid.uuid4().hex}"
        spark.dataSource.register(make_source(job, spark.sparkContext.defaultParallelism, name))
        yield (spark.read if job.ended else spark.readStream).format(name).load()


def _plan_columns(
    program: Program,
    wiring: Layout,
    feeds: Sequence[Feed],
    sources: dict[str, Source],
    mode: Mode,
) -> ColumnPlan | str:
    numbered = all(feed.is_numbered and feed.json_column is None for feed in feeds)
    return plan_columns(program, wiring, sources, numbered=numbered, mode=mode)


def _fold(job: Job, envelopes: DataFrame) -> DataFrame:
    from anabranch.microbatch.operators.group_operators import (
        MAIL_SCHEMA,
        DeferredOutputOperator,
        GroupOperator,
        LeafOperator,
        RootOperator,
        SingleShardOperator,
    )
    from anabranch.spark.operators.stateful_processor import ShardProcessor

    wiring = job.wiring
    if wiring.has_root and wiring.shards == 1:
        chain: list[tuple[str, type[GroupOperator]]] = [("shard", SingleShardOperator)]
    else:
        chain = [("shard", LeafOperator)]
        chain += [("to", RootOperator)] if wiring.has_root else []
        chain += [("to", DeferredOutputOperator)] if wiring.speaking else []
    frame = envelopes
    for place, (key, worker) in enumerate(chain, start=1):
        last = place == len(chain)
        schema = PACK_SCHEMA if last else MAIL_SCHEMA
        frame = frame.groupBy(key).transformWithStateInPandas(
            ShardProcessor(worker, job), schema, "append", "None"
        )
    return frame


def _make_mapper(
    job: Job, reading: Reading
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    shards = job.wiring.shards

    def map_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        place = 0 if context is None else context.partitionId()
        if job.columns is None:
            rows = (row for batch in batches for row in read_batch(batch))
            yield make_batch(take_in(job, reading, rows, place), shards)
        else:
            yield make_batch(take_in_columns(job, reading, batches, place), shards)

    return map_rows


def _check_columns(feeds: Sequence[Feed]) -> None:
    for feed in feeds:
        known = None if isinstance(feed.frame, Files) else feed.frame.columns
        asked = [feed.json_column, feed.corrupt_column, feed.reason_column]
        if feed.json_column is None:  # Else they may stand in the JSON, which nobody has seen yet.
            asked += [feed.time, feed.seq, feed.tag_column, feed.source_column, feed.heartbeat]
        for column in asked:
            if column is not None and known is not None and column not in known:
                raise InputError(
                    f"column {column!r} is not found",
                    expected=f"one of {', '.join(known)}",
                    got=column,
                )
        if feed.json_column is not None and (feed.corrupt_column or feed.reason_column):
            raise InputError(
                "a feed reads JSON, and leaves it to another reader",
                expected="json_column=, or corrupt_column= and reason_column=",
                got="both",
            )
        if feed.tag is None and feed.tag_column is None:
            raise InputError(
                "a feed does not say which events it brings",
                expected="tag=Txn, or tag_column='type'",
                got="neither",
            )
        exact = [source for source in feed.declared() if source.needs_each_item]
        if not feed.is_numbered and exact:
            named = "`ahead`" if exact[0].ahead is not None else "an estimated lateness"
            what = "`in_turn`" if exact[0].in_turn else named
            raise InputError(
                f"{what} needs a sequence", expected="seq=, the column of the sequence"
            )
