"""Windowed aggregation as a program: panes of the windows of each key, emitted by a trigger.

A program's log has one clock, the `time` of its events. Events are assigned to windows by the field `at`.
If that is the clock itself, events are in the order of time, and a window is complete once the clock has
passed it: nothing is early or late. If it is another field, the clock is the recorded arrival time, and
`delay` is how far the watermark of `at` is behind it; then windows may have early and late panes. Either
way the answer is a function of the log, so a replay gives the same panes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from anabranch.errors import ProgramError
from anabranch.eventtime.windows.panes import (
    NOT_EMITTED,
    RECORDS,
    VALUES,
    Dropped,
    Pane,
    Windowing,
    WindowState,
)
from anabranch.eventtime.windows.trigger_machine import (
    find_next_clock,
    find_next_watermark,
    is_idle,
    take_clock,
    take_elements,
    take_watermark,
)
from anabranch.eventtime.windows.window_types import Assigner
from anabranch.model.dependence import depends
from anabranch.model.events import FOREVER, EventType, check_event_type, field_names, field_types
from anabranch.model.handlers import on
from anabranch.model.locations import locate_caller
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.model.values.durations import SpanInput
from anabranch.model.values.event_times import (
    is_timestamped,
    time_field,
    time_of,
    to_moment,
    to_time,
)
from anabranch.query.join_pairs import check_windows, read_time_span
from anabranch.query.window_outputs import Missed, Result, describe_outputs
from anabranch.state import MapOf
from anabranch.state.combined import Several

Step = tuple[WindowState, tuple[Pane, ...], tuple[Dropped, ...]]
"""The state after a step, the emitted panes, and the dropped elements."""


_BEGINNING = WindowState()


@dataclass(frozen=True)
class Panes:
    """The state of one key's windows. It has no fork: splitting a key requires knowledge of its windows.

    `reads` is the field by which windows are assigned, and its delay behind the clock, as text.
    """

    windowing: Windowing
    reads: str = ""
    by: None = None
    init: WindowState = WindowState()  # noqa: RUF009 - frozen, so one for all will do
    zero: Any = MISSING
    fork: None = None
    join: None = None

    def same(self, a: WindowState, b: WindowState) -> bool:
        """Return whether two states are exactly equal."""
        return a == b

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types of states and outputs, as far as the fold declares them."""
        fold: Any = self.windowing.fold
        starts = (fold.zero, *fold.zero) if isinstance(fold.zero, tuple) else (fold.zero,)
        found = (
            type(start) for start in starts if hasattr(start, "_fields") or is_dataclass(start)
        )
        return (*RECORDS, Result, Missed, *getattr(fold, "records", ()), *found)

    @property
    def meaning(self) -> str:
        """Return the settings that a stored state depends on, as text that is the same in every process."""
        w = self.windowing
        changes = (w.accumulation, w.allowed_lateness, w.output_time, w.closing, w.shares)
        text = f"{w.window} {w.trigger} {' '.join(map(str, changes))} {w.fold} {self.reads}"
        return re.sub(r" at 0x[0-9a-fA-F]+", "", text)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the user's functions, which a stored state depends on too."""
        fold: Any = self.windowing.fold
        found = [getattr(self.windowing.window, "function", None), fold.add, fold.join]
        for part in getattr(fold, "parts", {}).values():
            state, read = part if isinstance(part, tuple) else (part, None)
            found += [read, getattr(state, "add", None), getattr(state, "join", None)]
        # Functions of anabranch are identified by name; their code may change in the next release.
        return tuple(
            function
            for function in found
            if callable(function) and not str(function.__module__).startswith("anabranch.")
        )


class Windows:
    """The handlers of a program that applies a windowing to the log of one key."""

    def __init__(
        self,
        windowing: Windowing,
        key: str | None,
        at: str,
        delay: int | None,
        *,
        timestamped: bool = False,
    ) -> None:
        self.windowing = windowing
        self.timestamped = timestamped
        self.key = key
        self.at = at
        self.delay = delay
        # Output and update of an event are one step; its result is cached for the second of them.
        self._last: tuple[Any, Any, Step] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(Windows, timestamped=self.timestamped)
        return made, (self.windowing, self.key, self.at, self.delay)

    def add(self, state: WindowState, event: Any) -> Any:
        """Return the state after an event."""
        return self._keep(self._step(state, event, brings=True)[0])

    def emit_on_event(self, state: WindowState, event: Any) -> list[Result | Missed]:
        """Return the outputs of the windows on an event."""
        return self._describe(event, *self._step(state, event, brings=True)[1:])

    def wake(self, state: WindowState, timer: Any) -> Any:
        """Return the state after a timer."""
        return self._keep(self._step(state, timer, brings=False)[0])

    def emit_on_timer(self, state: WindowState, timer: Any) -> list[Result | Missed]:
        """Return the outputs of the windows on a timer."""
        return self._describe(timer, *self._step(state, timer, brings=False)[1:])

    def due(self, state: WindowState) -> int | None:
        """Return the clock time of the next watermark or processing time that a window waits for."""
        watermark = find_next_watermark(self.windowing, state)
        times = [find_next_clock(self.windowing, state)]
        if watermark is not None:
            times.append(min(FOREVER, watermark + self._behind()))
        return min((time for time in times if time is not None), default=None)

    def _behind(self) -> int:
        return 0 if self.delay is None else self.delay

    def _keep(self, state: WindowState) -> Any:
        # The state of an idle key equals the initial state, and is not stored.
        return _BEGINNING if is_idle(self.windowing, state) else state

    def _describe(
        self, event: Any, panes: tuple[Pane, ...], dropped: tuple[Dropped, ...]
    ) -> list[Result | Missed]:
        key = None if self.key is None else getattr(event, self.key)
        results = [_describe_pane(self.windowing, key, pane) for pane in panes]
        missed = (_describe_missed(self.windowing, key, one) for one in dropped)
        outputs: list[Result | Missed] = [*results, *missed]
        return [_show_moments(one) for one in outputs] if self.timestamped else outputs

    def _step(self, state: WindowState, event: Any, *, brings: bool) -> Step:
        if self._last is not None and self._last[0] is state and self._last[1] is event:
            return self._last[2]
        done = self._take(state, event, brings=brings)
        self._last = (state, event, done)
        return done

    def _take(self, state: WindowState, event: Any, *, brings: bool) -> Step:
        windowing, time = self.windowing, time_of(event)
        # Once the clock has passed a time, elements after that time minus the delay are on time. A timer
        # is processed after its time, an event before, so an event exactly `delay` behind is on time.
        reached = time - self._behind() - brings
        if not brings and time >= FOREVER - 1:
            # No more events can arrive, so windows without an end are complete, and closed.
            reached = FOREVER
        ticked = take_clock(windowing, state, time)
        moved = take_watermark(windowing, ticked.state, reached)
        panes, dropped = ticked.panes + moved.panes, ticked.dropped + moved.dropped
        if not brings:
            return moved.state, panes, dropped
        added = take_elements(windowing, moved.state, [(to_time(getattr(event, self.at)), event)])
        return added.state, panes + added.panes, dropped + added.dropped


def aggregate(
    event_type: EventType,
    over: Windowing | Assigner,
    *,
    per: str | None = None,
    at: str | None = None,
    delay: SpanInput | None = None,
    name: str = "windows",
    **folds: Any,
) -> Program:
    """Return a program that aggregates events in windows: `aggregate(Bid, Tumbling("1 min"), n=Count())`.

    Sizes of windows are durations if the time of the event type is a datetime, and integers in the unit
    of its times if it is an int. `over` is a window, or a `Windowing` with its trigger and other options.
    With `per`, each value of that field has separate windows. Each of `folds` is a ready-made state or a
    `Fold` of the events, or a pair of it and its input, a field or a function of the event:
    `top=(Max(), "price")`. Without `folds`, the value of a window is its events.

    With `at`, events are assigned to windows by that field, and the clock is the time of their arrival;
    `delay` is how far an event may be behind the clock and still be on time.
    """
    where = locate_caller()
    check_event_type(event_type, where)
    _check_per(per, event_type, where)
    clock, stamped = time_field(event_type), is_timestamped(event_type)
    at = clock if at is None else at
    _check_at(at, event_type, where)
    behind = _read_delay(at, delay, event_type, where)
    windowing = _read_windowing(over, folds, where)
    _check_fields(windowing.fold, event_type, where)
    check_windows(windowing, event_type, where)
    windows = Windows(windowing, per, at, behind, timestamped=stamped)
    timer = _make_timer(event_type, per)
    shape: Any = Panes(windowing, f"{at} {behind}")
    same = () if per is None else (per,)
    program = Program(
        on(event_type, update=windows.add, output=windows.emit_on_event),
        on(timer, due=windows.due, update=windows.wake, output=windows.emit_on_timer),
        depends(event_type, event_type, same=same),
        state=shape if per is None else MapOf(shape, by=per, sparse=True),
        outputs=describe_outputs(event_type, windowing, per, behind),
        name=name,
    )
    object.__setattr__(program, "where", where)
    return program


def _make_timer(event_type: EventType, per: str | None) -> EventType:
    fields = [("time", int)]
    if per is not None:
        fields.append((per, field_types(event_type)[per]))
    made: EventType = NamedTuple(f"{event_type.__name__}Window", fields)  # type: ignore[misc]
    return made


def _read_windowing(over: Any, folds: dict[str, Any], where: Any) -> Windowing:
    windowing = over if isinstance(over, Windowing) else Windowing(over)
    if folds and windowing.fold is not VALUES:
        raise ProgramError(
            "the fold of the windows is given twice",
            where=where,
            expected="a Windowing without fold=, or no other folds",
            got=f"fold={windowing.fold!r} and {', '.join(folds)}",
            cure="give the windowing's fold as one of the others, with a name",
        )
    if folds:
        windowing = replace(windowing, fold=Several(**folds))
    if windowing.fold.zero is MISSING:
        raise ProgramError(
            "windows start empty, and a fold has no zero",
            where=where,
            expected="states with a zero",
            got=repr(windowing.fold),
        )
    _check_start(windowing.fold, where)
    return windowing


def _check_fields(fold: Any, event_type: EventType, where: Any) -> None:
    """Raise an error for a fold whose input is a field that events do not have."""
    parts = getattr(fold, "parts", {})
    for name, part in parts.items():
        field = part[1] if isinstance(part, tuple) else None
        # A property of the event's class can be read like a field.
        if (
            isinstance(field, str)
            and field not in field_names(event_type)
            and not hasattr(event_type, field)
        ):
            raise ProgramError(
                f"{event_type.__name__} has no field {field!r} as input of {name!r}",
                where=where,
                expected=f"one of its fields: {', '.join(field_names(event_type))}",
                got=f"{name}=({part[0]!r}, {field!r})",
            )


def _check_start(fold: Any, where: Any) -> None:
    """Raise an error for a fold with its own start: when two windows merge, it would count twice."""
    init = getattr(fold, "init", MISSING)
    if init is MISSING or fold.same(init, fold.zero):
        return
    raise ProgramError(
        "windows start empty, and a fold has its own start",
        where=where,
        expected=f"folds that start from {fold.zero!r}",
        got=f"a start of {init!r}",
        cure="leave out start=, and add it to the values of the results",
    )


def _read_value(windowing: Windowing, folded: Any) -> Any:
    read = getattr(windowing.fold, "value", None)
    return folded if read is None else read(folded)


def _describe_pane(windowing: Windowing, key: Any, pane: Pane) -> Result:
    return Result(
        key, pane.window.start, pane.window.end, _read_value(windowing, pane.value), pane.time,
        pane.timing, pane.index, pane.nonspeculative_index, pane.first, pane.last, pane.op,
    )  # fmt: skip


def _describe_missed(windowing: Windowing, key: Any, dropped: Dropped) -> Missed:
    start, end = dropped.window or (None, None)
    # For a window that was closed without a result, this is the value of the window, not an event.
    closed = dropped.reason == NOT_EMITTED
    value = _read_value(windowing, dropped.value) if closed else dropped.value
    return Missed(key, dropped.time, value, start, end, dropped.reason, dropped.events)


def _show_moments(output: Result | Missed) -> Result | Missed:
    """Return an output with its times as datetimes."""
    times: Any = {name: getattr(output, name) for name in ("time", "start", "end")}
    shown: Any = {n: to_moment(t) for n, t in times.items() if t is not None}
    return output._replace(**shown)


def _check_per(per: str | None, event_type: EventType, where: Any) -> None:
    # With one window per time, each has one instant only; and a timer's fields must start with a letter.
    fields = [
        name
        for name in field_names(event_type)
        if name != time_field(event_type) and name[0] != "_"
    ]
    if per is not None and per not in fields:
        raise ProgramError(
            f"{event_type.__name__} can't have windows per {per!r}",
            where=where,
            expected=f"one of its fields, not its time nor one with _ in front: {', '.join(fields)}",
            got=repr(per),
        )


def _check_at(at: str, event_type: EventType, where: Any) -> None:
    kinds = field_types(event_type)
    kind = datetime if is_timestamped(event_type) else int
    fields = [field for field in kinds if kinds[field] in (kind, Any)]
    if at not in fields:
        raise ProgramError(
            f"windows of {event_type.__name__} can't be assigned by {at!r}",
            where=where,
            expected=f"at= one of its fields of type {kind.__name__}: {', '.join(fields)}",
            got=repr(at),
        )


def _read_delay(at: str, delay: SpanInput | None, event_type: EventType, where: Any) -> int | None:
    by_clock = at == time_field(event_type)
    if by_clock != (delay is None):
        raise ProgramError(
            "windows of the clock itself have no delay" if by_clock else "the delay is missing",
            where=where,
            expected="at=, the field that assigns windows, and delay=, how far it may be behind the clock",
            got=f"at={at!r}, delay={delay!r}",
            cure="leave out both if windows use the event time; a channel's lateness= orders its events",
        )
    if delay is None:
        return None
    return read_time_span("the delay of windows", delay, event_type, where, least=0)
