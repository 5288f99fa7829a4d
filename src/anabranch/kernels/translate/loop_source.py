"""Blueprints: a state type's handlers translated to the source of one loop over columns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from anabranch.kernels.column_layouts import (
    ANYTHING,
    BOOL,
    ENUM,
    FLOAT,
    INT,
    OBJECT,
    STR,
    Clash,
    ColumnLayout,
    describe,
    hide_moments,
    list_columns,
    meet,
    read_record,
    read_value,
    widen,
)
from anabranch.kernels.output_layouts import find_type
from anabranch.kernels.translate import calls
from anabranch.kernels.translate.code_writer import FAIL, Ends
from anabranch.kernels.translate.known_values import (
    Known,
    Method,
    Refusal,
    Value,
    know,
    layout_of,
    load,
)
from anabranch.kernels.translate.syntax import Uncompilable
from anabranch.kernels.translate.translation import Translator
from anabranch.model.handlers import Handler
from anabranch.model.locations import locate_function

_TYPES = {INT: "int64", FLOAT: "float64", BOOL: "boolean", STR: "int64", ENUM: "int64"}
_IMPORTED = (
    "INFINITY", "MIN", "NAN", "add", "float_floor_divide", "float_modulo", "modulo", "multiply",
    "round_half_even", "subtract", "unlikely",
)  # fmt: skip
_ROUNDS = 8
_MOST_FORMS = 200


class Form(NamedTuple):
    """Outputs of one event type that share columns; `sites` is the most that one event can have."""

    event_type: int
    layout: ColumnLayout
    sites: int


@dataclass(frozen=True)
class Blueprint:
    """All that an executor needs to compile a kernel, as data, without the user's source.

    `reasons` holds, for each event type, why it stays interpreted, or None. `inputs` are the event columns
    that the loop reads, as (event type, path, kind), in the order of its arguments.
    """

    state: ColumnLayout
    reasons: tuple[str | None, ...]
    source: str
    words: tuple[str, ...] = ()
    inputs: tuple[tuple[int, str, str], ...] = ()
    forms: tuple[Form, ...] = ()


@dataclass
class _TypeCode:
    """The code of one event type."""

    lines: list[str]
    loads: dict[str, tuple[str, str]]
    """The name of an element, its column's path and kind."""


@dataclass
class _TypeDraft:
    handlers: Sequence[Handler]
    state: ColumnLayout
    reasons: list[str | None] = field(default_factory=list)
    forms: dict[tuple[int, ColumnLayout], int] = field(default_factory=dict)
    sites: list[int] = field(default_factory=list)


def draw(handlers: Sequence[Handler], starts: Sequence[Any]) -> Blueprint:
    """Translate handlers whose state may start from any of these values."""
    try:
        state = _read_starts(starts)
    except Refusal as refusal:
        refusals = tuple(f"{_where(handler)} {refusal}" for handler in handlers)
        return Blueprint(ANYTHING, refusals, "")
    draft = _TypeDraft(handlers, state, [None] * len(handlers))
    _infer_state(draft)
    t = Translator()
    parts: list[_TypeCode | None] = []
    for number, handler in enumerate(handlers):
        parts.append(_attempt(draft, number, partial(_write, t, draft, number, handler)))
    objects = [column.path for column in list_columns(draft.state) if column.kind == OBJECT]
    for number, handler in enumerate(handlers):
        if objects and draft.reasons[number] is None:
            name = objects[0].lstrip(".") or "a value"
            draft.reasons[number] = (
                f"{_where(handler)} has a state with {name}, which has no column"
            )
    reasons = tuple(draft.reasons)
    if objects or all(part is None for part in parts):
        return Blueprint(draft.state, reasons, "")
    forms = tuple(
        Form(event_type, layout, sites)
        for (event_type, layout), sites in zip(draft.forms, draft.sites, strict=True)
    )
    inputs = tuple(
        (number, path, kind)
        for number, part in enumerate(parts)
        if part is not None
        for path, kind in part.loads.values()
    )
    source = "\n".join(_assemble(draft.state, parts, forms)) + "\n"
    return Blueprint(draft.state, reasons, source, tuple(t.words), inputs, forms)


def _read_starts(starts: Sequence[Any]) -> ColumnLayout:
    if not starts:
        raise Refusal("has a state without init: the types of its fields are unknown")
    layout = read_value(starts[0])
    for start in starts[1:]:
        try:
            layout = meet(layout, read_value(start))
        except Clash as clash:
            raise Refusal(f"starts its state as {clash}") from None
    for column in list_columns(layout):
        if column.kind == OBJECT:
            held = _follow(starts[0], column.path)
            raise Refusal(f"keeps a {type(held).__name__} in its state")
    return layout


def _follow(value: Any, path: str) -> Any:
    for name in path.split(".")[1:]:
        value = value[int(name)] if name.isdigit() else getattr(value, name)
    return value


def _attempt(draft: _TypeDraft, number: int, translate: Callable[[], Any]) -> Any:
    """Return a translation, or record the reason and return None."""
    if draft.reasons[number] is not None:
        return None
    try:
        return translate()
    except Uncompilable as reason:
        draft.reasons[number] = str(reason)
    except Refusal as refusal:
        draft.reasons[number] = f"{_where(draft.handlers[number])} {refusal}"
    except Exception as error:  # noqa: BLE001 - a defect of ours costs speed, not correctness
        cause = f"{type(error).__name__}: {error}"
        draft.reasons[number] = (
            f"{_where(draft.handlers[number])} could not be translated ({cause})"
        )
    return None


def _where(handler: Handler) -> str:
    for function in (handler.update, handler.output):
        place = locate_function(function) if function is not None else None
        if place is not None:
            return f"{os.path.basename(place.file)}:{place.line}"
    return os.path.basename(str(handler.where))


def _infer_state(draft: _TypeDraft) -> None:
    """Widen the state's layout until it holds the result of every update: None becomes int or None."""
    for _ in range(_ROUNDS):
        before = draft.state
        for number, handler in enumerate(draft.handlers):
            if handler.update is not None:
                _attempt(draft, number, partial(_try_update, draft, number, handler))
        if draft.state == before:
            return


def _try_update(draft: _TypeDraft, number: int, handler: Handler) -> None:
    t = Translator()
    state, event, _, _ = _read(draft.state, number, handler)
    try:
        after = calls.apply(t, _callable(handler.update), [state, event], {}, 0)
    except Ends:
        return
    try:
        draft.state = meet(draft.state, widen(layout_of(after)))
    except Clash as clash:
        start = "; start it from 0.0" if describe(clash.other) == FLOAT else ""
        raise Refusal(
            f"makes {describe(clash.one)} in the state into {describe(clash.other)}{start}"
        ) from None


def _callable(function: Any) -> Value:
    value = know(function, getattr(function, "__name__", "its function"))
    if not isinstance(value, Known | Method):
        raise Refusal(f"calls an object of {type(function).__name__}")
    return value


def _read(
    layout: ColumnLayout, number: int, handler: Handler
) -> tuple[Value, Value, dict[str, tuple[str, str]], list[str]]:
    states = [f"y{number}_{n}" for n, _ in enumerate(list_columns(layout))]
    fields = hide_moments(read_record(handler.event_type))
    events = {f"x{number}_{n}": (c.path, c.kind) for n, c in enumerate(list_columns(fields))}
    return load(layout, iter(states)), load(fields, iter(events)), events, states


def _write(t: Translator, draft: _TypeDraft, number: int, handler: Handler) -> _TypeCode:
    state, event, events, names = _read(draft.state, number, handler)
    kept = (dict(draft.forms), list(draft.sites))
    t.lines = []
    try:
        if handler.output is not None:

            def sink(value: Value) -> None:
                _emit(t, draft, number, value)

            t.write("j = 0")
            calls.apply(t, _callable(handler.output), [state, event], {}, 0, sink)
        if handler.update is not None:
            after = calls.apply(t, _callable(handler.update), [state, event], {}, 0)
            for place, text in enumerate(t.texts(draft.state, after)):
                if text != names[place]:
                    t.write(f"s{place}[slot] = {text}")
    except Ends:
        pass
    except (Refusal, Uncompilable):
        draft.forms, draft.sites = kept
        raise
    used = set(re.findall(r"\b[xy]\d+_\d+\b", "\n".join(t.lines)))
    loads = {name: column for name, column in events.items() if name in used}
    for path, kind in loads.values():
        if kind == OBJECT:
            raise Refusal(f"reads {path.lstrip('.')}, which has no column")
    lines = [f"{name} = e{name[1:]}[row]" for name in loads]
    lines += [f"{name} = s{place}[slot]" for place, name in enumerate(names) if name in used]
    return _TypeCode([*lines, *t.lines], loads)


def _emit(t: Translator, draft: _TypeDraft, number: int, value: Value) -> None:
    layout = layout_of(value)
    _refuse_objects(layout)
    _refuse_other_types(layout, draft.handlers[number])
    key = (number, layout)
    if key not in draft.forms:
        draft.forms[key] = len(draft.forms)
        draft.sites.append(0)
    form = draft.forms[key]
    if form >= _MOST_FORMS:
        raise Refusal(f"outputs more than {_MOST_FORMS} kinds of values")
    draft.sites[form] += 1
    for line in ("places[k] = i", "indexes[k] = j", f"forms[k] = {form}"):
        t.write(line)
    for place, text in enumerate(t.texts(layout, value)):
        t.write(f"f{form}_{place}[k{form}] = {text}")
    for counter in ("k", f"k{form}", "j"):
        t.write(f"{counter} += 1")


def _refuse_other_types(layout: ColumnLayout, handler: Handler) -> None:
    """Leave outputs to Python that may not be of the program's types: there each is looked at."""
    if handler.check is not None and find_type(handler.check.types, layout) is None:
        raise Refusal(f"emits {describe(layout)} where outputs are {handler.check.types}")


def _refuse_objects(layout: ColumnLayout) -> None:
    for column in list_columns(layout):
        if column.kind == OBJECT:
            raise Refusal(f"outputs {column.path.lstrip('.') or 'a value'}, which has no column")


def _assemble(
    state: ColumnLayout, parts: Sequence[_TypeCode | None], forms: Sequence[Form]
) -> Iterator[str]:
    counters = ["k", *(f"k{n}" for n in range(len(forms)))]
    arguments = list(_arguments(state, parts, forms))
    yield '"""Generated by anabranch.kernels; changes are lost."""'
    yield "import math"
    yield "from numba import njit, types"
    yield f"from anabranch.kernels.arithmetic import {', '.join(_IMPORTED)}"
    yield "int32, int64, uint8 = types.int32, types.int64, types.uint8"
    yield "float64, boolean = types.float64, types.boolean"
    yield "def given(kind):"
    yield "    return types.Array(kind, 1, 'C', readonly=True)"
    yield "def made(kind):"
    yield "    return types.Array(kind, 1, 'C')"
    yield f"result = types.UniTuple(int64, {1 + len(counters)})"
    kinds = ["int64"] * (3 + len(counters)) + [kind for _, kind in arguments]
    yield f"@njit(result({', '.join(kinds)}), cache=True, error_model='numpy', nogil=True)"
    names = ["start", "stop", "slot_count", *counters, *(name for name, _ in arguments)]
    yield f"def fold({', '.join(names)}):"
    yield "    for i in range(start, stop):"
    yield "        slot = slots[i]"
    yield "        row = rows[i]"
    yield "        event_type = event_types[i]"
    leave = f"return i, {', '.join(counters)}"
    yield "        if unlikely(slot < 0 or slot >= slot_count or row < 0):"
    yield f"            {leave}"
    keyword = "if"
    for number, part in enumerate(parts):
        if part is None:
            continue
        yield f"        {keyword} event_type == {number}:"
        keyword = "elif"
        for name in list(part.loads)[:1]:
            yield f"            if unlikely(row >= len(e{name[1:]})):"
            yield f"                {leave}"
        for line in part.lines or ["pass"]:
            yield "            " + line.replace(FAIL, leave)
    yield "        else:"
    yield f"            {leave}"
    yield f"    return stop, {', '.join(counters)}"


def _arguments(
    state: ColumnLayout, parts: Sequence[_TypeCode | None], forms: Sequence[Form]
) -> Iterator[tuple[str, str]]:
    yield from (
        ("event_types", "given(uint8)"),
        ("rows", "given(int64)"),
        ("slots", "given(int64)"),
    )
    yield from (("words", "given(int64)"), ("places", "made(int64)"))
    yield from (("indexes", "made(int32)"), ("forms", "made(uint8)"))
    for place, column in enumerate(list_columns(state)):
        yield f"s{place}", f"made({_TYPES[column.kind]})"
    for part in parts:
        for name, (_, kind) in part.loads.items() if part is not None else ():
            yield f"e{name[1:]}", f"given({_TYPES[kind]})"
    for number, form in enumerate(forms):
        for place, column in enumerate(list_columns(form.layout)):
            yield f"f{number}_{place}", f"made({_TYPES[column.kind]})"
