"""Fitting: whether values of one kind are valid for another, and names of kinds for messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import Any

from anabranch.model.failures import Failed, attempt
from anabranch.model.values.maps import Map
from anabranch.state.durable.durable_names import fields_of, is_record
from anabranch.state.durable.kind_trees import is_number
from anabranch.state.durable.kinds import (
    ANY,
    BIGINT,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    UNKNOWN,
    DatetimeKind,
    DecimalKind,
    EnumKind,
    Fixed,
    Kind,
    Mapped,
    Option,
    Record,
    Sequence,
)
from anabranch.state.durable.scalars import name_kind
from anabranch.state.evolution.verdicts import EvolutionError

Convert = Callable[[Any], Any]
FREE = (ANY, UNKNOWN)
"""Kinds without information about a value."""
SEQUENCES = (list, tuple, set, frozenset)


def accepts(kind: Kind, found: Kind) -> bool:
    """Return whether a value of kind `found` is valid where a program declares `kind`."""
    if kind in FREE or found == UNKNOWN:
        return True
    if may_be_none(found):
        return may_be_none(kind) and (
            found == NONE or accepts(strip_option(kind), strip_option(found))
        )
    match strip_option(kind), found:
        case (Record(name, fields), Record(other, parts)):
            pairs = zip(fields, parts, strict=False)
            return name == other and all(accepts(a, b) for (_, a), (_, b) in pairs)
        case (EnumKind(name), EnumKind(other)):
            return name == other
        case (Fixed(items), Fixed(parts)):
            return len(items) == len(parts) and all(map(accepts, items, parts))
        case (Sequence("tuple", item), Fixed(parts)):
            return all(accepts(item, part) for part in parts)
        case (Sequence(of, item), Sequence(other, part)):
            return of == other and accepts(item, part)
        case (Mapped(of, key, value), Mapped(other, one, part)):
            return of == other and accepts(key, one) and accepts(value, part)
    inner = strip_option(kind)
    # In Python an int is valid for a float.
    return inner in FREE or is_alike(inner, found) or (inner == FLOAT and found in (INT, BIGINT))


def find_default(record: Any, field: str) -> Callable[[], Any] | None:
    """Return a function that returns a field's default, or None if its class has none."""
    if not dataclasses.is_dataclass(record):
        defaults = record._field_defaults
        return (lambda: defaults[field]) if field in defaults else None
    own = {one.name: one for one in dataclasses.fields(record)}[field]
    if own.default_factory is not dataclasses.MISSING:
        return own.default_factory
    return None if own.default is dataclasses.MISSING else lambda: own.default


def call(function: Convert, place: str, *values: Any) -> Any:
    """Return the result of a user's function; raise with its arguments if it raises."""
    made = attempt(function, *values)
    if isinstance(made, Failed):
        raise EvolutionError(
            f"the function for {place} failed",
            got=f"{made.reason}, of {', '.join(repr(v)[:80] for v in values)}",
            cure="correct the function",
        ) from made.error
    return made


def walk(value: Any, change: Convert) -> Any:
    """Return a value with `change` applied to its parts; a value without parts unchanged."""
    kind = type(value)
    if kind in SEQUENCES:
        return kind(map(change, value))
    if kind in (dict, Map):
        return kind([(change(key), change(entry)) for key, entry in items_of(value)])
    if is_record(kind) and not isinstance(value, Enum):
        return kind(*map(change, fields_of(value)))
    return value


def items_of(value: Any) -> Any:
    """Return the entries of a dict or a `Map`, unordered."""
    return value.entries().items() if isinstance(value, Map) else value.items()


def strip_option(kind: Kind) -> Kind:
    """Return a kind without its None."""
    if kind == NONE:
        return UNKNOWN
    return kind.kind if isinstance(kind, Option) else kind


def may_be_none(kind: Kind) -> bool:
    """Return whether None is of a kind."""
    return isinstance(kind, Option) or kind == NONE


def is_alike(old: Kind, new: Kind) -> bool:
    """Return whether values of one kind are values of the other without conversion."""
    if NUMBER in (old, new):
        return is_number(old) and is_number(new)
    alike = (DecimalKind, DatetimeKind)
    return (
        old == new
        or {old, new} == {INT, BIGINT}
        or any(isinstance(old, kind) and isinstance(new, kind) for kind in alike)
    )


def class_name(name: str) -> str:
    """Return the name of a record in changes: `Struct` for every struct."""
    return name.partition("(")[0]


def say_kind(kind: Kind) -> str:
    """Return the name of a kind for messages."""
    if isinstance(kind, Option):
        return f"{say_kind(kind.kind)} or None"
    if isinstance(kind, Record | EnumKind):
        return class_name(kind.name)
    if isinstance(kind, Sequence | Mapped):
        return kind.of
    return "int" if kind == BIGINT else name_kind(kind)
