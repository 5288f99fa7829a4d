"""Translation of a user's function, call by call and branch by branch, into lines on scalars.

Every call to a plain Python function is inlined. The statements after an `if` that returns are
written once for each path that reaches them, so a value may have another type on each.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import TypeVar

from anabranch.kernels.column_layouts import OBJECT
from anabranch.kernels.translate import calls, python_operators, statements
from anabranch.kernels.translate.code_writer import Ends, Writer
from anabranch.kernels.translate.known_values import (
    NEVER,
    NONE,
    Known,
    KnownRecord,
    Listed,
    Maybe,
    Refusal,
    Value,
    kind_of,
    know,
)
from anabranch.kernels.translate.syntax import Uncompilable, find_definition
from anabranch.model.events import field_names

T = TypeVar("T")
Sink = Callable[[Value], None]
Path = tuple[str, ...]

DEEPEST = 24
"""The maximum depth of inlined calls; recursion ends here."""


@dataclass(frozen=True)
class Test:
    """A condition: its text, or its value if known; and the facts known on either path."""

    text: str | bool
    true: tuple[tuple[Path, bool], ...] = ()
    false: tuple[tuple[Path, bool], ...] = ()


@dataclass(frozen=True)
class CallFrame:
    """A call being inlined. `sink` receives the outputs of an output function."""

    function: FunctionType
    names: dict[str, Value]
    depth: int = 0
    sink: Sink | None = None

    @property
    def yields(self) -> bool:
        """Return whether the function is a generator."""
        return inspect.isgeneratorfunction(self.function)

    def narrow(self, facts: Sequence[tuple[Path, bool]]) -> CallFrame:
        """Return the frame on a path on which some values are known to be None, or not to be."""
        names = dict(self.names)
        for (name, *fields), is_none in facts:
            if name in names:
                names[name] = _narrow(names[name], fields, is_none=is_none)
        return replace(self, names=names)


def _narrow(value: Value, fields: Sequence[str], *, is_none: bool) -> Value:
    if not fields:
        if is_none:
            return NONE
        return value.inner if isinstance(value, Maybe) else value
    if not isinstance(value, KnownRecord) or fields[0] not in field_names(value.cls):
        return value
    place = field_names(value.cls).index(fields[0])
    parts = list(value.parts)
    parts[place] = _narrow(parts[place], fields[1:], is_none=is_none)
    return KnownRecord(value.cls, tuple(parts))


class Translator(Writer):
    """Inline functions. One translator serves all handlers of a kernel, so that names differ."""

    def call(
        self,
        function: FunctionType,
        args: Sequence[Value],
        named: dict[str, Value],
        depth: int,
        sink: Sink | None = None,
    ) -> Value:
        """Inline a call, and return its value."""
        if depth > DEEPEST:
            raise Refusal(f"calls {function.__name__} more than {DEEPEST} deep")
        definition = find_definition(function)
        frame = CallFrame(function, calls.bind(function, args, named), depth, sink)
        if frame.yields and sink is None:
            raise Refusal(f"calls the generator {function.__name__}")
        try:
            if isinstance(definition, ast.Lambda):
                return self._give(definition.body, frame)
            return self.run(definition.body, frame)
        except Refusal as refusal:
            raise Uncompilable(str(refusal), _file(frame), definition.lineno) from None

    def run(self, body: Sequence[ast.stmt], frame: CallFrame) -> Value:
        """Write statements, and return the value that a `return` among them returns."""
        for place, line in enumerate(body):
            if isinstance(line, ast.Return):
                return self._located(line, frame, partial(self._give, line.value, frame))
            if isinstance(line, ast.If) and _leaves(line):
                fork = partial(self._fork, line, body[place + 1 :], frame)
                return self._located(line, frame, fork)
            self._located(line, frame, partial(self.statement, line, frame))
        return NONE

    def _fork(self, line: ast.If, rest: Sequence[ast.stmt], frame: CallFrame) -> Value:
        return self.choose(
            self.test(line.test, frame),
            frame,
            lambda f: self.run([*line.body, *rest], f),
            lambda f: self.run([*line.orelse, *rest], f),
        )

    def _located(
        self, node: ast.stmt | ast.expr, frame: CallFrame, translate: Callable[[], T]
    ) -> T:
        try:
            return translate()
        except Refusal as refusal:
            raise Uncompilable(str(refusal), _file(frame), node.lineno) from None

    def _give(self, node: ast.expr | None, frame: CallFrame) -> Value:
        """Return the value that a function returns; pass it to the sink if there is one."""
        if frame.sink is None:
            return NONE if node is None else self.expr(node, frame)
        if isinstance(node, ast.IfExp) and not frame.yields:
            test = self.test(node.test, frame)
            return self.choose(
                test,
                frame,
                lambda f: self._give(node.body, f),
                lambda f: self._give(node.orelse, f),
            )
        if isinstance(node, ast.Call) and not frame.yields:
            # The called function passes its results to the sink; they may differ from path to path.
            sink = frame.sink
            self._located(node, frame, lambda: calls.call(self, node, frame, sink))
            return NONE
        value = NONE if node is None else self.expr(node, frame)
        if not frame.yields:
            self.emit(value, frame.sink)
        return NONE

    def emit(self, value: Value, sink: Sink) -> None:
        """Pass the outputs in a returned value to the sink, as `model.step.collect` reads them."""
        if value == NONE:
            return
        if isinstance(value, Maybe):
            inner = value.inner

            def emit_inner() -> Value:
                sink(inner)
                return NONE

            lines, _ = self.aside(emit_inner)
            self.write_if(value.valid, lines, [])
            return
        for item in value.items if isinstance(value, Listed) else (value,):
            sink(item)

    def statement(self, line: ast.stmt, frame: CallFrame) -> None:
        """Write one statement that does not return."""
        statements.write(self, line, frame)

    def choose(
        self,
        test: Test,
        frame: CallFrame,
        then: Callable[[CallFrame], Value],
        other: Callable[[CallFrame], Value],
    ) -> Value:
        """Write both branches of a test, and return their joined value."""
        if isinstance(test.text, bool):
            return then(frame.narrow(test.true)) if test.text else other(frame.narrow(test.false))
        if_lines, x = self.aside(lambda: then(frame.narrow(test.true)))
        else_lines, y = self.aside(lambda: other(frame.narrow(test.false)))
        value = self.join(x, y, if_lines, else_lines)
        self.write_if(test.text, if_lines, else_lines)
        if value is NEVER:
            raise Ends
        return value

    def test(self, node: ast.expr, frame: CallFrame) -> Test:
        """Write a condition, and return it."""
        match node:
            case ast.UnaryOp(op=ast.Not()):
                inner = self.test(node.operand, frame)
                text = not inner.text if isinstance(inner.text, bool) else f"(not {inner.text})"
                return Test(text, inner.false, inner.true)
            case ast.BoolOp():
                return self._test_all(node, frame)
            case ast.Compare() if _is_none_test(node):
                return self._test_none(node, frame)
        value = self.expr(node, frame)
        path = _path(node)
        some = ((path, False),) if path and isinstance(value, Maybe) else ()
        return Test(python_operators.truth(self, value), true=some)

    def _test_none(self, node: ast.Compare, frame: CallFrame) -> Test:
        value, path = self.expr(node.left, frame), _path(node.left)
        if kind_of(value) == OBJECT:
            raise Refusal("compares a value that has no column with None")
        if isinstance(value, Maybe):
            none, some = (((path, True),), ((path, False),)) if path else ((), ())
            test = Test(f"(not {value.valid})", none, some)
        else:
            test = Test(value == NONE)
        if isinstance(node.ops[0], ast.Is):
            return test
        text = not test.text if isinstance(test.text, bool) else f"(not {test.text})"
        return Test(text, test.false, test.true)

    def _test_all(self, node: ast.BoolOp, frame: CallFrame) -> Test:
        # `a or b` is `not (not a and not b)`: one translation serves both.
        stops = isinstance(node.op, ast.Or)
        whole = self.test(node.values[0], frame)
        for operand in node.values[1:]:
            if isinstance(whole.text, bool):
                if whole.text is stops:
                    return whole
                whole = self.test(operand, frame)
                continue
            continues, halts = (whole.false, whole.true) if stops else (whole.true, whole.false)
            text = whole.text
            found: list[Test] = []
            lines, end = self.aside(partial(self._look, operand, frame.narrow(continues), found))
            condition = f"not {text}" if stops else text
            if end is NEVER:
                self.write_if(condition, lines, [])
                return Test(stops, halts if stops else (), () if stops else halts)
            (last,) = found
            on = (*continues, *(last.false if stops else last.true))
            off = halts if last.text is (not stops) else ()
            whole = Test(
                self._combine(condition, text, lines, last, stops=stops),
                off if stops else on,
                on if stops else off,
            )
        return whole

    def _look(self, node: ast.expr, frame: CallFrame, found: list[Test]) -> Value:
        found.append(self.test(node, frame))
        return NONE

    def _combine(
        self, condition: str, text: str, lines: list[str], last: Test, *, stops: bool
    ) -> str | bool:
        if not lines:
            if isinstance(last.text, bool):
                return text if last.text is (not stops) else stops
            return f"({text} {'or' if stops else 'and'} {last.text})"
        name = self.fresh()
        self.write(f"{name} = {stops}")
        self.write_if(condition, [*lines, f"{name} = {last.text}"], [])
        return name

    def expr(self, node: ast.expr, frame: CallFrame) -> Value:
        """Write an expression, and return its value."""
        return self._located(node, frame, partial(self._expr, node, frame))

    def _expr(self, node: ast.expr, frame: CallFrame) -> Value:
        if isinstance(node, ast.UnaryOp | ast.BinOp | ast.Compare | ast.BoolOp | ast.IfExp):
            return self._operation(node, frame)
        match node:
            case ast.Constant():
                return know(node.value, repr(node.value))
            case ast.Name():
                return self._name(node.id, frame)
            case ast.Attribute():
                return calls.attribute(self, self.expr(node.value, frame), node.attr, frame.depth)
            case ast.Call():
                return calls.call(self, node, frame)
            case ast.Tuple():
                return KnownRecord(tuple, tuple(self.expr(part, frame) for part in node.elts))
            case ast.List():
                return Listed(tuple(self.expr(part, frame) for part in node.elts))
            case ast.Subscript():
                return calls.subscript(self, self.expr(node.value, frame), node.slice, frame)
        raise Refusal(f"uses {statements.name_syntax(node)}")

    def _operation(
        self,
        node: ast.UnaryOp | ast.BinOp | ast.Compare | ast.BoolOp | ast.IfExp,
        frame: CallFrame,
    ) -> Value:
        match node:
            case ast.BinOp():
                left = self.expr(node.left, frame)
                return python_operators.binary(self, node.op, left, self.expr(node.right, frame))
            case ast.BoolOp():
                return self._either(node.op, node.values, frame)
            case ast.IfExp():
                test = self.test(node.test, frame)
                return self.choose(
                    test,
                    frame,
                    lambda f: self.expr(node.body, f),
                    lambda f: self.expr(node.orelse, f),
                )
            case ast.UnaryOp(op=ast.Not()):
                return self._truth(self.test(node, frame))
            case ast.UnaryOp():
                return python_operators.unary(self, node.op, self.expr(node.operand, frame))
        if _is_none_test(node):
            return self._truth(self.test(node, frame))
        return self._compare(node, frame)

    def _truth(self, test: Test) -> Value:
        return Known(test.text) if isinstance(test.text, bool) else self.let("bool", test.text)

    def _name(self, name: str, frame: CallFrame) -> Value:
        if name in frame.names:
            return frame.names[name]
        function = frame.function
        if name in function.__code__.co_varnames:
            raise Refusal(f"reads {name}, which may not be set there")
        if name in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
            try:
                return know(cell.cell_contents, name)
            except ValueError:
                raise Refusal(f"reads {name}, which is not set yet") from None
        if name in function.__globals__:
            return know(function.__globals__[name], name)
        if hasattr(builtins, name):
            return Known(getattr(builtins, name))
        raise self.fail()  # A NameError, when it is interpreted.

    def _compare(self, node: ast.Compare, frame: CallFrame) -> Value:
        left = self.expr(node.left, frame)
        right = self.expr(node.comparators[0], frame)
        first = python_operators.compare(self, node.ops[0], left, right)
        if len(node.ops) == 1:
            return first
        # The middle of `a < b < c` is evaluated once, the end only if the first comparison is true.
        held = replace(frame, names={**frame.names, " middle": right})
        middle = ast.copy_location(ast.Name(" middle", ast.Load()), node.comparators[0])
        rest = ast.copy_location(ast.Compare(middle, node.ops[1:], node.comparators[1:]), node)
        return self.choose(
            Test(python_operators.truth(self, first)),
            held,
            lambda f: self._compare(rest, f),
            lambda _: Known(False),
        )

    def _either(self, op: ast.boolop, operands: Sequence[ast.expr], frame: CallFrame) -> Value:
        first = self.expr(operands[0], frame)
        if len(operands) == 1:
            return first
        path = _path(operands[0])
        some = ((path, False),) if path and isinstance(first, Maybe) else ()
        test = Test(python_operators.truth(self, first), true=some)
        surely = first.inner if isinstance(first, Maybe) else first
        if isinstance(op, ast.Or):
            return self.choose(
                test, frame, lambda _: surely, lambda f: self._either(op, operands[1:], f)
            )
        return self.choose(
            test, frame, lambda f: self._either(op, operands[1:], f), lambda _: first
        )


def _leaves(line: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return) for node in ast.walk(line))


def _path(node: ast.expr) -> Path:
    """Return the path to a value that has a name: `home.gauge` is (home, gauge)."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        front = _path(node.value)
        return (*front, node.attr) if front else ()
    return ()


def _is_none_test(node: ast.Compare) -> bool:
    """Return whether this is `x is None` or `x is not None`."""
    if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
        return False
    right = node.comparators[0]
    return isinstance(right, ast.Constant) and right.value is None


def _file(frame: CallFrame) -> str:
    return frame.function.__code__.co_filename
