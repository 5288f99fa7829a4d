"""Timers: events that the state itself requests.

`due` returns the next time at which a state, or an entry of it, requests a timer event. It is a function
of the state alone, so timers need no storage of their own, and every runtime that folds the same events
fires the same timers at the same times. Each time that `due` returns fires once: at that time, after all
events up to it, or immediately if the time has passed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.eventtime.channels import NEVER
from anabranch.model.events import FOREVER, Event, EventType, Item
from anabranch.model.failures import Failed, attempt
from anabranch.model.handlers import Handler
from anabranch.model.order import OrderKey, order_key
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.model.step import Outputs
from anabranch.model.values.event_times import time_field, to_time, write_time

TIMERS = "@timers"
"""The channel name of timer events."""

MOST_WAKES = 1_000_000
"""The maximum number of timers of one entry after the last event of an input that has ended.

Each window that slides by a second over a day is a timer, so this must not be small.
"""

Values = tuple[Any, ...]
Place = tuple[int, Values]
"""The index of a timer, and the keys of its entry."""


class TimerError(AnabranchError, ValueError):
    """A program's `due` did not return a time, or returns ever more of them."""

    stops = True


def is_timer(program: Program, item: Item) -> bool:
    """Return whether an event is a timer. Timers are not input, and are not counted in the ledger."""
    return isinstance(item, Event) and type(item.data) not in program.inputs


class Timetable:
    """Merge timers into a sequence of events while these are folded.

    Iterate it for the next event or timer, and fold each with `step`. `set_before` are the timers that an
    earlier fold left pending; those that this fold leaves pending, after `watermark`, are in `left`.
    """

    def __init__(
        self,
        program: Program,
        state: Any,
        events: Iterable[tuple[OrderKey, Event]],
        watermark: int,
        set_before: Iterable[Event] = (),
        *,
        timers: Iterable[Handler] | None = None,
    ) -> None:
        self.state = state
        self._program = program
        asked = program.timers if timers is None else timers
        self._timers = [(timer, _find_path(program, timer)) for timer in asked]
        self._shown = {timer.event_type: _find_shape(program, path) for timer, path in self._timers}
        self._events = iter(events)
        self._watermark = watermark
        self._heap: list[tuple[OrderKey, int, int, Event]] = []
        self._pushed = 0
        self._now = NEVER
        self._wakes: dict[Any, int] = {}
        self.left: list[Event] = []
        for event in set_before:
            self._push(event.time, event)

    def __iter__(self) -> Iterator[tuple[OrderKey, Event]]:
        waiting = next(self._events, None)
        last: OrderKey | None = None
        while waiting is not None or self._heap:
            if waiting is not None and not (self._heap and self._heap[0][0] < waiting[0]):
                self._now = waiting[1].time
                yield waiting
                waiting = next(self._events, None)
                continue
            key, _, due, event = heapq.heappop(self._heap)
            if key == last or self._find_due(event) != due:
                continue  # It has fired, or the entry now requests another time.
            last = key
            if waiting is None and self._watermark == FOREVER:
                self._count(event)
            self._now = event.time
            yield key, event

    def step(self, event: Event) -> Outputs:
        """Fold an event into the state, set the timers that it causes, and return the outputs."""
        before = dict(self._find_dues(event))
        self.state, outputs = self._program.initial.step(self.state, event)
        for place, due in self._find_dues(event):
            if due is not None and due != before.get(place):
                self._set(*place, due)
        return outputs

    def set_aside(self, event: Event) -> None:
        """Update the state for an event on which a function raised."""
        self.state = self._program.initial.set_aside(self.state, event)

    def find_set(self) -> Iterator[Event]:
        """Yield the timers after the watermark that the entries of the state request."""
        for timer, path in self._timers:
            first = None if path else self._ask(timer, self._program.init)
            for values, entry in _list_entries(self.state, len(path)):
                due = self._ask(timer, entry)
                if due is not None and due > self._watermark and due != first:
                    yield _make_wake(timer.event_type, due, path, values)

    def _set(self, number: int, values: Values, due: int) -> None:
        timer, path = self._timers[number]
        # A time that has passed fires immediately.
        event = _make_wake(timer.event_type, max(due, self._now), path, values)
        if event.time > self._watermark:
            self.left.append(event)
        else:
            self._push(due, event)

    def _push(self, due: int, event: Event) -> None:
        self._pushed += 1
        key = order_key(event, self._program.ranks)
        heapq.heappush(self._heap, (key, self._pushed, due, event))

    def _handler(self, event: Event) -> Handler:
        return self._program.initial.handlers[type(event.data)]

    def _find_dues(self, event: Event) -> Iterator[tuple[Place, int | None]]:
        """Yield the requested time of each entry that an event may change."""
        handler = self._handler(event)
        for number, (timer, path) in enumerate(self._timers):
            named = list(takewhile(handler.enters.__contains__, path))
            if len(named) < len(path) and not self._reaches_entries(handler, named):
                continue
            values = tuple(getattr(event.data, field) for field in named)
            # A handler that sees several entries may have changed any of them.
            for below, entry in _list_entries(self._find(values), len(path) - len(named)):
                yield (number, (*values, *below)), self._ask(timer, entry)

    def _reaches_entries(self, handler: Handler, named: list[str]) -> bool:
        """Return whether a handler that sees several entries may change them, not only their shared part."""
        return handler.whole or not hasattr(_find_shape(self._program, named), "find_part")

    def _find_due(self, event: Event) -> int | None:
        timer = self._handler(event)
        path = _find_path(self._program, timer)
        entry = self._find(tuple(getattr(event.data, field) for field in path))
        return None if entry is MISSING else self._ask(timer, entry)

    def _find(self, values: Values) -> Any:
        """Return the entry with these keys, or MISSING."""
        entry = self.state
        for value in values:
            if entry is not MISSING:
                entry = entry.get(value, MISSING)
        return entry

    def _ask(self, timer: Handler, entry: Any) -> int | None:
        assert timer.due is not None
        if not timer.expires:
            entry = self._show(timer, entry)
        due = to_time(timer.due(entry))
        if due is not None and (type(due) is not int or not NEVER < due <= FOREVER):
            raise TimerError(
                f"the due of {timer.event_type.__name__} did not return a time",
                where=timer.where,
                expected="a datetime, an integer in the unit of your event times, or None",
                got=repr(due),
            )
        # Timers are events, and events are before FOREVER: the latest timer is one before it.
        return None if due is None else min(due, FOREVER - 1)

    def _show(self, timer: Handler, entry: Any) -> Any:
        """Return an entry as its handlers see it."""
        shape = self._shown[timer.event_type]
        if shape.by is None:
            return entry.state if hasattr(shape, "expire") else entry
        return shape.collapse(entry)

    def _count(self, event: Event) -> None:
        """Raise if timers would never end: at the end of the input all timers fire."""
        data, timer = event.data, self._handler(event)
        name = (timer.event_type, *(getattr(data, f) for f in _find_path(self._program, timer)))
        self._wakes[name] = self._wakes.get(name, 0) + 1
        if self._wakes[name] > MOST_WAKES:
            raise TimerError(
                f"timer {timer.event_type.__name__} never ends",
                where=timer.where,
                expected="due to return None when there is nothing to wait for",
                got=f"{MOST_WAKES:,} timers after the last event, the last one {data!r}",
                cure="return None from due when the entry has no more outputs",
            )


def find_wakes(
    program: Program, stable: Iterable[tuple[OrderKey, Event]], watermark: int
) -> list[tuple[OrderKey, Event]]:
    """Return the timers that fire in a sequential fold, up to a watermark."""
    timetable = Timetable(program, program.init, stable, watermark)
    wakes: list[tuple[OrderKey, Event]] = []
    for key, event in timetable:
        if is_timer(program, event):
            wakes.append((key, event))
        if isinstance(attempt(timetable.step, event), Failed):
            timetable.set_aside(event)
    return wakes


def find_set(program: Program, state: Any, watermark: int) -> list[Event]:
    """Return the pending timers of a state, after a fold up to a watermark.

    All timers up to the watermark have fired. A state without entries may request a time in its initial
    value; that timer fires only after the state has requested another time.
    """
    return list(Timetable(program, state, (), watermark).find_set())


def _make_wake(event_type: EventType, time: int, path: list[str], values: Values) -> Event:
    fields = dict(zip(path, values, strict=True))
    return Event(
        event_type(**{time_field(event_type): write_time(event_type, time)}, **fields), TIMERS
    )


def _find_path(program: Program, timer: Handler) -> list[str]:
    """Return the key fields of a timer's entry, outermost first."""
    path: list[str] = []
    shape: Any = program.initial.shape
    while shape.by is not None and shape.by in timer.enters:
        path.append(shape.by)
        shape = shape.inner
    return path


def _find_shape(program: Program, path: list[str]) -> Any:
    """Return the shape of the entry that a timer sees."""
    shape: Any = program.initial.shape
    for _ in path:
        shape = shape.inner
    return shape


def _list_entries(state: Any, depth: int) -> Iterator[tuple[Values, Any]]:
    if state is MISSING:
        return
    if depth == 0:
        yield (), state
        return
    for key, entry in state.entries().items():
        for values, inner in _list_entries(entry, depth - 1):
            yield (key, *values), inner
