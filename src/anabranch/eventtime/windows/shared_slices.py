"""Slices: partial results that overlapping windows share, so that an event is folded once.

Sliding windows are divided where any of them starts or ends. As long as its windows are open, an event
is only folded into its slice. A window is the join of its slices, computed when the watermark completes
it; from then on it has its own state. Two stacks of joins, kept from window to window, make that a few
joins, however many slices a window has, and need no inverse.

The panes are the same as without sharing; a test compares the two.
"""

from __future__ import annotations

from bisect import bisect_left
from math import gcd
from operator import attrgetter
from typing import Any, NamedTuple

from anabranch.eventtime.windows.panes import Stacks, Windowing, WindowSlice, WindowState
from anabranch.eventtime.windows.window_types import (
    CountSliding,
    Sliding,
    Window,
    check_reach,
    find_first_start,
    is_expired,
)

_START = attrgetter("start")


class Grid(NamedTuple):
    """The grid of windows: their size and distance, the offset, and the first start, if any."""

    size: int
    every: int
    offset: int
    first: int | None

    def cut(self, place: int) -> int:
        """Return the start of the slice that contains a place."""
        width = gcd(self.size, self.every)
        return place - (place - self.offset) % width

    def find_first(self, place: int) -> int:
        """Return the start of the earliest window that contains a place."""
        start = find_first_start(place, self.size, self.every, self.offset)
        return start if self.first is None else max(start, self.first)


def read_grid(windowing: Windowing) -> Grid:
    """Return the grid of a windowing."""
    window = windowing.window
    if isinstance(window, CountSliding):
        return Grid(window.n, window.every, 0, 0)
    assert isinstance(window, Sliding)
    return Grid(window.size, window.every, window.offset, None)


def is_open(windowing: Windowing, place: int, watermark: int) -> bool:
    """Return whether all windows that contain a place are open."""
    grid = read_grid(windowing)
    if not windowing.window.counted:
        check_reach(place)
    return watermark < grid.find_first(place) + grid.size - 1


def add_event(
    windowing: Windowing, state: WindowState, place: int, value: Any, time: int | None
) -> WindowState:
    """Fold an event into its slice; `time` is its time for the pane, if any."""
    fold, slices = windowing.fold, state.slices
    start = read_grid(windowing).cut(place)
    at = bisect_left(slices, start, key=_START)
    known = at < len(slices) and slices[at].start == start
    old = slices[at] if known else WindowSlice(start, fold.zero, 0, None)
    hold = windowing.join_times((old.hold, time))
    new = WindowSlice(start, fold.add(old.value, value), old.events + 1, hold)
    # Joins made in advance do not contain an event before their end.
    stacks = Stacks() if start < state.stacks.end else state.stacks
    return state._replace(slices=(*slices[:at], new, *slices[at + known :]), stacks=stacks)


def complete_windows(
    windowing: Windowing, state: WindowState, watermark: int
) -> tuple[WindowState, list[tuple[Window, WindowSlice]]]:
    """Return the windows that a new watermark completes, and the state without their unshared slices."""
    grid = read_grid(windowing)
    complete: list[tuple[Window, WindowSlice]] = []
    slices, stacks = state.slices, state.stacks
    # Windows with an earlier start were complete before.
    start = grid.find_first(state.watermark + 1)
    while True:
        slices = slices[bisect_left(slices, start, key=_START) :]
        if not slices:
            break
        # Windows without events are skipped.
        start = max(start, grid.find_first(slices[0].start))
        window = Window(start, start + grid.size)
        if not is_expired(window, watermark, 0):
            break
        joined, stacks = join_slices(windowing, stacks, slices, window)
        complete.append((window, joined))
        start += grid.every
    return state._replace(slices=slices, stacks=stacks if slices else Stacks()), complete


def find_next_end(windowing: Windowing, state: WindowState) -> int:
    """Return the watermark that completes the next window; there must be a slice."""
    grid = read_grid(windowing)
    start = max(grid.find_first(state.watermark + 1), grid.find_first(state.slices[0].start))
    return start + grid.size - 1


def join_slices(
    windowing: Windowing, stacks: Stacks, slices: tuple[WindowSlice, ...], window: Window
) -> tuple[WindowSlice, Stacks]:
    """Return the join of the slices of a window, and the stacks for the windows after it.

    There must be at least one slice in the window.
    """
    front = stacks.front
    while front and front[-1].start < window.start:
        front = front[:-1]
    if not front:
        mine = slices[: bisect_left(slices, window.end, key=_START)]
        front = _stack_up(windowing, mine)
        stacks = Stacks(front, window.end, None, window.end)
    else:
        back = stacks.back
        low, high = (bisect_left(slices, place, key=_START) for place in (stacks.end, window.end))
        for piece in slices[low:high]:
            back = _join(windowing, back, piece)
        stacks = Stacks(front, stacks.middle, back, window.end)
    joined = front[-1] if stacks.back is None else _join(windowing, front[-1], stacks.back)
    return joined, stacks


def _stack_up(windowing: Windowing, slices: tuple[WindowSlice, ...]) -> tuple[WindowSlice, ...]:
    front: list[WindowSlice] = []
    for piece in reversed(slices):
        front.append(_join(windowing, piece, front[-1]) if front else piece)
    return tuple(front)


def _join(windowing: Windowing, a: WindowSlice | None, b: WindowSlice) -> WindowSlice:
    if a is None:
        return b
    assert windowing.fold.join is not None
    hold = windowing.join_times((a.hold, b.hold))
    return WindowSlice(a.start, windowing.fold.join(a.value, b.value), a.events + b.events, hold)
