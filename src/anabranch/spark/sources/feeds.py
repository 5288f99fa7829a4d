"""Feeds: a frame or files as a source, with the columns to read and the promises of its channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.eventtime.channels import Source
from anabranch.eventtime.disorder import Estimated
from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES, Reading
from anabranch.model.events import Tag
from anabranch.model.values.durations import SpanInput
from anabranch.sources.files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Feed:
    """What brings events, a frame or `Files`: which column says what, and what its sources promise.

    A frame of one source has a name, `Feed(frame, "north", tag=Txn, seq="offset", lateness="5 s")`; a
    frame of several has a column that names them and declares each: `source_column="topic",
    sources=[Source("a", lateness="5 s"), …]`. Likewise `tag=` or `tag_column=`. Fields are read from
    the columns of their names, the time from the column `time`, if another is named. A row with a value in the column `heartbeat` is a promise, no event.
    `lateness`, `strict`, `ahead`, `idle_after_s` and `in_turn` are those of the one `Source`.

    With `json_column` the fields are those of a JSON object in that column, a text or bytes, as Kafka
    brings them; tag, source, sequence and time may stand in it or in columns beside it. A row with a
    value in `corrupt_column` is rejected, and that value kept: it is where a reader of Spark's puts
    the text of a row that it can't read. `reason_column` may say why.
    """

    frame: DataFrame | Files
    name: str | None = None
    tag: Tag | str | None = None
    time: str = "time"
    seq: str | None = None
    lateness: SpanInput | Estimated | None = 0
    strict: bool = False
    ahead: SpanInput | None = None
    idle_after_s: float | str | timedelta | None = None
    in_turn: bool = False
    tag_column: str | None = None
    source_column: str | None = None
    sources: Sequence[Source] = ()
    heartbeat: str | None = None
    json_column: str | None = None
    corrupt_column: str | None = None
    reason_column: str | None = None

    @property
    def is_stream(self) -> bool:
        """Say whether more may come."""
        if isinstance(self.frame, Files):
            return not self.frame.ended
        return self.frame.isStreaming

    @property
    def is_numbered(self) -> bool:
        """Say whether events have a sequence; those in files always have one."""
        return isinstance(self.frame, Files) or self.seq is not None

    def declared(self) -> list[Source]:
        """Return the sources that this frame brings."""
        if (self.name is None) == (self.source_column is None):
            raise InputError(
                "a feed does not say which source it is",
                expected='a name, Feed(frame, "north", …), or source_column= and sources=',
                got="both" if self.name else "neither",
            )
        if self.name is not None:
            promised = self.lateness, self.strict, self.ahead, self.idle_after_s, self.in_turn
            return [Source(self.name, *promised)]
        if not self.sources:
            raise InputError(
                f"the sources in column {self.source_column!r} are not declared",
                expected="sources=[Source('a'), Source('b', lateness=5), …]",
                got="none",
                cure="a source that shows up later could not be waited for",
            )
        return list(self.sources)

    def reading(self, max_bytes: int = MAX_RECORD_BYTES) -> Reading:
        """Return how rows are read."""
        tag = self.tag.__name__ if isinstance(self.tag, type) else self.tag
        return Reading(
            tag, self.name, self.time, self.seq, self.tag_column, self.source_column,
            self.heartbeat, self.json_column, self.corrupt_column, self.reason_column, max_bytes,
        )  # fmt: skip
