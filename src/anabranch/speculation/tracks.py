"""Tracks: events in order, of which the affected end is folded again when one comes in between."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import takewhile
from operator import attrgetter

from anabranch.model.events import Event
from anabranch.model.order import OrderKey
from anabranch.model.shapes import AnyState
from anabranch.speculation.segments import Deltas, EventRules, Segment, SegmentStep
from anabranch.speculation.spoken import is_alike

SMALL = 64
"""Of a state with more entries nobody looks whether it came out as before."""

_key = attrgetter("key")


class Track:
    """One line of events and states that no other line meets: a program's, or a key's."""

    def __init__(self, rules: EventRules, state: AnyState, base: Deltas | None = None) -> None:
        self._rules = rules
        base = {} if base is None else base
        self._segments = [Segment(None, state, base=base, deltas=base)]
        self._starts: list[OrderKey] = [()]
        self._since: OrderKey | None = None
        self._stale = 0

    def insert(self, event: Event) -> None:
        """Put an event into its place; `refresh` looks at what follows from it."""
        is_leaf = type(event.data) in self._rules.leaves
        one = SegmentStep(self._find_key(event, is_leaf=is_leaf), event)
        place = bisect_right(self._starts, one.key) - 1
        if is_leaf:
            segment = self._segments[place]
            self._stale += not segment.is_stale
            insort(segment.leaves, one, key=_key)
            segment.fresh.append(one)
        else:
            self._open(place, one)
        self._since = one.key if self._since is None else min(self._since, one.key)

    def refresh(self) -> list[SegmentStep]:
        """Run again what new events have changed; return every step that may say something else."""
        if self._since is None:
            return []
        # One earlier: a new segment may have taken leaves from the one before.
        place = max(0, bisect_right(self._starts, self._since) - 2)
        self._since = None
        looked_at: list[SegmentStep] = []
        moved = False
        while place < len(self._segments) and (moved or self._stale):
            segment = self._segments[place]
            self._stale -= segment.is_stale
            entered = (moved or segment.new) and self._enter(place, looked_at)
            leaves = self._rules.refold(segment, entered=entered)
            moved = entered or bool(leaves)
            looked_at += leaves
            place += 1
        return looked_at

    def settle(self, bound: OrderKey) -> list[SegmentStep]:
        """Let everything before a bound become part of the start; return it, in order."""
        assert self._since is None, "settled before it was refreshed"
        place = bisect_left(self._starts, bound) - 1
        settled: list[SegmentStep] = []
        for segment in self._segments[:place]:
            settled += [*([segment.opening] if segment.opening else []), *segment.leaves]
        del self._segments[:place], self._starts[:place]
        first = self._segments[0]
        if first.opening is not None:
            settled.append(first.opening)
            first.opening, self._starts[0] = None, ()
        cut = bisect_left(first.leaves, bound, key=_key)
        for leaf in first.leaves[:cut]:
            first.base = self._rules.fold(first.base, leaf)
        settled += first.leaves[:cut]
        del first.leaves[:cut]
        return settled

    def pending(self) -> list[Event]:
        """Return the events that have not settled, in order."""
        found: list[Event] = []
        for segment in self._segments:
            opening = [segment.opening] if segment.opening else []
            found += [one.event for one in (*opening, *segment.leaves)]
        return found

    def dump(self) -> tuple[AnyState, Deltas]:
        """Return what has settled: the state after the last opening, and deltas that wait for one."""
        return self._segments[0].state, self._segments[0].base

    @property
    def state(self) -> AnyState:
        """Return the settled state."""
        state, base = self.dump()
        return self._rules.join(state, base) if base else state

    def _find_key(self, event: Event, *, is_leaf: bool) -> OrderKey:
        key = self._rules.program.order(event)
        if event.seq is not None:
            return key
        # Events that tie are equal, and are counted; see `model.order.sort_events`.
        if is_leaf:
            leaves = self._segments[bisect_right(self._starts, key) - 1].leaves
            first = bisect_left(leaves, key, key=_key)
            after = (leaves[n].key for n in range(first, len(leaves)))
        else:
            first = bisect_left(self._starts, key)
            after = (self._starts[n] for n in range(first, len(self._starts)))
        count = sum(1 for _ in takewhile(lambda other: other[: len(key)] == key, after))
        return (*key, count) if count else key

    def _open(self, place: int, one: SegmentStep) -> None:
        before = self._segments[place]
        cut = bisect_left(before.leaves, one.key, key=_key)
        after = Segment(one, leaves=before.leaves[cut:], new=True)
        if after.leaves:
            self._stale += not before.is_stale
            before.torn = after.torn = True
            before.fresh = []
            del before.leaves[cut:]
        self._stale += 1
        self._segments.insert(place + 1, after)
        self._starts.insert(place + 1, one.key)

    def _enter(self, place: int, looked_at: list[SegmentStep]) -> bool:
        """Run what opens a segment; say whether it starts from another state than before."""
        segment = self._segments[place]
        if segment.opening is None:
            return False
        state = self._rules.run(self._rules.close(self._segments[place - 1]), segment.opening)
        looked_at.append(segment.opening)
        changed = segment.new or not is_alike(segment.state, state, SMALL)
        segment.new = False
        segment.state = state
        return changed
