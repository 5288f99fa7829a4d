"""Kinds of values: found in the values themselves, or read from annotations.

    describe_values(values) -> Kind      the kind of all these values
    describe_type(annotation) -> Kind    the kind of a class or an annotation
    unify(a, b) -> Kind                  the least kind that covers both
    write_kind(kind), read_kind(json)    a kind as JSON

Types are compared exactly: True is not an int, nor is an instance of a subclass of int. A `Struct` is
identified by its fields, as in the codec.
"""

from __future__ import annotations

import types
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, Literal, NewType, Union, get_args, get_origin

from anabranch.model.events import EventType, field_names, field_types
from anabranch.model.values.maps import Map
from anabranch.state.durable.durable_names import (
    check_dtype,
    find_zone,
    is_array,
    is_record,
    is_scalar,
    name_record,
    refuse_value,
)
from anabranch.state.durable.kind_trees import (
    ANY,
    BIGINT,
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    FRACTION,
    INT,
    NONE,
    NUMBER,
    STR,
    TIME,
    TIMEDELTA,
    UNKNOWN,
    UUID,
    Array,
    DatetimeKind,
    DecimalKind,
    EnumKind,
    Fixed,
    Kind,
    KindError,
    Mapped,
    Option,
    Plain,
    Record,
    Sequence,
    make_optional,
    read_kind,
    unify,
    unify_all,
    write_kind,
)

__all__ = [
    "ANY", "BIGINT", "BOOL", "BYTES", "DATE", "FLOAT", "FRACTION", "INT", "NONE", "NUMBER", "STR",
    "TIME", "TIMEDELTA", "UNKNOWN", "UUID", "Array", "DatetimeKind", "DecimalKind", "EnumKind",
    "Fixed", "Kind", "KindError", "Mapped", "Option", "Plain", "Record", "Sequence",
    "describe_type", "describe_value", "describe_values", "make_optional", "read_kind", "unify",
    "unify_all", "write_kind",
]  # fmt: skip

_SMALL = 1 << 63
_PLACES = 8
"""The longest tuple that has a column for each item; a longer one is a list."""
_DIGITS = 38
"""The number of digits in a column of decimals."""


def describe_values(values: Iterable[Any]) -> Kind:
    """Return the least kind that covers all these values; UNKNOWN if there are none."""
    by_type: dict[type, list[Any]] = {}
    for value in values:
        by_type.setdefault(type(value), []).append(value)
    return unify_all(_describe_alike(kind, some) for kind, some in by_type.items())


def describe_value(value: Any) -> Kind:
    """Return the kind of one value."""
    return _describe_alike(type(value), [value])


def _describe_alike(kind: type[Any], values: list[Any]) -> Kind:
    """Return the kind of values of the same type, computed on all of them at once for speed."""
    found = _EXACT.get(kind)
    if found is not None:
        return found
    describe = _LOOKED_INTO.get(kind)
    if describe is not None:
        return describe(values)
    if issubclass(kind, Enum):
        # A combination of several flag members has no name.
        named = all(value.name in kind.__members__ for value in values)
        return describe_enum(kind) if named else ANY
    if is_record(kind):
        return _describe_records(kind, values)
    if is_array(values[0]):
        return unify_all({Array(check_dtype(value)) for value in values})
    if is_scalar(values[0]):
        return ANY
    raise refuse_value(values[0])


def _describe_records(record: EventType, values: list[Any]) -> Kind:
    names = field_names(record)
    columns = [describe_values(getattr(value, name) for value in values) for name in names]
    return Record(name_record(record), tuple(zip(names, columns, strict=True)))


def describe_enum(kind: type[Any]) -> EnumKind:
    """Return the kind of an enum's members."""
    return EnumKind(name_record(kind), tuple(kind.__members__))


def _describe_ints(values: list[int]) -> Kind:
    return INT if min(values) >= -_SMALL and max(values) < _SMALL else BIGINT


def _describe_decimals(values: list[Decimal]) -> Kind:
    scales = set(map(_find_scale, values))
    return DecimalKind(scales.pop() if len(scales) == 1 else None)


def _find_scale(value: Decimal) -> int | None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) > _DIGITS or (sign and not value):
        return None  # NaN and infinities; too many digits; a zero below zero.
    return -exponent if -_DIGITS <= exponent <= 0 else None


def _describe_datetimes(values: list[datetime]) -> Kind:
    zones = {_find_column_zone(value) for value in values}
    return DatetimeKind(zones.pop() if len(zones) == 1 else None)


def _find_column_zone(value: datetime) -> str | None:
    """Return the zone of a column from which this datetime would be read back unchanged, or None."""
    zone = find_zone(value.tzinfo)
    if value.tzinfo is None:
        return None if value.fold else ""
    if isinstance(value.tzinfo, timezone) and (value.fold or _has_seconds(value)):
        return None  # No column has a zone with seconds, nor one of one offset a fold.
    try:
        back = value.astimezone(UTC).astimezone(value.tzinfo)
    except OverflowError:
        return None
    # A local time that clocks skip does not survive a conversion to UTC.
    same = back.replace(tzinfo=None) == value.replace(tzinfo=None) and back.fold == value.fold
    return zone if same else None


def _has_seconds(value: datetime) -> bool:
    return (value.utcoffset() or timedelta()) % timedelta(minutes=1) != timedelta()


def _describe_times(values: list[time]) -> Kind:
    for value in values:
        find_zone(value.tzinfo)
    return ANY if any(value.tzinfo is not None or value.fold for value in values) else TIME


def _describe_timedeltas(values: list[timedelta]) -> Kind:
    longest = max(abs(value // timedelta(microseconds=1)) for value in values)
    return TIMEDELTA if longest < _SMALL else ANY


def _describe_tuples(values: list[tuple[Any, ...]]) -> Kind:
    lengths = set(map(len, values))
    if len(lengths) > 1 or 0 in lengths or max(lengths) > _PLACES:
        return _describe_sequences("tuple", values)
    return Fixed(tuple(map(describe_values, zip(*values, strict=True))))


def _describe_sequences(of: str, values: list[Any]) -> Kind:
    return Sequence(of, describe_values(chain.from_iterable(values)))


def _describe_maps(of: str, values: list[Any]) -> Kind:
    dicts = [value.entries() if of == "Map" else value for value in values]
    entries = chain.from_iterable(some.values() for some in dicts)
    return Mapped(of, describe_values(chain.from_iterable(dicts)), describe_values(entries))


_EXACT: dict[type, Kind] = {
    bool: BOOL, str: STR, float: FLOAT, bytes: BYTES, type(None): NONE, Fraction: FRACTION, date: DATE,
    uuid.UUID: UUID,
}  # fmt: skip
_LOOKED_INTO: dict[type, Callable[[list[Any]], Kind]] = {
    int: _describe_ints,
    Decimal: _describe_decimals,
    datetime: _describe_datetimes,
    time: _describe_times,
    timedelta: _describe_timedeltas,
    tuple: _describe_tuples,
    **{of: partial(_describe_sequences, of.__name__) for of in (list, set, frozenset)},
    **{of: partial(_describe_maps, of.__name__) for of in (dict, Map)},
}


def describe_type(annotation: Any, _within: tuple[type, ...] = ()) -> Kind:
    """Return the kind of an annotation; ANY if it is missing or too general.

    An `int` may exceed 64 bits, and a decimal or a datetime may have any scale or zone. Inside a record, the
    record itself is ANY.
    """
    found = _ANNOTATED.get(annotation) if _is_hashable(annotation) else None
    if found is not None:
        return found
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _describe_union(arguments, _within)
    if origin is not None and arguments:
        return _describe_generic(origin, arguments, _within)
    if isinstance(annotation, NewType):
        return describe_type(annotation.__supertype__, _within)
    if not isinstance(annotation, type) or annotation in _within:
        return ANY
    if issubclass(annotation, Enum):
        return describe_enum(annotation)
    if is_record(annotation):
        return _describe_fields(annotation, (*_within, annotation))
    return ANY


def _describe_fields(record: EventType, within: tuple[type, ...]) -> Kind:
    kinds = ((name, describe_type(one, within)) for name, one in field_types(record).items())
    return Record(name_record(record), tuple(kinds))


def _describe_union(arguments: tuple[Any, ...], within: tuple[type, ...]) -> Kind:
    kinds = [describe_type(part, within) for part in arguments if part is not type(None)]
    whole = unify_all(kinds)
    return make_optional(whole) if len(kinds) < len(arguments) else whole


def _describe_generic(origin: Any, arguments: tuple[Any, ...], within: tuple[type, ...]) -> Kind:
    if origin is Literal:
        return describe_values(arguments)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return Fixed(tuple(describe_type(part, within) for part in arguments))
    if origin in (list, tuple, set, frozenset):
        return Sequence(origin.__name__, describe_type(arguments[0], within))
    if origin in (dict, Map):
        key, value = (describe_type(part, within) for part in arguments)
        return Mapped(origin.__name__, key, value)
    return ANY


def _is_hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True


_ANNOTATED: dict[Any, Kind] = {
    **_EXACT,
    None: NONE,
    int: INT,
    Decimal: DecimalKind(),
    datetime: DatetimeKind(),
    time: TIME,
    timedelta: TIMEDELTA,
    tuple: Sequence("tuple", ANY),
    list: Sequence("list", ANY),
    set: Sequence("set", ANY),
    frozenset: Sequence("frozenset", ANY),
    dict: Mapped("dict", ANY, ANY),
    Map: Mapped("Map", ANY, ANY),
}
