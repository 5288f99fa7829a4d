"""Published results: the rows that `write_directory` has written into a folder, as data frames.

A batch is one folder, which becomes visible by one rename. So a reader sees only whole batches, also while
the query runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.microbatch.runs.part_files import FOLDERS
from anabranch.microbatch.runs.published_batches import list_batches, read_columns
from anabranch.paths import resolve_path
from anabranch.spark.sinks.batch_parts import read_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_BATCH = re.compile(r"(^|, )`batch` ", re.IGNORECASE)


def read_outputs(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the outputs that were published into a folder, with the number of their `batch`.

    The column `batch` is left out if outputs have a field of that name.
    """
    return _read(spark, folder, FOLDERS["output"])


def read_late(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the late events that were published into a folder, with the number of their `batch`."""
    return _read(spark, folder, FOLDERS["late"])


def read_rejected(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the rejected events that were published into a folder, with the number of their `batch`."""
    return _read(spark, folder, FOLDERS["rejected"])


def _read(spark: SparkSession, folder: str | Path, kind: str) -> DataFrame:
    batches = _list_published(folder)
    ddl = read_columns(max(batches.items())[1])[kind]
    places = [batch / kind for _, batch in sorted(batches.items()) if (batch / kind).is_dir()]
    files = (file for place in places for file in place.glob("part-*"))
    suffix = next((file.suffix.lstrip(".") for file in files), "parquet")
    options = {}
    if not _BATCH.search(ddl):  # Unless outputs have a field of that name.
        # With its scheme: Spark may have another default file system.
        options = {"basePath": f"file://{resolve_path(folder, 'output')}"}
        ddl = f"{ddl}, batch int"
    return read_parts(spark, [f"file://{place}" for place in places], ddl, suffix, options)


def _list_published(folder: str | Path) -> dict[int, Path]:
    found = list_batches(folder)
    if not found:
        raise InputError(
            f"nothing is published in {str(folder)!r}",
            expected="a folder that write_directory, or anabranch run --output, has written",
            got="no folder batch=0, batch=1, …",
        )
    return found
