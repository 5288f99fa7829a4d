"""Folders of events in the layout that the command line and the reference read.

A row has its fields, and beside them `tag`, `source`, `seq` and `heartbeat`, with an `@` before them where an
event type has a field of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.eventtime.channels import (
    Source,
)
from anabranch.model.events import field_names
from anabranch.model.program import Program
from anabranch.sources.files import FileFormat, Files
from anabranch.spark.sources.feeds import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BESIDE = ("tag", "source", "seq", "heartbeat")
"""What stands beside the fields of an event."""


def name_columns(program: Program) -> dict[str, str]:
    """Return the columns for tag, source, seq and heartbeat, which no field is called like."""
    fields = {name for tag in program.inputs for name in field_names(tag)}
    return {name: f"@{name}" if name in fields else name for name in BESIDE}


def feed_directory(
    session: SparkSession,
    program: Program,
    folder: str | Path,
    sources: Sequence[Source],
    *,
    format: FileFormat = "json",  # noqa: A002 - Spark's own word
    files_per_batch: int = 1,
    ended: bool = False,
) -> Feed:
    """Return a folder of files as a feed of `Files`; files come in the order of their names.

    With `ended` the folder is a bounded input, read as one batch.

    Each row has its `tag`, `source` and `seq` beside its fields. What is wrong with a line is found as the
    reference finds it, and the line is kept.
    """
    names = name_columns(program)
    return Feed(
        Files(folder, format, files_per_batch, ended=ended),
        tag_column=names["tag"],
        source_column=names["source"],
        seq=names["seq"],
        heartbeat=names["heartbeat"],
        sources=sources,
    )
