"""The translation of calls and attributes in a user's function."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from anabranch.kernels.column_layouts import (
    BOOL,
    FLOAT,
    INT,
    KINDS,
    OBJECT,
    STR,
    has_plain_fields,
)
from anabranch.kernels.translate import python_operators
from anabranch.kernels.translate.known_values import (
    NONE,
    Known,
    KnownRecord,
    Maybe,
    Method,
    Refusal,
    Scalar,
    Value,
    an,
    default_of,
    kind_of,
    know,
    name_value,
)
from anabranch.kernels.translate.syntax import Uncompilable
from anabranch.model.events import field_names
from anabranch.state import Struct

if TYPE_CHECKING:
    from anabranch.kernels.translate.translation import CallFrame, Translator

Args = Sequence[Value]
Named = dict[str, Value]


def bind(function: FunctionType, args: Args, named: Named) -> Named:
    """Return the arguments of a call by name, as Python would."""
    if any(
        parameter.kind in (2, 4) for parameter in inspect.signature(function).parameters.values()
    ):
        raise Refusal(f"calls {function.__name__}, which takes any number of arguments")
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named)
    except TypeError:
        raise Refusal(f"calls {function.__name__} with other arguments than it takes") from None
    values: Named = dict(bound.arguments)
    for name, parameter in signature.parameters.items():
        if name not in values:
            values[name] = know(parameter.default, name)
    return values


def call(
    t: Translator, node: ast.Call, frame: CallFrame, sink: Callable[[Value], None] | None = None
) -> Value:
    """Inline a call; with a sink, pass its outputs to the sink."""
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    ):
        raise Refusal("calls with * or **")
    callee = t.expr(node.func, frame)
    args = [t.expr(a, frame) for a in node.args]
    named = {k.arg: t.expr(k.value, frame) for k in node.keywords if k.arg is not None}
    return apply(t, callee, args, named, frame.depth, sink)


def apply(
    t: Translator,
    callee: Value,
    args: Args,
    named: Named,
    depth: int,
    sink: Callable[[Value], None] | None = None,
) -> Value:
    """Inline a call of a known value; with a sink, pass its outputs to the sink."""
    target = callee.value if isinstance(callee, Known) else None
    if isinstance(callee, Method) and isinstance(callee.function, FunctionType):
        return _write_out(t, callee.function, [callee.owner, *args], named, depth, sink)
    if isinstance(target, FunctionType) and target is not dataclasses.replace:
        return _write_out(t, target, args, named, depth, sink)
    if isinstance(callee, Method):
        value = _call_method(t, callee, args, named, depth)
    elif isinstance(callee, Known):
        value = _call_known(t, target, args, named)
    else:
        raise Refusal(f"calls {an(callee)}")
    if sink is None:
        return value
    t.emit(value, sink)
    return NONE


def _call_known(t: Translator, target: Any, args: Args, named: Named) -> Value:
    if target is dataclasses.replace:
        return _replace(args[0], named)
    if isinstance(target, type) and has_plain_fields(target):
        return _construct(target, args, named)
    if target in (max, min):
        return _extreme(t, target, args, named)
    known = _FUNCTIONS.get(target) if getattr(target, "__hash__", None) else None
    name = getattr(target, "__name__", repr(target))
    if known is None:
        if getattr(target, "__module__", None) == "math":
            raise Refusal(f"calls math.{name}, which may differ in the last bit")
        raise Refusal(f"calls {name}")
    if named:
        raise Refusal(f"calls {name} with named arguments")
    return known(t, *_checked(name, known, args))


def _checked(name: str, function: Callable[..., Value], args: Args) -> Args:
    if len(args) != len(inspect.signature(function).parameters) - 1:
        raise Refusal(f"calls {name} with {len(args)} arguments")
    return args


def _write_out(
    t: Translator,
    function: FunctionType,
    args: Args,
    named: Named,
    depth: int,
    sink: Callable[[Value], None] | None,
) -> Value:
    try:
        return t.call(function, args, named, depth + 1, sink)
    except Uncompilable as reason:
        if depth == 0 or not (function.__module__ or "").startswith("anabranch."):
            raise
        # A line of this library is of no use to a user: name the call instead.
        raise Refusal(f"calls {function.__qualname__}, which {reason.why}") from None


def _call_method(t: Translator, method: Method, args: Args, named: Named, depth: int) -> Value:
    if method.function == "_replace":
        return _replace(method.owner, named)
    if method.function == "Struct.add":
        return _add_to_struct(t, method.owner, args, named, depth)
    raise Refusal(f"calls {getattr(method.function, '__name__', method.function)}")


def _add_to_struct(t: Translator, owner: Value, args: Args, named: Named, depth: int) -> Value:
    assert isinstance(owner, Known)
    assert isinstance(owner.value, Struct)
    state = args[0]
    changed = {}
    for name, value in named.items():
        if name not in owner.value.fields:
            raise t.fail()
        inner = know(owner.value.fields[name], name)
        before = attribute(t, state, name, depth)
        changed[name] = apply(t, attribute(t, inner, "add", depth), [before, value], {}, depth)
    return _replace(state, changed)


def _replace(owner: Value, named: Named) -> Value:
    if not isinstance(owner, KnownRecord):
        raise Refusal(f"replaces fields of {an(owner)}")
    names = field_names(owner.cls)
    if set(named) - set(names):
        raise Refusal(f"replaces {min(set(named) - set(names))}, which is not a field")
    pairs = zip(names, owner.parts, strict=True)
    return KnownRecord(owner.cls, tuple(named.get(name, part) for name, part in pairs))


def _construct(cls: type, args: Args, named: Named) -> Value:
    names = field_names(cls)
    given = dict(zip(names, args, strict=False)) | named
    places = (
        sum(not f.kw_only for f in dataclasses.fields(cls))
        if dataclasses.is_dataclass(cls)
        else len(names)
    )
    if len(args) > places or len(args) + len(named) != len(given) or set(given) - set(names):
        raise Refusal(f"makes a {cls.__name__} with fields that it does not have")
    parts: list[Value] = []
    for name in names:
        value = given[name] if name in given else default_of(cls, name)
        if value is None:
            raise Refusal(f"makes a {cls.__name__} without {name}")
        parts.append(value)
    return KnownRecord(cls, tuple(parts))


def attribute(t: Translator, owner: Value, name: str, depth: int) -> Value:
    """Return `owner.name`."""
    if isinstance(owner, Maybe):
        owner = python_operators.demand(t, owner)
    if isinstance(owner, KnownRecord):
        return _record_attribute(t, owner, name, depth)
    if isinstance(owner, Known):
        if isinstance(owner.value, Struct) and name == "add":
            return Method("Struct.add", owner)
        if isinstance(owner.value, ModuleType):
            return know(getattr(owner.value, name), f"{owner.value.__name__}.{name}")
        if isinstance(owner.value, type):
            return know(getattr(owner.value, name), f"{owner.value.__name__}.{name}")
        if owner == NONE:
            raise t.fail()
    raise Refusal(f"reads {name} of {an(owner)}")


def _record_attribute(t: Translator, owner: KnownRecord, name: str, depth: int) -> Value:
    cls = owner.cls
    if cls is not tuple and name in field_names(cls):
        found = owner.parts[field_names(cls).index(name)]
        if kind_of(found) == OBJECT:
            raise Refusal(f"reads {name}, which has no column")
        return found
    if name == "_replace" and issubclass(cls, tuple):
        return Method("_replace", owner)
    found = inspect.getattr_static(cls, name, None)
    if isinstance(found, FunctionType):
        return Method(found, owner)
    if isinstance(found, property) and isinstance(found.fget, FunctionType):
        return _write_out(t, found.fget, [owner], {}, depth, None)
    if isinstance(found, staticmethod):
        return know(found.__func__, name)
    if isinstance(found, classmethod):
        return Method(found.__func__, Known(cls))
    if found is None or callable(found):
        raise Refusal(f"uses {name} of {an(owner)}")
    return know(found, name)


def subscript(t: Translator, owner: Value, index: ast.expr, frame: CallFrame) -> Value:
    """Return `owner[index]`, where the index is a constant."""
    owner = python_operators.demand(t, owner)
    if not isinstance(owner, KnownRecord) or not issubclass(owner.cls, tuple):
        raise Refusal(f"uses [] on {an(owner)}")
    if isinstance(index, ast.Slice):
        raise Refusal("uses a slice")
    place = t.expr(index, frame)
    if not isinstance(place, Known) or type(place.value) is not int:
        raise Refusal("uses [] with an index that is not a constant")
    if not -len(owner.parts) <= place.value < len(owner.parts):
        raise t.fail()
    return owner.parts[place.value]


def _extreme(t: Translator, which: Any, args: Args, named: Named) -> Value:
    """Return max or min: the first of equals, and a NaN only where Python keeps one."""
    name = which.__name__
    if named:
        raise Refusal(f"calls {name} with {min(named)}=")
    if len(args) == 1:
        if not isinstance(args[0], KnownRecord) or args[0].cls is not tuple or not args[0].parts:
            raise Refusal(f"calls {name} on {an(args[0])}")
        args = args[0].parts
    best = python_operators.number(t, args[0], name)
    op: ast.cmpop = ast.Gt() if which is max else ast.Lt()
    for other in args[1:]:
        value = python_operators.number(t, other, name)
        if kind_of(value) != kind_of(best):
            raise Refusal(f"takes the {name} of {name_value(best)} and {name_value(value)}")
        better = python_operators.compare(t, op, value, best)
        if isinstance(better, Known):
            best = value if better.value else best
        else:
            text = f"{t.text(value)} if {t.text(better)} else {t.text(best)}"
            best = t.let(kind_of(best) or INT, text)
    return best


def _to_int(t: Translator, x: Value) -> Value:
    x = python_operators.number(t, x, "int")
    if isinstance(x, Known):
        return python_operators.fold(t, int, x)
    if kind_of(x) != FLOAT:
        return python_operators.as_int(t, x)
    # Of NaN neither comparison is true.
    t.fail_if(
        f"not ({t.text(x)} >= -9223372036854775808.0 and {t.text(x)} < 9223372036854775808.0)"
    )
    return t.let(INT, f"int({t.text(x)})")


def _to_float(t: Translator, x: Value) -> Value:
    return python_operators.as_float(t, python_operators.number(t, x, "float"))


def _to_bool(t: Translator, x: Value) -> Value:
    truth = python_operators.truth(t, x)
    return Known(truth) if isinstance(truth, bool) else t.let(BOOL, truth)


def _absolute(t: Translator, x: Value) -> Value:
    x = python_operators.as_int(t, python_operators.number(t, x, "abs"))
    if isinstance(x, Known):
        return python_operators.fold(t, abs, x)
    if kind_of(x) == INT:
        t.fail_if(f"{t.text(x)} == MIN")
    return t.let(kind_of(x) or INT, f"abs({t.text(x)})")


def _round(t: Translator, x: Value) -> Value:
    x = python_operators.as_int(t, python_operators.number(t, x, "round"))
    if isinstance(x, Known):
        return python_operators.fold(t, round, x)
    if kind_of(x) == INT:
        return x
    t.fail_if(f"not (abs({t.text(x)}) < 4503599627370496.0)")
    return t.let(INT, f"round_half_even({t.text(x)})")


def _divmod(t: Translator, a: Value, b: Value) -> Value:
    parts = [python_operators.binary(t, op, a, b) for op in (ast.FloorDiv(), ast.Mod())]
    return KnownRecord(tuple, tuple(parts))


def _is_instance(t: Translator, x: Value, classes: Value) -> Value:
    choices = classes.parts if isinstance(classes, KnownRecord) else (classes,)
    known = tuple(c.value for c in choices if isinstance(c, Known) and isinstance(c.value, type))
    if len(known) != len(choices):
        raise Refusal("calls isinstance with something other than classes")
    if isinstance(x, Maybe):
        inner = _is_instance(t, x.inner, classes)
        if isinstance(None, known):
            raise Refusal("calls isinstance with the type of None")
        return Scalar(BOOL, x.valid) if inner == Known(True) else Known(False)
    if isinstance(x, KnownRecord):
        return Known(issubclass(x.cls, known))
    kind = kind_of(x)
    if kind is not None:
        return Known(issubclass({v: k for k, v in KINDS.items()}[kind], known))
    if x == NONE:
        return Known(isinstance(None, known))
    raise Refusal(f"calls isinstance on {an(x)}")


def _type_of(t: Translator, x: Value) -> Value:
    kind = kind_of(x)
    if kind is not None:
        return Known({v: k for k, v in KINDS.items()}[kind])
    if isinstance(x, KnownRecord):
        return Known(x.cls)
    raise Refusal(f"calls type on {an(x)}")


def _length(t: Translator, x: Value) -> Value:
    if isinstance(x, KnownRecord) and issubclass(x.cls, tuple):
        return Known(len(x.parts))
    raise Refusal(f"calls len on {an(x)}")


def _root(t: Translator, x: Value) -> Value:
    x = _float_argument(t, x, "sqrt")
    t.fail_if(f"{t.text(x)} < 0.0")
    return t.let(FLOAT, f"math.sqrt({t.text(x)})")


def _float_argument(t: Translator, x: Value, name: str) -> Value:
    return python_operators.as_float(t, python_operators.number(t, x, f"math.{name}"))


def _to_whole(name: str) -> Callable[[Translator, Value], Value]:
    def whole(t: Translator, x: Value) -> Value:
        x = python_operators.as_int(t, python_operators.number(t, x, f"math.{name}"))
        if kind_of(x) == INT:
            return x
        t.fail_if(f"not (abs({t.text(x)}) < 9007199254740992.0)")
        if name == "trunc":
            return t.let(INT, f"int({t.text(x)})")
        return t.let(INT, f"int(math.{name}({t.text(x)}))")

    return whole


def _of_float(name: str, kind: str) -> Callable[[Translator, Value], Value]:
    def apply_to_float(t: Translator, x: Value) -> Value:
        return t.let(kind, f"math.{name}({t.text(_float_argument(t, x, name))})")

    return apply_to_float


def _copy_sign(t: Translator, x: Value, y: Value) -> Value:
    x, y = _float_argument(t, x, "copysign"), _float_argument(t, y, "copysign")
    return t.let(FLOAT, f"math.copysign({t.text(x)}, {t.text(y)})")


def _to_text(t: Translator, x: Value) -> Value:
    if kind_of(x) == STR:
        return x
    raise Refusal(f"calls str on {an(x)}")


_FUNCTIONS: dict[Any, Callable[..., Value]] = {
    builtins.abs: _absolute,
    builtins.bool: _to_bool,
    builtins.divmod: _divmod,
    builtins.float: _to_float,
    builtins.int: _to_int,
    builtins.isinstance: _is_instance,
    builtins.len: _length,
    builtins.round: _round,
    builtins.str: _to_text,
    builtins.type: _type_of,
    math.ceil: _to_whole("ceil"),
    math.copysign: _copy_sign,
    math.fabs: _of_float("fabs", FLOAT),
    math.floor: _to_whole("floor"),
    math.isfinite: _of_float("isfinite", BOOL),
    math.isinf: _of_float("isinf", BOOL),
    math.isnan: _of_float("isnan", BOOL),
    math.sqrt: _root,
    math.trunc: _to_whole("trunc"),
}
