"""FlameStream's operations: map, merge, broadcast, and grouping, the only one with a state.

An operation takes one item and returns what it makes of it; a tombstone makes tombstones. Any
`(state, item) -> (output, state)` is a grouping of window 2, maps, and a cycle that brings the new
state back to the grouping.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from anabranch.errors import InputError
from anabranch.speculation.output_changes import is_alike
from tests.speculation.flamestream.items import DataItem

_meta = attrgetter("meta")


class Running(Protocol):
    """An operation at work: what it makes of an item, for each of its exits."""

    def take(self, item: DataItem) -> Iterable[tuple[int, DataItem]]: ...


@dataclass(frozen=True)
class Map:
    """Make none, one or many payloads of each; the function must be pure."""

    function: Callable[[Any], Iterable[Any]]

    def start(self, exits: int) -> Running:
        """Begin to run; there is one exit."""
        return self

    def take(self, item: DataItem) -> Iterator[tuple[int, DataItem]]:
        """Return what the function makes, numbered."""
        for number, payload in enumerate(self.function(item.payload)):
            yield 0, DataItem(payload, item.meta.child(number), item.tombstone)


@dataclass(frozen=True)
class Merge:
    """Pass on what comes on several ways."""

    def start(self, exits: int) -> Running:
        """Begin to run; there is one exit."""
        return self

    def take(self, item: DataItem) -> Iterator[tuple[int, DataItem]]:
        """Return the item as it is."""
        yield 0, item


@dataclass(frozen=True)
class Broadcast:
    """Send each item on every way."""

    ways: int = 0

    def start(self, exits: int) -> Running:
        """Begin to run, with as many ways as there are."""
        return Broadcast(exits)

    def take(self, item: DataItem) -> Iterator[tuple[int, DataItem]]:
        """Return a numbered copy for each way."""
        for way in range(self.ways):
            yield way, item._replace(meta=item.meta.child(way))


@dataclass(frozen=True)
class Grouping:
    """On every item, say the tuple of the last items of its key, at most `window`, in order."""

    key: Callable[[Any], Any]
    window: int

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InputError(
                "a grouping has an empty window", expected="1 or more", got=str(self.window)
            )

    def start(self, exits: int) -> Running:
        """Begin to run, with nothing grouped."""
        return Buckets(self)


class Buckets:
    """A grouping at work. It is optimistic: an item is grouped when it comes, wherever it belongs.

    What that makes wrong, the groups that end after it, is taken back before, and said again after.
    """

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._items: dict[Any, list[DataItem]] = {}

    def take(self, item: DataItem) -> Iterator[tuple[int, DataItem]]:
        """Return tombstones and groups; each group has the place of its last item."""
        items = self._items.setdefault(self._grouping.key(item.payload), [])
        place = bisect_left(items, item.meta, key=_meta)
        if item.tombstone:
            place = _find(items, place, item)
        reach = self._grouping.window
        before = reach if item.tombstone else reach - 1
        yield from self._say(items, place, before, tombstone=True)
        if item.tombstone:
            del items[place]
        else:
            items.insert(place, item)
        yield from self._say(items, place, 2 * reach - 1 - before, tombstone=False)

    def _say(
        self, items: list[DataItem], place: int, count: int, *, tombstone: bool
    ) -> Iterator[tuple[int, DataItem]]:
        for end in range(place, min(place + count, len(items))):
            group = items[max(0, end + 1 - self._grouping.window) : end + 1]
            payload = tuple(one.payload for one in group)
            yield 0, DataItem(payload, items[end].meta, tombstone)


def _find(items: list[DataItem], place: int, tombstone: DataItem) -> int:
    while place < len(items) and items[place].meta == tombstone.meta:
        if is_alike(items[place].payload, tombstone.payload):
            return place
        place += 1
    raise InputError(
        "a tombstone takes back what never came",
        expected="the item before its tombstone, on one way",
        got=repr(tombstone.payload),
    )


Operation = Map | Merge | Broadcast | Grouping
