"""Scalars as columns: kinds without parts, each in the simplest lossless column type."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from anabranch.state.durable.codec import Codec
from anabranch.state.durable.durable_names import (
    CodecError,
    find_zone,
    read_integer,
    read_zone,
    write_integer,
)
from anabranch.state.durable.kinds import (
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
    DatetimeKind,
    DecimalKind,
    EnumKind,
    Kind,
)

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_MICROSECOND = timedelta(microseconds=1)

Change = Callable[[Any], Any]


def scalar_type(kind: Kind) -> pa.DataType:
    """Return the type of the column of a kind without parts."""
    import pyarrow as pa

    match kind:
        case DecimalKind(scale):
            return pa.string() if scale is None else pa.decimal128(38, scale)
        case DatetimeKind(None):
            moment = [("local", pa.timestamp("us")), ("zone", pa.string()), ("fold", pa.bool_())]
            return pa.struct(moment)
        case DatetimeKind(zone):
            return pa.timestamp("us", zone or None)
        case EnumKind():
            return pa.string()
    plain: dict[Kind, pa.DataType] = {
        BOOL: pa.bool_(), INT: pa.int64(), FLOAT: pa.float64(), STR: pa.string(),
        BYTES: pa.binary(), NONE: pa.null(), UNKNOWN: pa.null(), DATE: pa.date32(),
        TIME: pa.time64("us"), TIMEDELTA: pa.duration("us"), UUID: pa.string(),
        BIGINT: pa.string(), FRACTION: pa.string(), ANY: pa.binary(), NUMBER: pa.binary(),
    }  # fmt: skip
    return plain[kind]


def is_direct(kind: Kind) -> bool:
    """Return whether Arrow reads and writes values of a kind, and None, without conversion."""
    return kind in (BOOL, INT, FLOAT, STR, BYTES, DATE)


def scalars_to_arrow(kind: Kind, values: list[Any], codec: Codec) -> pa.Array:
    """Return values of a kind without parts as a column."""
    import pyarrow as pa

    if kind == DatetimeKind(None):
        return _to_moments(values)
    lower = _find_lower(kind, codec)
    lowered = values if lower is None else map(lower, values)
    try:
        return pa.array(lowered, scalar_type(kind), size=len(values))
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, CodecError):
            raise
        raise CodecError(
            f"a value is not of kind {name_kind(kind)}", got=str(error)[:200]
        ) from error


def scalars_from_arrow(kind: Kind, array: Any, enum: Any, codec: Codec) -> list[Any]:
    """Return the values of a column; `enum` is the class of an `EnumKind`."""
    match kind:
        case DatetimeKind(zone):
            return _lift_datetimes(zone, array)
        case EnumKind():
            return [enum[name] for name in array.to_pylist()]
    lift = _find_lift(kind, codec)
    return list(array.to_pylist()) if lift is None else [lift(one) for one in array.to_pylist()]


def _to_moments(values: list[datetime]) -> pa.Array:
    import pyarrow as pa

    columns = [
        pa.array([value.replace(tzinfo=None, fold=0) for value in values], pa.timestamp("us")),
        pa.array([find_zone(value.tzinfo) for value in values], pa.string()),
        pa.array([bool(value.fold) for value in values], pa.bool_()),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(scalar_type(DatetimeKind())))


def _find_lower(kind: Kind, codec: Codec) -> Change | None:
    match kind:
        case EnumKind():
            return lambda value: value.name
        case DecimalKind(None):
            return str
    found: dict[Kind, Change] = {
        BIGINT: write_integer,
        FRACTION: lambda value: (
            f"{write_integer(value.numerator)}/{write_integer(value.denominator)}"
        ),
        UUID: str,
        ANY: codec.encode,
        NUMBER: codec.encode,
    }
    return found.get(kind)


def _lift_datetimes(zone: str | None, array: Any) -> list[datetime]:
    import pyarrow as pa

    if zone is None:
        local, names, folds = (array.field(n).to_pylist() for n in range(3))
        zones = {name: read_zone(name) for name in set(names)}
        rows = zip(local, names, folds, strict=True)
        return [at.replace(tzinfo=zones[name], fold=int(fold)) for at, name, fold in rows]
    whole = [_EPOCH + n * _MICROSECOND for n in array.cast(pa.int64()).to_pylist()]
    own = read_zone(zone)
    return whole if own is None else [own.fromutc(at.replace(tzinfo=own)) for at in whole]


def _find_lift(kind: Kind, codec: Codec) -> Change | None:
    if isinstance(kind, DecimalKind):
        return Decimal if kind.scale is None else None
    found: dict[Kind, Change] = {
        BIGINT: read_integer,
        FRACTION: lambda text: Fraction(*map(read_integer, text.split("/"))),
        UUID: uuid.UUID,
        ANY: codec.decode,
        NUMBER: codec.decode,
    }
    return found.get(kind)


def name_kind(kind: Kind) -> str:
    """Return the name of a kind."""
    return getattr(kind, "name", type(kind).__name__.removesuffix("Kind").lower())
