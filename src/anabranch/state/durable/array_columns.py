"""NumPy arrays as columns: a shape, and a list of numbers that any Parquet reader supports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.state.durable.durable_names import read_array, write_array

if TYPE_CHECKING:
    import pyarrow as pa

_LISTED = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
"""The dtypes whose arrays are a list of numbers in a column; other arrays are bytes."""


def array_type(dtype: str) -> pa.DataType:
    """Return the type of a column of arrays: a shape, and `values` or `data`."""
    import pyarrow as pa

    shape = pa.field("shape", pa.list_(pa.int64()))
    if _is_listed(dtype):
        import numpy as np

        return pa.struct(
            [shape, pa.field("values", pa.list_(pa.from_numpy_dtype(np.dtype(dtype))))]
        )
    return pa.struct([shape, pa.field("data", pa.binary())])


def arrays_to_arrow(dtype: str, arrays: list[Any]) -> pa.Array:
    """Return arrays of one dtype as a column."""
    import numpy as np
    import pyarrow as pa

    whole = array_type(dtype)
    shapes = pa.array([list(array.shape) for array in arrays], whole.field(0).type)
    if _is_listed(dtype):
        flat = np.concatenate([np.empty(0, dtype), *(array.ravel() for array in arrays)])
        offsets = np.cumsum([0, *(array.size for array in arrays)]).astype(np.int32)
        parts = pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), whole.field(1).type)
    else:
        parts = pa.array([write_array(array)[2] for array in arrays], pa.binary())
    return pa.StructArray.from_arrays([shapes, parts], fields=list(whole))


def arrays_from_arrow(dtype: str, column: Any) -> list[Any]:
    """Return the arrays of a column."""
    import numpy as np

    shapes = column.field(0).to_pylist()
    parts = column.field(1)
    if not _is_listed(dtype):
        rows = zip(shapes, parts.to_pylist(), strict=True)
        return [read_array(dtype, shape, data) for shape, data in rows]
    flat = parts.values.to_numpy(zero_copy_only=False)
    places = parts.offsets.to_pylist()
    bounds = zip(shapes, places[:-1], places[1:], strict=True)
    return [np.array(flat[a:b], dtype).reshape(shape) for shape, a, b in bounds]


def _is_listed(dtype: str) -> bool:
    import sys

    native = "<" if sys.byteorder == "little" else ">"
    return dtype[0] in f"{native}|" and dtype[1:] in _LISTED
