"""Windowed aggregation as a program: what each window of each key holds, said by its trigger.

A program's log has one clock, the `time` of its events. Windows are cut by the field `at`. If that is
the clock itself, events come in the order of time, and a window is complete once the clock has passed
it: nothing is early or late. If it is another field, the clock says when events came, as it was
recorded, and `delay` how far the watermark of `at` lies behind it; then windows may speak early, and
late. Either way the answer is a function of the log, so a replay gives the same panes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from anabranch.errors import ProgramError
from anabranch.eventtime.windows.panes import RECORDS, VALUES, Dropped, Pane, Windowing, WindowState
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
"""The state after a step, what was said, and what was not taken."""


_BEGINNING = WindowState()


@dataclass(frozen=True)
class Panes:
    """The state of one key's windows. It has no fork: whoever splits a key must know its windows.

    `reads` says by which field, and how far behind the clock, windows are cut.
    """

    windowing: Windowing
    reads: str = ""
    by: None = None
    init: WindowState = WindowState()  # noqa: RUF009 - frozen, so one for all will do
    zero: Any = MISSING
    fork: None = None
    join: None = None

    def same(self, a: WindowState, b: WindowState) -> bool:
        """Compare exactly."""
        return a == b

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records of states and outputs, as far as the fold tells of them."""
        fold: Any = self.windowing.fold
        starts = (fold.zero, *fold.zero) if isinstance(fold.zero, tuple) else (fold.zero,)
        found = (
            type(start) for start in starts if hasattr(start, "_fields") or is_dataclass(start)
        )
        return (*RECORDS, Result, Missed, *getattr(fold, "records", ()), *found)

    @property
    def meaning(self) -> str:
        """Return what a stored state depends on, as text that is the same in every process."""
        w = self.windowing
        changes = (w.accumulation, w.lateness, w.output_time, w.closing, w.shares)
        text = f"{w.window} {w.trigger} {' '.join(map(str, changes))} {w.fold} {self.reads}"
        return re.sub(r" at 0x[0-9a-fA-F]+", "", text)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the user's own functions, which a stored state depends on too."""
        fold: Any = self.windowing.fold
        found = [getattr(self.windowing.window, "function", None), fold.add, fold.join]
        for part in getattr(fold, "parts", {}).values():
            state, read = part if isinstance(part, tuple) else (part, None)
            found += [read, getattr(state, "add", None), getattr(state, "join", None)]
        # What is ours is known by its name, and may be written better in the next release.
        return tuple(
            function
            for function in found
            if callable(function) and not str(function.__module__).startswith("anabranch.")
        )


class Windows:
    """A windowing at work on the log of one key: the handlers of a program."""

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
        # What an event says and what it changes come of one step: the second to ask is told.
        self._last: tuple[Any, Any, Step] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(Windows, timestamped=self.timestamped)
        return made, (self.windowing, self.key, self.at, self.delay)

    def add(self, state: WindowState, event: Any) -> Any:
        """Return the state after an event."""
        return self._keep(self._step(state, event, brings=True)[0])

    def say(self, state: WindowState, event: Any) -> list[Result | Missed]:
        """Return what an event lets the windows say."""
        return self._describe(event, *self._step(state, event, brings=True)[1:])

    def wake(self, state: WindowState, timer: Any) -> Any:
        """Return the state after being woken."""
        return self._keep(self._step(state, timer, brings=False)[0])

    def emit(self, state: WindowState, timer: Any) -> list[Result | Missed]:
        """Return what the windows say on being woken."""
        return self._describe(timer, *self._step(state, timer, brings=False)[1:])

    def due(self, state: WindowState) -> int | None:
        """Return when the clock reaches the next watermark, or reading, that a window waits for."""
        watermark = find_next_watermark(self.windowing, state)
        times = [find_next_clock(self.windowing, state)]
        if watermark is not None:
            times.append(min(FOREVER, watermark + self._behind()))
        return min((time for time in times if time is not None), default=None)

    def _behind(self) -> int:
        return 0 if self.delay is None else self.delay

    def _keep(self, state: WindowState) -> Any:
        # A key with nothing left to say is as it began, and need not be kept.
        return _BEGINNING if is_idle(self.windowing, state) else state

    def _describe(
        self, event: Any, panes: tuple[Pane, ...], dropped: tuple[Dropped, ...]
    ) -> list[Result | Missed]:
        key = None if self.key is None else getattr(event, self.key)
        results = [_describe_pane(self.windowing, key, pane) for pane in panes]
        missed = (_describe_missed(self.windowing, key, one) for one in dropped)
        emitted: list[Result | Missed] = [*results, *missed]
        return [_show_moments(one) for one in emitted] if self.timestamped else emitted

    def _step(self, state: WindowState, event: Any, *, brings: bool) -> Step:
        if self._last is not None and self._last[0] is state and self._last[1] is event:
            return self._last[2]
        done = self._take(state, event, brings=brings)
        self._last = (state, event, done)
        return done

    def _take(self, state: WindowState, event: Any, *, brings: bool) -> Step:
        windowing, time = self.windowing, time_of(event)
        # When a time is over, what is still on time lies after it, less the delay. A timer comes then;
        # an event comes before, so one exactly `delay` behind the clock is on time.
        reached = time - self._behind() - brings
        if not brings and time >= FOREVER - 1:
            # No event comes any more, so windows without an end are complete, and closed.
            reached = FOREVER
        ticked = take_clock(windowing, state, time)
        moved = take_watermark(windowing, ticked.state, reached)
        panes, dropped = ticked.panes + moved.panes, ticked.dropped + moved.dropped
        if not brings:
            return moved.state, panes, dropped
        emitted = take_elements(windowing, moved.state, [(to_time(getattr(event, self.at)), event)])
        return emitted.state, panes + emitted.panes, dropped + emitted.dropped


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
    """Return the program that says what each window holds: `aggregate(Bid, Tumbling("1 min"), n=Count())`.

    Sizes of windows are durations where the time of the event type is a datetime, and integers in the
    unit of its times where that is an int. `over` is a window, or a `Windowing` with its trigger and the rest. With `per`, each value of that
    field has windows of its own. Each of `folds` is a ready-made state or a `Fold`, fed with the event;
    or a pair of it and the field, or function of the event, that it is fed with:
    `top=(Max(), "price")`. Without any, windows hold the events themselves.

    With `at`, windows are cut by another field than the clock, which then says when events came, and
    `delay` is how far an event may lie behind the clock and still be on time.
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
        on(event_type, update=windows.add, output=windows.say),
        on(timer, due=windows.due, update=windows.wake, output=windows.emit),
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
            "windows have one fold",
            where=where,
            expected="a Windowing without fold=, or nothing but it",
            got=f"fold={windowing.fold!r} and {', '.join(folds)}",
            cure="write the windowing's fold as one of the others, under a name",
        )
    if folds:
        windowing = replace(windowing, fold=Several(**folds))
    if windowing.fold.zero is MISSING:
        raise ProgramError(
            "windows start from nothing, and a fold has no zero",
            where=where,
            expected="states with a zero",
            got=repr(windowing.fold),
        )
    _check_start(windowing.fold, where)
    return windowing


def _check_fields(fold: Any, event_type: EventType, where: Any) -> None:
    """Refuse a fold that is fed with a field that events do not have."""
    parts = getattr(fold, "parts", {})
    for name, part in parts.items():
        field = part[1] if isinstance(part, tuple) else None
        # A property of the event's class is read as a field is.
        if (
            isinstance(field, str)
            and field not in field_names(event_type)
            and not hasattr(event_type, field)
        ):
            raise ProgramError(
                f"{event_type.__name__} has no field {field!r} to source {name!r} with",
                where=where,
                expected=f"one of its fields: {', '.join(field_names(event_type))}",
                got=f"{name}=({part[0]!r}, {field!r})",
            )


def _check_start(fold: Any, where: Any) -> None:
    """Refuse a start that windows would leave out: where two of them merge, it would count twice."""
    init = getattr(fold, "init", MISSING)
    if init is MISSING or fold.same(init, fold.zero):
        return
    raise ProgramError(
        "windows start from nothing, and a fold has a start of its own",
        where=where,
        expected=f"folds that start from {fold.zero!r}",
        got=f"a start of {init!r}",
        cure="leave out start=, and add it to what windows say",
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
    # What was never said is not an event, but what the window held.
    deferred = dropped.reason == "deferred"
    value = _read_value(windowing, dropped.value) if deferred else dropped.value
    return Missed(key, dropped.time, value, start, end, dropped.reason, dropped.events)


def _show_moments(emitted: Result | Missed) -> Result | Missed:
    """Return what is said with its times as datetimes."""
    times: Any = {name: getattr(emitted, name) for name in ("time", "start", "end")}
    shown: Any = {n: to_moment(t) for n, t in times.items() if t is not None}
    return emitted._replace(**shown)


def _check_per(per: str | None, event_type: EventType, where: Any) -> None:
    # Windows per time would hold an instant each; and a timer's fields start with a letter.
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
            f"windows of {event_type.__name__} can't be cut at {at!r}",
            where=where,
            expected=f"at= one of its fields of type {kind.__name__}: {', '.join(fields)}",
            got=repr(at),
        )


def _read_delay(at: str, delay: SpanInput | None, event_type: EventType, where: Any) -> int | None:
    by_clock = at == time_field(event_type)
    if by_clock != (delay is None):
        raise ProgramError(
            "windows by the clock itself have no delay" if by_clock else "the delay is missing",
            where=where,
            expected="at=, the field by which windows are cut, and delay=, how far it may lie behind",
            got=f"at={at!r}, delay={delay!r}",
            cure="leave both out if events come in the order of time; a channel's lateness sees to that",
        )
    if delay is None:
        return None
    return read_time_span("the delay of windows", delay, event_type, where, least=0)
