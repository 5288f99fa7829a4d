"""Speculation over a program with timers: what is pending is folded as if nothing more would come.

A timer may be set, moved or dropped by any event before it, so there are no steps to keep: the pending
events of an entry are folded again, from its settled state, with the timers they set up to the last of
them. A timer beyond that speaks when it settles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from anabranch.eventtime.channels import NEVER, Rejected
from anabranch.eventtime.timers import Timetable, is_timer
from anabranch.model.events import Event
from anabranch.model.failures import Failed, attempt
from anabranch.model.keys import plain_key
from anabranch.model.maps import Map
from anabranch.model.order import OrderKey, sort_events
from anabranch.model.program import Program
from anabranch.model.shapes import AnyState
from anabranch.model.step import Outputs
from anabranch.speculation.spoken import Spoken, is_alike


class FoldedEvent(NamedTuple):
    """An event that was folded, a timer among them, what it said, or why it could not be."""

    key: OrderKey
    event: Event
    outputs: Outputs
    reason: str | None = None


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
        outputs = attempt(timetable.step, event)
        if isinstance(outputs, Failed):
            timetable.set_aside(event)
            yield FoldedEvent(key, event, (), outputs.describe(event))
        else:
            yield FoldedEvent(key, event, outputs)


class _Line:
    """One entry, or the whole: its settled state, what is pending, and what was said of that."""

    def __init__(self, state: AnyState) -> None:
        self.state = state
        self.pending: list[Event] = []
        self.said: dict[tuple[OrderKey, int], tuple[Any, Event]] = {}


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
            name = None if self._by is None else plain_key(getattr(event.data, self._by))
            touched[name] = self._line(name)
            touched[name].pending.append(event)
        rows: list[Spoken] = []
        for line in touched.values():
            now = _list_said(fold_ahead(self.program, line.state, line.pending))
            rows += _compare(line.said, now)
            line.said = now
        return sorted(rows, key=_order)

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
            faults += [Rejected(one.event, one.reason) for one in done if one.reason is not None]
            processed += sum(
                one.reason is None and not is_timer(self.program, one.event) for one in done
            )
            settled = _list_said(done)
            old = {i: said for i, said in line.said.items() if i[0][0] <= frontier}
            rows += _compare(old, settled)
            line.said = {i: said for i, said in line.said.items() if i not in old}
        faults.sort(key=lambda fault: self.program.order(fault.item))  # type: ignore[arg-type]
        return processed, faults, sorted(rows, key=_order)

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


def _list_said(folded: Iterable[FoldedEvent]) -> dict[tuple[OrderKey, int], tuple[Any, Event]]:
    return {
        (one.key, index): (value, one.event)
        for one in folded
        for index, value in enumerate(one.outputs)
    }


def _compare(
    before: dict[tuple[OrderKey, int], tuple[Any, Event]],
    now: dict[tuple[OrderKey, int], tuple[Any, Event]],
) -> Iterator[Spoken]:
    """Yield what leads from one to the other."""
    for name, (value, event) in before.items():
        if name not in now or not is_alike(now[name][0], value):
            yield Spoken(-1, name, value, event)
    for name, (value, event) in now.items():
        if name not in before or not is_alike(before[name][0], value):
            yield Spoken(1, name, value, event)


def _order(row: Spoken) -> Any:
    return row.id[0], row.id[1], row.op
