"""Durable forms: records by name, time zones by name, arrays by dtype; no class is named in bytes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from datetime import datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from anabranch.errors import AnabranchError

_DTYPE = re.compile(r"[<>|](b1|[iu][1248]|f[248]|c8|c16|[mM]8(\[\d*[a-zA-Zμ]+\])?|[SU]\d+)")
_LARGE_BITS = 10_000
"""Python raises on integers of more than about 14,000 bits in decimal."""


class CodecError(AnabranchError, ValueError):
    """A value can't be written to durable state, or bytes can't be read back."""


def refuse_value(value: Any) -> CodecError:
    """Return the error for a value that has no durable form."""
    return CodecError(
        f"a state contains a {type(value).__name__}, which has no durable form",
        expected="None, bool, int, float, str, bytes, Decimal, Fraction, datetime, tuple, list, "
        "dict, set, Map, NumPy arrays of plain numbers or text, and records named in the program's "
        "init, zero or event types",
        got=repr(value)[:80],
        cure="give the state's type in `init`, or annotate the record's fields",
    )


def name_record(record: type) -> str:
    """Return the name a record is stored under; a `Struct` is identified by its fields."""
    if record.__name__ == "Struct":
        return f"Struct({','.join(record._fields)})"  # type: ignore[attr-defined]
    return record.__name__


def is_record(kind: type) -> bool:
    """Return whether a class is a `NamedTuple` or a dataclass."""
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def fields_of(value: Any) -> Iterable[Any]:
    """Return the values of a record's fields, in order."""
    if isinstance(value, tuple):
        return value
    return [getattr(value, field.name) for field in dataclasses.fields(value)]


def is_pickle(data: bytes) -> bool:
    """Return whether bytes are a pickle, without running it."""
    import pickletools

    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return True
    try:
        # Older protocols have no magic bytes, but consist of their operations only.
        end = max((place or 0) for _, _, place in pickletools.genops(data))
    except (ArithmeticError, LookupError, ValueError):
        return False
    return end == len(data) - 1


def write_integer(value: int) -> str:
    """Return an integer of any length as text."""
    return str(value) if value.bit_length() <= _LARGE_BITS else hex(value)


def read_integer(text: str) -> int:
    """Undo `write_integer`."""
    return int(text, 16) if "x" in text else int(text)


def find_zone(zone: tzinfo | None) -> str:
    """Return the name of a zone, or its offset; "" for none."""
    if zone is None:
        return ""
    if type(zone) is timezone:
        offset = datetime(2000, 1, 1, tzinfo=zone).isoformat()[19:]
        return offset or "+00:00"
    if type(zone) is ZoneInfo and zone.key:
        return zone.key
    raise CodecError(
        "a state contains a time with a zone that has no name",
        expected="datetime.UTC, a timezone(...) or a ZoneInfo(...)",
        got=f"{type(zone).__module__}.{type(zone).__name__}",
        cure="convert it to a named zone: value.astimezone(ZoneInfo('Europe/Berlin'))",
    )


def read_zone(name: str) -> tzinfo | None:
    """Return the zone of a name or an offset."""
    if not name:
        return None
    if name[0] in "+-":
        return datetime.fromisoformat(f"2000-01-01T00:00:00{name}").tzinfo
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError) as error:
        raise CodecError(
            f"there is no time zone {name!r} on this machine",
            expected="a name of the IANA database",
            got=name,
            cure="pip install tzdata",
        ) from error


def is_array(value: Any) -> bool:
    """Return whether a value is a NumPy array, without importing NumPy."""
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def is_scalar(value: Any) -> bool:
    """Return whether a value is a NumPy scalar."""
    return type(value).__module__ == "numpy" and hasattr(value, "dtype") and not is_array(value)


def check_dtype(value: Any) -> str:
    """Return the dtype of a NumPy array or scalar as text; raise if it is of Python objects."""
    text = str(value.dtype.str)
    if not _DTYPE.fullmatch(text):
        raise refuse_value(value)
    return text


def write_array(value: Any) -> list[Any]:
    """Return a NumPy array or scalar as its dtype, shape and bytes."""
    return [check_dtype(value), list(value.shape), value.tobytes()]


def read_array(dtype: str, shape: list[int], data: bytes) -> Any:
    """Return an array from its dtype, shape and bytes; raise if they do not fit."""
    import numpy as np

    if not _DTYPE.fullmatch(dtype):
        raise CodecError("stored bytes contain an array of objects", got=dtype)
    kind = np.dtype(dtype)
    count = 1
    for length in shape:
        count *= length
    if count * kind.itemsize != len(data) or any(length < 0 for length in shape):
        raise CodecError("the length of a stored array does not match its shape", got=repr(shape))
    return np.ndarray(shape, kind, buffer=bytearray(data))
