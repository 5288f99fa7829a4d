"""The trigger machine: a fold for one key, from bundles of events, watermarks and clock steps to panes.

Panes depend on nothing else, so a replay of a recorded log of these steps gives the same panes. The end
of the input is a watermark at `FOREVER`. Triggers are evaluated once for each bundle, when the watermark
passes a window's end, and when the clock reaches a time that they wait for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

from anabranch.eventtime.windows import shared_slices
from anabranch.eventtime.windows.panes import (
    NOT_EMITTED,
    Dropped,
    Pane,
    StepOutcome,
    WindowEntry,
    Windowing,
    WindowSlice,
    WindowState,
)
from anabranch.eventtime.windows.trigger_states import (
    Moment,
    begin,
    find_alarms,
    fire,
    is_ready,
    merge,
    see,
)
from anabranch.eventtime.windows.window_types import Window, is_expired, merge_windows
from anabranch.model.events import FOREVER


class Given(NamedTuple):
    """An event that was assigned to a window, and its position within the key."""

    position: int
    time: int
    value: Any


def take_elements(
    windowing: Windowing, state: WindowState, pairs: Iterable[tuple[int, Any]]
) -> StepOutcome:
    """Process a bundle of events, each a time and a value."""
    state, given, dropped = _assign(windowing, state, pairs)
    known = {held.window: held for held in state.windows}
    panes: list[Pane] = []
    if windowing.window.merging and not given.keys() <= known.keys():
        known, given, merged = _merge_known(windowing, state, known, given)
        panes += merged.panes
        dropped += merged.dropped
    for window in sorted(given, key=_by_end):
        held = known.get(window) or WindowEntry(
            window, windowing.fold.zero, begin(windowing.trigger)
        )
        if held.finished:
            dropped += [Dropped(v, time, window, "finished") for _, time, v in given[window]]
            continue
        moment = Moment(window, state.watermark, state.clock)
        held = _add(windowing, held, moment, given[window])
        if is_ready(windowing.trigger, held.running, moment):
            held, emitted = _fire(windowing, held, moment)
            panes += emitted
        known[window] = held
    windows = tuple(sorted(known.values(), key=lambda held: _by_end(held.window)))
    state = state._replace(windows=windows)
    if windowing.window.counted:
        # The watermark of count windows is the last position.
        state, more, deferred = _advance(windowing, state, state.seen - 1)
        return StepOutcome(state, (*panes, *more), (*dropped, *deferred))
    return StepOutcome(state, tuple(panes), tuple(dropped))


def take_watermark(windowing: Windowing, state: WindowState, time: int) -> StepOutcome:
    """Process a watermark; an earlier one than the last is ignored. Count windows wait for the end."""
    if windowing.window.counted and time < FOREVER:
        return StepOutcome(state)
    return _advance(windowing, state, time)


def take_clock(windowing: Windowing, state: WindowState, time: int) -> StepOutcome:
    """Process a clock step; an earlier one than the last is ignored."""
    if state.clock is not None and time <= state.clock:
        return StepOutcome(state)
    panes: list[Pane] = []
    windows = state.windows
    for place, held in _find_listening(windowing, state):
        if any(alarm <= time for alarm in find_alarms(windowing.trigger, held.running)):
            moment = Moment(held.window, state.watermark, time)
            if is_ready(windowing.trigger, held.running, moment):
                now, emitted = _fire(windowing, held, moment)
                panes += emitted
                windows = (*windows[:place], now, *windows[place + 1 :])
    return StepOutcome(state._replace(clock=time, windows=windows), tuple(panes))


def find_next_watermark(windowing: Windowing, state: WindowState) -> int | None:
    """Return the next watermark at which a window may emit a pane or is closed, or None."""
    if windowing.window.counted:
        return FOREVER if state.windows or state.slices else None
    # Windows are sorted by end: the first is the next to close, or to be complete.
    first = state.windows[:1]
    places = [held.window.last + windowing.allowed_lateness for held in first]
    open_from = _find_first_after(state.windows, state.watermark)
    places += [held.window.last for held in state.windows[open_from : open_from + 1]]
    if windowing.shares and state.slices:
        places.append(shared_slices.find_next_end(windowing, state))
    return min(places) if places else None


def find_next_clock(windowing: Windowing, state: WindowState) -> int | None:
    """Return the next time of the clock that a trigger waits for, or None."""
    alarms = [
        alarm
        for _, held in _find_listening(windowing, state)
        for alarm in find_alarms(windowing.trigger, held.running)
        # A time that has passed without a firing is not evaluated again.
        if state.clock is None or alarm > state.clock
    ]
    return min(alarms, default=None)


def is_idle(windowing: Windowing, state: WindowState) -> bool:
    """Return whether a key has no open windows, so that its state can be dropped."""
    return not (state.windows or state.slices or windowing.window.counted)


def _assign(
    windowing: Windowing, state: WindowState, pairs: Iterable[tuple[int, Any]]
) -> tuple[WindowState, dict[Window, list[Given]], list[Dropped]]:
    """Return a bundle's events by window, or added to shared slices, and those that no window accepts."""
    given: dict[Window, list[Given]] = {}
    dropped: list[Dropped] = []
    for time, value in pairs:
        place = state.seen if windowing.window.counted else time
        shared = windowing.shares and shared_slices.is_open(windowing, place, state.watermark)
        # If even the earliest window is open, the windows need not be computed.
        windows = [] if shared else windowing.window.assign(time, value, state.seen)
        if not windows and not shared:
            dropped.append(Dropped(value, time, None, "no window"))
        for window in windows:
            if is_expired(window, state.watermark, windowing.allowed_lateness):
                dropped.append(Dropped(value, time, window, "expired"))
            elif windowing.shares and state.watermark < window.last:
                shared = True
            else:
                given.setdefault(window, []).append(Given(state.seen, time, value))
        if shared:
            usable = time if _sets_time(windowing, time, state.watermark) else None
            state = shared_slices.add_event(windowing, state, place, value, usable)
        state = state._replace(seen=state.seen + 1)
    return state, given, dropped


def _add(
    windowing: Windowing, held: WindowEntry, moment: Moment, given: list[Given]
) -> WindowEntry:
    """Fold events into a window, and update the state of its trigger."""
    value, running = held.value, held.running
    for event in given:
        value = windowing.fold.add(value, event.value)
        running = see(windowing.trigger, running, moment)
    times = [event.time for event in given if _sets_time(windowing, event.time, moment.watermark)]
    return held._replace(
        value=value,
        running=running,
        fresh=held.fresh + len(given),
        hold=windowing.join_times((held.hold, *times)),
    )


def _merge_known(
    windowing: Windowing,
    state: WindowState,
    known: dict[Window, WindowEntry],
    given: dict[Window, list[Given]],
) -> tuple[dict[Window, WindowEntry], dict[Window, list[Given]], StepOutcome]:
    """Merge overlapping windows, with their states and their new events."""
    merged: dict[Window, WindowEntry] = {}
    moved: dict[Window, list[Given]] = {}
    panes: list[Pane] = []
    dropped: list[Dropped] = []
    for whole, parts in merge_windows([*known, *given]):
        held = [known[part] for part in parts if part in known]
        if any(part.finished for part in held):
            # A finished window stays finished; the others emit their last panes now.
            for part in held:
                emitted, deferred = _close(
                    windowing, part, Moment(part.window, state.watermark, None)
                )
                panes += emitted
                dropped += deferred
            merged[whole] = _make_finished(whole)
        elif held:
            merged[whole] = _merge_held(windowing, state, whole, held)
        events = [event for part in parts for event in given.get(part, ())]
        if events:
            moved[whole] = sorted(events, key=lambda event: event.position)
    return merged, moved, StepOutcome(state, tuple(panes), tuple(dropped))


def _merge_held(
    windowing: Windowing, state: WindowState, whole: Window, parts: list[WindowEntry]
) -> WindowEntry:
    """Return the state of a window merged from several: a new window, whose panes count from 0."""
    if parts[0].window == whole:
        return parts[0]
    join = windowing.fold.join
    assert join is not None
    moment = Moment(whole, state.watermark, state.clock)
    return WindowEntry(
        whole,
        reduce(join, [part.value for part in parts]),
        merge(windowing.trigger, [part.running for part in parts], moment),
        fresh=sum(part.fresh for part in parts),
        hold=windowing.join_times(part.hold for part in parts),
        emitted=tuple(pane for part in parts for pane in part.emitted),
    )


def _advance(windowing: Windowing, state: WindowState, watermark: int) -> StepOutcome:
    """Advance the watermark: windows whose end it passes emit a pane, expired windows are closed."""
    if watermark <= state.watermark:
        return StepOutcome(state)
    windows = state.windows
    if windowing.shares:
        state, joined = shared_slices.complete_windows(windowing, state, watermark)
        windows += tuple(_make_entry(windowing, *one) for one in joined)
    # Windows are sorted by end: some are closed, some were complete before, some become complete.
    left = watermark if watermark >= FOREVER else watermark - windowing.allowed_lateness
    closed, before, complete = (
        _find_first_after(windows, last) for last in (left, state.watermark, watermark)
    )
    before = max(closed, before)
    kept = list(windows[closed:before])
    panes: list[Pane] = []
    dropped: list[Dropped] = []
    for held in (*windows[:closed], *windows[before:complete]):
        moment = Moment(held.window, watermark, state.clock)
        on_time = state.watermark < held.window.last
        asked = on_time and windowing.asks_at_end and not held.finished
        now: WindowEntry = held
        emitted: tuple[Pane, ...] = ()
        if asked and is_ready(windowing.trigger, held.running, moment):
            now, emitted = _fire(windowing, held, moment, on_time=True)
            panes += emitted
        if not is_expired(held.window, watermark, windowing.allowed_lateness):
            kept.append(now)
        elif not (emitted and emitted[-1].last):
            last, deferred = _close(windowing, now, moment, on_time=on_time)
            panes += last
            dropped += deferred
    state = state._replace(watermark=watermark, windows=(*kept, *windows[complete:]))
    return StepOutcome(state, tuple(panes), tuple(dropped))


def _find_first_after(windows: tuple[WindowEntry, ...], last: int) -> int:
    """Return the index of the first window whose last time is after `last`."""
    if last >= FOREVER:
        return len(windows)
    return bisect_right(windows, last, key=_last)


def _find_listening(windowing: Windowing, state: WindowState) -> Iterator[tuple[int, WindowEntry]]:
    """Yield the windows that may wait for the clock, with their indexes."""
    if windowing.asks_clock:
        places = range(len(state.windows))
        if not windowing.asks_clock_late:
            # Complete windows have emitted their on-time pane, and do not wait for the clock.
            places = range(_find_first_after(state.windows, state.watermark), len(state.windows))
        for place in places:
            held = state.windows[place]
            if not held.finished:
                yield place, held


def _fire(
    windowing: Windowing, held: WindowEntry, moment: Moment, *, on_time: bool = False
) -> tuple[WindowEntry, tuple[Pane, ...]]:
    """Fire a trigger that is ready. Without new events, only the on-time pane is emitted."""
    running, finished = fire(windowing.trigger, held.running, moment)
    held = held._replace(running=running)
    panes: tuple[Pane, ...] = ()
    if held.fresh or (on_time and not held.nonspeculative):
        last = finished or is_expired(held.window, moment.watermark, windowing.allowed_lateness)
        held, panes = _emit(windowing, held, moment, on_time=on_time, last=last)
    return (_make_finished(held.window) if finished else held), panes


def _close(
    windowing: Windowing, held: WindowEntry, moment: Moment, *, on_time: bool = False
) -> tuple[tuple[Pane, ...], tuple[Dropped, ...]]:
    """Return the last pane of a window that is closed, or what is lost if it has none."""
    if held.finished:
        return (), ()
    if windowing.closing == "never":
        time = held.window.last if held.hold is None else held.hold
        lost = Dropped(held.value, time, held.window, NOT_EMITTED, held.fresh)
        return (), (lost,) if held.fresh else ()
    if held.fresh or windowing.closing == "always":
        return _emit(windowing, held, moment, on_time=on_time, last=True)[1], ()
    return (), ()


def _emit(
    windowing: Windowing, held: WindowEntry, moment: Moment, *, on_time: bool, last: bool
) -> tuple[WindowEntry, tuple[Pane, ...]]:
    """Return a window's state and its next pane, preceded by retractions of earlier ones."""
    early = not moment.complete
    timing = "early" if early else "on_time" if on_time and not held.nonspeculative else "late"
    pane = Pane(
        held.window,
        held.value,
        held.window.last if held.hold is None else held.hold,
        timing,
        held.panes,
        -1 if early else held.nonspeculative,
        first=held.panes == 0,
        last=last,
    )
    # The on-time pane follows, and must not have an earlier time than the early panes.
    keep_hold = windowing.window.counted or (early and windowing.asks_at_end)
    retractions = tuple(old._replace(op=-1) for old in held.emitted)
    held = held._replace(
        value=windowing.fold.zero if windowing.accumulation == "discarding" else held.value,
        fresh=0,
        hold=held.hold if keep_hold else None,
        panes=held.panes + 1,
        nonspeculative=held.nonspeculative + (not early),
        emitted=(pane,) if windowing.accumulation == "retracting" else (),
    )
    return held, (*retractions, pane)


def _make_finished(window: Window) -> WindowEntry:
    """Return the state of a window whose trigger has finished, without a value."""
    return WindowEntry(window, None, (), finished=True)


def _make_entry(windowing: Windowing, window: Window, joined: WindowSlice) -> WindowEntry:
    """Return the state of a window that has shared slices up to its end."""
    running = begin(windowing.trigger)
    return WindowEntry(window, joined.value, running, fresh=joined.events, hold=joined.hold)


def _sets_time(windowing: Windowing, time: int, watermark: int) -> bool:
    # A late event can't set the time of a pane: no output may be before the watermark.
    return windowing.window.counted or time > watermark


def _last(held: WindowEntry) -> int:
    return held.window.last


def _by_end(window: Window) -> tuple[int, int]:
    return window.end, window.start
