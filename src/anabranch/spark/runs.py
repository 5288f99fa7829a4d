"""Runs: a program and its sources as an ordinary Spark query."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Unpack

from anabranch.microbatch.exchange.envelopes import CLOCK, SCHEMA, make_batch
from anabranch.microbatch.exchange.packed_rows import PACK_SCHEMA
from anabranch.microbatch.ingest.column_reader import take_in_columns
from anabranch.microbatch.ingest.file_rows import take_in_blocks
from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES, Reading
from anabranch.microbatch.ingest.source_readings import make_reading
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.job_assembly import assemble_job, check_program, warn_of_row_path
from anabranch.microbatch.runs.run_options import RunKeywords, RunOptions, read_options
from anabranch.microbatch.runs.shipping import list_own_modules
from anabranch.model.program import Program
from anabranch.sources.source_options import Source, list_sources
from anabranch.spark.checkpoint.provenance import Provenance
from anabranch.spark.session.current_session import find_session
from anabranch.spark.session.settings import check_settings, prepare
from anabranch.spark.sinks.observed_metrics import observe_packs
from anabranch.spark.sinks.results import Result
from anabranch.spark.sources.data_frames import Frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


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
    warn_of_row_path(job)
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
    frames = list_frames(sources)
    job = assemble_job(program, sources, options)
    session = find_session(frames, spark)
    if not job.ended:
        prepare(session)
        check_settings(frames, session)
    _ship_by_value(program)
    return job


def _ship_by_value(program: Program) -> None:
    """Pickle the event types and functions of a program by value, unless their modules are installed."""
    from pyspark import cloudpickle

    for module in list_own_modules(program):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def fold_envelopes(job: Job, envelopes: DataFrame) -> Result:
    """Return the result of a job on envelopes."""
    packs = _fold(job, _note_time(job, envelopes))
    # A batch query has no progress to put metrics in.
    observed = packs if job.ended else observe_packs(packs)
    origin = Provenance(job.fingerprint(), job.mixed)
    program = job.program
    return Result(
        observed,
        program.output_types,
        job.layout.shards,
        origin,
        program.name,
        timestamped=program.timestamped,
    )


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


def _fold(job: Job, envelopes: DataFrame) -> DataFrame:
    from anabranch.microbatch.operators.group_operators import list_operators
    from anabranch.spark.operators.stateful_processor import MAIL_SCHEMA, ShardProcessor

    operators = list_operators(job)
    frame = envelopes
    for place, operator in enumerate(operators):
        key = "shard" if place == 0 else "to"
        schema = PACK_SCHEMA if place == len(operators) - 1 else MAIL_SCHEMA
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
        take = take_in_blocks if job.columns is None else take_in_columns
        yield make_batch(take(job, reading, batches, place), shards)

    return map_rows
