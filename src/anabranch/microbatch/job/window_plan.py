"""The window plan of a program, or the reason why its windows can't take the columnar path."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from anabranch.eventtime.windows.triggers import AfterWatermark, DefaultTrigger
from anabranch.eventtime.windows.window_types import (
    FAR,
    Sessions,
    Sliding,
    Tumbling,
    find_first_start,
)
from anabranch.model.events import EventType, field_types
from anabranch.model.program import Program
from anabranch.model.values.event_times import time_field
from anabranch.query.window_aggregates import Panes, Windows
from anabranch.state import Count, Max, Mean, Min, Several, Sum

_KEYS = (int, str)


@dataclass(frozen=True)
class SlicePart:
    """One column of a slice: how the values of a field are combined ("count" has no field)."""

    op: str
    field: str | None = None


@dataclass(frozen=True)
class WindowPlan:
    """Windows that the columnar path can fold: their grid, their state, and their results.

    `results` are the outputs of a window by name, each with the parts that it is computed from: a mean has two.
    Sessions have a `gap` instead of a size, and a last part, which is the time of their last event.
    """

    event_type: EventType
    timer: EventType
    key: str | None
    size: int
    every: int
    offset: int
    parts: tuple[SlicePart, ...]
    results: tuple[tuple[str, tuple[int, ...]], ...]
    gap: int | None = None
    timestamped: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of a slice's parts, in queries and in savepoints."""
        named = [p.op if p.field is None else f"{p.op}_{p.field}" for p in self.parts]
        if self.gap is not None and named[-1] in named[:-1]:
            named[-1] = "last"
        return tuple(named)

    @property
    def width(self) -> int:
        """Return the length of a slice."""
        return gcd(self.size, self.every)

    def find_first(self, place: int) -> int:
        """Return the start of the earliest window that contains a place."""
        return find_first_start(place, self.size, self.every, self.offset)


def plan_windows(program: Program) -> WindowPlan | str:
    """Return the window plan of a program, or the reason why it has none."""
    timer = program.timers[0].event_type
    shape: Any = program.initial.shape
    inner = shape if shape.by is None else shape.inner
    windows = getattr(program.initial.handlers[program.inputs[0]].update, "__self__", None)
    if not isinstance(inner, Panes) or not isinstance(windows, Windows):
        return f"{timer.__name__} is a timer"
    event_type, windowing = program.inputs[0], inner.windowing
    reason = _find_odd_windowing(windows) or _find_odd_key(event_type, windows.key)
    if reason is not None:
        return reason
    parts: list[SlicePart] = []
    results: list[tuple[str, tuple[int, ...]]] = []
    assert isinstance(windowing.fold, Several)
    for name, part in windowing.fold.parts.items():
        found = _read_parts(event_type, *(part if isinstance(part, tuple) else (part, None)))
        if found is None:
            return f"{name} is not a count, sum, minimum or maximum of integers"
        results.append((name, tuple(_place(parts, part) for part in found)))
    window: Any = windowing.window
    if any(abs(value) >= FAR for value in vars(window).values()):
        return "windows are so long that their ends may not fit into 64 bits"
    if isinstance(window, Sessions):
        return WindowPlan(
            event_type,
            timer,
            windows.key,
            0,
            0,
            0,
            (*parts, SlicePart("max", time_field(event_type))),
            tuple(results),
            int(window.gap),
            windows.timestamped,
        )
    every = window.every if isinstance(window, Sliding) else window.size
    return WindowPlan(
        event_type,
        timer,
        windows.key,
        int(window.size),
        int(every),
        int(window.offset),
        tuple(parts),
        tuple(results),
        timestamped=windows.timestamped,
    )


def _find_odd_windowing(windows: Windows) -> str | None:
    windowing = windows.windowing
    trigger = windowing.trigger
    if not isinstance(windowing.window, Tumbling | Sliding | Sessions):
        return f"{type(windowing.window).__name__} windows do not lie on a grid"
    silent = isinstance(trigger, AfterWatermark) and trigger.early is None
    if windows.delay is not None:
        return f"windows are over {windows.at}, and not over time"
    if windowing.allowed_lateness:
        return "windows stay open for late events"
    if trigger != DefaultTrigger() and not silent:
        return f"windows have a trigger of their own, {trigger}"
    if windowing.output_time != "end" or windowing.closing != "if_new":
        return "panes have a time of their own, or are always emitted"
    if not isinstance(windowing.fold, Several):
        return "windows use a user-defined fold"
    return None


def _find_odd_key(event_type: EventType, key: str | None) -> str | None:
    if key is not None and field_types(event_type)[key] not in _KEYS:
        return f"{event_type.__name__} has a key that is neither an int nor a text"
    return None


def _read_parts(event_type: EventType, fold: Any, read: Any) -> list[SlicePart] | None:
    """Return the columns of a built-in state, if it needs only integers; else None."""
    if type(fold) is Count and fold.start == 0 and read is None:
        return [SlicePart("count")]
    if not isinstance(read, str) or field_types(event_type)[read] is not int:
        return None
    if type(fold) is Sum and type(fold.start) is int and fold.start == 0:
        return [SlicePart("sum", read)]
    if type(fold) is Mean:
        return [SlicePart("sum", read), SlicePart("count")]
    if type(fold) in (Max, Min) and fold.start is None:
        return [SlicePart("max" if type(fold) is Max else "min", read)]
    return None


def _place(parts: list[SlicePart], part: SlicePart) -> int:
    if part not in parts:
        parts.append(part)
    return parts.index(part)
