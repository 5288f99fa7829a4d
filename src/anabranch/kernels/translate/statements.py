"""Statements: what a function does line by line, apart from returning."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anabranch.kernels.translate import loops, python_operators
from anabranch.kernels.translate.code_writer import Ends
from anabranch.kernels.translate.known_values import NEVER, NONE, KnownRecord, Refusal, Value, an

if TYPE_CHECKING:
    from anabranch.kernels.translate.translation import CallFrame, Translator

_STRANGE: dict[type[ast.AST], str] = {
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.JoinedStr: "an f-string",
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dict comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.Lambda: "a lambda inside a function",
    ast.Await: "await",
    ast.NamedExpr: "`:=`",
    ast.Yield: "what a yield returns",
    ast.YieldFrom: "yield from",
    ast.Try: "try",
    ast.With: "with",
    ast.Match: "match",
    ast.Delete: "del",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Import: "import inside a function",
    ast.ImportFrom: "import inside a function",
    ast.FunctionDef: "a function inside a function",
    ast.ClassDef: "a class inside a function",
    ast.Break: "break",
    ast.Continue: "continue",
}


def write(t: Translator, line: ast.stmt, frame: CallFrame) -> None:
    """Write out one statement."""
    writer = _WRITERS.get(type(line))
    if writer is None:
        raise Refusal(f"uses {name_strange(line)}")
    writer(t, line, frame)


def name_strange(node: ast.AST) -> str:
    """Say what a user wrote that can't be translated."""
    return _STRANGE.get(type(node), type(node).__name__.lower())


def assign(t: Translator, target: ast.expr, value: Value, frame: CallFrame) -> None:
    """Give a name to a value, or to its parts."""
    if isinstance(target, ast.Name):
        frame.names[target.id] = value
        return
    if not isinstance(target, ast.Tuple | ast.List):
        raise Refusal("changes something in place")
    value = python_operators.demand(t, value)
    if not isinstance(value, KnownRecord) or not issubclass(value.cls, tuple):
        raise Refusal(f"takes {an(value)} apart")
    if len(value.parts) != len(target.elts):
        raise t.fail()
    for part, inner in zip(target.elts, value.parts, strict=True):
        assign(t, part, inner, frame)


def _write_assign(t: Translator, line: ast.Assign, frame: CallFrame) -> None:
    value = t.expr(line.value, frame)
    for target in line.targets:
        assign(t, target, value, frame)


def _write_annotated(t: Translator, line: ast.AnnAssign, frame: CallFrame) -> None:
    if line.value is not None:
        assign(t, line.target, t.expr(line.value, frame), frame)


def _write_augmented(t: Translator, line: ast.AugAssign, frame: CallFrame) -> None:
    if not isinstance(line.target, ast.Name):
        raise Refusal("changes something in place")
    name = ast.copy_location(ast.Name(line.target.id, ast.Load()), line.target)
    before = t.expr(name, frame)
    value = python_operators.binary(t, line.op, before, t.expr(line.value, frame))
    assign(t, line.target, value, frame)


def _write_expression(t: Translator, line: ast.Expr, frame: CallFrame) -> None:
    emitted = line.value
    if isinstance(emitted, ast.Yield) and frame.sink is not None:
        frame.sink(NONE if emitted.value is None else t.expr(emitted.value, frame))
    elif not isinstance(emitted, ast.Constant):  # A docstring says nothing to us.
        t.expr(emitted, frame)


def _write_assert(t: Translator, line: ast.Assert, frame: CallFrame) -> None:
    text = t.test(line.test, frame).text
    if text is False:
        raise t.fail()
    if text is not True:
        t.fail_if(f"not {text}")


def _write_raise(t: Translator, line: ast.Raise, frame: CallFrame) -> None:
    raise t.fail()


def _write_pass(t: Translator, line: ast.Pass, frame: CallFrame) -> None:
    pass


def _write_if(t: Translator, line: ast.If, frame: CallFrame) -> None:
    """Write out an `if` that does not return: what its branches set comes together after it."""
    test = t.test(line.test, frame)
    if isinstance(test.text, bool):
        way = frame.narrow(test.true if test.text else test.false)
        t.run(line.body if test.text else line.orelse, way)
        frame.names.update(way.names)
        return
    ways = (frame.narrow(test.true), frame.narrow(test.false))
    then, x = t.aside(lambda: t.run(line.body, ways[0]))
    other, y = t.aside(lambda: t.run(line.orelse, ways[1]))
    if x is NEVER and y is NEVER:
        t.write_if(test.text, then, other)
        raise Ends
    if x is NEVER or y is NEVER:
        names = ways[1 if x is NEVER else 0].names
    else:
        names = _join_names(t, ways, then, other)
    t.write_if(test.text, then, other)
    frame.names.clear()
    frame.names.update(names)


def _join_names(
    t: Translator, ways: tuple[CallFrame, CallFrame], then: list[str], other: list[str]
) -> dict[str, Value]:
    joined = {}
    for name, value in ways[0].names.items():
        if name not in ways[1].names:
            continue  # Whoever reads it hears that it may not be set.
        try:
            joined[name] = t.join(value, ways[1].names[name], then, other)
        except Refusal as refusal:
            raise Refusal(f"sets {name}, which {refusal}") from None
    return joined


_WRITERS: dict[type[ast.stmt], Callable[..., Any]] = {
    ast.AnnAssign: _write_annotated,
    ast.Assert: _write_assert,
    ast.Assign: _write_assign,
    ast.AugAssign: _write_augmented,
    ast.Expr: _write_expression,
    ast.For: loops.write_for,
    ast.If: _write_if,
    ast.Pass: _write_pass,
    ast.Raise: _write_raise,
    ast.While: loops.write_while,
}
