"""Segments: what a shard's leaves folded from zero between two cuts, pending or not.

A leaf is added to the delta of its segment, wherever it lies. That leaves settle changes nothing: a segment
goes when the cut that ends it has settled, and the root has had the same delta for good. Only a new cut
between leaves that are already in one delta makes events be read again, those of that stretch of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from anabranch.microbatch.store.ordered_pages import OrderedPages
from anabranch.microbatch.store.state_store import Store
from anabranch.model.events import FOREVER, Event
from anabranch.model.failures import Failed, attempt
from anabranch.model.order import OrderKey, bound_after
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout
from anabranch.state.durable.codec import Codec

Placed = tuple[OrderKey, Event]
ReadStretch = Callable[[OrderKey | None, OrderKey], tuple[dict[str, Any], Iterable[Placed]]]
"""Returns the pending leaves between two places, and what settled ones before them folded, by state type.

Without a first place, the stretch begins at the last cut that has settled."""

TAIL = bound_after(FOREVER)
"""Where the segment ends that no cut has ended yet."""

_BEGINNING: OrderKey = ()


class SegmentDelta(NamedTuple):
    """The deltas of a segment, by state type, and where its first and its last leaf lie."""

    states: dict[str, Any]
    first: OrderKey | None = None
    last: OrderKey | None = None


_EMPTY = SegmentDelta({})


class SegmentDeltas:
    """The segments of a shard at work on one batch, each under the place of the cut that ends it.

    `changed` are those of which the root does not know. One that is `torn` has lost its delta.
    """

    def __init__(self, program: Program, wiring: Layout, codec: Codec, store: Store) -> None:
        self._program = program
        self._leaves = wiring.leaves
        self._roll = OrderedPages(store, codec, "segments")
        self._torn: set[OrderKey] = set()
        self.changed: set[OrderKey] = set()

    def take(
        self,
        cuts: Iterable[OrderKey],
        leaves: Iterable[Placed],
        frontier: int,
        read_stretch: ReadStretch,
    ) -> dict[OrderKey, dict[str, Any]]:
        """Take in what is new; return the deltas of pending segments that are not what they were."""
        for key in cuts:
            self._cut(key)
        closed = self._roll.take_before(bound_after(frontier))
        for key, event in leaves:
            if not closed or key > closed[-1][0]:
                self._add(key, event)
        gone = {key for key, _ in closed}
        self.changed -= gone
        for key in self._torn - gone:
            self._fold_again(key, read_stretch)
        found = {key: self._read(key).states for key in self.changed - {TAIL}}
        self._roll.flush()
        return found

    def _cut(self, key: OrderKey) -> None:
        """Divide the segment that a new cut lies in."""
        end = self._find(key)
        left, right = self._read(end), _EMPTY
        if end in self._torn:
            self._torn.add(key)
        elif left.first is not None and key < left.first:
            left, right = right, left
        elif left.last is not None and key < left.last:
            self._torn |= {key, end}
        self._put(key, left)
        self._put(end, right)

    def _add(self, key: OrderKey, event: Event) -> None:
        end = self._find(key)
        if end not in self._torn:  # Else it is read with the others.
            self._put(end, self._fold(self._read(end), key, event))

    def _fold_again(self, end: OrderKey, read_stretch: ReadStretch) -> None:
        settled, leaves = read_stretch(self._roll.find_before(end), end)
        segment = SegmentDelta(settled, _BEGINNING, _BEGINNING) if settled else _EMPTY
        for key, event in leaves:
            segment = self._fold(segment, key, event)
        self._put(end, segment)

    def _fold(self, segment: SegmentDelta, key: OrderKey, event: Event) -> SegmentDelta:
        state_type = self._program.state_type(self._leaves[type(event.data)])
        states, first, last = segment
        delta = states.get(state_type.name, state_type.begin_delta())
        stepped = attempt(state_type.step_delta, delta, event)
        if isinstance(stepped, Failed):  # It is reported when it settles.
            return segment
        first = key if first is None else min(first, key)
        last = key if last is None else max(last, key)
        return SegmentDelta({**states, state_type.name: stepped[0]}, first, last)

    def _find(self, key: OrderKey) -> OrderKey:
        return self._roll.find_after(key) or TAIL

    def _read(self, end: OrderKey) -> SegmentDelta:
        return SegmentDelta(*self._roll.get(end, _EMPTY))

    def _put(self, end: OrderKey, segment: SegmentDelta) -> None:
        self._roll.put(end, tuple(segment))
        self.changed.add(end)
