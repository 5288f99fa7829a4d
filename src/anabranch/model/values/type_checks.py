"""Type checks: functions that raise `Unfit` if a value is not of a value type.

A value that passes can be written into a column of its type, so checks include the limits of columns: 64 bits
for an integer, 38 digits for a decimal, text that can be encoded as UTF-8.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, get_args

from anabranch.model.values.fields import Unfit, check_text, to_utc
from anabranch.model.values.value_types import (
    BOOL,
    BYTES,
    DATE,
    DATETIME,
    DECIMAL,
    ENUM,
    FLOAT,
    INT,
    JSON,
    LIST,
    MAP,
    PRECISION,
    RECORD,
    SCALE,
    STR,
    TUPLE,
    ValueType,
)

Check = Callable[[Any], None]
"""A function that raises `Unfit` if a value is not of a type."""

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_SHOWN = 60


def make_check(type_: ValueType) -> Check:
    """Return a function that raises `Unfit` if a value is not of a type.

    >>> from anabranch.model.values.value_types import read_type
    >>> make_check(read_type(int))("7")
    Traceback (most recent call last):
    anabranch.model.values.fields.Unfit: expected int, got '7' (str)
    """
    check = _MAKERS.get(type_.kind, _check_instance)(type_)
    if not type_.optional:
        return check

    def check_optional(value: Any) -> None:
        if value is not None:
            check(value)

    return check_optional


def show(value: Any) -> str:
    """Return the text of a value with its type, cut to a maximum length."""
    if value is None:
        return "None"
    text = repr(value)
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return f"{text} ({type(value).__name__})"


def _refuse(type_: ValueType, value: Any) -> Unfit:
    return Unfit(f"expected {type_.name}, got {show(value)}")


def _read_scalar(value: Any) -> Any:
    """Return the Python value of a numpy scalar; other values unchanged."""
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def _check_int(type_: ValueType) -> Check:
    def check(value: Any) -> None:
        if type(value) is not int:
            value = _read_scalar(value)
            if not isinstance(value, int) or isinstance(value, bool):
                raise _refuse(type_, value)
        if not _LEAST <= value <= _MOST:
            raise Unfit(f"expected {type_.name} of 64 bits, got {show(value)}")

    return check


def _check_float(type_: ValueType) -> Check:
    def check(value: Any) -> None:
        if type(value) is float:
            return
        value = _read_scalar(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _refuse(type_, value)
        try:
            float(value)
        except OverflowError:
            raise Unfit(f"{show(value)} is too large for a float") from None

    return check


def _check_bool(type_: ValueType) -> Check:
    def check(value: Any) -> None:
        if type(value) is not bool and not isinstance(_read_scalar(value), bool):
            raise _refuse(type_, value)

    return check


def _check_str(type_: ValueType) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, str):
            raise _refuse(type_, value)
        check_text(value)

    return check


def _check_decimal(type_: ValueType) -> Check:
    def check(value: Any) -> None:
        if isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        if not isinstance(value, Decimal):
            raise _refuse(type_, value)
        after = -int(value.normalize().as_tuple().exponent) if value.is_finite() else 0
        if not value.is_finite() or after > SCALE or value.adjusted() >= PRECISION - SCALE:
            limits = f"{PRECISION - SCALE} digits before the point and {SCALE} after it"
            raise Unfit(f"expected a {type_.name} of at most {limits}, got {show(value)}")

    return check


def _check_datetime(type_: ValueType) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, datetime):
            raise _refuse(type_, value)
        to_utc(value)

    return check


def _check_date(type_: ValueType) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise _refuse(type_, value)

    return check


def _check_instance(type_: ValueType) -> Check:
    kind = bytes if type_.kind == BYTES else type_.cls

    def check(value: Any) -> None:
        if not isinstance(value, kind):
            raise _refuse(type_, value)

    return check


def _check_enum(type_: ValueType) -> Check:
    if isinstance(type_.cls, type) and issubclass(type_.cls, enum.Enum):
        return _check_instance(type_)
    choices = get_args(type_.cls)

    def check(value: Any) -> None:
        if not any(value == choice and type(value) is type(choice) for choice in choices):
            raise Unfit(f"expected one of {', '.join(map(repr, choices))}, got {show(value)}")

    return check


def _check_json(type_: ValueType) -> Check:
    return lambda value: None


def _check_record(type_: ValueType) -> Check:
    cls, names = type_.cls, type_.field_names
    checks = [(name, make_check(part)) for name, part in type_.parts]

    def check(value: Any) -> None:
        found = type(value)
        if found is not cls and (cls is not None or getattr(found, "_fields", None) != names):
            raise _refuse(type_, value)
        for name, check_part in checks:
            try:
                check_part(getattr(value, name))
            except Unfit as error:
                raise Unfit(f"field {name!r} of {type_.name}: {error}") from None

    return check


def _check_tuple(type_: ValueType) -> Check:
    checks = [make_check(part) for _, part in type_.parts]

    def check(value: Any) -> None:
        if type(value) is not tuple:
            raise _refuse(type_, value)
        if len(value) != len(checks):
            raise Unfit(f"expected {type_.name}, got a tuple of {len(value)}")
        for place, (check_part, part) in enumerate(zip(checks, value, strict=True), 1):
            _check_within(check_part, part, f"place {place} of {type_.name}")

    return check


def _check_list(type_: ValueType) -> Check:
    check_part = make_check(type_.parts[0][1])

    def check(value: Any) -> None:
        if not isinstance(value, list | tuple | set | frozenset):
            raise _refuse(type_, value)
        for part in value:
            _check_within(check_part, part, f"an element of {type_.name}")

    return check


def _check_map(type_: ValueType) -> Check:
    check_key, check_entry = (make_check(part) for _, part in type_.parts)

    def check(value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _refuse(type_, value)
        for key, entry in value.items():
            if key is None:
                raise Unfit(f"a key of {type_.name} is None")
            _check_within(check_key, key, f"a key of {type_.name}")
            _check_within(check_entry, entry, f"a value of {type_.name}")

    return check


def _check_within(check: Check, value: Any, where: str) -> None:
    try:
        check(value)
    except Unfit as error:
        raise Unfit(f"{where}: {error}") from None


_MAKERS: dict[str, Callable[[ValueType], Check]] = {
    INT: _check_int, FLOAT: _check_float, BOOL: _check_bool, STR: _check_str,
    DECIMAL: _check_decimal, DATETIME: _check_datetime, DATE: _check_date, ENUM: _check_enum,
    JSON: _check_json, RECORD: _check_record, TUPLE: _check_tuple, LIST: _check_list, MAP: _check_map,
}  # fmt: skip
