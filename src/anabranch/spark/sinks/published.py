"""Published results: the rows that `write_directory` has written into a folder, as data frames.

A batch is one folder, which becomes visible by one rename. So a reader sees only whole batches, also while
the query runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.microbatch.exchange.event_columns import LATE, REJECTED
from anabranch.paths import resolve_path
from anabranch.spark.sinks.directory import OUTPUT_COLUMNS, list_batches
from anabranch.spark.sinks.part_files import FOLDERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_BATCH = re.compile(r"(^|, )`batch` ", re.IGNORECASE)


def read_outputs(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the outputs that were published into a folder, with the number of their `batch`.

    The column `batch` is left out if outputs have a field of that name.
    """
    last = max(_list_published(folder).items())[1]
    ddl = (last / OUTPUT_COLUMNS).read_text(encoding="utf-8").strip()
    return _read(spark, folder, FOLDERS["output"], ddl)


def read_late(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the late events that were published into a folder, with the number of their `batch`."""
    return _read(spark, folder, FOLDERS["late"], LATE)


def read_rejected(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the rejected events that were published into a folder, with the number of their `batch`."""
    return _read(spark, folder, FOLDERS["rejected"], REJECTED)


def _read(spark: SparkSession, folder: str | Path, kind: str, ddl: str) -> DataFrame:
    batches = _list_published(folder)
    places = [batch / kind for _, batch in sorted(batches.items()) if (batch / kind).is_dir()]
    files = (file for place in places for file in place.glob("part-*"))
    suffix = next((file.suffix.lstrip(".") for file in files), "parquet")
    reader = spark.read.schema(ddl)
    if not _BATCH.search(ddl):  # Unless outputs have a field of that name.
        # With its scheme: Spark may have another default file system.
        base = f"file://{resolve_path(folder, 'output')}"
        reader = spark.read.schema(f"{ddl}, batch int").option("basePath", base)
    return reader.format(suffix).load([f"file://{place}" for place in places])


def _list_published(folder: str | Path) -> dict[int, Path]:
    found = list_batches(folder)
    if not found:
        raise InputError(
            f"nothing is published in {str(folder)!r}",
            expected="a folder that write_directory, or anabranch run --output, has written",
            got="no folder batch=0, batch=1, …",
        )
    return found
