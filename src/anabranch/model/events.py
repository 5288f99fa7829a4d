"""Events, heartbeats and malformed rows: the items of a channel.

An event type is the user's own `NamedTuple` or frozen dataclass with a field `time`, an `int` or a
`datetime`, or another field marked as the time (`EventTime`). The channel of an event and its sequence
number are not fields but attributes of `Event`, because updates must not depend on them.
"""

from __future__ import annotations

import dataclasses
import zlib
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from anabranch.errors import Location, ProgramError
from anabranch.model.values.event_times import list_time_fields, time_field, time_of

EventType = type
"""The class of an event."""

FOREVER = (1 << 63) - 1
"""The watermark of a channel that has ended."""

LANE = "@lane"
"""The pseudo-field by which independent events are spread; no event type can have it."""

CHANNEL = "@channel"
"""The pseudo-field that names the channel of an event: states may have entries by it."""


class Event(NamedTuple):
    """One event of one channel: the user's fields, the channel, and the sequence number.

    `seq` is the event's position in its channel (a row number, an offset). It is None in a channel
    without sequence numbers; ties are then broken by content, never by arrival.
    """

    data: Any
    channel: str = "input"
    seq: int | None = None

    @property
    def time(self) -> int:
        """Return the event's time as an integer: microseconds UTC, if the field is a datetime."""
        return time_of(self.data)

    @property
    def event_type(self) -> EventType:
        """Return the event's type."""
        return type(self.data)


class Heartbeat(NamedTuple):
    """A watermark in the data: the channel has no more events at or before `time`."""

    time: int
    channel: str = "input"
    seq: int | None = None


class Malformed(NamedTuple):
    """Input that could not be read as an event: the raw input, and the reason."""

    raw: Any
    reason: str
    channel: str = "input"
    seq: int | None = None


Item = Event | Heartbeat | Malformed
"""An item of a channel."""


def spread(event: Event) -> int:
    """Return a number that spreads events evenly over lanes and depends on the event alone."""
    base = zlib.crc32(event.channel.encode())
    if event.seq is None:
        return base + zlib.crc32(content_of(event).encode())
    return base + event.seq


def content_of(event: Event) -> str:
    """Return the text of an event's fields, which breaks ties between events without sequence numbers."""
    return repr(event.data)


@cache
def field_names(event_type: EventType) -> tuple[str, ...]:
    """Return the field names of an event type, in order."""
    if dataclasses.is_dataclass(event_type):
        return tuple(field.name for field in dataclasses.fields(event_type))
    return tuple(event_type._fields)  # type: ignore[attr-defined]


@cache
def field_types(event_type: EventType) -> dict[str, Any]:
    """Return the annotated type of each field; Any where the annotation can't be read."""
    try:
        hints = get_type_hints(event_type)
    except (NameError, TypeError):
        hints = {}
    return {name: hints.get(name, Any) for name in field_names(event_type)}


def check_event_type(event_type: object, where: Location | None) -> None:
    """Raise if a value can't be an event type."""
    if not isinstance(event_type, type):
        raise ProgramError(
            f"{event_type!r} is not an event type",
            where=where,
            expected="a class: a NamedTuple or a frozen dataclass with a field `time`",
            got=f"a {type(event_type).__name__}",
            cure="pass the class itself, not an instance or a string",
        )
    named = issubclass(event_type, tuple) and hasattr(event_type, "_fields")
    dataclass = dataclasses.is_dataclass(event_type)
    if not named and not (dataclass and event_type.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        raise ProgramError(
            f"event type {event_type.__name__} is mutable",
            where=where,
            expected="a NamedTuple or a frozen dataclass",
            got="a dataclass that is not frozen" if dataclass else "an ordinary class",
            cure=f"write `class {event_type.__name__}(NamedTuple):` or `@dataclass(frozen=True)`",
        )
    _check_time(event_type, where)


def _check_time(event_type: EventType, where: Location | None) -> None:
    marked = list_time_fields(event_type)
    if len(marked) > 1:
        raise ProgramError(
            f"event type {event_type.__name__} has several time fields",
            where=where,
            expected="one field marked as EventTime",
            got=", ".join(marked),
            cure="mark the one that orders the events; the others are plain fields",
        )
    name = time_field(event_type)
    if name not in field_names(event_type):
        raise ProgramError(
            f"event type {event_type.__name__} has no time field",
            where=where,
            expected="a field `time: datetime` or `time: int`",
            got=f"fields {', '.join(field_names(event_type)) or '(none)'}",
            cure="add `time: datetime`, or `time: int` in any unit; "
            "or mark another field as the time, `at: EventTime[datetime]`",
        )
    annotated = field_types(event_type)[name]
    if annotated not in (int, datetime, Any):
        raise ProgramError(
            f"the time of event type {event_type.__name__} is neither a datetime nor an integer",
            where=where,
            expected=f"`{name}: datetime` or `{name}: int`",
            got=f"`{name}: {getattr(annotated, '__name__', annotated)}`",
            cure="use a datetime for timestamps, and an integer for any other unit",
        )
