"""Speculation over a program: at every moment, what the fold would say of the events seen so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

from anabranch.eventtime.channels import NEVER, Rejected
from anabranch.model.events import LANE, SOURCE, Event
from anabranch.model.keys import plain_key
from anabranch.model.maps import Map
from anabranch.model.order import bound_after
from anabranch.model.program import Program
from anabranch.model.shapes import AnyState
from anabranch.speculation.segments import NO_LEAVES, EventRules, Leaves, SegmentStep
from anabranch.speculation.spoken import Spoken, is_alike
from anabranch.speculation.timed import TimedSpeculation
from anabranch.speculation.tracks import Track


class Settled(NamedTuple):
    """What became of the events that a frontier has passed, and what timers had to say then."""

    processed: int
    faults: list[Rejected]
    said: list[Spoken] = []  # noqa: RUF012 - nobody changes it


class Speculation:
    """A program that answers at once, and corrects itself.

    `take` returns what there is to say of new events: what it said before and would not say now is
    taken back, and only that. If every event names the entry of the state that it sees, each entry
    has a track of its own. `leaves` lets events that are free be folded beside the state; it must
    only be given for programs that keep their laws.
    """

    def __init__(self, program: Program, leaves: Leaves = NO_LEAVES) -> None:
        self.program = program
        self.frontier = NEVER
        self._rules = EventRules(program, leaves)
        self._by = find_entries(program)
        self._tracks: dict[Any, Track] = {}
        # When each pending event is due, and in which track: a frontier looks at these tracks only.
        self._due: list[tuple[int, int, Any]] = []
        self._count = 0
        self._timed = TimedSpeculation(program, self._by) if program.timers else None

    def take(self, events: Iterable[Event]) -> list[Spoken]:
        """Take in events, in whatever order they come; return what changes by them."""
        if self._timed is not None:
            return self._timed.take(events)
        looked_at = self._insert(events)
        return [row for one in sorted(looked_at, key=_order) for row in _correct(one)]

    def settle(self, frontier: int) -> Settled:
        """Let everything at or before a frontier settle: it can't change any more."""
        if self._timed is not None:
            return Settled(*self._timed.settle(frontier))
        if frontier <= self.frontier:
            return Settled(0, [])
        self.frontier = frontier
        bound = bound_after(frontier)
        due: dict[Any, Track] = {}
        while self._due and self._due[0][0] <= frontier:
            name = heappop(self._due)[2]
            due[name] = self._tracks[name]
        settled = [one for track in due.values() for one in track.settle(bound)]
        settled.sort(key=_order)
        faults = [Rejected(one.event, one.reason) for one in settled if one.reason is not None]
        return Settled(len(settled) - len(faults), faults)

    def pending(self) -> list[Event]:
        """Return the events that have not settled, in order."""
        if self._timed is not None:
            return self._timed.pending()
        found = [event for track in self._tracks.values() for event in track.pending()]
        return sorted(found, key=self.program.order)

    @property
    def state(self) -> AnyState:
        """Return the settled state, as the fold has it."""
        if self._timed is not None:
            return self._timed.state
        if self._by is None:
            return self._track(None).state
        entries = dict(self.program.init)
        for track in self._tracks.values():
            entries.update(track.state)
        return Map(entries)

    def dump(self) -> tuple[Any, ...]:
        """Return plain data, for a codec, that makes this speculation again."""
        if self._timed is not None:
            return self._timed.dump()
        tracks = [(name, *track.dump()) for name, track in self._tracks.items()]
        return self.frontier, tracks, [tuple(event) for event in self.pending()]

    @classmethod
    def load(
        cls, program: Program, data: tuple[Any, ...], leaves: Leaves = NO_LEAVES
    ) -> Speculation:
        """Go on where `dump` was called. What was said then is known again, and not repeated."""
        made = cls(program, leaves)
        if made._timed is not None:
            made._timed = TimedSpeculation.load(program, made._by, data)
            return made
        frontier, tracks, pending = data
        made.frontier = frontier
        made._tracks = {name: Track(made._rules, state, base) for name, state, base in tracks}
        for one in made._insert(Event(*fields) for fields in pending):
            one.said = one.outputs
        return made

    def _insert(self, events: Iterable[Event]) -> list[SegmentStep]:
        touched: dict[Any, Track] = {}
        for event in events:
            assert event.time > self.frontier, f"{event} lies behind the frontier {self.frontier}"
            name = None if self._by is None else plain_key(getattr(event.data, self._by))
            touched[name] = self._track(name)
            touched[name].insert(event)
            self._count += 1
            heappush(self._due, (event.time, self._count, name))
        return [one for track in touched.values() for one in track.refresh()]

    def _track(self, name: Any) -> Track:
        track = self._tracks.get(name)
        if track is None:
            state = self.program.init
            if self._by is not None:
                # A part of the map is a state too, of which a handler sees as much as it would.
                state = Map({name: state[name]} if name in state else {})
            track = self._tracks[name] = Track(self._rules, state)
        return track


def find_entries(program: Program) -> str | None:
    """Return the field by which the state falls apart into entries that never meet, or None."""
    by = program.initial.shape.by
    if by in (None, LANE, SOURCE):
        return None
    return by if all(by in h.enters for h in program.initial.handlers.values()) else None


def _correct(one: SegmentStep) -> Iterator[Spoken]:
    """Yield what has to be said so that a step's outputs are what they are now."""
    said, one.said = one.said, one.outputs
    for index in range(max(len(said), len(one.outputs))):
        old, new = said[index : index + 1], one.outputs[index : index + 1]
        if is_alike(old, new):
            continue
        for value in old:
            yield Spoken(-1, (one.key, index), value, one.event)
        for value in new:
            yield Spoken(1, (one.key, index), value, one.event)


def _order(one: SegmentStep) -> Any:
    return one.key
