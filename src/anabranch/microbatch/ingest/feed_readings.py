"""How the rows of a feed are read in a run of a program."""

from __future__ import annotations

from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES, Reading
from anabranch.model.program import Program
from anabranch.sources.feeds import Feed


def make_reading(feed: Feed, program: Program, max_bytes: int = MAX_RECORD_BYTES) -> Reading:
    """Return how the rows of a feed become events of a program."""
    return Reading(
        feed.find_tag(program), feed.source_name, feed.time, feed.seq, feed.tag_column,
        feed.source_column, feed.heartbeat, feed.json_column, feed.corrupt_column,
        feed.reason_column, max_bytes,
    )  # fmt: skip
