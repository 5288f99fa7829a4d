"""The options for reading the rows of a source in a run of a program."""

from __future__ import annotations

from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES, Reading
from anabranch.model.program import Program
from anabranch.sources.source_options import Source


def make_reading(source: Source, program: Program, max_bytes: int = MAX_RECORD_BYTES) -> Reading:
    """Return the options for reading the rows of a source as events of a program."""
    return Reading(
        source.find_event_type(program), source.channel_name, source.time, source.seq, source.type_column,
        source.channel_column, source.heartbeat, source.json_column, source.corrupt_column,
        source.reason_column, max_bytes,
    )  # fmt: skip
