"""Column layouts: how a value is stored in columns.

A layout is a tree. Its leaves are columns of one kind each; a value that may be None has one more
column, which is true where there is a value. Any other value is a leaf of kind `object`, which
only the interpreted kernel reads; on its way it is *carried*, as bytes of the codec.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, Union, get_args, get_origin

from anabranch.model.events import EventType, field_names, field_types
from anabranch.state.collections import make_struct_type
from anabranch.state.durable.codec import Codec

INT, FLOAT, BOOL, STR, OBJECT = "int", "float", "bool", "str", "object"

MOMENT, DAY = "datetime", "date"
"""Fields of an event: a datetime in UTC as microseconds since 1970, a date as days. No state lies in such columns."""

CALENDAR = {datetime: MOMENT, date: DAY}

ENUM, CARRIED = "enum", "carried"
"""Fields of an event: a member of an enum by the code of its name, and any other value as bytes of the codec."""

CODED = frozenset({STR, ENUM})
"""The kinds of columns that hold codes of texts."""

KINDS = {int: INT, float: FLOAT, bool: BOOL, str: STR}
"""Types are compared by identity: neither True nor an IntEnum is an int here."""

_DEPTH = 8


class Clash(ValueError):  # noqa: N818 - it is a verdict on two layouts, not a failure of ours
    """Raised for two layouts that no common columns can hold."""

    def __init__(self, one: ColumnLayout, other: ColumnLayout) -> None:
        super().__init__(f"{describe(one)} and {describe(other)}")
        self.one = one
        self.other = other


@dataclass(frozen=True)
class Leaf:
    """One column of one kind."""

    kind: str


@dataclass(frozen=True)
class EnumColumn(Leaf):
    """A column of members of an enum. Their names are stored, which stay if a value or the order changes."""

    cls: type[enum.Enum]


@dataclass(frozen=True)
class CarriedColumn(Leaf):
    """A column of values as bytes of a codec: they are decoded where an event is made as an object."""

    codec: Codec = field(compare=False, repr=False)


@dataclass(frozen=True)
class Constant:
    """A value that is always the same and needs no column.

    1, 1.0 and True are equal in Python, as are 0.0 and -0.0; here the text distinguishes them.
    """

    value: Any = field(compare=False)
    text: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{type(self.value).__name__} {self.value!r}")


@dataclass(frozen=True)
class OptionalColumn:
    """A value or None: a column that is true for a value, then the columns of the value."""

    inner: ColumnLayout


@dataclass(frozen=True)
class Fields:
    """A tuple, a NamedTuple or a frozen dataclass: the columns of its parts, side by side."""

    cls: type
    parts: tuple[ColumnLayout, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of all parts; computed once, because every table of a batch needs them."""
        return tuple(_list_columns(self, ""))

    def __reduce__(self) -> tuple[Any, ...]:
        # Each process makes its own type for a struct; the restored layout must use that one.
        names = getattr(self.cls, "_fields", None)
        if names is not None and self.cls is make_struct_type(names):
            return _restore_struct, (names, self.parts)
        return Fields, (self.cls, self.parts)


def _restore_struct(names: tuple[str, ...], parts: tuple[ColumnLayout, ...]) -> Fields:
    return Fields(make_struct_type(names), parts)


ColumnLayout: TypeAlias = Leaf | Constant | OptionalColumn | Fields

NOTHING = Constant(None)
ANYTHING = Leaf(OBJECT)


class Column(NamedTuple):
    """One column of a layout: its kind, and its path (`.gauge.last?`: whether there is a value)."""

    kind: str
    path: str


def list_columns(layout: ColumnLayout) -> tuple[Column, ...]:
    """Return the columns of a layout, in order."""
    return layout.columns if isinstance(layout, Fields) else tuple(_list_columns(layout, ""))


def _list_columns(layout: ColumnLayout, path: str) -> Iterator[Column]:
    if isinstance(layout, Leaf):
        yield Column(layout.kind, path)
    elif isinstance(layout, OptionalColumn):
        yield Column(BOOL, path + "?")
        yield from _list_columns(layout.inner, path)
    elif isinstance(layout, Fields):
        for name, part in zip(part_names(layout), layout.parts, strict=True):
            yield from _list_columns(part, f"{path}.{name}")


def part_names(layout: Fields) -> tuple[str, ...]:
    """Return the names of a record's parts; a plain tuple's are numbers."""
    if layout.cls is tuple:
        return tuple(str(n) for n in range(len(layout.parts)))
    return field_names(layout.cls)


def read_annotation(annotation: Any, depth: int = 0) -> ColumnLayout:
    """Return the layout of values of an annotated type."""
    if isinstance(annotation, type) and annotation in KINDS:
        return Leaf(KINDS[annotation])
    if isinstance(annotation, type) and annotation in CALENDAR:
        return Leaf(CALENDAR[annotation])
    if is_plain_enum(annotation):
        return EnumColumn(ENUM, annotation)
    if annotation in (None, types.NoneType):
        return NOTHING
    if get_origin(annotation) in (Union, types.UnionType):
        choices = [c for c in get_args(annotation) if c is not types.NoneType]
        if len(choices) == 1 and len(get_args(annotation)) == 2:
            inner = read_annotation(choices[0], depth)
            return ANYTHING if inner == ANYTHING else OptionalColumn(inner)
    if is_record(annotation) and depth < _DEPTH:
        return read_record(annotation, depth + 1)
    return ANYTHING


def read_record(cls: EventType, depth: int = 0) -> Fields:
    """Return the layout of an event type or another record, field by field."""
    return Fields(cls, tuple(read_annotation(t, depth) for t in field_types(cls).values()))


def is_plain_enum(annotation: Any) -> bool:
    """Return whether each value of a type is one member of an enum, with a name of its own."""
    return (
        isinstance(annotation, type)
        and issubclass(annotation, enum.Enum)
        and not issubclass(annotation, enum.Flag)
        and len(annotation) > 0
    )


def carry(layout: ColumnLayout, codec: Codec) -> ColumnLayout:
    """Return a layout with bytes of a codec in place of objects."""
    if isinstance(layout, Fields):
        return Fields(layout.cls, tuple(carry(part, codec) for part in layout.parts))
    if isinstance(layout, OptionalColumn):
        return OptionalColumn(carry(layout.inner, codec))
    return CarriedColumn(CARRIED, codec) if layout == ANYTHING else layout


def hide_moments(layout: ColumnLayout) -> ColumnLayout:
    """Return a layout whose datetimes and dates are objects, which Python reads: no loop is made of them."""
    if isinstance(layout, Fields):
        return Fields(layout.cls, tuple(map(hide_moments, layout.parts)))
    if isinstance(layout, OptionalColumn):
        inner = hide_moments(layout.inner)
        return ANYTHING if inner == ANYTHING else OptionalColumn(inner)
    return ANYTHING if layout in (Leaf(MOMENT), Leaf(DAY)) else layout


def read_value(value: Any) -> ColumnLayout:
    """Return the layout of one value, such as the start of a state.

    >>> read_value((1, None))
    Fields(cls=<class 'tuple'>, parts=(Leaf(kind='int'), Constant(value=None, text='NoneType None')))
    """
    kind = KINDS.get(type(value))
    if kind is not None:
        return Leaf(kind)
    if value is None:
        return NOTHING
    if type(value) is tuple:
        return Fields(tuple, tuple(read_value(part) for part in value))
    if is_record(type(value)):
        cls: EventType = type(value)
        return Fields(cls, tuple(read_value(getattr(value, name)) for name in field_names(cls)))
    return ANYTHING


def meet(a: ColumnLayout, b: ColumnLayout) -> ColumnLayout:
    """Return the layout that can hold values of both, or raise `Clash`."""
    if a == b:
        return a
    if NOTHING in (a, b):
        other = widen(b if a == NOTHING else a)
        return other if isinstance(other, OptionalColumn) else OptionalColumn(other)
    if isinstance(a, OptionalColumn) or isinstance(b, OptionalColumn):
        return OptionalColumn(meet(_without_none(a), _without_none(b)))
    if isinstance(a, Constant) or isinstance(b, Constant):
        return meet(widen(a), widen(b))
    if not isinstance(a, Fields) or not isinstance(b, Fields):
        raise Clash(a, b)
    if a.cls is not b.cls or len(a.parts) != len(b.parts):
        raise Clash(a, b)
    return Fields(a.cls, tuple(map(meet, a.parts, b.parts)))


def widen(layout: ColumnLayout) -> ColumnLayout:
    """Return a layout with a column for each constant, so that it may change; None stays a constant."""
    if isinstance(layout, Constant) and layout.value is not None:
        return read_value(layout.value)
    if isinstance(layout, OptionalColumn):
        return OptionalColumn(widen(layout.inner))
    if isinstance(layout, Fields):
        return Fields(layout.cls, tuple(map(widen, layout.parts)))
    return layout


def _without_none(layout: ColumnLayout) -> ColumnLayout:
    return layout.inner if isinstance(layout, OptionalColumn) else layout


def is_record(cls: Any) -> bool:
    """Return whether making an instance of a class, from its fields in order, only stores them."""
    if not has_plain_fields(cls):
        return False
    return issubclass(cls, tuple) or all(not f.kw_only for f in dataclasses.fields(cls))


def has_plain_fields(cls: Any) -> bool:
    """Return whether the instances of a class never change, and have only the fields that they were made with."""
    if not isinstance(cls, type):
        return False
    if issubclass(cls, tuple):
        return cls.__bases__ == (tuple,) and hasattr(cls, "_fields")
    if not dataclasses.is_dataclass(cls):
        return False
    params: Any = cls.__dataclass_params__  # type: ignore[attr-defined]
    plain = params.frozen and params.init and not hasattr(cls, "__post_init__")
    return plain and all(f.init for f in dataclasses.fields(cls))


def describe(layout: ColumnLayout) -> str:
    """Return a short description of a layout.

    >>> describe(OptionalColumn(Leaf("int"))), describe(Fields(tuple, (Leaf("int"), Leaf("str"))))
    ('int or None', 'tuple of 2')
    """
    if isinstance(layout, Leaf):
        return layout.kind
    if isinstance(layout, Constant):
        return "None" if layout.value is None else type(layout.value).__name__
    if isinstance(layout, OptionalColumn):
        return f"{describe(layout.inner)} or None"
    return f"tuple of {len(layout.parts)}" if layout.cls is tuple else layout.cls.__name__
