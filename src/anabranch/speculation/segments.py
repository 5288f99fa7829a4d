"""Segments: the deltas of leaves between pending cuts, and what a change causes to run again.

A *leaf* is an event that may be folded from zero into a delta, and joined later. All other events are
processed in order; each of them is a *cut*, which ends a segment. A leaf is added to the delta of its
segment, at any place. Settling leaves changes nothing: a segment is removed when the cut that ends it
settles. Only a new cut between leaves of one delta causes leaves to be folded again, those of its segment.

The reference keeps segments in memory, shards and the root in pages. The rules are the same for all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic, Protocol, TypeVar

from anabranch.model.events import FOREVER
from anabranch.model.order import OrderKey, bound_after
from anabranch.model.shapes import AnyState

Deltas = dict[str, AnyState]
"""The deltas of leaves, by state type."""

TAIL = bound_after(FOREVER)
"""The end of the last segment, which no cut has ended yet."""

_BEGINNING: OrderKey = ()

State = TypeVar("State")
Leaf = TypeVar("Leaf")
Fold = Callable[[Deltas, Leaf], Deltas]
"""Adds a leaf to deltas. If it returns the same deltas, they do not contain the leaf."""

ReadStretch = Callable[[OrderKey | None, OrderKey], tuple[Deltas, Iterable[tuple[OrderKey, Leaf]]]]
"""Returns the deltas of settled leaves, and the pending leaves, between two places.

Without a first place, the stretch starts at the last settled cut. Only that stretch has settled leaves."""


SegmentDelta = tuple[Deltas, OrderKey | None, OrderKey | None]
"""The deltas of a segment, and the places of its first and its last leaf."""

_EMPTY: SegmentDelta = ({}, None, None)


class SegmentStore(Protocol):
    """Values by their places in the total order."""

    def get(self, key: OrderKey, default: Any = None) -> Any: ...

    def put(self, key: OrderKey, value: Any) -> None: ...

    def find_after(self, key: OrderKey) -> OrderKey | None: ...

    def find_before(self, key: OrderKey) -> OrderKey | None: ...

    def take_before(self, bound: OrderKey) -> list[tuple[OrderKey, Any]]: ...


class SortedMap:
    """A store in memory; `keys` are in order."""

    def __init__(self) -> None:
        self.keys: list[OrderKey] = []
        self._values: dict[OrderKey, Any] = {}

    def get(self, key: OrderKey, default: Any = None) -> Any:
        """Return the value at a place."""
        return self._values.get(key, default)

    def put(self, key: OrderKey, value: Any) -> None:
        """Store a value at a place."""
        if key not in self._values:
            insort(self.keys, key)
        self._values[key] = value

    def find_after(self, key: OrderKey) -> OrderKey | None:
        """Return the first place after another that has a value."""
        place = bisect_right(self.keys, key)
        return self.keys[place] if place < len(self.keys) else None

    def find_before(self, key: OrderKey) -> OrderKey | None:
        """Return the last place before another that has a value."""
        place = bisect_left(self.keys, key)
        return self.keys[place - 1] if place else None

    def take_before(self, bound: OrderKey) -> list[tuple[OrderKey, Any]]:
        """Remove and return the values before a bound, in order."""
        count = bisect_left(self.keys, bound)
        taken = [(key, self._values.pop(key)) for key in self.keys[:count]]
        del self.keys[:count]
        return taken


class Segments(Generic[Leaf]):
    """The segments in a store, each under the place of the cut that ends it.

    `changed` are the places of changed segments. Of events that are added together, cuts are added first.
    A segment that is *torn* has no valid delta: all its leaves are read and folded again.
    """

    def __init__(self, store: SegmentStore, read_stretch: ReadStretch[Leaf]) -> None:
        self._store = store
        self._read_stretch = read_stretch
        self._torn: set[OrderKey] = set()
        self._fresh: dict[OrderKey, list[tuple[OrderKey, Leaf]]] = {}
        self.changed: set[OrderKey] = set()

    def begin(self, settled: Deltas) -> None:
        """Start with the deltas of leaves that have settled since the last cut."""
        self._put(TAIL, _begin(settled))

    def cut(self, key: OrderKey) -> OrderKey:
        """Divide the segment of a new cut; return the end of its right part."""
        end = self._store.find_after(key) or TAIL
        left, right = self._store.get(end, _EMPTY), _EMPTY
        _, first, last = left
        if end in self._torn:
            self._torn.add(key)
        elif first is not None and key < first:
            left, right = right, left
        elif last is not None and key < last:
            self._torn |= {key, end}
        self._put(key, left)
        self._put(end, right)
        return end

    def add(self, key: OrderKey, leaf: Leaf) -> None:
        """Add a new leaf; `refold` adds it to its segment's delta."""
        end = self._store.find_after(key) or TAIL
        self.changed.add(end)
        self._fresh.setdefault(end, []).append((key, leaf))

    def tear(self, end: OrderKey) -> None:
        """Mark a segment, so that all its leaves are folded again."""
        self._torn.add(end)

    def is_torn(self, end: OrderKey) -> bool:
        """Return whether all leaves of a segment must be folded again."""
        return end in self._torn

    def refold(self, end: OrderKey, fold: Fold[Leaf]) -> Deltas:
        """Fold the new leaves of a segment, or all if it is torn; return its deltas."""
        segment: SegmentDelta = self._store.get(end, _EMPTY)
        deltas, first, last = segment
        leaves: Iterable[tuple[OrderKey, Leaf]] = self._fresh.pop(end, ())
        if end in self._torn:
            self._torn.remove(end)
            settled, leaves = self._read_stretch(self._store.find_before(end), end)
            deltas, first, last = _begin(settled)
        elif not leaves:
            return deltas
        for key, leaf in leaves:
            before, deltas = deltas, fold(deltas, leaf)
            if deltas is not before:
                first = key if first is None else min(first, key)
                last = key if last is None else max(last, key)
        self._store.put(end, (deltas, first, last))
        return deltas

    def settle(self, bound: OrderKey) -> list[OrderKey]:
        """Remove the segments that end before a bound; return their ends, in order."""
        gone = [key for key, _ in self._store.take_before(bound)]
        self.changed.difference_update(gone)
        self._torn.difference_update(gone)
        return gone

    def _put(self, end: OrderKey, segment: SegmentDelta) -> None:
        self._store.put(end, segment)
        self.changed.add(end)


def _begin(settled: Deltas) -> SegmentDelta:
    return (settled, _BEGINNING, _BEGINNING) if settled else _EMPTY


class PendingCuts(Protocol[State]):
    """Pending cuts in order, in stretches of one or more; each stretch has its start state."""

    def __len__(self) -> int: ...

    def read_start(self, place: int) -> State:
        """Return the start state of a stretch."""
        ...

    def enter(self, place: int, state: State) -> bool:
        """Set the start state of a stretch; return whether it has changed."""
        ...

    def run(self, place: int, state: State) -> State:
        """Process the cuts of a stretch; return the state after them."""
        ...


def run_again(cuts: PendingCuts[State], changed: Collection[int]) -> None:
    """Run the changed stretches, and those after each, until a start state is unchanged."""
    place, count = 0, len(cuts)
    for first in sorted(changed):
        if first < place:
            continue
        place, state, continues = first, cuts.read_start(first), True
        while continues:
            state = cuts.run(place, state)
            place += 1
            continues = place < count and (cuts.enter(place, state) or place in changed)
