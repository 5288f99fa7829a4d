"""The base class of sources: the columns to read and the promises of the channels.

The sources are `Files` and `Frame` (`anabranch.spark`); this module contains the options that they share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, Order
from anabranch.eventtime.disorder import Estimated
from anabranch.model.events import EventType, field_names
from anabranch.model.program import Program
from anabranch.model.values.durations import SpanInput

BESIDE = ("type", "channel", "seq", "heartbeat")
"""The columns beside the fields of an event, in files that name the type and channel of each row."""

_PROMISES = ("lateness", "unique_times", "max_ahead", "idle_after_s", "order")
_COLUMNS = (
    "seq", "type_column", "channel_column", "heartbeat",
    "json_column", "corrupt_column", "reason_column",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """The options of every source: how rows become events, and the promises of its channels.

    `event` is the type of all events, or `type_column` the column with the name of each row's type; a program
    with one event type needs neither. `channel` is the name of the one channel of all rows (default: the
    folder's name, or the event type's), or `channel_column` contains that of each row, and `channels` declares
    them: `channel_column="topic", channels=[Channel("a", lateness="5 s"), …]`. With one channel, `lateness`,
    `unique_times`, `max_ahead`, `idle_after_s` and `order` are those of its `Channel`.

    Fields are read from the columns of their names, the time from column `time`, or
    from the field that an event type declares as its time. `seq` is the column with the
    sequence of a channel. A row with a value in the column `heartbeat` is a heartbeat, not an event.

    With `json_column` the fields are those of a JSON object in that column, a text or bytes, as in Kafka;
    type, channel, sequence and time may be in the object or in columns beside it. A row with a
    value in `corrupt_column` is rejected, and the value is kept: Spark's readers write the text of a row
    that they can't parse into such a column. `reason_column` may contain the reason.
    """

    event: EventType | str | None = None
    type_column: str | None = None
    channel: str | None = None
    channel_column: str | None = None
    channels: Sequence[Channel] = ()
    time: str = "time"
    seq: str | None = None
    heartbeat: str | None = None
    lateness: SpanInput | Estimated | None = 0
    unique_times: bool = False
    max_ahead: SpanInput | None = None
    idle_after_s: float | str | timedelta | None = None
    order: Order = "time"
    json_column: str | None = None
    corrupt_column: str | None = None
    reason_column: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", tuple(self.channels))
        _check_options(self)
        self.declared()  # Raises here, where the source is written, if a channel's options are invalid.

    @property
    @abstractmethod
    def is_stream(self) -> bool:
        """Return whether more events may arrive."""

    @property
    def is_numbered(self) -> bool:
        """Return whether events have a sequence."""
        return self.seq is not None

    @property
    def default_channel(self) -> str:
        """Return the name of the one channel of this source if none is given."""
        event_type = self.event.__name__ if isinstance(self.event, type) else self.event
        return event_type or "input"

    @property
    def channel_name(self) -> str | None:
        """Return the name of the one channel of all rows; None if a column contains that of each."""
        if self.channel_column is not None:
            return None
        return self.channel or self.default_channel

    def declared(self) -> list[Channel]:
        """Return the channels of this source."""
        if self.channel_name is None:
            return list(self.channels)
        return [Channel(self.channel_name, **{name: getattr(self, name) for name in _PROMISES})]

    def find_event_type(self, program: Program) -> str | None:
        """Return the type of rows without a type column: the one given, or the only one of a program."""
        if self.event is None and self.type_column is None and len(program.inputs) == 1:
            return program.inputs[0].__name__
        found = self.event.__name__ if isinstance(self.event, type) else self.event
        known = [event_type.__name__ for event_type in program.inputs]
        if found is None and self.type_column is None:
            raise InputError(
                f"{self._describe()} does not name the type of its events",
                where=f"program {program.name}",
                expected=f"event={known[0]}, or type_column= for a column with the names",
                got="neither",
            )
        if found is not None and found not in known:
            raise InputError(
                f"{self._describe()} has events that the program does not handle",
                where=f"program {program.name}",
                expected=f"event= one of {', '.join(known)}",
                got=found,
            )
        return found

    def list_event_types(self, program: Program) -> list[EventType]:
        """Return the event types that rows of this source may have."""
        name = self.find_event_type(program)
        # A row that names its own type need not be of the one given.
        if name is None or self.type_column is not None:
            return list(program.inputs)
        return [event_type for event_type in program.inputs if event_type.__name__ == name]

    def known_columns(self) -> Sequence[str] | None:
        """Return the columns of all rows; None if they are known only when rows are read."""
        return None

    def check_schema(self, program: Program) -> None:  # noqa: B027 - most sources have no schema
        """Raise `InputError` if the schema shows that no row can become an event."""

    def list_columns(self) -> list[str]:
        """Return the columns that the options name, for any event type."""
        inside = self.json_column is not None  # Then the others may be in the JSON.
        names = ("json_column", "corrupt_column", "reason_column") if inside else _COLUMNS
        return [column for name in names if (column := getattr(self, name)) is not None]

    def _describe(self) -> str:
        names = [repr(channel.name) for channel in self.declared()]
        return f"the source of {', '.join(names)}"


def name_columns(program: Program) -> dict[str, str]:
    """Return the columns for type, channel, seq and heartbeat: with an `@` if a field has the same name."""
    fields = {name for event_type in program.inputs for name in field_names(event_type)}
    return {name: f"@{name}" if name in fields else name for name in BESIDE}


def list_sources(sources: Any) -> list[Source]:
    """Return sources as a list; one source may be given without a list."""
    several = isinstance(sources, Iterable) and not isinstance(sources, Source | str)
    found = list(sources) if several else [sources]
    for source in found:
        if not isinstance(source, Source):
            raise InputError(
                f"{type(source).__name__} is not a source",
                expected='Files("in/north", …), Frame(dataframe, …) or a list of them',
                got=repr(source)[:100],
            )
    if not found:
        raise InputError(
            "there is no source",
            expected='at least one source, such as Files("in/north", …)',
            got="none",
        )
    return found


def _check_options(source: Source) -> None:
    if source.event is not None and not isinstance(source.event, type | str):
        raise InputError(
            "event of a source is not an event type",
            expected='event=Txn, or its name, event="Txn"',
            got=repr(source.event),
        )
    for channel in source.channels:
        if not isinstance(channel, Channel):
            raise InputError(
                "channels of a source are not declared",
                expected="channels=[Channel('a'), Channel('b', lateness=5), …]",
                got=repr(channel),
            )
    if source.channel is not None and source.channel_column is not None:
        raise InputError(
            "a source has both channel= and channel_column=",
            expected='channel="north", or channel_column= and channels=',
            got="both",
        )
    if source.channel_column is None and source.channels:
        raise InputError(
            "channels are declared, but no column contains the channel of a row",
            expected='channel_column="…" beside channels=; for one channel, channel="…", lateness=…',
            got=", ".join(channel.name for channel in source.channels),
        )
    if source.channel_column is not None and not source.channels:
        raise InputError(
            f"the channels in column {source.channel_column!r} are not declared",
            expected="channels=[Channel('a'), Channel('b', lateness=5), …]",
            got="none",
            cure="declare each: a run waits for all of them",
        )
    usual = Channel("")
    own = [name for name in _PROMISES if getattr(source, name) != getattr(usual, name)]
    if source.channel_column is not None and own:
        raise InputError(
            f"{own[0]} is given for a source of several channels",
            expected=f"{own[0]}= of each channel: channels=[Channel('a', {own[0]}=…), …]",
            got=f"{own[0]}={getattr(source, own[0])!r} beside channel_column=",
        )
    if source.json_column is not None and (source.corrupt_column or source.reason_column):
        raise InputError(
            "a source has both json_column= and the columns of another reader",
            expected="json_column=, or corrupt_column= and reason_column=",
            got="both",
        )
    for name in ("time", *_COLUMNS):
        value = getattr(source, name)
        if value is not None and (not isinstance(value, str) or not value):
            raise InputError(
                f"{name} of a source is not the name of a column",
                expected=f'{name}="…"',
                got=repr(value),
            )
