"""Columns of a layout as Arrow, and back: the form of savepoints and queries.

The same as `state.columns` value by value, without a Python object for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from anabranch.kernels.column_layouts import (
    STR,
    ColumnLayout,
    Constant,
    Fields,
    Leaf,
    OptionalColumn,
    part_names,
)
from anabranch.kernels.numpy_columns import DTYPES, Columns, Strings
from anabranch.state.durable import kinds
from anabranch.state.durable.codec import Codec, name_record
from anabranch.state.durable.value_columns import to_arrow

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

_KINDS = {"int": kinds.INT, "float": kinds.FLOAT, "bool": kinds.BOOL, "str": kinds.STR}


def describe_layout(layout: ColumnLayout) -> kinds.Kind:
    """Return the kind of the values of a layout."""
    if isinstance(layout, Leaf):
        return _KINDS[layout.kind]
    if isinstance(layout, Constant):
        return kinds.describe_value(layout.value)
    if isinstance(layout, OptionalColumn):
        return kinds.make_optional(describe_layout(layout.inner))
    parts = tuple(map(describe_layout, layout.parts))
    if layout.cls is tuple:
        return kinds.Fixed(parts) if parts else kinds.Sequence("tuple", kinds.UNKNOWN)
    return kinds.Record(name_record(layout.cls), tuple(zip(part_names(layout), parts, strict=True)))


def columns_to_arrow(columns: Columns, codec: Codec) -> pa.Array:
    """Return the values of columns as one Arrow array."""
    return _write(columns.layout, iter(columns.arrays), columns, codec)


def _write(
    layout: ColumnLayout, arrays: Iterator[Array], columns: Columns, codec: Codec
) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    if isinstance(layout, Leaf):
        array = next(arrays)
        if layout.kind != STR:
            return pa.array(array)
        return pa.array(list(columns.strings), pa.string()).take(pa.array(array))
    if isinstance(layout, Constant):
        one = to_arrow(describe_layout(layout), [layout.value], codec)
        return one.take(pa.array(np.zeros(columns.length, np.int64)))
    if isinstance(layout, OptionalColumn):
        there = next(arrays)
        inner = _write(layout.inner, arrays, columns, codec)
        return inner.take(pa.array(np.arange(columns.length), mask=~there))
    parts = [_write(part, arrays, columns, codec) for part in layout.parts]
    if not parts:
        return to_arrow(describe_layout(layout), [layout.cls()] * columns.length, codec)
    return pa.StructArray.from_arrays(parts, _name_parts(layout))


def _name_parts(layout: Fields) -> list[str]:
    names = part_names(layout)
    return [f"_{int(name) + 1}" for name in names] if layout.cls is tuple else list(names)


def arrow_to_columns(layout: ColumnLayout, array: pa.Array) -> Columns:
    """Return the columns from which `columns_to_arrow` made an array."""
    strings = Strings()
    return Columns(layout, tuple(_read(layout, array, strings)), len(array), strings)


def _read(layout: ColumnLayout, array: pa.Array, strings: Strings) -> Iterator[Array]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(layout, OptionalColumn):
        there = array.is_valid().to_numpy(zero_copy_only=False)
        yield np.ascontiguousarray(there)
        yield from _read(layout.inner, array, strings)
    elif isinstance(layout, Fields):
        for place, part in enumerate(layout.parts):
            yield from _read(part, pc.struct_field(array, [place]), strings)
    elif isinstance(layout, Leaf):
        if layout.kind == STR:
            encoded = array.fill_null("").dictionary_encode()
            codes = strings.codes(encoded.dictionary.to_pylist())
            places = encoded.indices.to_numpy(zero_copy_only=False)
            yield codes[places] if len(codes) else np.empty(0, np.int64)
        else:
            blank: Any = False if layout.kind == "bool" else 0
            filled = array.fill_null(pa.scalar(blank, array.type)) if array.null_count else array
            found = filled.to_numpy(zero_copy_only=False)
            yield np.ascontiguousarray(found, dtype=DTYPES[layout.kind])
