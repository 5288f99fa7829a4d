"""Fields: conversion of values between files and the annotated types of event fields.

Reading is strict. A file with `"20"` for an `int` field is wrong, and a guess would hide the error.
Only lossless conversions are allowed: an integer for a float, and, in a CSV file, where all values are
text, the plain spelling of a number or a boolean.

A `datetime` is read with the zone UTC: one with another zone is converted, one without a zone is taken
as UTC. So the hour of an event depends neither on the machine nor on a setting of Spark.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from anabranch.model.events import EventType, field_names, field_types
from anabranch.model.failures import Failed, attempt
from anabranch.model.values.durations import Duration, parse_duration
from anabranch.model.values.event_times import EPOCH, to_microseconds

MISSING = dataclasses.MISSING


class Unfit(ValueError):  # noqa: N818 - it is a result about a value, not an error of the library
    """The reason why a value does not fit the type of its field."""


def read_fields(event_type: EventType, row: Mapping[str, Any], *, text: bool, sparse: bool) -> Any:
    """Return an event of a type with the values of a row; columns that are not fields are ignored.

    With `text`, every value is a string (CSV). With `sparse`, a column without a value is the same as a
    missing field (CSV and Parquet, where several event types share the columns).
    """
    defaults = field_defaults(event_type)
    values: dict[str, Any] = {}
    for name, annotation in field_types(event_type).items():
        if name not in row:
            if name in defaults:
                continue
            if sparse and admits_none(annotation):
                values[name] = None
                continue
            raise Unfit(f"field {name!r} of {event_type.__name__} is missing")
        try:
            read = read_text if text else read_value
            values[name] = read(row[name], annotation)
        except Unfit as error:
            raise Unfit(f"field {name!r} of {event_type.__name__}: {error}") from None
    made = attempt(event_type, **values)
    if isinstance(made, Failed):
        raise Unfit(f"{event_type.__name__} can't be created: {made.reason}") from made.error
    return made


@cache
def field_defaults(event_type: EventType) -> frozenset[str]:
    """Return the fields that have a default."""
    if dataclasses.is_dataclass(event_type):
        return frozenset(
            field.name
            for field in dataclasses.fields(event_type)
            if field.default is not MISSING or field.default_factory is not MISSING
        )
    return frozenset(event_type._field_defaults)  # type: ignore[attr-defined]


@cache
def list_defaults(event_type: EventType) -> dict[str, Any]:
    """Return the default of each field that has one; `MISSING` for a default that is made anew each time."""
    if dataclasses.is_dataclass(event_type):
        fields = {field.name: field for field in dataclasses.fields(event_type)}
        return {name: fields[name].default for name in fields if name in field_defaults(event_type)}
    return dict(event_type._field_defaults)  # type: ignore[attr-defined]


def admits_none(annotation: Any) -> bool:
    """Return whether a field may be None."""
    if annotation in (Any, None, types.NoneType):
        return True
    return get_origin(annotation) in (Union, types.UnionType) and any(
        admits_none(choice) for choice in get_args(annotation)
    )


def strip_none(annotation: Any) -> Any:
    """Return the type in `type | None`; the annotation itself if it is not of that form.

    >>> strip_none(int | None), strip_none(str)
    (<class 'int'>, <class 'str'>)
    """
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    choices = [choice for choice in get_args(annotation) if choice is not types.NoneType]
    return choices[0] if len(choices) == 1 else annotation


def read_value(value: Any, annotation: Any) -> Any:
    """Return a value converted to its annotated type; raise `Unfit` if it does not fit.

    >>> read_value(3, float), read_value([1, 2], tuple[int, ...])
    (3.0, (1, 2))
    """
    annotation = unwrap(annotation)
    if annotation in (Any, object):
        check_text(value)
        return _settle_zones(value)
    if isinstance(annotation, type) and annotation in SCALARS:
        return SCALARS[annotation](value)
    origin, choices = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _read_first(value, choices)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in choices):
            return value
        raise Unfit(f"expected one of {', '.join(map(repr, choices))}, got {_show(value)}")
    kind = origin or annotation
    if not isinstance(kind, type):
        return value  # A type variable or the like can't be checked.
    return _read_class(value, kind, choices)


def _read_class(value: Any, kind: type, choices: tuple[Any, ...]) -> Any:
    if issubclass(kind, enum.Enum):
        for member in kind:
            if encode_value(member) == value or member is value:
                return member
        raise Unfit(f"expected one of {', '.join(str(m.value) for m in kind)}, got {_show(value)}")
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        if not isinstance(value, Mapping):
            raise Unfit(f"expected an object for {kind.__name__}, got {_show(value)}")
        return read_fields(kind, value, text=False, sparse=False)
    if issubclass(kind, tuple):
        return _read_tuple(value, choices)
    if kind in (list, set, frozenset, Sequence, AbstractSet, Iterable):
        made = {Sequence: tuple, Iterable: tuple, AbstractSet: frozenset}.get(kind, kind)
        parts = [read_value(part, choices[0] if choices else Any) for part in _parts(value)]
        return _make(made, parts, value)
    if kind in (dict, Mapping):
        of_key, of_value = choices or (Any, Any)
        pairs = [(read_value(k, of_key), read_value(v, of_value)) for k, v in _pairs(value)]
        entries = _make(dict, pairs, value)
        if len(entries) < len(pairs):
            raise Unfit(f"expected each key once, got {_show(value)}")
        return entries
    if isinstance(value, kind):
        return value
    raise Unfit(f"expected {kind.__name__}, got {_show(value)}")


def unwrap(annotation: Any) -> Any:
    """Return the type in an annotation, without `Annotated` and `NewType`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        else:
            return annotation


def is_scalar(annotation: Any) -> bool:
    """Return whether a field has only scalar values: numbers, texts, datetimes, bytes, or None.

    >>> is_scalar(int | None), is_scalar(tuple[int, ...]), is_scalar(Any)
    (True, False, False)
    """
    annotation = unwrap(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return all(map(is_scalar, get_args(annotation)))
    return isinstance(annotation, type) and annotation in SCALARS


def _read_first(value: Any, choices: tuple[Any, ...]) -> Any:
    # A type that the value has exactly is tried first: `float | int` must not convert an int.
    exact = [choice for choice in choices if type(value) is choice]
    reasons = []
    for choice in (*exact, *choices):
        try:
            return read_value(value, choice)
        except Unfit as error:
            if choice is not types.NoneType or len(choices) == 1:
                reasons.append(str(error))
    raise Unfit("; ".join(dict.fromkeys(reasons)))


def _parts(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise Unfit(f"expected a list, got {_show(value)}")
    return value


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of a map, given as an object or as a list of pairs."""
    if isinstance(value, Mapping):
        return value.items()
    # Maps with keys that are not text (JSON) or with duplicate keys (Arrow) are lists of pairs.
    if not isinstance(value, list | tuple) or any(not _is_pair(part) for part in value):
        raise Unfit(f"expected an object, or a list of pairs, got {_show(value)}")
    return [(key, entry) for key, entry in value]


def _make(kind: Callable[[list[Any]], Any], parts: list[Any], value: Any) -> Any:
    try:
        return kind(parts)
    except TypeError as error:  # A key or an element that can't be hashed.
        raise Unfit(f"{_show(value)} can't be read: {error}") from None


def _is_pair(part: Any) -> bool:
    return isinstance(part, list | tuple) and len(part) == 2


def _read_tuple(value: Any, choices: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = _parts(value)
    if not choices:
        return tuple(parts)
    if len(choices) == 2 and choices[1] is Ellipsis:
        return tuple(read_value(part, choices[0]) for part in parts)
    if len(parts) != len(choices):
        raise Unfit(f"expected a list of {len(choices)}, got one of {len(parts)}")
    return tuple(read_value(part, choice) for part, choice in zip(parts, choices, strict=True))


def _read_int(value: Any) -> int:
    if isinstance(value, datetime):
        return to_microseconds(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Unfit(f"expected int, got {_show(value)}")


def _read_float(value: Any) -> float:
    if isinstance(value, float | int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise Unfit(f"{_show(value)} is too large for a float") from None
    raise Unfit(f"expected float, got {_show(value)}")


def check_text(value: Any) -> None:
    """Raise `Unfit` if a text, at any depth, can't be encoded as UTF-8: it has half of a surrogate pair."""
    if isinstance(value, str):
        if value.isascii():
            return
        try:
            value.encode()
        except UnicodeEncodeError as error:
            half = ord(value[error.start])
            if 0xDC80 <= half <= 0xDCFF:  # Python's escape of a byte that is not UTF-8.
                raise Unfit(f"not UTF-8: a byte is {half - 0xDC00:#x}") from None
            raise Unfit(f"UTF-8 can't write \\u{half:04x}, half of a surrogate pair") from None
    elif isinstance(value, Mapping):
        for key, part in value.items():
            check_text(key)
            check_text(part)
    elif isinstance(value, list | tuple):
        for part in value:
            check_text(part)


def _read_str(value: Any) -> str:
    if isinstance(value, str):
        check_text(value)
        return value
    raise Unfit(f"expected str, got {_show(value)}")


def _reader(kind: type, *spelled: type, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a reader that accepts values of a type, and values that can be parsed as one."""

    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if isinstance(value, spelled) and not isinstance(value, bool):
            try:
                return parse(value)
            except (ValueError, ArithmeticError) as error:
                raise Unfit(f"{_show(value)} is not a {kind.__name__}: {error}") from None
        raise Unfit(f"expected {kind.__name__}, got {_show(value)}")

    return read


_read_datetime = _reader(datetime, str, parse=datetime.fromisoformat)


def _read_date(value: Any) -> date:
    if isinstance(value, datetime):
        raise Unfit(f"expected date, got {_show(value)}")
    day: date = _reader(date, str, parse=date.fromisoformat)(value)
    return day


def _parse_timedelta(text: str) -> timedelta:
    found = parse_duration(text)
    if found is None:
        raise ValueError('expected a number and a unit, such as "5 s"')
    return timedelta(microseconds=int(found))


SCALARS: dict[type, Callable[[Any], Any]] = {
    int: _read_int,
    float: _read_float,
    bool: _reader(bool, parse=bool),
    str: _read_str,
    types.NoneType: _reader(types.NoneType, parse=bool),
    bytes: _reader(bytes, str, parse=lambda text: base64.b64decode(text, validate=True)),
    Decimal: _reader(Decimal, str, int, parse=Decimal),
    Fraction: _reader(Fraction, str, int, parse=Fraction),
    datetime: lambda value: to_utc(_read_datetime(value)),
    date: _read_date,
    time: _reader(time, str, parse=time.fromisoformat),
    timedelta: _reader(timedelta, str, parse=_parse_timedelta),
    UUID: _reader(UUID, str, parse=UUID),
}
"""The reader of each scalar type."""


_NO_NUMBER = re.compile(r"\s*[+-]?(nan|inf|infinity)\s*", re.IGNORECASE | re.ASCII)


def read_text(value: str, annotation: Any) -> Any:
    """Return the value of a CSV cell, where all values are text.

    >>> read_text("20", int), read_text("true", bool), read_text("20", str)
    (20, True, '20')
    """
    annotation = unwrap(annotation)
    if annotation in (str, Any):
        check_text(value)
        return value
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return _read_first_text(value, annotation)
    if origin is Literal:
        spelled = {str(choice): choice for choice in get_args(annotation)}
        return read_value(spelled.get(value, value), annotation)
    if annotation is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if annotation is float and _NO_NUMBER.fullmatch(value):
        return float(value)
    if annotation in (bytes, Decimal, Fraction, datetime, date, time, timedelta, UUID):
        return read_value(value, annotation)
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):  # Not JSON, or an int of more than 4,300 digits.
        parsed = value
    return read_value(parsed, annotation)


def _read_first_text(value: str, annotation: Any) -> Any:
    # Every cell is a valid text, so text is tried last.
    for choice in sorted(get_args(annotation), key=lambda choice: choice is str):
        if choice is not types.NoneType:
            try:
                return read_text(value, choice)
            except Unfit:
                continue
    raise Unfit(f"expected {annotation}, got {_show(value)}")


def to_utc(moment: datetime) -> datetime:
    """Return a datetime converted to UTC; one without a zone is taken as UTC.

    >>> str(to_utc(datetime.fromisoformat("2026-01-01T04:00:00+02:00")))
    '2026-01-01 02:00:00+00:00'
    """
    try:
        return EPOCH + timedelta(microseconds=to_microseconds(moment))
    except OverflowError:
        raise Unfit(f"{_show(moment)} is out of range in UTC") from None


def _settle_zones(value: Any) -> Any:
    """Return a value with all datetimes in it converted to UTC."""
    if isinstance(value, datetime):
        return to_utc(value)
    if type(value) in (list, tuple):
        return type(value)(map(_settle_zones, value))
    if type(value) is dict:
        return {_settle_zones(k): _settle_zones(v) for k, v in value.items()}
    return value


def encode_value(value: Any) -> Any:
    """Return a value as JSON values: objects, lists, texts, numbers.

    >>> encode_value((1, {2, 1}, Decimal("0.1")))
    [1, [1, 2], '0.1']
    """
    if value is None or isinstance(value, bool | int | float | str | enum.Enum):
        return _encode_scalar(value)
    if not isinstance(value, type) and (
        dataclasses.is_dataclass(value) or hasattr(value, "_fields")
    ):
        event_type: EventType = type(value)
        return {name: encode_value(getattr(value, name)) for name in field_names(event_type)}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: encode_value(entry) for key, entry in value.items()}
        return [[encode_value(key), encode_value(entry)] for key, entry in value.items()]
    if isinstance(value, set | frozenset):
        return sorted((encode_value(part) for part in value), key=_sort_key)
    if isinstance(value, list | tuple):
        return [encode_value(part) for part in value]
    return _encode_scalar(value)


def _encode_scalar(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return encode_value(value.value)
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)  # Not a subclass of it, which JSON might write differently.
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(Duration(value // timedelta(microseconds=1)))
    if isinstance(value, Decimal | Fraction | UUID):
        return str(value)
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return encode_value(value.item())  # A numpy scalar.
    return None if value is None else repr(value)


def _sort_key(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool | int | float):
        return ("", value)
    return ("x", json.dumps(value, sort_keys=True))


def _show(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, str | bool | None) else repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    kind = {str: "text", type(None): "nothing"}.get(type(value), type(value).__name__)
    return f"{text} ({kind})" if value is not None else "null"
