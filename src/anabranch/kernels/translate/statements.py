"""The translation of statements other than `return`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anabranch.kernels.translate import loops, python_operators
from anabranch.kernels.translate.code_writer import Ends
from anabranch.kernels.translate.known_values import NEVER, NONE, KnownRecord, Refusal, Value, an

if TYPE_CHECKING:
    from anabranch.kernels.translate.translation import CallFrame, Translator

_SYNTAX_NAMES: dict[type[ast.AST], str] = {
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
    ast.Yield: "the result of yield",
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
    """Write one statement."""
    writer = _WRITERS.get(type(line))
    if writer is None:
        raise Refusal(f"uses {name_syntax(line)}")
    writer(t, line, frame)


def name_syntax(node: ast.AST) -> str:
    """Return the name of syntax that can't be translated."""
    return _SYNTAX_NAMES.get(type(node), type(node).__name__.lower())


def assign(t: Translator, target: ast.expr, value: Value, frame: CallFrame) -> None:
    """Bind a value to a name, or its parts to several."""
    if isinstance(target, ast.Name):
        frame.names[target.id] = value
        return
    if not isinstance(target, ast.Tuple | ast.List):
        raise Refusal("changes something in place")
    value = python_operators.demand(t, value)
    if not isinstance(value, KnownRecord) or not issubclass(value.cls, tuple):
        raise Refusal(f"unpacks {an(value)}")
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
    node = line.value
    if isinstance(node, ast.Yield) and frame.sink is not None:
        frame.sink(NONE if node.value is None else t.expr(node.value, frame))
    elif not isinstance(node, ast.Constant):  # A docstring has no effect.
        t.expr(node, frame)


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
    """Write an `if` that does not return: values that its branches set are joined after it."""
    test = t.test(line.test, frame)
    if isinstance(test.text, bool):
        path = frame.narrow(test.true if test.text else test.false)
        t.run(line.body if test.text else line.orelse, path)
        frame.names.update(path.names)
        return
    paths = (frame.narrow(test.true), frame.narrow(test.false))
    then, x = t.aside(lambda: t.run(line.body, paths[0]))
    other, y = t.aside(lambda: t.run(line.orelse, paths[1]))
    if x is NEVER and y is NEVER:
        t.write_if(test.text, then, other)
        raise Ends
    if x is NEVER or y is NEVER:
        names = paths[1 if x is NEVER else 0].names
    else:
        names = _join_names(t, paths, then, other)
    t.write_if(test.text, then, other)
    frame.names.clear()
    frame.names.update(names)


def _join_names(
    t: Translator, paths: tuple[CallFrame, CallFrame], then: list[str], other: list[str]
) -> dict[str, Value]:
    joined = {}
    for name, value in paths[0].names.items():
        if name not in paths[1].names:
            continue  # Reading it is refused: it may not be set.
        try:
            joined[name] = t.join(value, paths[1].names[name], then, other)
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
