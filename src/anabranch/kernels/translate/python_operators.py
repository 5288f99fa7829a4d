"""The translation of Python's operators on 64-bit numbers, exact or refused.

An event whose values do not fit is left to plain Python: an overflow, a division by zero, a negative
shift, a quotient or comparison that needs more bits than a float has. Operations on `Known` operands
are computed by Python during the translation.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from enum import Enum
from typing import Any

from anabranch.kernels.column_layouts import BOOL, FLOAT, INT, OBJECT, STR
from anabranch.kernels.translate.code_writer import Writer
from anabranch.kernels.translate.known_values import (
    NONE,
    Known,
    KnownEnum,
    KnownRecord,
    Maybe,
    Refusal,
    Scalar,
    Value,
    an,
    kind_of,
)

EXACT = 2**53
"""Every int up to this is exact as a float."""

SIGNS: dict[type[ast.AST], tuple[str, Callable[..., Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
    ast.MatMult: ("@", operator.matmul),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.UAdd: ("+", operator.pos),
    ast.USub: ("-", operator.neg),
    ast.Invert: ("~", operator.invert),
    ast.Not: ("not ", operator.not_),
}

_CHECKED = {"+": "add", "-": "subtract", "*": "multiply"}
_LARGEST_POWER = 64


def demand(w: Writer, value: Value) -> Value:
    """Return a value that can't be None; where it is None, the event is left to Python, which raises."""
    if isinstance(value, Maybe):
        w.fail_if(f"not {value.valid}")
        return value.inner
    if value == NONE:
        raise w.fail()
    return value


def number(w: Writer, value: Value, sign: str) -> Value:
    """Return a number, or raise Refusal."""
    value = demand(w, value)
    if kind_of(value) not in (INT, FLOAT, BOOL):
        raise Refusal(f"uses {sign.strip()} on {an(value)}")
    return value


def as_int(w: Writer, value: Value) -> Value:
    """Return a truth value as 0 or 1, and a number unchanged."""
    if kind_of(value) != BOOL:
        return value
    return (
        Known(int(value.value)) if isinstance(value, Known) else w.let(INT, f"int({w.text(value)})")
    )


def as_float(w: Writer, value: Value) -> Value:
    """Return a number as a float: an int64 rounds to even, in C as in Python."""
    value = as_int(w, value)
    if kind_of(value) == FLOAT:
        return value
    if isinstance(value, Known):
        return fold(w, float, value)
    return w.let(FLOAT, f"float({w.text(value)})")


def fold(w: Writer, function: Callable[..., Any], *values: Known) -> Value:
    """Compute a function of known values in Python; where it raises, this path always fails."""
    try:
        return Known(function(*(value.value for value in values)))
    except Exception:  # noqa: BLE001 - whatever it raises, it will raise again when interpreted
        raise w.fail() from None


def binary(w: Writer, op: ast.operator, a: Value, b: Value) -> Value:
    """Return `a op b`."""
    sign, function = SIGNS[type(op)]
    if isinstance(a, Known) and isinstance(b, Known) and kind_of(a) and kind_of(b):
        return fold(w, function, a, b)
    a, b = number(w, a, sign), number(w, b, sign)
    if sign in "&|^" and kind_of(a) == kind_of(b) == BOOL:
        return w.let(BOOL, f"{w.text(a)} {sign} {w.text(b)}")
    a, b = as_int(w, a), as_int(w, b)
    if isinstance(a, Known) and isinstance(b, Known):
        return fold(w, function, a, b)
    if FLOAT in (kind_of(a), kind_of(b)):
        return _float_binary(w, sign, as_float(w, a), as_float(w, b))
    if sign in _CHECKED:
        name, flag = w.fresh(), w.fresh()
        w.write(f"{name}, {flag} = {_CHECKED[sign]}({w.text(a)}, {w.text(b)})")
        w.fail_if(flag)
        return Scalar(INT, name)
    if sign in ("&", "|", "^"):
        return w.let(INT, f"{w.text(a)} {sign} {w.text(b)}")
    special = {
        "/": _divide,
        "//": _floor_divide,
        "%": _modulo,
        "<<": _shift_left,
        ">>": _shift_right,
    }
    if sign == "**":
        return _power(w, a, b)
    if sign not in special:
        raise Refusal(f"uses {sign} on numbers")
    return special[sign](w, a, b)


def _float_binary(w: Writer, sign: str, a: Value, b: Value) -> Value:
    if sign not in ("+", "-", "*", "/", "//", "%"):
        hint = "; write x * x for x ** 2" if sign == "**" else ""
        raise Refusal(f"uses {sign} on floats{hint}")
    if sign in ("/", "//", "%"):
        _fail_at_zero(w, b)
    x, y = w.text(a), w.text(b)
    if sign in ("//", "%"):
        name = "float_floor_divide" if sign == "//" else "float_modulo"
        return w.let(FLOAT, f"{name}({x}, {y})")
    return w.let(FLOAT, f"{x} {sign} {y}")


def _fail_at_zero(w: Writer, b: Value) -> None:
    if isinstance(b, Known):
        if b.value == 0:
            raise w.fail()
        return
    w.fail_if(f"{w.text(b)} == {'0.0' if kind_of(b) == FLOAT else '0'}")


def _divide(w: Writer, a: Value, b: Value) -> Value:
    # Beyond 2**53 Python rounds the exact quotient; converting first would round twice.
    _fail_at_zero(w, b)
    for side in (a, b):
        _fail_beyond_floats(w, side)
    return w.let(FLOAT, f"float({w.text(a)}) / float({w.text(b)})")


def _fail_beyond_floats(w: Writer, value: Value) -> None:
    if isinstance(value, Known):
        if abs(value.value) > EXACT:
            raise Refusal("mixes floats with a constant beyond 2**53")
        return
    w.fail_if(f"{w.text(value)} > {EXACT} or {w.text(value)} < -{EXACT}")


def _floor_divide(w: Writer, a: Value, b: Value) -> Value:
    _fail_at_zero(w, b)
    x, y = w.text(a), w.text(b)
    if not isinstance(b, Known) or b.value == -1:
        w.fail_if(f"{y} == -1 and {x} == MIN")
    return w.let(INT, f"{x} // {y}")


def _modulo(w: Writer, a: Value, b: Value) -> Value:
    _fail_at_zero(w, b)
    if isinstance(b, Known) and b.value > 0:
        return w.let(INT, f"{w.text(a)} % {w.text(b)}")
    return w.let(INT, f"modulo({w.text(a)}, {w.text(b)})")


def _shift_left(w: Writer, a: Value, b: Value) -> Value:
    x, y = w.text(a), w.text(b)
    w.fail_if(f"{y} < 0 or {y} > 62")
    shifted = w.let(INT, f"{x} << {y}")
    w.fail_if(f"{shifted.text} >> {y} != {x}")
    return shifted


def _shift_right(w: Writer, a: Value, b: Value) -> Value:
    y = w.text(b)
    w.fail_if(f"{y} < 0")
    return w.let(INT, f"{w.text(a)} >> min({y}, 63)")


def _power(w: Writer, a: Value, b: Value) -> Value:
    if not isinstance(b, Known) or not 0 <= b.value <= _LARGEST_POWER:
        raise Refusal(f"uses ** with an exponent that is not a constant from 0 to {_LARGEST_POWER}")
    power: Value = Known(1)
    for _ in range(b.value):
        power = binary(w, ast.Mult(), power, a)
    return power


def unary(w: Writer, op: ast.unaryop, a: Value) -> Value:
    """Return `op a`; `not` is for tests."""
    sign, function = SIGNS[type(op)]
    a = number(w, a, sign)
    if sign == "~" and kind_of(a) == BOOL:
        raise Refusal("uses ~ on a bool")
    if isinstance(a, Known):
        return fold(w, function, a)
    a = as_int(w, a)
    if sign == "+":
        return a
    if sign == "~":
        if kind_of(a) == FLOAT:
            raise Refusal("uses ~ on a float")
        return w.let(INT, f"~{w.text(a)}")
    if kind_of(a) == FLOAT:
        return w.let(FLOAT, f"-{w.text(a)}")
    w.fail_if(f"{w.text(a)} == MIN")
    return w.let(INT, f"-{w.text(a)}")


def compare(w: Writer, op: ast.cmpop, a: Value, b: Value) -> Value:
    """Return `a op b` as a truth value, known or not."""
    if isinstance(op, ast.In | ast.NotIn):
        return _contains(w, op, a, b)
    op = _check_sides(op, a, b)
    sign, function = SIGNS[type(op)]
    if isinstance(a, Known) and isinstance(b, Known):
        return fold(w, function, a, b)
    if sign in ("==", "!="):
        if isinstance(a, Maybe) or isinstance(b, Maybe) or NONE in (a, b):
            return _compare_maybe(w, op, a, b)
    else:
        a, b = demand(w, a), demand(w, b)
    if isinstance(a, KnownEnum) or isinstance(b, KnownEnum):
        return w.let(BOOL, f"{_code(w, a, b, sign)} {sign} {_code(w, b, a, sign)}")
    return _compare_scalars(w, sign, a, b)


def _compare_scalars(w: Writer, sign: str, a: Value, b: Value) -> Value:
    kinds = (kind_of(a), kind_of(b))
    if kinds == (STR, STR):
        if sign not in ("==", "!="):
            raise Refusal(f"uses {sign} on texts")
        return w.let(BOOL, f"{w.text(a)} {sign} {w.text(b)}")
    if STR in kinds or None in kinds:
        raise Refusal(f"compares {an(a)} with {an(b)}")
    a, b = as_int(w, a), as_int(w, b)
    if kind_of(a) != kind_of(b):
        for side in (a, b):
            if kind_of(side) == INT:
                _fail_beyond_floats(w, side)
        a, b = as_float(w, a), as_float(w, b)
    return w.let(BOOL, f"{w.text(a)} {sign} {w.text(b)}")


def _check_sides(op: ast.cmpop, a: Value, b: Value) -> ast.cmpop:
    """Return the operator of a comparison: for members of enums, `is` is the same as ==."""
    if OBJECT in (kind_of(a), kind_of(b)):
        raise Refusal("compares a value that has no column")
    if isinstance(op, ast.Is | ast.IsNot) and (_is_member(a) or _is_member(b)):
        return ast.Eq() if isinstance(op, ast.Is) else ast.NotEq()
    if type(op) not in SIGNS:
        raise Refusal("uses `is` on something other than None")
    return op


def _is_member(value: Value) -> bool:
    """Return whether a value is a member of an enum, of which there is one object, or None."""
    inner = value.inner if isinstance(value, Maybe) else value
    if isinstance(inner, Known):
        return isinstance(inner.value, Enum)
    return isinstance(inner, KnownEnum)


def _code(w: Writer, value: Value, other: Value, sign: str) -> str:
    """Return the code of a member's name, to compare it with a member of the same enum."""
    cls: Any = value.cls if isinstance(value, KnownEnum) else type(getattr(value, "value", None))
    known: Any = other.cls if isinstance(other, KnownEnum) else cls
    # A member equals itself only, unless its class defines it otherwise.
    plain = cls is known and cls.__eq__ in (object.__eq__, int.__eq__, str.__eq__)
    if sign not in ("==", "!=") or not plain:
        raise Refusal(f"compares {an(value)} with {an(other)}")
    return value.text if isinstance(value, KnownEnum) else w.text(Known(value.value.name))  # type: ignore[union-attr]


def _compare_maybe(w: Writer, op: ast.cmpop, a: Value, b: Value) -> Value:
    sides = [(s.valid, s.inner) if isinstance(s, Maybe) else ("", s) for s in (a, b)]
    valid = [text for text, _ in sides if text]
    equal = isinstance(op, ast.Eq)
    if len(valid) == 2:
        raise Refusal("compares two values that may both be None")
    if NONE in (a, b):
        # A record or a number is never equal to None, unless its class defines it so.
        if any(isinstance(inner, KnownRecord) for _, inner in sides):
            raise Refusal("compares a record with None; write `is None`")
        return w.let(BOOL, f"{'not ' if equal else ''}{valid[0]}") if valid else Known(not equal)
    then, found = w.aside(lambda: compare(w, op, sides[0][1], sides[1][1]))
    name = w.fresh()
    then.append(f"{name} = {w.text(found)}")
    w.write_if(valid[0], then, [f"{name} = {not equal}"])
    return Scalar(BOOL, name)


def _contains(w: Writer, op: ast.cmpop, a: Value, b: Value) -> Value:
    if not isinstance(b, KnownRecord) or b.cls is not tuple:
        raise Refusal(f"looks for something in {an(b)}")
    member = isinstance(a, KnownEnum)
    if kind_of(a) not in (INT, STR, BOOL) and not member:
        raise Refusal(f"looks for {an(a)} in a tuple")
    found: Value = Known(False)
    for part in b.parts:
        odd = kind_of(part) not in (INT, STR, BOOL) or (kind_of(part) == STR) != (kind_of(a) == STR)
        if odd and not member:
            raise Refusal(f"looks for {an(a)} in a tuple with {an(part)}")
        one = compare(w, ast.Eq(), a, part)
        if isinstance(found, Known) and isinstance(one, Known):
            found = Known(found.value or one.value)
        else:
            found = w.let(BOOL, f"{w.text(found)} or {w.text(one)}")
    if isinstance(op, ast.NotIn):
        return (
            Known(not found.value)
            if isinstance(found, Known)
            else w.let(BOOL, f"not {w.text(found)}")
        )
    return found


def truth(w: Writer, value: Value) -> str | bool:
    """Return the truth of a value in a test: a bool if known, else its text."""
    if isinstance(value, Known):
        return bool(value.value)
    if isinstance(value, Maybe):
        inner = truth(w, value.inner)
        if isinstance(inner, bool):
            return value.valid if inner else False
        return f"({value.valid} and {inner})"
    if isinstance(value, Scalar):
        empty = {INT: "0", FLOAT: "0.0", STR: w.text(Known(""))}
        return value.text if value.kind == BOOL else f"({value.text} != {empty[value.kind]})"
    if isinstance(value, KnownRecord) and value.cls is tuple:
        return bool(value.parts)
    raise Refusal(f"uses {an(value)} as a condition")
