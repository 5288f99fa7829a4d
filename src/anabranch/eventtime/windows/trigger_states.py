"""Trigger states: the execution of a trigger for one window, as functions from state to state.

A state consists of plain tuples of numbers and booleans, nested as the trigger is:

    DefaultTrigger, Always, Never   ()
    AfterCount                      (events seen,)
    AfterProcessingTime             (when to fire, or None before the first event,)
    AfterWatermark                  (whether the end has passed, state of early, state of late)
    Repeatedly                      the state of the inner trigger
    AfterAny, AfterAll, OrFinally   the states of the parts
    AfterEach                       (index of the current part, the states of the parts)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.windows.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
)
from anabranch.eventtime.windows.window_types import Window
from anabranch.model.events import FOREVER

Running = tuple[Any, ...]
"""The state of a trigger for one window."""


class Moment(NamedTuple):
    """The inputs of a trigger: its window, the watermark, and the recorded clock."""

    window: Window
    watermark: int
    clock: int | None

    @property
    def complete(self) -> bool:
        """Return whether the watermark has passed the window's end."""
        return self.watermark >= min(self.window.last, FOREVER)


def begin(trigger: Trigger) -> Running:
    """Return the initial state of a trigger."""
    match trigger:
        case AfterCount():
            return (0,)
        case AfterProcessingTime():
            return (None,)
        case AfterWatermark(early, late):
            return (False, begin(early) if early else (), begin(late) if late else ())
        case Repeatedly(inner):
            return begin(inner)
        case AfterEach(parts):
            return (0, tuple(map(begin, parts)))
        case _:
            return tuple(map(begin, parts_of(trigger)))


def see(trigger: Trigger, running: Running, moment: Moment) -> Running:
    """Return the state after one more event in the window."""
    match trigger:
        case AfterCount():
            return (running[0] + 1,)
        case AfterProcessingTime(delay):
            return running if running[0] is not None else (_read_clock(moment) + delay,)
        case AfterWatermark(early, late):
            passed, before, after = running
            if passed and late:
                return (passed, before, see(late, after, moment))
            return (passed, see(early, before, moment) if early else before, after)
        case Repeatedly(inner):
            return see(inner, running, moment)
        case AfterEach(parts):
            turn, states = running
            if turn == len(parts):
                return running
            return (turn, _replace(states, turn, see(parts[turn], states[turn], moment)))
        case _:
            parts = parts_of(trigger)
            return tuple(see(part, s, moment) for part, s in zip(parts, running, strict=True))


def is_ready(trigger: Trigger, running: Running, moment: Moment) -> bool:
    """Return whether the trigger would fire now."""
    match trigger:
        case DefaultTrigger():
            return moment.complete
        case Always():
            return True
        case Never():
            return False
        case AfterCount(n):
            return bool(running[0] >= n)
        case AfterProcessingTime():
            return running[0] is not None and _read_clock(moment) >= running[0]
        case AfterWatermark(early, late):
            passed, before, after = running
            if passed and late:
                return is_ready(late, after, moment)
            return moment.complete or (early is not None and is_ready(early, before, moment))
        case Repeatedly(inner):
            return is_ready(inner, running, moment)
        case AfterEach(parts):
            turn, states = running
            return turn < len(parts) and is_ready(parts[turn], states[turn], moment)
        case AfterAll(parts):
            return all(is_ready(part, s, moment) for part, s in zip(parts, running, strict=True))
        case _:
            parts = parts_of(trigger)
            return any(is_ready(part, s, moment) for part, s in zip(parts, running, strict=True))


def fire(trigger: Trigger, running: Running, moment: Moment) -> tuple[Running, bool]:
    """Return the state after firing a trigger that is ready, and whether it has finished."""
    match trigger:
        case AfterCount() | AfterProcessingTime():
            return running, True
        case AfterWatermark(early, late):
            passed, before, after = running
            if passed and late:
                return (passed, before, fire(late, after, moment)[0]), False
            if moment.complete:
                return (True, before, after), late is None
            assert early is not None
            return (passed, fire(early, before, moment)[0], after), False
        case Repeatedly(inner):
            changed, finished = fire(inner, running, moment)
            return (begin(inner) if finished else changed), False
        case AfterEach(parts):
            turn, states = running
            changed, finished = fire(parts[turn], states[turn], moment)
            turn += finished
            states = _replace(states, running[0], changed)
            return (turn, states), turn == len(parts)
        case AfterAny(parts) | AfterAll(parts):
            changed, ends = _fire_parts(parts, running, moment)
            return changed, any(ends) if isinstance(trigger, AfterAny) else all(ends)
        case OrFinally(main, until):
            over = is_ready(until, running[1], moment)
            changed, ends = _fire_parts((main, until), running, moment)
            return changed, over or any(ends)
    return running, False


def merge(trigger: Trigger, states: Sequence[Running], moment: Moment) -> Running:
    """Return the state of a window that was merged from several windows."""
    match trigger:
        case AfterCount():
            return (sum(state[0] for state in states),)
        case AfterProcessingTime():
            return (min((state[0] for state in states if state[0] is not None), default=None),)
        case AfterWatermark(early, late):
            # A window whose end has moved past the watermark is not late any more.
            passed = moment.complete and any(state[0] for state in states)
            before = merge(early, [state[1] for state in states], moment) if early else ()
            if not late:
                return (passed, before, ())
            after = merge(late, [state[2] for state in states], moment) if passed else begin(late)
            return (passed, before, after)
        case Repeatedly(inner):
            return merge(inner, states, moment)
        case AfterEach(parts):
            turn = max(state[0] for state in states)
            return (turn, _merge_parts(parts, [state[1] for state in states], moment))
        case _:
            return _merge_parts(parts_of(trigger), states, moment)


def find_alarms(trigger: Trigger, running: Running) -> Iterator[int]:
    """Yield the times of the recorded clock at which the trigger must be evaluated."""
    match trigger:
        case AfterProcessingTime():
            if running[0] is not None:
                yield running[0]
        case AfterWatermark(early, late):
            passed, before, after = running
            part, state = (late, after) if passed and late else (early, before)
            if part:
                yield from find_alarms(part, state)
        case Repeatedly(inner):
            yield from find_alarms(inner, running)
        case AfterEach(parts):
            turn, states = running
            if turn < len(parts):
                yield from find_alarms(parts[turn], states[turn])
        case _:
            for part, state in zip(parts_of(trigger), running, strict=False):
                yield from find_alarms(part, state)


def parts_of(trigger: Trigger) -> tuple[Trigger, ...]:
    """Return the parts of a trigger that run at the same time."""
    match trigger:
        case AfterAny(parts) | AfterAll(parts):
            return parts
        case OrFinally(main, until):
            return (main, until)
    return ()


def _fire_parts(
    parts: Sequence[Trigger], states: Running, moment: Moment
) -> tuple[Running, list[bool]]:
    """Fire the parts that are ready; return the states, and whether each fired part finished."""
    changed, ends = list(states), []
    for place, (part, state) in enumerate(zip(parts, states, strict=True)):
        if is_ready(part, state, moment):
            changed[place], finished = fire(part, state, moment)
            ends.append(finished)
    return tuple(changed), ends


def _merge_parts(parts: Sequence[Trigger], states: Sequence[Running], moment: Moment) -> Running:
    return tuple(
        merge(part, [state[place] for state in states], moment) for place, part in enumerate(parts)
    )


def _replace(states: Running, place: int, state: Running) -> Running:
    return (*states[:place], state, *states[place + 1 :])


def _read_clock(moment: Moment) -> int:
    if moment.clock is None:
        raise InputError(
            "a trigger reads the clock before the first clock step",
            expected="a clock step before the first event",
            got=f"an event in window {moment.window}",
            cure="record the clock first, or use a trigger without AfterProcessingTime",
        )
    return moment.clock
