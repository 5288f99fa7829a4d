"""Speculation over a program: at any time, the outputs of the fold over the events so far."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from anabranch.eventtime.channels import NEVER
from anabranch.model.events import CHANNEL, LANE, Event
from anabranch.model.program import Program
from anabranch.model.shapes import AnyState
from anabranch.model.values.keys import plain_key
from anabranch.model.values.maps import Map
from anabranch.speculation.event_rules import NO_LEAVES, EventRules, Leaves
from anabranch.speculation.output_changes import OutputChange, Settled, order_rows
from anabranch.speculation.timed import TimedTrack
from anabranch.speculation.tracks import Track


class Speculation:
    """The speculative run of a program: it emits outputs at once, and corrects them later.

    `take` returns the output changes for new events: only outputs that have changed are retracted. If
    every event names the entry of the state that it sees, each entry has its own track. With `leaves`,
    independent events are folded into deltas; give it only for programs that satisfy their laws.
    """

    def __init__(self, program: Program, leaves: Leaves = NO_LEAVES) -> None:
        self.program = program
        self.watermark = NEVER
        self._rules = EventRules(program, leaves)
        self._by = find_entries(program)
        self._tracks: dict[Any, Track | TimedTrack] = {}
        # The time and the track of each pending event: a watermark settles only these tracks.
        self._due: list[tuple[int, int, Any]] = []
        self._count = 0

    def take(self, events: Iterable[Event]) -> list[OutputChange]:
        """Add events, in any order; return the output changes."""
        touched: dict[Any, list[Event]] = {}
        for event in events:
            assert event.time > self.watermark, f"{event} is behind the watermark {self.watermark}"
            name = None if self._by is None else plain_key(getattr(event.data, self._by))
            touched.setdefault(name, []).append(event)
            self._count += 1
            heappush(self._due, (event.time, self._count, name))
        rows = [row for name, mine in touched.items() for row in self._track(name).take(mine)]
        return sorted(rows, key=order_rows)

    def settle(self, watermark: int) -> Settled:
        """Settle all events at or before a watermark, which can't change any more."""
        if watermark <= self.watermark:
            return Settled(0, [])
        self.watermark = watermark
        # Timers are pending too, and are not among the added events.
        due = dict.fromkeys(self._tracks if self.program.timers else ())
        while self._due and self._due[0][0] <= watermark:
            due[heappop(self._due)[2]] = None
        done = [self._tracks[name].settle(watermark) for name in due]
        faults = [fault for one in done for fault in one.faults]
        faults.sort(key=lambda fault: self.program.order(fault.item))  # type: ignore[arg-type]
        rows = sorted((row for one in done for row in one.emitted), key=order_rows)
        return Settled(sum(one.processed for one in done), faults, rows)

    def pending(self) -> list[Event]:
        """Return the events that have not settled, in order."""
        found = [event for track in self._tracks.values() for event in track.pending()]
        return sorted(found, key=self.program.order)

    @property
    def state(self) -> AnyState:
        """Return the settled state, equal to that of the fold."""
        if self._by is None:
            return self._track(None).state
        entries = dict(self.program.init)
        for track in self._tracks.values():
            entries.update(track.state)
        return Map(entries)

    def dump(self) -> tuple[Any, ...]:
        """Return plain data, for a codec, from which `load` recreates this speculation."""
        tracks = [(name, *track.dump()) for name, track in self._tracks.items()]
        return self.watermark, tracks, [tuple(event) for event in self.pending()]

    @classmethod
    def load(
        cls, program: Program, data: tuple[Any, ...], leaves: Leaves = NO_LEAVES
    ) -> Speculation:
        """Return the speculation that `dump` stored. Its outputs are not emitted again."""
        made = cls(program, leaves)
        made.watermark, tracks, pending = data
        made._tracks = {name: made._open(*settled) for name, *settled in tracks}
        made.take(Event(*fields) for fields in pending)
        return made

    def _open(self, state: AnyState, *settled: Any) -> Track | TimedTrack:
        if self.program.timers:
            return TimedTrack(self.program, state, *settled)
        return Track(self._rules, state, *settled)

    def _track(self, name: Any) -> Track | TimedTrack:
        track = self._tracks.get(name)
        if track is None:
            state = self.program.init
            if self._by is not None:
                # A map with one entry is a valid state, in which handlers see the same entry.
                state = Map({name: state[name]} if name in state else {})
            track = self._tracks[name] = self._open(state)
        return track


def find_entries(program: Program) -> str | None:
    """Return the field by which the state has independent entries, or None."""
    by = program.initial.shape.by
    if by in (None, LANE, CHANNEL):
        return None
    return by if all(by in h.enters for h in program.initial.handlers.values()) else None
