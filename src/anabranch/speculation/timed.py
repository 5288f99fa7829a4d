"""Speculation over a program with timers: what is pending is folded as if nothing more would come.

A timer may be set, moved or dropped by any event before it, so there are no steps to keep: the pending
events of an entry are folded again, from its settled state, with the timers they set up to the last of
them. A timer beyond that speaks when it settles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from anabranch.eventtime.channels import NEVER, Rejected
from anabranch.eventtime.timers import TimerError, Timetable, is_timer
from anabranch.model.events import Event
from anabranch.model.maps import Map
from anabranch.model.order import OrderKey, sort_events
from anabranch.model.program import Program
from anabranch.model.shapes import AnyState
from anabranch.model.step import Outputs, describe_failure
from anabranch.speculation.spoken import OutputId, Spoken, compare, list_outputs


class FoldedEvent(NamedTuple):
    """An event that was folded, a timer among them, what it said, or what a function raised on it."""

    key: OrderKey
    event: Event
    outputs: Outputs
    error: Exception | None = None


def fold_ahead(
    program: Program, state: AnyState, pending: Iterable[Event]
) -> Iterator[FoldedEvent]:
    """Fold pending events, and the timers up to the last of them, from a settled state."""
    pending = list(pending)
    horizon = max((e.time for e in pending if not is_timer(program, e)), default=NEVER)
    return _fold(_begin(program, state, pending, horizon))


def _begin(program: Program, state: AnyState, pending: list[Event], frontier: int) -> Timetable:
    ripe = [event for event in pending if event.time <= frontier]
    events = [event for event in ripe if not is_timer(program, event)]
    wakes = [event for event in ripe if is_timer(program, event)]
    ordered = sort_events(program.ranks, events)
    return Timetable(program, state, ordered, frontier, wakes)


def _fold(timetable: Timetable) -> Iterator[FoldedEvent]:
    for key, event in timetable:
        try:
            outputs = timetable.step(event)
        except TimerError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            timetable.set_aside(event)
            yield FoldedEvent(key, event, (), error)
        else:
            yield FoldedEvent(key, event, outputs)


class _Line:
    """One entry, or the whole: its settled state, what is pending, and what was said of that."""

    def __init__(self, state: AnyState) -> None:
        self.state = state
        self.pending: list[Event] = []
        self.said: dict[OutputId, Spoken] = {}


class TimedSpeculation:
    """What `Speculation` is, for a program with timers."""

    def __init__(self, program: Program, by: str | None) -> None:
        self.program = program
        self.frontier = NEVER
        self._by = by
        self._lines: dict[Any, _Line] = {}

    def take(self, events: Iterable[Event]) -> list[Spoken]:
        """Take in events, in whatever order they come; return what changes by them."""
        touched: dict[Any, _Line] = {}
        for event in events:
            assert event.time > self.frontier, f"{event} lies behind the frontier {self.frontier}"
            name = None if self._by is None else getattr(event.data, self._by)
            touched[name] = self._line(name)
            touched[name].pending.append(event)
        rows: list[Spoken] = []
        for line in touched.values():
            now = _list_said(fold_ahead(self.program, line.state, line.pending))
            rows += compare(line.said, now.values())
            line.said = now
        return sorted(rows, key=order_rows)

    def settle(self, frontier: int) -> tuple[int, list[Rejected], list[Spoken]]:
        """Let all up to a frontier settle: how much was processed, what failed, what timers say."""
        if frontier <= self.frontier:
            return 0, [], []
        self.frontier = frontier
        processed, faults, rows = 0, list[Rejected](), list[Spoken]()
        for line in self._lines.values():
            if not any(event.time <= frontier for event in line.pending):
                continue
            timetable = _begin(self.program, line.state, line.pending, frontier)
            done = list(_fold(timetable))
            line.state = timetable.state
            line.pending = [e for e in line.pending if e.time > frontier] + timetable.left
            faults += [
                Rejected(one.event, describe_failure(one.event, one.error))
                for one in done
                if one.error is not None
            ]
            processed += sum(
                one.error is None and not is_timer(self.program, one.event) for one in done
            )
            settled = _list_said(done)
            old = {i: said for i, said in line.said.items() if i[0][0] <= frontier}
            rows += compare(old, settled.values())
            line.said = {i: said for i, said in line.said.items() if i not in old}
        faults.sort(key=lambda fault: self.program.order(fault.item))  # type: ignore[arg-type]
        return processed, faults, sorted(rows, key=order_rows)

    def pending(self) -> list[Event]:
        """Return the events that have not settled, in order."""
        found = (event for line in self._lines.values() for event in line.pending)
        events = (event for event in found if not is_timer(self.program, event))
        return sorted(events, key=self.program.order)

    @property
    def state(self) -> AnyState:
        """Return the settled state, as the fold has it."""
        if self._by is None:
            return self._line(None).state
        entries = dict(self.program.init)
        for line in self._lines.values():
            entries.update(line.state)
        return Map(entries)

    def dump(self) -> tuple[Any, ...]:
        """Return plain data, for a codec, that makes this speculation again."""
        lines = [
            (name, line.state, [tuple(event) for event in line.pending])
            for name, line in self._lines.items()
        ]
        return self.frontier, lines

    @classmethod
    def load(cls, program: Program, by: str | None, data: tuple[Any, ...]) -> TimedSpeculation:
        """Go on where `dump` was called. What was said then is known again, and not repeated."""
        made = cls(program, by)
        made.frontier, lines = data
        for name, state, pending in lines:
            line = made._lines[name] = _Line(state)
            line.pending = [Event(*fields) for fields in pending]
            line.said = _list_said(fold_ahead(program, state, line.pending))
        return made

    def _line(self, name: Any) -> _Line:
        if name not in self._lines:
            state = self.program.init
            if self._by is not None:
                state = Map({name: state[name]} if name in state else {})
            self._lines[name] = _Line(state)
        return self._lines[name]


def _list_said(folded: Iterable[FoldedEvent]) -> dict[OutputId, Spoken]:
    rows = (row for one in folded for row in list_outputs(one.key, one.event, one.outputs))
    return {row.id: row for row in rows}


def order_rows(row: Spoken) -> tuple[OutputId, int]:
    """Return what the rows of one moment are sorted by."""
    return row.id, row.op
