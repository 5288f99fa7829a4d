"""Lists of field values: conversion of a whole column at once, with the results of `fields` for each value.

`read_value` and `read_text` define the meaning. A list is converted by a few calls for all its values, where its
values allow that. A value that does not fit, or might not, is *odd*: its place is returned, and
its row is read by itself.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate, chain, islice
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin
from uuid import UUID

from anabranch.model.events import EventType, field_names, field_types
from anabranch.model.failures import Failed, attempt
from anabranch.model.values.event_times import EPOCH
from anabranch.model.values.fields import (
    MISSING,
    SCALARS,
    Unfit,
    admits_none,
    field_defaults,
    read_text,
    read_value,
    strip_none,
    unwrap,
)

_UNCHANGED = (int, float, bool, bytes, Decimal, Fraction, date, time, timedelta, UUID)
"""Types whose values are read as they are, if they are exactly of that type."""

_MISFITS = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What the reader of a value may raise. The row reader meets it again, and decides."""

_FEW = 2
"""A text that occurs this often on average is converted once."""


class Lists(NamedTuple):
    """Values of one type, and the places of the odd ones, at which the value means nothing."""

    values: list[Any]
    odd: Sequence[int] = ()


class Records(NamedTuple):
    """Records of one type, the places of the odd ones, and the values of each field."""

    values: list[Any]
    odd: Sequence[int]
    columns: Mapping[str, list[Any]]


def read_list(values: list[Any], annotation: Any, *, text: bool = False) -> Lists:
    """Return the values of a list converted to an annotated type; with `text`, they are cells of CSV.

    >>> read_list([1, 2], float), read_list([1, "2"], int)
    (Lists(values=[1.0, 2.0], odd=()), Lists(values=[1, None], odd=[1]))
    """
    annotation = unwrap(annotation)
    inner = unwrap(strip_none(annotation))
    if inner is not annotation:
        return read_list(values, inner, text=text) if text else _read_optional(values, inner)
    types_found = set(map(type, values))
    if not text or annotation is str:
        if annotation in _UNCHANGED and types_found <= {annotation}:
            return Lists(values)
        if annotation is str and types_found <= {str} and _is_encodable(values):
            return Lists(values)
        if annotation is datetime and types_found <= {datetime} and _are_settled(values):
            return Lists(values)
    if types_found == {str} and _is_shared(annotation):
        return _read_distinct(values, annotation, text=text)
    found = None if text else _read_parts(values, annotation, types_found)
    return _read_each(values, annotation, text=text) if found is None else found


def _read_optional(values: list[Any], inner: Any) -> Lists:
    given = [place for place, value in enumerate(values) if value is not None]
    if len(given) == len(values):
        return read_list(values, inner)
    read = read_list([values[place] for place in given], inner)
    return _place(read, given, [None] * len(values))


def _place(read: Lists, places: Sequence[int], whole: list[Any]) -> Lists:
    """Return a list with the values that were read at their places."""
    for place, value in zip(places, read.values, strict=True):
        whole[place] = value
    return Lists(whole, [places[odd] for odd in read.odd])


def _is_encodable(texts: list[str]) -> bool:
    whole = "".join(texts)
    if whole.isascii():
        return True
    try:
        whole.encode()
    except UnicodeEncodeError:  # Half of a surrogate pair.
        return False
    return True


def _are_settled(moments: list[datetime]) -> bool:
    return all(moment.tzinfo is UTC and not moment.fold for moment in moments)


def _is_shared(annotation: Any) -> bool:
    """Return whether rows may share a converted value: it can't be changed."""
    if get_origin(annotation) is Literal:
        return True
    scalar = isinstance(annotation, type) and annotation in SCALARS
    return scalar or (isinstance(annotation, type) and issubclass(annotation, enum.Enum))


def _read_distinct(values: list[str], annotation: Any, *, text: bool) -> Lists:
    distinct = list(dict.fromkeys(values))
    costly = not (isinstance(annotation, type) and annotation in SCALARS)
    if not costly and len(distinct) * _FEW > len(values):
        return _read_each(values, annotation, text=text)
    read = _read_each(distinct, annotation, text=text)
    known = dict(zip(distinct, read.values, strict=True))
    found = [known[value] for value in values]
    if not read.odd:
        return Lists(found)
    odd = {distinct[place] for place in read.odd}
    return Lists(found, [place for place, value in enumerate(values) if value in odd])


def _read_each(values: list[Any], annotation: Any, *, text: bool) -> Lists:
    """Read values one by one, each by one call."""
    if text:
        read: Callable[[Any], Any] = partial(_read_cell, annotation)
    elif isinstance(annotation, type) and annotation in SCALARS:
        read = SCALARS[annotation]
    else:
        read = partial(_read_field, annotation)
    with suppress(*_MISFITS):
        return Lists(list(map(read, values)))
    found, odd = [], []
    for place, value in enumerate(values):
        try:
            found.append(read(value))
        except _MISFITS:
            found.append(None)
            odd.append(place)
    return Lists(found, odd)


def _read_cell(annotation: Any, value: Any) -> Any:
    if not isinstance(value, str):
        raise Unfit("not a cell of text")
    return read_text(value, annotation)


def _read_field(annotation: Any, value: Any) -> Any:
    return read_value(value, annotation)


def _read_parts(values: list[Any], annotation: Any, types_found: set[type]) -> Lists | None:
    """Read the parts of all values at once: fields, elements, keys and entries; None if they have none."""
    origin, choices = get_origin(annotation), get_args(annotation)
    kind = origin or annotation
    if origin in (Union, types.UnionType, Literal) or not isinstance(kind, type):
        return None
    if _is_record(kind):
        return _read_objects(values, kind) if types_found <= {dict} else None
    endless = len(choices) == 2 and choices[1] is Ellipsis
    if kind in (list, set, frozenset) or (kind is tuple and endless):
        whole = bool(choices) and types_found <= {list, tuple}
        return _read_elements(values, kind, choices[0]) if whole else None
    if kind is dict and choices and types_found <= {dict, list}:
        return _read_entries(values, *choices)
    return None


def _is_record(kind: type) -> bool:
    return not issubclass(kind, enum.Enum) and (
        dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
    )


def _read_objects(values: list[Any], kind: EventType) -> Lists:
    columns = {name: [value.get(name, MISSING) for value in values] for name in field_names(kind)}
    found = read_records(kind, columns, len(values))
    return Lists(found.values, found.odd)


def _read_elements(values: list[Any], kind: type, element: Any) -> Lists | None:
    lengths = list(map(len, values))
    read = read_list(list(chain.from_iterable(values)), element)
    parts = iter(read.values)
    try:
        found = [kind(islice(parts, length)) for length in lengths]
    except TypeError:  # An element that can't be hashed.
        return None
    return Lists(found, _find_rows(read.odd, lengths))


def _read_entries(values: list[Any], of_key: Any, of_value: Any) -> Lists | None:
    """Read maps, given as objects or as lists of pairs."""
    several = [list(value.items()) if type(value) is dict else value for value in values]
    pairs = list(chain.from_iterable(several))
    if any(type(pair) not in (tuple, list) or len(pair) != 2 for pair in pairs):
        return None
    lengths = list(map(len, several))
    keys = read_list([key for key, _ in pairs], of_key)
    entries = read_list([entry for _, entry in pairs], of_value)
    both = zip(keys.values, entries.values, strict=True)
    try:
        found = [dict(islice(both, length)) for length in lengths]
    except TypeError:
        return None
    repeated = [
        place
        for place, (made, length) in enumerate(zip(found, lengths, strict=True))
        if len(made) != length
    ]
    odd = {*_find_rows(keys.odd, lengths), *_find_rows(entries.odd, lengths), *repeated}
    return Lists(found, sorted(odd))


def _find_rows(places: Iterable[int], lengths: list[int]) -> list[int]:
    """Return the rows of elements, given the number of elements in each row."""
    if not places:
        return []
    ends = list(accumulate(lengths))
    return sorted({bisect_right(ends, place) for place in places})


def read_records(
    event_type: EventType,
    columns: Mapping[str, list[Any]],
    count: int,
    *,
    texts: frozenset[str] = frozenset(),
    sparse: bool = False,
) -> Records:
    """Return records of a type from lists of their fields, with the result of `read_fields` for each row.

    `MISSING` in a list is a field that its row does not have; a field without a list is missing everywhere. `texts`
    are the fields whose values are cells of CSV. With `sparse`, an optional field that is missing is None.
    """
    odd: set[int] = set()
    made: dict[str, list[Any]] = {}
    for name, annotation in field_types(event_type).items():
        given = columns.get(name)
        if given is not None and type(MISSING) not in set(map(type, given)):
            read = read_list(given, annotation, text=name in texts)
        else:
            there = [place for place, value in enumerate(given or ()) if value is not MISSING]
            held = read_list([(given or [])[n] for n in there], annotation, text=name in texts)
            gone = sorted({*range(count)}.difference(there)) if there else range(count)
            blank = _fill(event_type, name, annotation, len(gone), sparse=sparse)
            odd.update(gone[place] for place in blank.odd)
            whole = _place(blank, gone, [None] * count).values if there else blank.values
            read = _place(held, there, whole)
        odd.update(read.odd)
        made[name] = read.values
    return _make_records(event_type, made, count, odd)


def _fill(event_type: EventType, name: str, annotation: Any, count: int, *, sparse: bool) -> Lists:
    """Return the values of a field that some rows do not have: its default, or None."""
    if name in field_defaults(event_type):
        if stores_fields(event_type):
            return _make_defaults(event_type, name, count)
        return Lists([MISSING] * count)  # The class sets its defaults itself.
    if sparse and admits_none(annotation):
        return Lists([None] * count)
    return Lists([None] * count, range(count))


def _make_defaults(event_type: EventType, name: str, count: int) -> Lists:
    if not dataclasses.is_dataclass(event_type):
        return Lists([event_type._field_defaults[name]] * count)  # type: ignore[attr-defined]
    field = event_type.__dataclass_fields__[name]
    if field.default_factory is MISSING:
        return Lists([field.default] * count)
    made = [attempt(field.default_factory) for _ in range(count)]
    return Lists(made, [place for place, value in enumerate(made) if isinstance(value, Failed)])


@cache
def stores_fields(cls: type) -> bool:
    """Return whether making a record only stores its fields, in their order."""
    if issubclass(cls, tuple):
        return cls.__bases__ == (tuple,) and cls.__init__ is tuple.__init__
    if not dataclasses.is_dataclass(cls) or "__init__" not in vars(cls):
        return False
    params: Any = cls.__dataclass_params__  # type: ignore[attr-defined]
    plain = params.init and not hasattr(cls, "__post_init__") and cls.__new__ is object.__new__
    return plain and all(field.init and not field.kw_only for field in dataclasses.fields(cls))


def _make_records(
    event_type: EventType, columns: dict[str, list[Any]], count: int, odd: set[int]
) -> Records:
    lists = columns.values()
    rows: Iterable[tuple[Any, ...]] = zip(*lists, strict=True) if lists else [()] * count
    if not stores_fields(event_type):
        made = _attempt_records(event_type, rows, odd)
    elif issubclass(event_type, tuple):
        made = list(map(partial(tuple.__new__, event_type), rows))
    else:
        made = [event_type(*row) for row in rows]
    return Records(made, sorted(odd), columns)


def _attempt_records(
    event_type: EventType, rows: Iterable[tuple[Any, ...]], odd: set[int]
) -> list[Any]:
    names = field_names(event_type)
    found = []
    for place, row in enumerate(rows):
        made = None
        if place not in odd:
            given = {n: v for n, v in zip(names, row, strict=True) if v is not MISSING}
            made = attempt(event_type, **given)
            if isinstance(made, Failed):
                odd.add(place)
        found.append(made)
    return found


def lift_moments(numbers: list[int | None]) -> list[datetime | None]:
    """Return microseconds since 1970 as datetimes in UTC."""
    return [
        None if number is None else EPOCH + timedelta(microseconds=number) for number in numbers
    ]
