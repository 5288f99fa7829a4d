"""The contenders: each runs a case on the same files and returns its rows, its time and its path.

To add a runtime, write a function `(Case, Place) -> Outcome` and add a line to `CONTENDERS`: it becomes one more column
of the table. The first one with `is_baseline` is what the others are compared with.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.ordinary.cases import Case, Row
from bench.ordinary.inputs import list_sources


@dataclass(frozen=True)
class Place:
    """Where a case runs: a Spark session, the folder of its input, a new folder for its results."""

    spark: Any
    folder: Path
    scratch: Path
    files_per_batch: int


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the answer, the seconds from the start to the end, and the path with its reason."""

    rows: list[Row] = field(repr=False)
    seconds: float
    path: str = ""
    reason: str = ""


class Contender(NamedTuple):
    """One way to run a case."""

    name: str
    title: str
    run: Callable[[Case, Place], Outcome]
    is_baseline: bool = False


def run_anabranch(case: Case, place: Place) -> Outcome:
    """Run the program on Spark, with the defaults of `run`."""
    from anabranch.microbatch.runs.run_options import RunOptions
    from anabranch.sinks import read_outputs, write_directory
    from anabranch.spark.runs import make_job, run_job

    output, checkpoint = place.scratch / "out", place.scratch / "checkpoint"
    started = time.perf_counter()
    sources = list_sources(case, place.folder, files_per_batch=place.files_per_batch)
    # What `run` does, in two steps: the job knows its path.
    job = make_job(case.program, sources, RunOptions(), place.spark)
    result = run_job(job, sources, spark=place.spark)
    write_directory(
        result, output=output, checkpoint=checkpoint, available_now=True
    ).awaitTermination()
    seconds = time.perf_counter() - started
    rows = collect(read_outputs(place.spark, output), case.columns)
    if job.columns is None:
        return Outcome(rows, seconds, "row", job.row_reason or "")
    return Outcome(rows, seconds, "columnar", explain_columns(case))


def run_embedded(case: Case, place: Place) -> Outcome:
    """Run the program in this process, with a durable checkpoint and the defaults of `anabranch.local.run`."""
    import duckdb

    from anabranch.local import read_outputs, run

    started = time.perf_counter()
    sources = list_sources(case, place.folder, files_per_batch=place.files_per_batch)
    output = place.scratch / "out"
    handle = run(case.program, sources, output=output, available_now=True)
    handle.wait()
    seconds = time.perf_counter() - started
    published = read_outputs(output)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("published", published)
        columns = ", ".join(
            ".".join(f'"{part}"' for part in column.split(".")) for column in case.columns
        )
        query = f"SELECT {columns} FROM published"  # noqa: S608 - names of the corpus
        table = database.sql(query).to_arrow_table()
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    job = handle.job
    return Outcome(
        rows, seconds, "row" if job.columns is None else "columnar", job.row_reason or ""
    )


def explain_columns(case: Case) -> str:
    """Return which functions of a program on the columnar path are interpreted, and why."""
    from anabranch.spark.run_explanation import describe_run

    return "; ".join(line for line in describe_run(case.program).path if "interpreted" in line)


def run_pyspark(case: Case, place: Place) -> Outcome:
    """Run the textbook way: Spark's file source, its operators, its Parquet sink."""
    output, checkpoint = place.scratch / "out", place.scratch / "checkpoint"

    def read(name: str) -> Any:
        given = case.inputs[name]
        reader = place.spark.readStream.schema(given.schema).format(given.format)
        if given.format == "csv":
            reader = reader.option("header", "true")
        return reader.option("maxFilesPerTrigger", place.files_per_batch).load(
            str(place.folder / name)
        )

    def write(batch: Any, number: int) -> None:
        batch.write.parquet(str(output / f"batch={number}"))

    started = time.perf_counter()
    frame = case.pyspark(read)
    frame = frame.toDF(*name_columns(len(frame.columns)))
    writer = frame.writeStream.outputMode(case.mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if case.mode == "append":
        query = writer.format("parquet").option("path", str(output)).start()
    else:
        query = writer.foreachBatch(write).start()  # A file sink has no updates.
    query.awaitTermination()
    seconds = time.perf_counter() - started
    stored = place.spark.read.schema(frame.schema).parquet(str(output))
    return Outcome(collect(stored, name_columns(len(frame.columns))), seconds)


def name_columns(count: int) -> tuple[str, ...]:
    """Return names for so many columns."""
    return tuple(f"c{number}" for number in range(count))


def collect(frame: Any, columns: tuple[str, ...]) -> list[Row]:
    """Return some columns of a frame as rows of Python values, times in UTC."""
    named = [
        f"{column} AS {name}"
        for column, name in zip(columns, name_columns(len(columns)), strict=True)
    ]
    table = frame.selectExpr(*named).toArrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


CONTENDERS = (
    Contender("anabranch-local", "Anabranch, embedded", run_embedded),
    Contender("anabranch-spark", "Anabranch on Spark", run_anabranch),
    Contender("pyspark", "PySpark", run_pyspark, is_baseline=True),
)
