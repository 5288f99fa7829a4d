"""Runs: a program and its sources as an ordinary Spark query."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Unpack

from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, check_units
from anabranch.microbatch.exchange.envelopes import CLOCK, SCHEMA, make_batch
from anabranch.microbatch.exchange.packed_rows import PACK_SCHEMA
from anabranch.microbatch.ingest.column_reader import take_in_columns
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import can_look_ahead
from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES, Reading, take_in
from anabranch.microbatch.ingest.source_readings import make_reading
from anabranch.microbatch.job.column_plan import ColumnPlan, plan_columns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.job.path_choice import describe_row_path, plan_path
from anabranch.microbatch.job.shard_counts import SHARDS, choose_shards
from anabranch.microbatch.job.speculative_layout import choose_speculative_layout
from anabranch.model.program import Program
from anabranch.model.values.field_support import check_fields
from anabranch.plan.layouts import Layout, choose_layout
from anabranch.sources.files import Files
from anabranch.sources.raw_rows import read_batch
from anabranch.sources.source_options import Source, list_sources
from anabranch.spark.checkpoint.provenance import Provenance
from anabranch.spark.run_options import RunKeywords, RunOptions, read_options
from anabranch.spark.session.current_session import find_session
from anabranch.spark.session.settings import check_settings, prepare
from anabranch.spark.session.shipping import ship_by_value
from anabranch.spark.sinks.observed_metrics import observe_packs
from anabranch.spark.sinks.results import Result
from anabranch.spark.sources.data_frames import Frame
from anabranch.spark.sources.source_schemas import check_program, check_sources
from anabranch.speculation.output_changes import Mode
from anabranch.state.durable.codec import make_codec
from anabranch.state.durable.durability_check import check_durable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("anabranch")


def run(
    program: Program,
    sources: Source | Iterable[Source],
    *,
    spark: SparkSession | None = None,
    **options: Unpack[RunKeywords],
) -> Result:
    """Return the result of a program on its sources, as data frames.

    Streaming sources give streaming frames, which any `writeStream` in append mode can write. Bounded sources
    give the result of the whole input. `result.outputs` has the program's outputs in typed columns,
    `result.late` and `result.rejected` have the events that the program could not use, and `result.ledger`
    has the counts of all events (`docs/result-columns.md`). `spark` is the session of a run on `Files`
    (default: the active one). The options are the fields of `RunOptions`: `shards`, `hot_keys`, `columnar`,
    `mode` and `max_record_bytes`.

    Events take the columnar path where the program allows it. With `columnar="auto"`, a program that needs
    the row path logs the reason once. With "require", it raises an error with that reason. With "never",
    every program takes the row path, where a state can be any Python value.

    With `mode="speculative"`, an output is emitted as soon as its event arrives, as if events arrived in
    order. If a later event shows that it was wrong, a row with `op` -1 retracts it. `settle` turns such a
    result into that of the settled mode.

    Streams need some settings of the session. `run` sets what a running session can change, and raises
    `SettingsError` with a list of the others if they are wrong.
    """
    check_program(program)
    sources, chosen = list_sources(sources), read_options(options)
    return run_job(
        make_job(program, sources, chosen, spark), sources, chosen.max_record_bytes, spark
    )


def run_job(
    job: Job,
    sources: Sequence[Source],
    max_record_bytes: int = MAX_RECORD_BYTES,
    spark: SparkSession | None = None,
) -> Result:
    """Return the result of a job on its sources, as `run` does."""
    if job.row_reason is not None:
        _LOG.warning("%s", describe_row_path(job.program, job.row_reason))
    session = find_session(list_frames(sources), spark)
    envelopes = list(_make_envelopes(session, job, sources, max_record_bytes))
    return fold_envelopes(job, reduce(lambda a, b: a.unionByName(b), envelopes))


def make_job(
    program: Program,
    sources: Sequence[Source],
    options: RunOptions = RunOptions(),  # noqa: B008 - frozen
    spark: SparkSession | None = None,
) -> Job:
    """Return the job that `run` starts; raise if the program or its sources cannot run."""
    shards, hot_keys, columnar, mode = (
        options.shards,
        options.hot_keys,
        options.columnar,
        options.mode,
    )
    streaming = {source.is_stream for source in sources}
    if len(streaming) > 1:
        raise InputError("some sources are streams and some are not", cure="make all of them alike")
    channels: dict[str, Channel] = {}
    for channel in (channel for source in sources for channel in source.declared()):
        if channel.name in channels:
            raise InputError(
                f"channel {channel.name!r} is declared by two sources",
                cure='give each a name of its own: channel="…"',
            )
        channels[channel.name] = channel
    check_units(program, channels.values())
    check_fields(program)
    _check_columns(program, sources)
    check_sources(program, sources)
    frames = list_frames(sources)
    session = find_session(frames, spark)
    if streaming == {True}:
        prepare(session)
        check_settings(frames, session)
    ended = streaming == {False}
    readings = [make_reading(source, program, options.max_record_bytes) for source in sources]
    folders = tuple(
        Folder(source, reading, tuple(sorted(channel.name for channel in source.declared())))
        for source, reading in zip(sources, readings, strict=True)
        if isinstance(source, Files)
    )

    mixed = frozenset(
        channel.name for source in sources if source.channel_column for channel in source.declared()
    )
    check_durable(program)

    def make(shards: int) -> Job:
        speculative = mode == "speculative"
        layout = (choose_speculative_layout if speculative else choose_layout)(
            program, shards, hot_keys
        )
        plan = _plan_columns(program, layout, sources, channels, mode)
        found = plan_path(program, plan, columnar)
        codec = make_codec(program)
        return Job(
            program, layout, channels, codec, ended, found.plan, folders, mode, found.reason,
            frames=len(frames), mixed=mixed,
        )  # fmt: skip

    job = make(SHARDS if shards is None else shards)
    if shards is None and can_look_ahead(job):
        few = choose_shards(job.layout, job.columns)
        job = job if few == SHARDS else make(few)
    ship_by_value(program)
    job.fingerprint()  # Computed here, on the driver, and sent with the job.
    return job


def fold_envelopes(job: Job, envelopes: DataFrame) -> Result:
    """Return the result of a job on envelopes."""
    packs = _fold(job, _note_time(job, envelopes))
    # A batch query has no progress to put metrics in.
    observed = packs if job.ended else observe_packs(packs)
    origin = Provenance(job.fingerprint(), job.mixed)
    return Result(observed, job.program.output_types, job.layout.shards, origin, job.program.name)


def _note_time(job: Job, envelopes: DataFrame) -> DataFrame:
    """Add the time of its batch to every envelope, if a channel can become idle.

    Spark keeps that time with the batch's offsets, so it is the same if the batch is repeated.
    """
    if job.ended or all(channel.idle_after_s is None for channel in job.channels.values()):
        return envelopes
    from pyspark.sql.functions import current_timestamp, unix_millis

    return envelopes.withColumn(CLOCK, unix_millis(current_timestamp()))


def list_frames(sources: Iterable[Source]) -> list[DataFrame]:
    """Return the data frames of the sources that are a `Frame`."""
    return [source.frame for source in sources if isinstance(source, Frame)]


def _make_envelopes(
    spark: SparkSession, job: Job, sources: Sequence[Source], max_bytes: int
) -> Iterator[DataFrame]:
    for source in sources:
        if isinstance(source, Frame):
            reading = make_reading(source, job.program, max_bytes)
            yield source.frame.mapInArrow(_make_mapper(job, reading), SCHEMA)
    if job.folders:
        from anabranch.spark.sources.envelope_source import make_source

        name = f"anabranch_{uuid.uuid4().hex}"
        spark.dataSource.register(make_source(job, spark.sparkContext.defaultParallelism, name))
        yield (spark.read if job.ended else spark.readStream).format(name).load()


def _plan_columns(
    program: Program,
    layout: Layout,
    sources: Sequence[Source],
    channels: dict[str, Channel],
    mode: Mode,
) -> ColumnPlan | str:
    numbered = all(source.is_numbered and source.json_column is None for source in sources)
    return plan_columns(program, layout, channels, numbered=numbered, mode=mode)


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

    layout = job.layout
    if layout.has_root and layout.shards == 1:
        chain: list[tuple[str, type[GroupOperator]]] = [("shard", SingleShardOperator)]
    else:
        chain = [("shard", LeafOperator)]
        chain += [("to", RootOperator)] if layout.has_root else []
        chain += [("to", DeferredOutputOperator)] if layout.deferring else []
    frame = envelopes
    for place, (key, operator) in enumerate(chain, start=1):
        last = place == len(chain)
        schema = PACK_SCHEMA if last else MAIL_SCHEMA
        frame = frame.groupBy(key).transformWithStateInPandas(
            ShardProcessor(operator, job), schema, "append", "None"
        )
    return frame


def _make_mapper(
    job: Job, reading: Reading
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    shards = job.layout.shards

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


def _list_time_columns(program: Program, source: Source) -> list[str]:
    """Return the columns with the times of a source's events."""
    reading = make_reading(source, program)
    event_types = [
        t for t in program.inputs if source.type_column or t.__name__ == reading.event_type
    ]
    return list(dict.fromkeys(reading.time_column(event_type) for event_type in event_types)) or [
        reading.time
    ]


def _check_columns(program: Program, sources: Sequence[Source]) -> None:
    for source in sources:
        known = source.frame.columns if isinstance(source, Frame) else None
        times = [] if source.json_column is not None else _list_time_columns(program, source)
        for column in (*source.list_columns(), *times):
            if known is not None and column not in known:
                raise InputError(
                    f"column {column!r} is not found",
                    expected=f"one of {', '.join(known)}",
                    got=column,
                )
        exact = [channel for channel in source.declared() if channel.needs_each_item]
        if not source.is_numbered and exact:
            named = "`max_ahead`" if exact[0].max_ahead is not None else "an estimated lateness"
            what = '`order="arrival"`' if exact[0].in_arrival_order else named
            raise InputError(
                f"{what} needs a sequence", expected="seq=, the column of the sequence"
            )
