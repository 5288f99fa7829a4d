"""Values of every kind that has a durable form, and a spelling that tells any two of them apart."""

import struct
import uuid
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import strategies as st

from anabranch import Map
from anabranch.state.durable.codec import Codec


class Colour(Enum):
    RED = 1
    BLUE = 2


class Rights(Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    colour: Colour | None


@dataclass(frozen=True)
class Path:
    points: tuple[Point, ...]
    key: Any = None


@dataclass(frozen=True)
class Nothing:
    pass


CODEC = Codec([Path, Point, Colour, Nothing, Rights])
ZONES = [
    None, UTC, ZoneInfo("UTC"), ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe"),
    timezone(timedelta(hours=-3, minutes=-30)), timezone(timedelta(seconds=3207)),
]  # fmt: skip


def spell(value: Any) -> Any:
    """Return what is equal only for values that are the same to the bit, and of the same types."""
    kind = type(value)
    name = kind.__name__
    if kind is int:
        return name, hex(value)
    if kind is float:
        return name, struct.pack("<d", value)
    if kind in (list, tuple):
        return name, *map(spell, value)
    if kind in (set, frozenset):
        return name, *sorted(map(spell, value), key=repr)
    if kind in (dict, Map):
        entries = value.entries() if kind is Map else value
        return name, *sorted(((spell(k), spell(v)) for k, v in entries.items()), key=repr)
    if isinstance(value, np.ndarray | np.generic):
        return name, value.dtype.str, value.shape, value.tobytes()
    if kind is datetime:
        return name, str(value.replace(tzinfo=None)), repr(value.tzinfo), value.fold
    if kind is time:
        return name, value.isoformat(), repr(value.tzinfo), value.fold
    if hasattr(value, "_fields"):
        return name, *map(spell, value)
    if hasattr(value, "__dataclass_fields__"):
        return name, *(spell(getattr(value, field.name)) for field in fields(value))
    return name, repr(value)


def arrays() -> st.SearchStrategy[np.ndarray]:
    dtypes = [
        "i1",
        "i8",
        ">i4",
        "u2",
        "u8",
        "f2",
        "f4",
        "f8",
        ">f8",
        "c16",
        "b1",
        "M8[ms]",
        "U3",
        "S2",
    ]
    shapes = st.sampled_from([(), (0,), (3,), (2, 2), (2, 0, 1)])

    def fill(dtype: str, shape: tuple[int, ...], data: bytes) -> np.ndarray:
        whole = np.empty(shape, dtype)
        if whole.dtype.kind == "U":
            return np.full(shape, data[:2].hex()[:3], dtype)
        if whole.dtype.kind == "b":
            return np.full(shape, data[0] % 2, dtype)
        size = whole.nbytes
        return np.frombuffer((data * (size // len(data) + 1))[:size], dtype).reshape(shape)

    return st.builds(fill, st.sampled_from(dtypes), shapes, st.binary(min_size=1, max_size=40))


moments = st.datetimes(timezones=st.sampled_from(ZONES), allow_imaginary=True)
times = st.times(timezones=st.sampled_from([None, UTC, ZoneInfo("Europe/Berlin")]))
decimals = st.decimals(allow_nan=False, places=2, min_value=-10, max_value=10) | st.sampled_from(
    [Decimal(text) for text in ("NaN", "-0", "1E+5", "1E-40", "Infinity", "0.00", "1.10", "9" * 40)]
)
floats = st.floats() | st.sampled_from(
    [-0.0, struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\x7f")[0], 5e-324]
)
hashables = (
    st.none() | st.booleans() | st.integers() | st.integers(0, 5) | floats | st.text() | st.binary()
    | decimals | st.fractions() | st.dates() | moments | st.timedeltas() | times
    | st.uuids() | st.sampled_from(Colour)
)  # fmt: skip
keys = hashables | st.tuples(hashables, hashables) | st.frozensets(st.integers(), max_size=3)
records = st.builds(Point, st.integers(), st.none() | st.sampled_from(Colour)) | st.just(Nothing())


def contain(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(keys, max_size=3)
        | st.frozensets(keys, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3).map(Map)
        | st.builds(Path, st.lists(records, max_size=2).map(tuple), inner)
    )


values = st.recursive(hashables | records | arrays(), contain, max_leaves=6)
EXAMPLES = [
    2**200, -(2**63) - 1, 10**5000, Decimal("1.10"), Fraction(1, 3), date(2024, 2, 29),
    time(1, 2, 3, 4, fold=1), timedelta.max, timedelta.min, timedelta(-1, 5, 7), uuid.UUID(int=7),
    datetime(2024, 3, 31, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), datetime.fromisoformat("2024-01-01").replace(fold=1),
    Rights.READ, Rights.READ | Rights.WRITE, Rights(0),
    np.float32(1.5), np.int64(-7), np.str_("ab"), np.datetime64("2024-01-01"), np.bool_(True),
]  # fmt: skip
