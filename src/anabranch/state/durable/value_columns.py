"""Columns: values of a kind as Arrow columns, and back without loss.

Equal values give equal columns: sets and maps are unordered, so they are sorted by their items. Values
without a column type are bytes of the codec. None is a null, and no other value is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.model.events import field_names
from anabranch.model.values.maps import Map
from anabranch.state.durable.array_columns import array_type, arrays_from_arrow, arrays_to_arrow
from anabranch.state.durable.codec import Codec
from anabranch.state.durable.durable_names import CodecError
from anabranch.state.durable.kinds import (
    NONE,
    UNKNOWN,
    Array,
    EnumKind,
    Fixed,
    Kind,
    Mapped,
    Option,
    Record,
    Sequence,
)
from anabranch.state.durable.scalars import (
    is_direct,
    name_kind,
    scalar_type,
    scalars_from_arrow,
    scalars_to_arrow,
)

if TYPE_CHECKING:
    import pyarrow as pa

Records = Mapping[str, type]
"""Classes by the names they are stored under: `Codec.records`, or stand-ins for older ones."""

_SEQUENCES: dict[str, Callable[[Iterable[Any]], Any]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": frozenset,
}  # fmt: skip


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the type of a kind's column."""
    import pyarrow as pa

    match kind:
        case Option(inner):
            return arrow_type(inner)
        case Record(_, fields):
            # Parquet has no structs without fields.
            typed = [pa.field(name, arrow_type(inner)) for name, inner in fields]
            return pa.struct(typed) if typed else pa.bool_()
        case Fixed(items):
            return pa.struct(
                [pa.field(f"_{n}", arrow_type(item)) for n, item in enumerate(items, 1)]
            )
        case Sequence(_, item):
            return pa.list_(arrow_type(item))
        case Mapped(_, key, value):
            if _may_be_none(key):
                pair = pa.struct([("key", arrow_type(key)), ("value", arrow_type(value))])
                return pa.list_(pair)
            return pa.map_(arrow_type(key), arrow_type(value))
        case Array(dtype):
            return array_type(dtype)
    return scalar_type(kind)


def _may_be_none(kind: Kind) -> bool:
    return isinstance(kind, Option) or kind in (NONE, UNKNOWN)


def to_arrow(kind: Kind, values: Iterable[Any], codec: Codec) -> pa.Array:
    """Return values, all of a kind, as a column."""
    import pyarrow as pa

    values = values if isinstance(values, list) else list(values)
    match kind:
        case Option(inner):
            return _to_nullable(inner, values, codec)
        case Record(_, fields):
            if not fields:
                return pa.array([True] * len(values), pa.bool_())
            return _to_struct(
                kind, [[getattr(v, name) for v in values] for name, _ in fields], codec
            )
        case Fixed(items):
            return _to_struct(
                kind, [[value[n] for value in values] for n in range(len(items))], codec
            )
        case Sequence(of, item):
            lists = [sort_items(value, codec) for value in values] if "set" in of else values
            parts = to_arrow(item, [part for one in lists for part in one], codec)
            return pa.ListArray.from_arrays(_offsets(lists), parts, arrow_type(kind))
        case Mapped():
            return _to_map(kind, values, codec)
        case Array(dtype):
            return arrays_to_arrow(dtype, values)
    return scalars_to_arrow(kind, values, codec)


def _to_nullable(inner: Kind, values: list[Any], codec: Codec) -> pa.Array:
    import pyarrow as pa

    if is_direct(inner):
        return scalars_to_arrow(inner, values, codec)
    present = to_arrow(inner, [value for value in values if value is not None], codec)
    places: list[int | None] = []
    count = 0
    for value in values:
        places.append(None if value is None else count)
        count += value is not None
    return present.take(pa.array(places, pa.int64()))


def _to_struct(kind: Record | Fixed, columns: list[list[Any]], codec: Codec) -> pa.Array:
    import pyarrow as pa

    inner = kind.items if isinstance(kind, Fixed) else [field for _, field in kind.fields]
    arrays = [to_arrow(part, column, codec) for part, column in zip(inner, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(arrow_type(kind)))


def _to_map(kind: Mapped, values: list[Any], codec: Codec) -> pa.Array:
    import pyarrow as pa

    dicts = [value.entries() if isinstance(value, Map) else value for value in values]
    keys = [sort_items(entries, codec) for entries in dicts]
    pairs = zip(keys, dicts, strict=True)
    flat_keys = to_arrow(kind.key, [key for some in keys for key in some], codec)
    flat = to_arrow(kind.value, [entries[key] for some, entries in pairs for key in some], codec)
    whole = arrow_type(kind)
    if pa.types.is_map(whole):
        return pa.MapArray.from_arrays(_offsets(keys), flat_keys, flat, whole)
    structs = pa.StructArray.from_arrays([flat_keys, flat], fields=list(whole.value_type))
    return pa.ListArray.from_arrays(_offsets(keys), structs, whole)


def _offsets(lists: Iterable[Any]) -> pa.Array:
    import pyarrow as pa

    places = [0]
    for one in lists:
        places.append(places[-1] + len(one))
    return pa.array(places, pa.int32())


def sort_items(items: Iterable[Any], codec: Codec) -> list[Any]:
    """Return unordered items in an order that depends on the items alone."""
    found = list(items)
    kinds = {type(item) for item in found}
    natural = len(kinds) == 1 and kinds <= {int, str, bytes, date, float}
    if natural and all(item == item for item in found):  # noqa: PLR0124 - NaN is none of these
        return sorted(found)
    return sorted(found, key=codec.encode)


def from_arrow(
    kind: Kind, array: pa.Array | pa.ChunkedArray, records: Records, codec: Codec
) -> list[Any]:
    """Return the values of a column."""
    try:
        return _from_arrow(kind, array, records, codec)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, CodecError):
            raise
        what = f"a column of {name_kind(kind)} can't be read"
        raise CodecError(what, got=f"{type(error).__name__}: {error}"[:200]) from error


def _from_arrow(kind: Kind, array: Any, records: Records, codec: Codec) -> list[Any]:
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        return [
            value for chunk in array.chunks for value in from_arrow(kind, chunk, records, codec)
        ]
    if not isinstance(kind, Option):
        if array.null_count and kind not in (NONE, UNKNOWN):
            raise CodecError(
                f"a column of {name_kind(kind)} has a null", got=f"{array.null_count} nulls"
            )
        return _lift(kind, array, records, codec)
    if is_direct(kind.kind):
        return list(array.to_pylist())
    present = iter(_lift(kind.kind, array.drop_null(), records, codec))
    return [next(present) if valid else None for valid in array.is_valid().to_pylist()]


def _lift(kind: Kind, array: pa.Array, records: Records, codec: Codec) -> list[Any]:
    match kind:
        case Record(name, fields):
            make = _make_record(name, [field for field, _ in fields], records)
            if not fields:
                return [make() for _ in range(len(array))]
            return [make(*row) for row in _lift_rows([k for _, k in fields], array, records, codec)]
        case Fixed(items):
            return list(_lift_rows(list(items), array, records, codec))
        case Sequence(of, item):
            make_sequence = _SEQUENCES[of]
            parts = from_arrow(item, array.values, records, codec)
            return [make_sequence(parts[a:b]) for a, b in _bounds(array)]
        case Mapped(of, key, value):
            make_map = Map if of == "Map" else dict
            keys = from_arrow(key, array.values.field(0), records, codec)
            values = from_arrow(value, array.values.field(1), records, codec)
            return [make_map(zip(keys[a:b], values[a:b], strict=True)) for a, b in _bounds(array)]
        case Array(dtype):
            return arrays_from_arrow(dtype, array)
    enum = _find_record(kind.name, records) if isinstance(kind, EnumKind) else None
    return scalars_from_arrow(kind, array, enum, codec)


def _lift_rows(kinds: list[Kind], array: Any, records: Records, codec: Codec) -> Iterable[Any]:
    columns = [from_arrow(kind, array.field(n), records, codec) for n, kind in enumerate(kinds)]
    return zip(*columns, strict=True)


def _bounds(array: Any) -> Iterable[tuple[int, int]]:
    places = array.offsets.to_pylist()
    return pairwise(places)


def _make_record(name: str, fields: list[str], records: Records) -> Any:
    record = _find_record(name, records)
    if list(field_names(record)) != fields:
        raise CodecError(
            f"a column has records {name} with other fields than the program's",
            expected=", ".join(field_names(record)),
            got=", ".join(fields),
            cure="convert them with a Migration",
        )
    return record


def _find_record(name: str, records: Records) -> type:
    if name not in records:
        raise CodecError(f"a column names a record {name!r}, which the program does not have")
    return records[name]
