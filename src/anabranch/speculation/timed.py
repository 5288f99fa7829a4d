"""Speculation over a program with timers: pending events are folded as if no more would arrive.

A timer may be set, moved or cancelled by any earlier event, so no steps are stored: the pending events of
an entry are folded again, from its settled state, with the timers they set up to the last of them. A later
timer emits its outputs when it settles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.timers import Timetable, is_timer
from anabranch.model.events import Event
from anabranch.model.failures import Failed
from anabranch.model.order import OrderKey, sort_events
from anabranch.model.program import Program
from anabranch.model.shapes import AnyState
from anabranch.model.step import Outputs
from anabranch.speculation.event_rules import attempt_ahead, reject
from anabranch.speculation.output_changes import (
    OutputChange,
    OutputId,
    Settled,
    compare,
    list_outputs,
)


class FoldedEvent(NamedTuple):
    """A folded event or timer, with its outputs, or the exception of a function on it."""

    key: OrderKey
    event: Event
    outputs: Outputs
    failed: Failed | None = None


def fold_ahead(
    program: Program, state: AnyState, pending: Iterable[Event]
) -> Iterator[FoldedEvent]:
    """Fold pending events, and the timers up to the last of them, from a settled state."""
    pending = list(pending)
    horizon = max((e.time for e in pending if not is_timer(program, e)), default=NEVER)
    return _fold(_begin(program, state, pending, horizon))


def _begin(program: Program, state: AnyState, pending: list[Event], watermark: int) -> Timetable:
    ripe = [event for event in pending if event.time <= watermark]
    events = [event for event in ripe if not is_timer(program, event)]
    wakes = [event for event in ripe if is_timer(program, event)]
    ordered = sort_events(program.ranks, events)
    return Timetable(program, state, ordered, watermark, wakes)


def _fold(timetable: Timetable) -> Iterator[FoldedEvent]:
    for key, event in timetable:
        outputs = attempt_ahead(timetable.step, event)
        if isinstance(outputs, Failed):
            timetable.set_aside(event)
            yield FoldedEvent(key, event, (), outputs)
        else:
            yield FoldedEvent(key, event, outputs)


class TimedTrack:
    """The equivalent of `Track` for a program with timers. Set timers are among the pending events."""

    def __init__(
        self, program: Program, state: AnyState, timers: Iterable[tuple[Any, ...]] = ()
    ) -> None:
        self._program = program
        self.state = state
        self._pending = [Event(*fields) for fields in timers]
        self._emitted: dict[OutputId, OutputChange] = {}

    def take(self, events: Iterable[Event]) -> list[OutputChange]:
        """Add events, in any order; return the output changes."""
        self._pending += events
        before = self._emitted
        self._emitted = _list_emitted(fold_ahead(self._program, self.state, self._pending))
        return compare(before, self._emitted.values())

    def settle(self, watermark: int) -> Settled:
        """Settle all events and timers at or before a watermark; return the output changes."""
        if not any(event.time <= watermark for event in self._pending):
            return Settled(0, [])
        program = self._program
        timetable = _begin(program, self.state, self._pending, watermark)
        done = list(_fold(timetable))
        self.state = timetable.state
        self._pending = [e for e in self._pending if e.time > watermark] + timetable.left
        faults = [reject(one.event, one.failed) for one in done if one.failed is not None]
        processed = sum(one.failed is None and not is_timer(program, one.event) for one in done)
        old = {name: row for name, row in self._emitted.items() if name[0][0] <= watermark}
        self._emitted = {name: row for name, row in self._emitted.items() if name not in old}
        return Settled(processed, faults, compare(old, _list_emitted(done).values()))

    def pending(self) -> list[Event]:
        """Return the events that have not settled."""
        return [event for event in self._pending if not is_timer(self._program, event)]

    def dump(self) -> tuple[AnyState, list[tuple[Any, ...]]]:
        """Return the settled state, and the timers that it has set."""
        timers = [tuple(event) for event in self._pending if is_timer(self._program, event)]
        return self.state, timers


def _list_emitted(folded: Iterable[FoldedEvent]) -> dict[OutputId, OutputChange]:
    rows = (row for one in folded for row in list_outputs(one.key, one.event, one.outputs))
    return {row.id: row for row in rows}
