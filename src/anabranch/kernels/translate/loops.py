"""The translation of loops: `for` over a range or a tuple, and `while`.

A name that the body sets has variables of its own, with one type in all iterations.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from anabranch.kernels.column_layouts import INT, Clash, ColumnLayout, meet, widen
from anabranch.kernels.translate import python_operators
from anabranch.kernels.translate.known_values import (
    NEVER,
    NONE,
    Known,
    KnownRecord,
    Refusal,
    Value,
    an,
    kind_of,
    layout_of,
)

if TYPE_CHECKING:
    from anabranch.kernels.translate.translation import CallFrame, Translator

_ROUNDS = 4
"""The maximum number of times that the types of a loop may widen: int, then int or None, and so on."""


def write_for(t: Translator, line: ast.For, frame: CallFrame) -> None:
    """Write `for`: over a tuple once for each part, over a range as a loop."""
    _refuse_leaving(line)
    over = line.iter
    # An unrolled loop may yield; another may not, because the number of its outputs is unknown.
    if isinstance(over, ast.Call) and t.expr(over.func, frame) == Known(range):
        _refuse_yielding(line)
        _write_range(t, line, over, frame)
        return
    parts = t.expr(over, frame)
    if not isinstance(parts, KnownRecord) or not issubclass(parts.cls, tuple):
        raise Refusal(f"loops over {an(parts)}")
    from anabranch.kernels.translate import statements

    for part in parts.parts:
        statements.assign(t, line.target, part, frame)
        for inner in line.body:
            t.statement(inner, frame)


def write_while(t: Translator, line: ast.While, frame: CallFrame) -> None:
    """Write `while`."""
    _refuse_leaving(line)
    _refuse_yielding(line)

    def body(inner: CallFrame) -> None:
        test = t.test(line.test, inner)
        if test.text is not True:
            t.write(f"if not {test.text}:")
            t.write("    break")
        narrowed = inner.narrow(test.true)
        for statement in line.body:
            t.statement(statement, narrowed)
        inner.names.update(narrowed.names)

    _write_loop(t, "while True:", line, frame, body)


def _write_range(t: Translator, line: ast.For, over: ast.Call, frame: CallFrame) -> None:
    if over.keywords or not 1 <= len(over.args) <= 3 or not isinstance(line.target, ast.Name):
        raise Refusal("loops over something other than a plain range")
    bounds = [
        python_operators.as_int(t, python_operators.number(t, t.expr(a, frame), "range"))
        for a in over.args
    ]
    if any(kind_of(bound) != INT for bound in bounds):
        raise Refusal("loops over a range of floats")
    if len(bounds) == 3 and not (isinstance(bounds[2], Known) and bounds[2].value != 0):
        raise Refusal("loops over a range whose step is not a constant")
    counter, name = t.fresh(), line.target.id

    def body(inner: CallFrame) -> None:
        inner.names[name] = t.let(INT, counter)
        for statement in line.body:
            t.statement(statement, inner)

    bounds_text = ", ".join(t.text(bound) for bound in bounds)
    _write_loop(t, f"for {counter} in range({bounds_text}):", line, frame, body)


def _write_loop(
    t: Translator,
    head: str,
    line: ast.For | ast.While,
    frame: CallFrame,
    body: Callable[[CallFrame], None],
) -> None:
    changed = sorted(
        {n.id for n in ast.walk(line) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    )
    kept = [name for name in changed if name in frame.names]
    layouts = {name: widen(layout_of(frame.names[name])) for name in kept}
    for _ in range(_ROUNDS):
        before = len(t.lines)
        start = {name: t.settle(layouts[name], frame.names[name]) for name in kept}
        inner = frame.narrow(())
        inner.names.update(start)
        lines, end = t.aside(partial(_go_round, body, inner))
        grown = layouts if end is NEVER else _grow(layouts, inner.names)
        if grown == layouts:
            if end is not NEVER:
                for name in kept:
                    lines += _carry(t, layouts[name], start[name], inner.names[name])
            t.write(head)
            t.lines += [f"    {text}" for text in lines or ["pass"]]
            for name in changed:
                frame.names.pop(name, None)
            frame.names.update(start)
            return
        layouts = grown
        del t.lines[before:]
    raise Refusal("has a loop whose values change type")


def _go_round(body: Callable[[CallFrame], None], frame: CallFrame) -> Value:
    body(frame)
    return NONE


def _grow(layouts: dict[str, ColumnLayout], names: dict[str, Value]) -> dict[str, ColumnLayout]:
    grown = {}
    for name, layout in layouts.items():
        if name not in names:
            raise Refusal(f"reads {name}, which may not be set there")
        try:
            grown[name] = meet(layout, widen(layout_of(names[name])))
        except Clash as clash:
            raise Refusal(f"sets {name}, which is {clash} in a loop") from None
    return grown


def _carry(t: Translator, layout: ColumnLayout, start: Value, end: Value) -> list[str]:
    # In one assignment: `a, b = b, a + b` must read both before it writes one.
    targets, values = t.texts(layout, start), t.texts(layout, end)
    pairs = [(a, b) for a, b in zip(targets, values, strict=True) if a != b]
    if not pairs:
        return []
    return [f"{', '.join(a for a, _ in pairs)} = {', '.join(b for _, b in pairs)}"]


def _refuse_leaving(line: ast.For | ast.While) -> None:
    if line.orelse:
        raise Refusal("uses else on a loop")
    for node in ast.walk(line):
        if isinstance(node, ast.Return):
            raise Refusal("returns from inside a loop")


def _refuse_yielding(line: ast.For | ast.While) -> None:
    if any(isinstance(node, ast.Yield) for node in ast.walk(line)):
        raise Refusal("yields from inside a loop")
