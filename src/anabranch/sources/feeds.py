"""Feeds: where events come from, with the columns to read and the promises of its sources.

`Files` and `Frame` (`anabranch.spark`) are the kinds of feed; this module has the options that they share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from anabranch.errors import InputError
from anabranch.eventtime.channels import Source
from anabranch.eventtime.disorder import Estimated
from anabranch.model.events import Tag, field_names
from anabranch.model.program import Program
from anabranch.model.values.durations import SpanInput

BESIDE = ("tag", "source", "seq", "heartbeat")
"""The columns beside the fields of an event, in files that name the type and source of each row."""

_PROMISES = ("lateness", "strict", "ahead", "idle_after_s", "in_turn")
_COLUMNS = (
    "seq", "tag_column", "source_column", "heartbeat",
    "json_column", "corrupt_column", "reason_column",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Feed(ABC):
    """The options that every feed has: how rows become events, and what its sources promise.

    `tag` is the type of all events, or `tag_column` the column with the name of each row's type; a program
    with one event type needs neither. `source` names the one source of all rows (default: the folder's name,
    or the event type's), or `source_column` names that of each row, and `sources` declares them:
    `source_column="topic", sources=[Source("a", lateness="5 s"), …]`. With one source, `lateness`, `strict`,
    `ahead`, `idle_after_s` and `in_turn` are those of its `Source`.

    Fields are read from the columns of their names, the time from column `time`, or
    from the field that an event type declares as its time. `seq` is the column with the
    sequence of a source. A row with a value in the column `heartbeat` is a heartbeat, not an event.

    With `json_column` the fields are those of a JSON object in that column, a text or bytes, as Kafka
    brings them; type, source, sequence and time may be in it or in columns beside it. A row with a
    value in `corrupt_column` is rejected, and that value kept: a reader of Spark's writes there
    the text of a row that it can't read. `reason_column` may have the reason.
    """

    tag: Tag | str | None = None
    tag_column: str | None = None
    source: str | None = None
    source_column: str | None = None
    sources: Sequence[Source] = ()
    time: str = "time"
    seq: str | None = None
    heartbeat: str | None = None
    lateness: SpanInput | Estimated | None = 0
    strict: bool = False
    ahead: SpanInput | None = None
    idle_after_s: float | str | timedelta | None = None
    in_turn: bool = False
    json_column: str | None = None
    corrupt_column: str | None = None
    reason_column: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(self.sources))
        _check_options(self)
        self.declared()  # What a source can't promise is refused here, where it is written.

    @property
    @abstractmethod
    def is_stream(self) -> bool:
        """Return whether more events may come."""

    @property
    def is_numbered(self) -> bool:
        """Return whether events have a sequence."""
        return self.seq is not None

    @property
    def default_source(self) -> str:
        """Return the name of the one source of this feed, where none is given."""
        tag = self.tag.__name__ if isinstance(self.tag, type) else self.tag
        return tag or "input"

    @property
    def source_name(self) -> str | None:
        """Return the name of the one source of all rows; None if a column names that of each."""
        if self.source_column is not None:
            return None
        return self.source or self.default_source

    def declared(self) -> list[Source]:
        """Return the sources that this feed brings."""
        if self.source_name is None:
            return list(self.sources)
        return [Source(self.source_name, **{name: getattr(self, name) for name in _PROMISES})]

    def find_tag(self, program: Program) -> str | None:
        """Return the type of rows that name none: the one given, or the only one of a program."""
        if self.tag is None and self.tag_column is None and len(program.inputs) == 1:
            return program.inputs[0].__name__
        found = self.tag.__name__ if isinstance(self.tag, type) else self.tag
        known = [tag.__name__ for tag in program.inputs]
        if found is None and self.tag_column is None:
            raise InputError(
                f"{self._describe()} does not name the type of its events",
                where=f"program {program.name}",
                expected=f"tag={known[0]}, or tag_column= for a column with the names",
                got="neither",
            )
        if found is not None and found not in known:
            raise InputError(
                f"{self._describe()} is of events that the program does not handle",
                where=f"program {program.name}",
                expected=f"tag= one of {', '.join(known)}",
                got=found,
            )
        return found

    def list_columns(self) -> list[str]:
        """Return the columns that the options name, whatever the event type."""
        inside = self.json_column is not None  # Then the others may be in the JSON.
        names = ("json_column", "corrupt_column", "reason_column") if inside else _COLUMNS
        return [column for name in names if (column := getattr(self, name)) is not None]

    def _describe(self) -> str:
        names = [repr(source.name) for source in self.declared()]
        return f"the feed of {', '.join(names)}"


def name_columns(program: Program) -> dict[str, str]:
    """Return the columns for tag, source, seq and heartbeat: with an `@` where a field has that name."""
    fields = {name for tag in program.inputs for name in field_names(tag)}
    return {name: f"@{name}" if name in fields else name for name in BESIDE}


def list_feeds(feeds: Any) -> list[Feed]:
    """Return feeds as a list; one feed may be given without a list."""
    several = isinstance(feeds, Iterable) and not isinstance(feeds, Feed | str)
    found = list(feeds) if several else [feeds]
    for feed in found:
        if not isinstance(feed, Feed):
            raise InputError(
                f"{type(feed).__name__} is not a feed",
                expected='Files("in/north", …), Frame(dataframe, …) or a list of them',
                got=repr(feed)[:100],
            )
    if not found:
        raise InputError(
            "there is nothing to run on",
            expected='at least one feed, such as Files("in/north", …)',
            got="none",
        )
    return found


def _check_options(feed: Feed) -> None:
    if feed.tag is not None and not isinstance(feed.tag, type | str):
        raise InputError(
            "tag of a feed is not an event type",
            expected='tag=Txn, or its name, tag="Txn"',
            got=repr(feed.tag),
        )
    for source in feed.sources:
        if not isinstance(source, Source):
            raise InputError(
                "sources of a feed are not declared",
                expected="sources=[Source('a'), Source('b', lateness=5), …]",
                got=repr(source),
            )
    if feed.source is not None and feed.source_column is not None:
        raise InputError(
            "a feed has a name for its source, and a column of names",
            expected='source="north", or source_column= and sources=',
            got="both",
        )
    if feed.source_column is None and feed.sources:
        raise InputError(
            "sources are declared, and no column names the source of a row",
            expected='source_column="…" beside sources=; for one source, source="…", lateness=…',
            got=", ".join(source.name for source in feed.sources),
        )
    if feed.source_column is not None and not feed.sources:
        raise InputError(
            f"the sources in column {feed.source_column!r} are not declared",
            expected="sources=[Source('a'), Source('b', lateness=5), …]",
            got="none",
            cure="declare each: a run waits for all of them",
        )
    usual = Source("")
    own = [name for name in _PROMISES if getattr(feed, name) != getattr(usual, name)]
    if feed.source_column is not None and own:
        raise InputError(
            f"{own[0]} is given for a feed of several sources",
            expected=f"{own[0]}= of each source: sources=[Source('a', {own[0]}=…), …]",
            got=f"{own[0]}={getattr(feed, own[0])!r} beside source_column=",
        )
    if feed.json_column is not None and (feed.corrupt_column or feed.reason_column):
        raise InputError(
            "a feed reads JSON itself, and leaves it to another reader",
            expected="json_column=, or corrupt_column= and reason_column=",
            got="both",
        )
    for name in ("time", *_COLUMNS):
        value = getattr(feed, name)
        if value is not None and (not isinstance(value, str) or not value):
            raise InputError(
                f"{name} of a feed is not the name of a column",
                expected=f'{name}="…"',
                got=repr(value),
            )
