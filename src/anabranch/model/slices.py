"""Slices: parts of a tag, as a worker of a plan is made responsible for them.

Flumina calls this an implementation tag. A tag may be cut by a field (`key` equal to 1, or in
shard 2 of 8), by the source that brings it, and, if its events are independent, by lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from math import gcd
from typing import Any

from anabranch.errors import ProgramError
from anabranch.model.events import (
    LANE,
    SOURCE,
    Event,
    Tag,
    check_event_type,
    field_names,
    spread,
)
from anabranch.model.locations import locate_caller
from anabranch.model.values.hashing import hash_stably
from anabranch.model.values.keys import is_same_key, plain_key


@dataclass(frozen=True)
class Equals:
    """Admit one value."""

    value: Any

    def __str__(self) -> str:
        return f"={self.value!r}"


@dataclass(frozen=True)
class Shard:
    """Admit the values whose stable hash is `index` modulo `count`, except those in `but`."""

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
    """Say whether some value of `field` is admitted by both; None admits everything."""
    if a is None or b is None:
        return True
    if isinstance(a, Equals):
        return is_same_key(a.value, b.value) if isinstance(b, Equals) else admits(field, b, a.value)
    if isinstance(b, Equals):
        return admits(field, a, b.value)
    # Two residue classes meet iff they agree modulo the greatest common divisor. What they leave out
    # are single values, which can't keep classes apart that meet.
    return (a.index - b.index) % gcd(a.count, b.count) == 0


def admits(field: str, choice: Choice | None, value: Any) -> bool:
    """Say whether a choice admits a value."""
    if choice is None:
        return True
    if isinstance(choice, Equals):
        return is_same_key(choice.value, value)
    if any(is_same_key(value, one) for one in choice.but):
        return False
    # A lane is a hash already; hashing it again would only make shards uneven.
    hashed = value if field == LANE else hash_stably(value)
    return bool(hashed % choice.count == choice.index)


@dataclass(frozen=True)
class Slice:
    """A tag, cut down by fields, lane and source. Made by `take`."""

    tag: Tag
    where: tuple[tuple[str, Choice], ...] = ()
    source: str | None = None

    def choice(self, field: str) -> Choice | None:
        """Return how a field is restricted, or None."""
        for name, choice in self.where:
            if name == field:
                return choice
        return None

    def covers(self, event: Event, lanes: int | None = None) -> bool:
        """Say whether an event belongs to this slice."""
        if type(event.data) is not self.tag or (self.source not in (None, event.source)):
            return False
        return all(
            admits(field, choice, field_value(event, field, lanes)) for field, choice in self.where
        )

    def overlaps(self, other: Slice) -> bool:
        """Say whether an event could belong to both slices."""
        if self.tag is not other.tag:
            return False
        if None not in (self.source, other.source) and self.source != other.source:
            return False
        return all(choices_overlap(field, c, other.choice(field)) for field, c in self.where)

    def __str__(self) -> str:
        parts = [f"{field.lstrip('@')}{choice}" for field, choice in self.where]
        cut = f"[{', '.join(parts)}]" if parts else ""
        return f"{self.tag.__name__}{cut}" + (f"@{self.source}" if self.source else "")


def field_value(event: Event, field: str, lanes: int | None) -> Any:
    """Return the value of a field of an event; the lane is computed."""
    if field == SOURCE:
        return event.source
    if field == LANE:
        number = spread(event)
        return number % lanes if lanes else number
    return plain_key(getattr(event.data, field))


def _admits_value(part: Slice, field: str, value: Any) -> bool:
    if field == SOURCE:
        return part.source in (None, value)
    return admits(field, part.choice(field), value)


def take(
    tag: Tag, *, source: str | None = None, lane: Shard | int | None = None, **fields: Any
) -> Slice:
    """Return a slice of a tag: `take(Inc, key=1)`, `take(Temp, source="t1")`.

    A field is given a value, or a `Shard(index, count)` of the values by stable hash.
    """
    if not isinstance(tag, type) or not (hasattr(tag, "_fields") or is_dataclass(tag)):
        check_event_type(tag, locate_caller())
    known = field_names(tag)
    for name in fields:
        if name not in known:
            raise ProgramError(
                f"{tag.__name__} can't be cut by `{name}`",
                expected=f"one of its fields: {', '.join(known)}",
                got=name,
            )
    if lane is not None:
        fields[LANE] = lane
    where = {name: v if isinstance(v, Equals | Shard) else Equals(v) for name, v in fields.items()}
    return Slice(tag, tuple(sorted(where.items())), source)


class Slices:
    """What one side of a fork, or a whole subtree, is responsible for. Forks are told two."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Slice | Tag] = ()) -> None:
        self._items = frozenset(s if isinstance(s, Slice) else take(s) for s in items)

    def has(self, tag: Tag, *, source: str | None = None, **fields: Any) -> bool:
        """Say whether events of `tag` with these field values may come to this side.

        >>> from typing import NamedTuple
        >>> Inc = NamedTuple("Inc", [("time", int), ("key", int)])
        >>> left = Slices([take(Inc, key=1)])
        >>> left.has(Inc), left.has(Inc, key=1), left.has(Inc, key=2)
        (True, True, False)
        """
        asked = take(tag, source=source, **fields)
        return any(asked.overlaps(own) for own in self._items)

    def has_value(self, field: str, value: Any) -> bool:
        """Say whether events of any tag with this field value may come to this side."""
        return any(
            _admits_value(own, field, value)
            for own in self._items
            if field in (LANE, SOURCE) or field in field_names(own.tag)
        )

    def narrow(self, field: str, value: Any) -> Slices:
        """Return the part of this side to which events with this field value may come.

        >>> from typing import NamedTuple
        >>> Inc = NamedTuple("Inc", [("time", int), ("key", int)])
        >>> Slices([take(Inc, key=1, source="a"), take(Inc, key=2)]).narrow("key", 1)
        {Inc[key=1]@a}
        """
        return Slices(
            own
            for own in self._items
            if (field == SOURCE or field in field_names(own.tag))
            and _admits_value(own, field, value)
        )

    def covers(self, event: Event, lanes: int | None = None) -> bool:
        """Say whether an event comes to this side."""
        return any(own.covers(event, lanes) for own in self._items)

    def tags(self) -> frozenset[Tag]:
        """Return the tags of which this side gets a part."""
        return frozenset(own.tag for own in self._items)

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
