"""The rows of files as items, for runtimes that take events one by one."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.errors import MissingExtraError
from anabranch.microbatch.ingest.block_items import read_block
from anabranch.microbatch.ingest.file_rows import Folder, number_rows, read_rows
from anabranch.microbatch.ingest.source_readings import make_reading
from anabranch.microbatch.job.job import Job
from anabranch.model.events import Item
from anabranch.model.program import Program
from anabranch.plan.layouts import choose_layout
from anabranch.sources.files import Files, Taken, list_files
from anabranch.state.durable.codec import make_codec


def read_items(program: Program, source: Files) -> Iterator[Item]:
    """Yield the items of a folder's current files: events, heartbeats, and rows that are neither."""
    try:
        import numpy as np  # noqa: F401 - both are needed below, and one error names both
        import pyarrow as pa  # noqa: F401
    except ImportError as missing:
        raise MissingExtraError(
            "reading files needs pyarrow and numpy, which are not installed",
            expected="the extras `parquet` and `kernels`",
            cure="pip install 'anabranch[parquet,kernels]'",
        ) from missing
    channels = {channel.name: channel for channel in source.declared()}
    job = Job(program, choose_layout(program, 1), channels, make_codec(program), ended=True)
    folder = Folder(source, make_reading(source, program))
    for found in list_files(source, Taken()):
        for batches in read_rows(job, folder, [found]):
            reading = number_rows(folder.reading, batches[0].schema)
            for batch in batches:
                yield from (item for item in read_block(job, reading, batch) if item is not None)
