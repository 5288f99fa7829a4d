"""Window outputs: the records that windows emit, and the types of their fields."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from anabranch.eventtime.windows.panes import VALUES, Windowing
from anabranch.eventtime.windows.triggers import AfterWatermark, DefaultTrigger
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.model.events import EventType, field_types
from anabranch.model.values.event_times import is_timestamped
from anabranch.model.values.output_types import OutputTypes, find_return_type
from anabranch.model.values.value_types import (
    ANYTHING,
    FLOAT,
    INT,
    LIST,
    ValueType,
    make_optional,
    make_record,
    read_type,
)
from anabranch.state import (
    ApproxDistinct,
    Count,
    Distinct,
    ExactMean,
    ExactSum,
    ExactVariance,
    Latest,
    Max,
    Mean,
    Min,
    Sum,
    TopK,
)
from anabranch.state.combined import Several


class Result(NamedTuple):
    """The result of a window: the `value` of `[start, end)`, for a key.

    `timing` is early, on_time or late. `index` counts a window's panes from 0, and `settled_index`
    those that are not early; it is -1 for an early one. `op` is -1 for the retraction of a pane.
    `start`, `end` and `time` are datetimes if the times of the events are.
    """

    key: Any
    start: int | datetime
    end: int | datetime
    value: Any
    time: int | datetime
    timing: str
    index: int  # type: ignore[assignment]  # a pane's, not the tuple's
    settled_index: int
    first: bool
    last: bool
    op: int = 1


class Missed(NamedTuple):
    """An event without an open window, or the value of a window that closed without a result, with the reason."""

    key: Any
    time: int | datetime
    value: Any
    start: int | datetime | None
    end: int | datetime | None
    reason: str
    events: int = 1


def describe_outputs(
    event_type: EventType, windowing: Windowing, per: str | None, delay: int | None
) -> OutputTypes:
    """Return the output types of windows: a `Result`, and a `Missed` if events may be missed."""
    whole, text, flag = read_type(int), read_type(str), read_type(bool)
    time = read_type(datetime) if is_timestamped(event_type) else whole
    key = ANYTHING if per is None else read_type(field_types(event_type)[per])
    value = _describe_fold(event_type, windowing.fold)
    fields = {
        "key": key, "start": time, "end": time, "value": value, "time": time, "timing": text,
        "index": whole, "settled_index": whole, "first": flag, "last": flag, "op": whole,
    }  # fmt: skip
    result = make_record("Result", Result, **fields)
    if not _may_miss(windowing, delay):
        return OutputTypes((result,), declared=True)
    maybe = make_optional(time)
    missed = make_record(
        "Missed", Missed, key=key, time=time, value=ANYTHING, start=maybe, end=maybe, reason=text,
        events=whole,
    )  # fmt: skip
    return OutputTypes((result, missed), declared=True)


def _may_miss(windowing: Windowing, delay: int | None) -> bool:
    """Return whether an event may find no open window, or a window may close without a result."""
    whole = isinstance(windowing.window, Tumbling | Sliding | Sessions)
    fires = windowing.trigger == DefaultTrigger() or isinstance(windowing.trigger, AfterWatermark)
    safe = windowing.closing != "never" and not windowing.may_lose
    return delay is not None or not (whole and fires and safe)


def _describe_fold(event_type: EventType, fold: Any) -> ValueType:
    if fold is VALUES:
        element = read_type(event_type)
        return ValueType(
            LIST, f"tuple[{event_type.__name__}, ...]", cls=tuple, parts=(("element", element),)
        )
    if not isinstance(fold, Several):
        return ANYTHING
    parts = {
        name: _describe_part(event_type, *(part if isinstance(part, tuple) else (part, None)))
        for name, part in fold.parts.items()
    }
    return make_record("Struct", None, **parts)


def _describe_part(event_type: EventType, state: Any, source: Any) -> ValueType:
    """Return the output type of a ready-made state over the event, a field or a function, if it is known."""
    kind = type(state)
    if kind in (Count, Distinct, ApproxDistinct):
        return read_type(int)
    if kind is ExactSum:
        return read_type(float)
    if kind in (ExactMean, ExactVariance):
        return make_optional(read_type(float))
    found = _describe_source(event_type, source)
    if kind is Sum and found.kind in (INT, FLOAT) and type(state.start) is int:
        return ValueType(found.kind, found.name)
    if kind is Mean and found.kind == INT:
        return make_optional(read_type(float))
    if callable(source) or found is ANYTHING:
        return ANYTHING
    if kind is Latest or (kind in (Max, Min) and state.start is None):
        return make_optional(found)
    if kind is TopK:
        name = f"tuple[{found.name}, ...]"
        return ValueType(LIST, name, cls=tuple, parts=(("element", found),))
    return ANYTHING


def _describe_source(event_type: EventType, source: Any) -> ValueType:
    """Return the type of what a state is given: the event, a field, or what a function is annotated with."""
    if source is None:
        return read_type(event_type)
    if isinstance(source, str):
        return read_type(field_types(event_type)[source])
    return find_return_type(source) or ANYTHING
