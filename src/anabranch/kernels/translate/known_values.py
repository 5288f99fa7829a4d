"""The translator's knowledge of a value while its function is being translated.

A record is split into its fields, which are values of their own; only scalars reach the generated
code. So a NamedTuple costs nothing there, and every type is known.
"""

from __future__ import annotations

import dataclasses
import enum
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
    EnumColumn,
    Fields,
    Leaf,
    OptionalColumn,
    describe,
    has_plain_fields,
    is_record,
)
from anabranch.model.events import field_names
from anabranch.state import Struct


class Refusal(Exception):  # noqa: N818 - it is a verdict on a program, not a failure of ours
    """The reason why something can't be translated; a caller that has the line adds it."""


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
        # 1 == True and 0.0 == -0.0 in Python, but their results differ.
        if not isinstance(other, Known) or type(self.value) is not type(other.value):
            return False
        if type(self.value) in KINDS:
            return repr(self.value) == repr(other.value)
        return self.value is other.value

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True)
class Maybe:
    """A value or None; `valid` is the text of the condition that there is a value."""

    valid: str
    inner: Value


@dataclass(frozen=True)
class KnownRecord:
    """A tuple, NamedTuple or frozen dataclass, field by field."""

    cls: type
    parts: tuple[Value, ...]


@dataclass(frozen=True)
class KnownEnum:
    """A member of an enum, which the generated code holds as the code of its name."""

    cls: type[enum.Enum]
    text: str


@dataclass(frozen=True)
class Listed:
    """A list display: several outputs."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Method:
    """A function and the object it is bound to. `_replace` is a name, not a function."""

    function: Any
    owner: Value


@dataclass(frozen=True)
class AlwaysFails:
    """The value of an expression that always fails."""


MIXED = "on one path and"
"""In the reason of a function whose value has two types: a column of one of them does not hold it."""

NEVER = AlwaysFails()
NONE = Known(None)

Value: TypeAlias = Scalar | Known | KnownEnum | Maybe | KnownRecord | Listed | Method | AlwaysFails

_BLANKS = {INT: "0", FLOAT: "0.0", BOOL: "False", STR: "0"}
_USABLE = (FunctionType, BuiltinFunctionType, ModuleType, type, Struct)


def know(value: Any, name: str) -> Value:
    """Return a constant of a user's module as a value, or raise Refusal if it can change."""
    if value is None or type(value) in KINDS:
        return Known(value)
    if type(value) is tuple:
        return KnownRecord(tuple, tuple(know(part, name) for part in value))
    if has_plain_fields(type(value)):
        cls: type = type(value)
        return KnownRecord(cls, tuple(know(getattr(value, f), name) for f in field_names(cls)))
    if isinstance(value, MethodType):
        return Method(value.__func__, know(value.__self__, name))
    if isinstance(value, (*_USABLE, enum.Enum)):
        return Known(value)
    raise Refusal(f"uses the {type(value).__name__} {name}")


def kind_of(value: Value) -> str | None:
    """Return the kind of a scalar, known or not; None for any other value."""
    if isinstance(value, Scalar):
        return value.kind
    return KINDS.get(type(value.value)) if isinstance(value, Known) else None


def layout_of(value: Value) -> ColumnLayout:
    """Return the column layout of a value."""
    if isinstance(value, Scalar):
        return Leaf(value.kind)
    if isinstance(value, Known) and (value.value is None or type(value.value) in KINDS):
        return Constant(value.value)
    if isinstance(value, Maybe):
        return OptionalColumn(layout_of(value.inner))
    if isinstance(value, KnownRecord) and (value.cls is tuple or is_record(value.cls)):
        return Fields(value.cls, tuple(layout_of(part) for part in value.parts))
    raise Refusal(f"uses {an(value)} as a value")


def name_value(value: Value) -> str:
    """Return the name of a value's type, for a reason."""
    if isinstance(value, Listed):
        return "list"
    if isinstance(value, Method | AlwaysFails):
        return "function"
    if isinstance(value, Known) and value.value is not None and type(value.value) not in KINDS:
        return type(value.value).__name__
    if isinstance(value, KnownEnum) or (isinstance(value, KnownRecord) and value.cls is not tuple):
        return value.cls.__name__
    return describe(layout_of(value))


def an(value: Value) -> str:
    """Return the name of a value's type with its article."""
    name = name_value(value)
    if name.startswith("None"):
        return name
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def literal(value: Any) -> str:
    """Return a number or truth value as text of the generated code."""
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
    """Return the value of a layout whose column elements have these names."""
    if isinstance(layout, EnumColumn):
        return KnownEnum(layout.cls, next(names))
    if isinstance(layout, Leaf):
        return Scalar(layout.kind, next(names))
    if isinstance(layout, Constant):
        return Known(layout.value)
    if isinstance(layout, OptionalColumn):
        return Maybe(next(names), load(layout.inner, names))
    return KnownRecord(layout.cls, tuple(load(part, names) for part in layout.parts))


def empty_texts(layout: ColumnLayout) -> Iterator[str]:
    """Yield the fillers for the columns of a missing value."""
    if isinstance(layout, Leaf):
        yield _BLANKS[layout.kind]
    elif isinstance(layout, OptionalColumn):
        yield "False"
        yield from empty_texts(layout.inner)
    elif isinstance(layout, Fields):
        for part in layout.parts:
            yield from empty_texts(part)


def default_of(cls: type, name: str) -> Value | None:
    """Return the default of a record's field, or None if it has none."""
    if issubclass(cls, tuple):
        defaults: dict[str, Any] = cls._field_defaults  # type: ignore[attr-defined]
        return know(defaults[name], name) if name in defaults else None
    made: Any = cls
    field = next(f for f in dataclasses.fields(made) if f.name == name)
    if field.default_factory is not dataclasses.MISSING:
        raise Refusal(f"makes a {cls.__name__} whose {name} comes from a default_factory")
    return None if field.default is dataclasses.MISSING else know(field.default, name)
