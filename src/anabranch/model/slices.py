"""Slices: parts of an event type, which a plan node is responsible for.

Flumina calls a slice an implementation tag. A slice restricts an event type by a field (`key` equal to 1,
or in shard 2 of 8), by channel, and, if its events are independent, by lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, is_dataclass
from math import gcd
from typing import Any

from anabranch.errors import ProgramError
from anabranch.model.events import (
    CHANNEL,
    LANE,
    Event,
    EventType,
    check_event_type,
    field_names,
    spread,
)
from anabranch.model.locations import locate_caller
from anabranch.model.values.hashing import hash_stably
from anabranch.model.values.keys import is_same_key, plain_key


@dataclass(frozen=True)
class Equals:
    """A restriction of a field to one value."""

    value: Any

    def __str__(self) -> str:
        return f"={self.value!r}"


@dataclass(frozen=True)
class Shard:
    """A restriction of a field to values whose stable hash is `index` modulo `count`, except those in `but`."""

    index: int
    count: int
    but: frozenset[Any] = frozenset()

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ProgramError(
                f"there is no shard {self.index} of {self.count}",
                expected=f"an index from 0 to {self.count - 1}",
                got=str(self.index),
            )

    def __str__(self) -> str:
        rest = f" but {', '.join(sorted(map(repr, self.but)))}" if self.but else ""
        return f" in {self.index}/{self.count}{rest}"


Choice = Equals | Shard


def choices_overlap(field: str, a: Choice | None, b: Choice | None) -> bool:
    """Return whether two restrictions of `field` have a value in common; None admits every value."""
    if a is None or b is None:
        return True
    if isinstance(a, Equals):
        return is_same_key(a.value, b.value) if isinstance(b, Equals) else admits(field, b, a.value)
    if isinstance(b, Equals):
        return admits(field, a, b.value)
    # Two residue classes overlap iff they are equal modulo the greatest common divisor. The excluded
    # values are single ones, and an overlap has infinitely many.
    return (a.index - b.index) % gcd(a.count, b.count) == 0


def admits(field: str, choice: Choice | None, value: Any) -> bool:
    """Return whether a restriction admits a value."""
    if choice is None:
        return True
    if isinstance(choice, Equals):
        return is_same_key(choice.value, value)
    if any(is_same_key(value, one) for one in choice.but):
        return False
    # A lane is already a hash; hashing it again would make shards uneven.
    hashed = value if field == LANE else hash_stably(value)
    return bool(hashed % choice.count == choice.index)


@dataclass(frozen=True)
class Slice:
    """An event type, restricted by fields, lane and channel. Made by `take`."""

    event_type: EventType
    where: tuple[tuple[str, Choice], ...] = ()
    _: KW_ONLY
    channel: str | None = None

    def choice(self, field: str) -> Choice | None:
        """Return the restriction of a field, or None."""
        for name, choice in self.where:
            if name == field:
                return choice
        return None

    def covers(self, event: Event, lanes: int | None = None) -> bool:
        """Return whether an event belongs to this slice."""
        if type(event.data) is not self.event_type or (self.channel not in (None, event.channel)):
            return False
        return all(
            admits(field, choice, field_value(event, field, lanes)) for field, choice in self.where
        )

    def overlaps(self, other: Slice) -> bool:
        """Return whether an event could belong to both slices."""
        if self.event_type is not other.event_type:
            return False
        if None not in (self.channel, other.channel) and self.channel != other.channel:
            return False
        return all(choices_overlap(field, c, other.choice(field)) for field, c in self.where)

    def __str__(self) -> str:
        parts = [f"{field.lstrip('@')}{choice}" for field, choice in self.where]
        cut = f"[{', '.join(parts)}]" if parts else ""
        return f"{self.event_type.__name__}{cut}" + (f"@{self.channel}" if self.channel else "")


def field_value(event: Event, field: str, lanes: int | None) -> Any:
    """Return the value of a field of an event; the lane is computed."""
    if field == CHANNEL:
        return event.channel
    if field == LANE:
        number = spread(event)
        return number % lanes if lanes else number
    return plain_key(getattr(event.data, field))


def _admits_value(part: Slice, field: str, value: Any) -> bool:
    if field == CHANNEL:
        return part.channel in (None, value)
    return admits(field, part.choice(field), value)


def take(
    event_type: EventType,
    *,
    channel: str | None = None,
    lane: Shard | int | None = None,
    **fields: Any,
) -> Slice:
    """Return a slice of an event type: `take(Inc, key=1)`, `take(Temp, channel="t1")`.

    The restriction of a field is a value, or a `Shard(index, count)` of the values by stable hash.
    """
    if not isinstance(event_type, type) or not (
        hasattr(event_type, "_fields") or is_dataclass(event_type)
    ):
        check_event_type(event_type, locate_caller())
    known = field_names(event_type)
    for name in fields:
        if name not in known:
            raise ProgramError(
                f"{event_type.__name__} has no field `{name}` to slice by",
                expected=f"one of its fields: {', '.join(known)}",
                got=name,
            )
    if lane is not None:
        fields[LANE] = lane
    where = {name: v if isinstance(v, Equals | Shard) else Equals(v) for name, v in fields.items()}
    return Slice(event_type, tuple(sorted(where.items())), channel=channel)


class Slices:
    """The slices that one side of a fork, or a subtree of a plan, is responsible for."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Slice | EventType] = ()) -> None:
        self._items = frozenset(s if isinstance(s, Slice) else take(s) for s in items)

    def has(self, event_type: EventType, *, channel: str | None = None, **fields: Any) -> bool:
        """Return whether events of `event_type` with these field values may belong to this side.

        >>> from typing import NamedTuple
        >>> Inc = NamedTuple("Inc", [("time", int), ("key", int)])
        >>> left = Slices([take(Inc, key=1)])
        >>> left.has(Inc), left.has(Inc, key=1), left.has(Inc, key=2)
        (True, True, False)
        """
        asked = take(event_type, channel=channel, **fields)
        return any(asked.overlaps(own) for own in self._items)

    def has_value(self, field: str, value: Any) -> bool:
        """Return whether events of any event type with this field value may belong to this side."""
        return any(
            _admits_value(own, field, value)
            for own in self._items
            if field in (LANE, CHANNEL) or field in field_names(own.event_type)
        )

    def narrow(self, field: str, value: Any) -> Slices:
        """Return the slices of this side that events with this field value may belong to.

        >>> from typing import NamedTuple
        >>> Inc = NamedTuple("Inc", [("time", int), ("key", int)])
        >>> Slices([take(Inc, key=1, channel="a"), take(Inc, key=2)]).narrow("key", 1)
        {Inc[key=1]@a}
        """
        return Slices(
            own
            for own in self._items
            if (field == CHANNEL or field in field_names(own.event_type))
            and _admits_value(own, field, value)
        )

    def covers(self, event: Event, lanes: int | None = None) -> bool:
        """Return whether an event belongs to this side."""
        return any(own.covers(event, lanes) for own in self._items)

    def event_types(self) -> frozenset[EventType]:
        """Return the event types of the slices."""
        return frozenset(own.event_type for own in self._items)

    def __or__(self, other: Slices) -> Slices:
        return Slices(self._items | other._items)

    def __iter__(self) -> Iterator[Slice]:
        return iter(sorted(self._items, key=str))

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slices) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return "{" + ", ".join(str(own) for own in self) + "}"
