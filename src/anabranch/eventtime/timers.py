"""Timers: events that the state itself requests.

`due` returns the next time at which a state, or an entry of it, requests a timer event. It is a function
of the state alone, so timers need no storage of their own, and every runtime that folds the same events
fires the same timers at the same times. Each time that `due` returns fires once: at that time, after all
events up to it, or immediately if the time has passed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from anabranch.errors import AnabranchError
from anabranch.eventtime.channels import NEVER
from anabranch.model.events import FOREVER, Event, EventType, Item, field_names
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


class _Request(NamedTuple):
    """A timer of a program: its index, the path and shape of its entry, and how its events are made."""

    number: int
    timer: Handler
    path: tuple[str, ...]
    shape: Any
    find_values: Callable[[Any], Values]
    make_wake: Callable[[int, Values], Event]


class _Asked(NamedTuple):
    """A timer whose entries an event of some type may change: the keys that it names, and the levels below."""

    request: _Request
    find_values: Callable[[Any], Values]
    depth: int


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
        self._initial = program.initial
        asked = program.timers if timers is None else timers
        self._requests = [_prepare(program, n, timer) for n, timer in enumerate(asked)]
        self._asked: dict[EventType, list[_Asked]] = {}
        # The requested time of each entry after its last event.
        self._known: dict[Place, tuple[Any, int | None]] = {}
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
        heap = self._heap
        while waiting is not None or heap:
            if waiting is not None and not (heap and heap[0][0] < waiting[0]):
                self._now = waiting[0][0]
                yield waiting
                waiting = next(self._events, None)
                continue
            key, _, due, event = heapq.heappop(heap)
            if key == last or self._find_due(event) != due:
                continue  # It has fired, or the entry now requests another time.
            last = key
            if waiting is None and self._watermark == FOREVER:
                self._count(event)
            self._now = key[0]
            yield key, event

    def step(self, event: Event) -> Outputs:
        """Fold an event into the state, set the timers that it causes, and return the outputs."""
        kind = type(event.data)
        asked = self._asked.get(kind)
        if asked is None:
            asked = self._asked[kind] = self._list_asked(kind)
        if not asked:
            self.state, outputs = self._initial.step(self.state, event)
            return outputs
        if len(asked) == 1 and asked[0].depth == 0:
            return self._step_one(asked[0], event)
        self._known.clear()  # A handler that sees several entries may have changed any of them.
        before = dict(self._find_dues(asked, event))
        self.state, outputs = self._initial.step(self.state, event)
        for (number, values), due in self._find_dues(asked, event):
            if due is not None and due != before.get((number, values)):
                self._set(self._requests[number], values, due)
        return outputs

    def _step_one(self, asked: _Asked, event: Event) -> Outputs:
        """Fold an event that can change the time of one entry only."""
        request, find_values, _ = asked
        values = find_values(event.data)
        place = (request.number, values)
        entry, before = self._find(values), None
        known = self._known.pop(place, None)
        if known is not None and known[0] is entry:
            before = known[1]
        elif entry is not MISSING:
            before = self._ask(request, entry)
        self.state, outputs = self._initial.step(self.state, event)
        entry = self._find(values)
        if entry is not MISSING:
            due = self._ask(request, entry)
            self._known[place] = (entry, due)
            if due is not None and due != before:
                self._set(request, values, due)
        return outputs

    def set_aside(self, event: Event) -> None:
        """Update the state for an event on which a function raised."""
        self._known.clear()
        self.state = self._initial.set_aside(self.state, event)

    def find_set(self) -> Iterator[Event]:
        """Yield the timers after the watermark that the entries of the state request."""
        for request in self._requests:
            path = request.path
            first = None if path else self._ask(request, self._program.init)
            for values, entry in _list_entries(self.state, len(path)):
                due = self._ask(request, entry)
                if due is not None and due > self._watermark and due != first:
                    yield request.make_wake(due, values)

    def _set(self, request: _Request, values: Values, due: int) -> None:
        # A time that has passed fires immediately.
        event = request.make_wake(max(due, self._now), values)
        if event.time > self._watermark:
            self.left.append(event)
        else:
            self._push(due, event)

    def _push(self, due: int, event: Event) -> None:
        self._pushed += 1
        key = order_key(event, self._program.ranks)
        heapq.heappush(self._heap, (key, self._pushed, due, event))

    def _list_asked(self, kind: EventType) -> list[_Asked]:
        """Return the timers whose entries an event of a type may change."""
        handler = self._initial.handlers[kind]
        found = []
        for request in self._requests:
            named = tuple(takewhile(handler.enters.__contains__, request.path))
            depth = len(request.path) - len(named)
            if depth == 0 or self._reaches_entries(handler, named):
                found.append(_Asked(request, _prepare_values(named), depth))
        return found

    def _find_dues(
        self, asked: Iterable[_Asked], event: Event
    ) -> Iterator[tuple[Place, int | None]]:
        """Yield the requested time of each entry that an event may change."""
        for request, find_values, depth in asked:
            values = find_values(event.data)
            # A handler that sees several entries may have changed any of them.
            for below, entry in _list_entries(self._find(values), depth):
                yield (request.number, (*values, *below)), self._ask(request, entry)

    def _reaches_entries(self, handler: Handler, named: tuple[str, ...]) -> bool:
        """Return whether a handler that sees several entries may change them, not only their shared part."""
        return handler.whole or not hasattr(_find_shape(self._program, named), "find_part")

    def _find_due(self, event: Event) -> int | None:
        kind = type(event.data)
        request = next(one for one in self._requests if one.timer.event_type is kind)
        values = request.find_values(event.data)
        entry = self._find(values)
        if entry is MISSING:
            return None
        known = self._known.get((request.number, values))
        return known[1] if known and known[0] is entry else self._ask(request, entry)

    def _find(self, values: Values) -> Any:
        """Return the entry with these keys, or MISSING."""
        entry = self.state
        for value in values:
            if entry is not MISSING:
                entry = entry.get(value, MISSING)
        return entry

    def _ask(self, request: _Request, entry: Any) -> int | None:
        timer = request.timer
        assert timer.due is not None
        due = timer.due(entry if timer.expires else _show(request.shape, entry))
        if due is None:
            return None
        if type(due) is not int:
            due = to_time(due)
        if type(due) is not int or not NEVER < due <= FOREVER:
            raise TimerError(
                f"the due of {timer.event_type.__name__} did not return a time",
                where=timer.where,
                expected="a datetime, an integer in the unit of your event times, or None",
                got=repr(due),
            )
        # Timers are events, and events are before FOREVER: the latest timer is one before it.
        return due if due < FOREVER else FOREVER - 1

    def _count(self, event: Event) -> None:
        """Raise if timers would never end: at the end of the input all timers fire."""
        data = event.data
        timer = self._initial.handlers[type(data)]
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


def _prepare(program: Program, number: int, timer: Handler) -> _Request:
    path = tuple(_find_path(program, timer))
    shape = _find_shape(program, path)
    make_wake = _prepare_wake(timer.event_type, path)
    return _Request(number, timer, path, shape, _prepare_values(path), make_wake)


def _prepare_values(fields: tuple[str, ...]) -> Callable[[Any], Values]:
    """Return a function from an event's data to the values of some fields, as a tuple."""
    if not fields:
        return lambda data: ()
    read = attrgetter(*fields)
    return read if len(fields) > 1 else lambda data: (read(data),)


def _prepare_wake(event_type: EventType, path: tuple[str, ...]) -> Callable[[int, Values], Event]:
    """Return a function from a time and the keys of an entry to a timer."""
    first = time_field(event_type)
    if field_names(event_type) == (first, *path):
        return lambda time, values: Event(event_type(write_time(event_type, time), *values), TIMERS)

    def make_wake(time: int, values: Values) -> Event:
        fields = dict(zip(path, values, strict=True))
        return Event(event_type(**{first: write_time(event_type, time)}, **fields), TIMERS)

    return make_wake


def _show(shape: Any, entry: Any) -> Any:
    """Return an entry as its handlers see it."""
    if shape.by is None:
        return entry.state if hasattr(shape, "expire") else entry
    return shape.collapse(entry)


def _find_path(program: Program, timer: Handler) -> list[str]:
    """Return the key fields of a timer's entry, outermost first."""
    path: list[str] = []
    shape: Any = program.initial.shape
    while shape.by is not None and shape.by in timer.enters:
        path.append(shape.by)
        shape = shape.inner
    return path


def _find_shape(program: Program, path: Iterable[str]) -> Any:
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
