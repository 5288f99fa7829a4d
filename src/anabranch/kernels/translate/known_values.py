"""Values: what is known of a value while its function is being translated.

A record is taken apart for good: its fields are values of their own, and only scalars reach the
generated code. So a NamedTuple costs nothing there, and every type is known.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

from anabranch.kernels.column_layouts import (
    BOOL,
    FLOAT,
    INT,
    KINDS,
    STR,
    ColumnLayout,
    Constant,
    Fields,
    Leaf,
    OptionalColumn,
    describe,
    is_record,
)
from anabranch.model.events import field_names
from anabranch.state import Struct


class Refusal(Exception):  # noqa: N818 - it is a verdict on a program, not a failure of ours
    """Say why something can't be translated; whoever knows the line adds it."""


@dataclass(frozen=True)
class Scalar:
    """A number, truth value or text that the generated code holds in a variable."""

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Known:
    """A value known now: a constant, or a function, class or module to be used."""

    value: Any

    def __eq__(self, other: object) -> bool:
        # 1 == True and 0.0 == -0.0, but neither is the same to a user.
        if not isinstance(other, Known) or type(self.value) is not type(other.value):
            return False
        if type(self.value) in KINDS:
            return repr(self.value) == repr(other.value)
        return self.value is other.value

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True)
class Maybe:
    """A value or None; `valid` is the text of what says which."""

    valid: str
    inner: Value


@dataclass(frozen=True)
class KnownRecord:
    """A tuple, NamedTuple or frozen dataclass, field by field."""

    cls: type
    parts: tuple[Value, ...]


@dataclass(frozen=True)
class Listed:
    """A list written out: several outputs."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Method:
    """A function and the value it was taken from. `_replace` is a name, not a function."""

    function: Any
    owner: Value


@dataclass(frozen=True)
class AlwaysFails:
    """The value of what always fails."""


NEVER = AlwaysFails()
NONE = Known(None)

Value: TypeAlias = Scalar | Known | Maybe | KnownRecord | Listed | Method | AlwaysFails

_BLANKS = {INT: "0", FLOAT: "0.0", BOOL: "False", STR: "0"}
_USABLE = (FunctionType, BuiltinFunctionType, ModuleType, type, Struct)


def know(value: Any, name: str) -> Value:
    """Return a constant from a user's module, if it is one that can't change."""
    if value is None or type(value) in KINDS:
        return Known(value)
    if type(value) is tuple:
        return KnownRecord(tuple, tuple(know(part, name) for part in value))
    if is_record(type(value)):
        cls: type = type(value)
        return KnownRecord(cls, tuple(know(getattr(value, f), name) for f in field_names(cls)))
    if isinstance(value, MethodType):
        return Method(value.__func__, know(value.__self__, name))
    if isinstance(value, _USABLE):
        return Known(value)
    raise Refusal(f"uses the {type(value).__name__} {name}")


def kind_of(value: Value) -> str | None:
    """Return the kind of a scalar, known or not; None of anything else."""
    if isinstance(value, Scalar):
        return value.kind
    return KINDS.get(type(value.value)) if isinstance(value, Known) else None


def layout_of(value: Value) -> ColumnLayout:
    """Return how a value would lie in columns."""
    if isinstance(value, Scalar):
        return Leaf(value.kind)
    if isinstance(value, Known) and (value.value is None or type(value.value) in KINDS):
        return Constant(value.value)
    if isinstance(value, Maybe):
        return OptionalColumn(layout_of(value.inner))
    if isinstance(value, KnownRecord):
        return Fields(value.cls, tuple(layout_of(part) for part in value.parts))
    raise Refusal(f"makes {an(value)} into a value")


def name_value(value: Value) -> str:
    """Say what a value is, for a reason."""
    if isinstance(value, Listed):
        return "list"
    if isinstance(value, Method | AlwaysFails):
        return "function"
    if isinstance(value, Known) and value.value is not None and type(value.value) not in KINDS:
        return type(value.value).__name__
    return describe(layout_of(value))


def an(value: Value) -> str:
    """Say what a value is, with its article."""
    name = name_value(value)
    if name.startswith("None"):
        return name
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def literal(value: Any) -> str:
    """Write a number or truth value as the generated code must."""
    if type(value) is float:
        if math.isnan(value):
            return "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "(-INFINITY)"
        return f"({value!r})" if math.copysign(1.0, value) < 0 else repr(value)
    if type(value) is int:
        if not -(2**63) <= value < 2**63:
            raise Refusal("uses a constant of more than 64 bits")
        if value == -(2**63):
            return "MIN"
        return f"({value})" if value < 0 else str(value)
    return repr(value)


def load(layout: ColumnLayout, names: Iterator[str]) -> Value:
    """Return the value that lies in columns, whose elements have these names."""
    if isinstance(layout, Leaf):
        return Scalar(layout.kind, next(names))
    if isinstance(layout, Constant):
        return Known(layout.value)
    if isinstance(layout, OptionalColumn):
        return Maybe(next(names), load(layout.inner, names))
    return KnownRecord(layout.cls, tuple(load(part, names) for part in layout.parts))


def empty_texts(layout: ColumnLayout) -> Iterator[str]:
    """Yield what stands in the columns of a value that is not there."""
    if isinstance(layout, Leaf):
        yield _BLANKS[layout.kind]
    elif isinstance(layout, OptionalColumn):
        yield "False"
        yield from empty_texts(layout.inner)
    elif isinstance(layout, Fields):
        for part in layout.parts:
            yield from empty_texts(part)


def default_of(cls: type, name: str) -> Value | None:
    """Return what a record's field is when it is left out, or None if it may not be."""
    if issubclass(cls, tuple):
        defaults: dict[str, Any] = cls._field_defaults  # type: ignore[attr-defined]
        return know(defaults[name], name) if name in defaults else None
    made: Any = cls
    field = next(f for f in dataclasses.fields(made) if f.name == name)
    if field.default_factory is not dataclasses.MISSING:
        raise Refusal(f"makes a {cls.__name__} whose {name} comes from a default_factory")
    return None if field.default is dataclasses.MISSING else know(field.default, name)
