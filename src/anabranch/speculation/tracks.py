"""Tracks: events in order, of which the affected end is folded again after an event out of order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from itertools import takewhile
from operator import attrgetter
from typing import Any

from anabranch.model.events import Event
from anabranch.model.order import OrderKey, bound_after
from anabranch.model.shapes import MISSING, AnyState
from anabranch.speculation.event_rules import EventRules, SegmentStep, reject
from anabranch.speculation.output_changes import (
    OutputChange,
    Settled,
    compare,
    is_alike,
    list_outputs,
)
from anabranch.speculation.segments import TAIL, Deltas, Segments, SortedMap, run_again

SMALL = 64
"""The maximum number of entries of a state that is compared with the one before."""

_key = attrgetter("key")


class Track:
    """One independent sequence of events and states: of a whole program, or of a key.

    Each cut is one stretch, with the segment before it; the last stretch has no cut.
    """

    def __init__(self, rules: EventRules, state: AnyState, base: Deltas | None = None) -> None:
        self._rules = rules
        self._base: Deltas = base or {}
        self._leaves: list[SegmentStep] = []
        self._cuts: dict[OrderKey, SegmentStep] = {}
        self._starts: dict[OrderKey, AnyState] = {TAIL: state}
        self._store = SortedMap()
        self._segments: Segments[SegmentStep] = Segments(self._store, self._read_stretch)
        self._segments.begin(self._base)
        self._looked_at: list[SegmentStep] = []

    def take(self, events: Iterable[Event]) -> list[OutputChange]:
        """Insert events in order; return the output changes."""
        leaves: list[Event] = []
        for event in events:
            if type(event.data) in self._rules.leaves:
                leaves.append(event)
            else:
                self._cut(event)
        for event in leaves:
            one = SegmentStep(self._find_key(event, self._leaves, _key), event)
            insort(self._leaves, one, key=_key)
            self._segments.add(one.key, one)
        changed, self._segments.changed = self._segments.changed, set()
        self._looked_at = []
        keys = self._store.keys
        run_again(self, {bisect_left(keys, end) for end in changed})
        return [row for one in self._looked_at for row in _correct(one)]

    def settle(self, watermark: int) -> Settled:
        """Settle all events at or before a watermark: fold them into the start state."""
        bound = bound_after(watermark)
        gone = self._segments.settle(bound)
        settled = [self._cuts.pop(key) for key in gone]
        for key in gone:
            del self._starts[key]
        count = bisect_left(self._leaves, bound, key=_key)
        first = 0
        if gone:
            self._base = {}
            first = bisect_left(self._leaves, gone[-1], key=_key)
        for leaf in self._leaves[first:count]:
            self._base = self._rules.fold(self._base, leaf)
        settled += self._leaves[:count]
        del self._leaves[:count]
        faults = [reject(one.event, one.failed) for one in settled if one.failed is not None]
        return Settled(len(settled) - len(faults), faults)

    def pending(self) -> list[Event]:
        """Return the events that have not settled."""
        return [one.event for one in (*self._cuts.values(), *self._leaves)]

    def dump(self) -> tuple[AnyState, Deltas]:
        """Return the settled state after the last cut, and the deltas since that cut."""
        return self._starts[self._store.keys[0]], self._base

    @property
    def state(self) -> AnyState:
        """Return the settled state."""
        return self._join(*self.dump())

    def __len__(self) -> int:
        return len(self._store.keys)

    def read_start(self, place: int) -> AnyState:
        """Return the start state of a stretch."""
        return self._starts[self._store.keys[place]]

    def enter(self, place: int, state: AnyState) -> bool:
        """Set the start state of a stretch; return whether it has changed."""
        end = self._store.keys[place]
        if is_alike(self._starts[end], state, SMALL):
            return False
        self._starts[end] = state
        if self._rules.deferring and not self._segments.is_torn(end):
            self._emit_again(end, state)
        return True

    def run(self, place: int, state: AnyState) -> AnyState:
        """Fold the new leaves before a cut, and process the cut; return the state after it."""
        end = self._store.keys[place]

        def fold(deltas: Deltas, leaf: SegmentStep) -> Deltas:
            self._rules.emit(state, leaf)
            self._looked_at.append(leaf)
            return self._rules.fold(deltas, leaf)

        deltas = self._segments.refold(end, fold)
        if end == TAIL:
            return state
        self._looked_at.append(self._cuts[end])
        return self._rules.run(self._join(state, deltas), self._cuts[end])

    def _cut(self, event: Event) -> None:
        key = self._find_key(event, self._store.keys)
        end = self._segments.cut(key)
        self._cuts[key] = SegmentStep(key, event)
        # The state after a new cut is known when the cut has been processed.
        self._starts[key], self._starts[end] = self._starts[end], MISSING

    def _emit_again(self, end: OrderKey, state: AnyState) -> None:
        """Recompute the outputs of leaves on a new state; if the failure of one changes, fold all again."""
        for _, leaf in self._read_stretch(self._store.find_before(end), end)[1]:
            if type(leaf.event.data) in self._rules.deferring:
                failed = leaf.failed is not None
                self._rules.emit(state, leaf)
                self._looked_at.append(leaf)
                if failed != (leaf.failed is not None):
                    self._segments.tear(end)

    def _read_stretch(
        self, start: OrderKey | None, end: OrderKey
    ) -> tuple[Deltas, list[tuple[OrderKey, SegmentStep]]]:
        first = 0 if start is None else bisect_left(self._leaves, start, key=_key)
        last = bisect_left(self._leaves, end, key=_key)
        leaves = [(leaf.key, leaf) for leaf in self._leaves[first:last]]
        return self._base if start is None else {}, leaves

    def _join(self, state: AnyState, deltas: Deltas) -> AnyState:
        return self._rules.join(state, deltas) if deltas else state

    def _find_key(
        self, event: Event, others: list[Any], read: Callable[[Any], OrderKey] | None = None
    ) -> OrderKey:
        key = self._rules.program.order(event)
        if event.seq is not None:
            return key
        # Events that tie are equal, and are numbered; see `model.order.sort_events`.
        first = bisect_left(others, key, key=read)
        after = (others[n] if read is None else read(others[n]) for n in range(first, len(others)))
        count = sum(1 for _ in takewhile(lambda other: other[: len(key)] == key, after))
        return (*key, count) if count else key


def _correct(one: SegmentStep) -> list[OutputChange]:
    """Return the output changes from the emitted outputs of a step to its current ones."""
    emitted, one.emitted = one.emitted, one.outputs
    if is_alike(emitted, one.outputs):
        return []
    now = list_outputs(one.key, one.event, one.outputs)
    before = {row.id: row for row in list_outputs(one.key, one.event, emitted)}
    return compare(before, now) if before else now
