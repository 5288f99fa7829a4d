"""Value types: the types of outputs as trees, read from annotations.

Each node of a tree has a kind that every format supports: a number, a text, a record, a list, a map. A type
without such a form has the kind `json`, and is written as JSON text. `docs/result-columns.md` has the table.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from anabranch.model.events import field_names, field_types
from anabranch.model.values.fields import unwrap
from anabranch.model.values.maps import Map

INT, FLOAT, BOOL, STR, BYTES = "int", "float", "bool", "str", "bytes"
DECIMAL, DATETIME, DATE, TEXT, JSON = "decimal", "datetime", "date", "text", "json"
ENUM, RECORD, TUPLE, LIST, MAP = "enum", "record", "tuple", "list", "map"

PRECISION, SCALE = 38, 18
"""Precision and scale of a decimal column: 20 digits before the point and 18 after it, as in PySpark."""

_DEPTH = 8
"""The maximum nesting of records; deeper ones, such as recursive types, are written as JSON."""

_SCALARS: dict[Any, str] = {
    int: INT, float: FLOAT, bool: BOOL, str: STR, bytes: BYTES, Decimal: DECIMAL,
    datetime: DATETIME, date: DATE, time: TEXT, Fraction: TEXT,
}  # fmt: skip

_LISTS = (list, set, frozenset, Sequence, AbstractSet, Iterable)
_MAPS = (dict, Mapping, Map)


class UnsupportedTypeError(ValueError):
    """A type, or a field of one, has no column type; the message names it."""


@dataclass(frozen=True)
class ValueType:
    """A type of values. `parts` are the fields of a record or tuple, the element of a list, or key and value.

    A record without `cls` is identified by its field names: its class is created in each process.
    The part of an enum is the type of its values.
    """

    kind: str
    name: str
    optional: bool = False
    cls: Any = None
    parts: tuple[tuple[str, ValueType], ...] = ()

    @property
    def has_fields(self) -> bool:
        """Return whether this is a record or a tuple, in which each part has its own column."""
        return self.kind in (RECORD, TUPLE)

    @property
    def field_names(self) -> tuple[str, ...]:
        """Return the names of the parts."""
        return tuple(name for name, _ in self.parts)

    def __str__(self) -> str:
        return f"{self.name} | None" if self.optional else self.name


ANYTHING = ValueType(JSON, "Any", optional=True)
"""The type of values of unknown type."""


def make_record(name: str, cls: type | None, **fields: ValueType) -> ValueType:
    """Return the type of a record with these fields."""
    return ValueType(RECORD, name, cls=cls, parts=tuple(fields.items()))


def make_optional(type_: ValueType) -> ValueType:
    """Return the type that also admits None."""
    return replace(type_, optional=True)


def read_type(
    annotation: Any, *, strict: bool = False, path: str = "", depth: int = 0
) -> ValueType:
    """Return the type that an annotation names.

    A type without a column type is JSON; with `strict` it raises an error that names the field. `Any` is
    always JSON.

    >>> str(read_type(list[int])), read_type(dict[str, float] | None).optional
    ('list[int]', True)
    """
    annotation = unwrap(annotation)
    if annotation in (Any, object) or isinstance(annotation, TypeVar):
        return ANYTHING
    scalar = _SCALARS.get(annotation) if isinstance(annotation, type) else None
    if scalar is not None:
        return ValueType(scalar, annotation.__name__, cls=annotation)
    origin, choices = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _read_union(annotation, choices, strict=strict, path=path, depth=depth)
    if origin is Literal:
        return _read_choices(annotation, choices, _describe(annotation), Literal)
    kind = origin or annotation
    if isinstance(kind, type):
        found = _read_class(annotation, kind, choices, strict=strict, path=path, depth=depth)
        if found is not None:
            return found
    return _give_up(annotation, path, strict=strict)


def _read_union(
    annotation: Any, choices: tuple[Any, ...], *, strict: bool, path: str, depth: int
) -> ValueType:
    others = [choice for choice in choices if choice is not types.NoneType]
    if len(others) == 1:
        return make_optional(read_type(others[0], strict=strict, path=path, depth=depth))
    if set(others) == {int, float}:
        found = ValueType(FLOAT, "int | float", cls=float)
        return make_optional(found) if len(others) < len(choices) else found
    return _give_up(annotation, path, strict=strict)


def _read_class(
    annotation: Any, kind: type, choices: tuple[Any, ...], *, strict: bool, path: str, depth: int
) -> ValueType | None:
    def read(part: Any, name: str) -> ValueType:
        return read_type(part, strict=strict, path=f"{path}.{name}", depth=depth + 1)

    name = _describe(annotation)
    if issubclass(kind, enum.Enum):
        return _read_choices(annotation, [member.value for member in kind], kind.__name__, kind)
    if depth >= _DEPTH:
        return None
    if dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        fields = field_types(kind)
        parts = tuple((field, read(fields[field], field)) for field in field_names(kind))
        return ValueType(RECORD, kind.__name__, cls=kind, parts=parts)
    if kind is tuple and choices and choices[-1] is not Ellipsis:
        places = tuple((f"_{n}", read(part, f"_{n}")) for n, part in enumerate(choices, 1))
        return ValueType(TUPLE, name, cls=tuple, parts=places)
    if kind is tuple or kind in _LISTS:
        element = read(choices[0] if choices else Any, "element")
        return ValueType(LIST, name, cls=kind, parts=(("element", element),))
    if kind in _MAPS:
        of_key, of_value = choices or (Any, Any)
        pair = (("key", read(of_key, "key")), ("value", read(of_value, "value")))
        return ValueType(MAP, name, cls=kind, parts=pair)
    return None


def _read_choices(annotation: Any, values: Iterable[Any], name: str, cls: Any) -> ValueType:
    """Return the type of an enum or a literal: a text or a number if all its values are."""
    kinds = {type(value) for value in values}
    kind = _SCALARS.get(next(iter(kinds))) if len(kinds) == 1 else None
    inner = ValueType(kind or JSON, "value", optional=kind is None)
    return ValueType(
        ENUM, name, cls=annotation if cls is Literal else cls, parts=(("value", inner),)
    )


def _give_up(annotation: Any, path: str, *, strict: bool) -> ValueType:
    if strict:
        raise UnsupportedTypeError(f"{path.lstrip('.') or 'it'} is {_describe(annotation)}")
    return replace(ANYTHING, name=_describe(annotation))


def _describe(annotation: Any) -> str:
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "")
