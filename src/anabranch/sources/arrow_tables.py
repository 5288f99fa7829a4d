"""Rows of Parquet and Arrow files, in blocks of columns of any type.

Files of one folder may differ in attributes of a column beside its type, such as nullability. Blocks do not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SPELLED = {b"anabranch": b"json"}
"""The metadata of a column whose values are JSON texts."""


def read_parquet_blocks(
    path: str, rows: int, wanted: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file in blocks, with all columns or only the wanted ones."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, memory_map=True) as file:
        names = file.schema_arrow.names
        known = None if wanted is None else [name for name in names if name in wanted]
        for batch in file.iter_batches(rows, columns=known, use_threads=False):
            yield clean_batch(batch)


def read_arrow_blocks(
    path: str, rows: int, wanted: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an Arrow file or stream in blocks, with all columns or only the wanted ones."""
    import pyarrow as pa

    with pa.memory_map(path) as file:
        try:
            table = pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()
    _check_buffers(table)
    if wanted is not None:
        table = table.select([n for n, name in enumerate(table.column_names) if name in wanted])
    for batch in table.to_batches(rows):
        yield clean_batch(batch)


def _check_buffers(table: pa.Table) -> None:
    """Raise if a buffer of a table points beyond its end. Text that is not UTF-8 is rejected with its row."""
    import pyarrow as pa

    for column in table.columns:
        for chunk in column.chunks:
            chunk.validate()
            if pa.types.is_string(chunk.type):
                chunk.cast(pa.binary()).validate(full=True)
            elif pa.types.is_large_string(chunk.type):
                chunk.cast(pa.large_binary()).validate(full=True)
            else:
                chunk.validate(full=True)


def clean_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a block whose columns are nullable and have unique names; of two columns, the last one is kept.

    Timestamps are rounded down to microseconds, and a dictionary that contains nulls is decoded.
    """
    import pyarrow as pa

    last = {field.name: place for place, field in enumerate(batch.schema)}
    fields, columns = [], []
    for name, place in last.items():
        field, column = batch.schema.field(place), batch.column(place)
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.unit != "us":
            column = _round_down(column)
        elif pa.types.is_dictionary(kind) and column.dictionary.null_count:
            column = column.cast(kind.value_type)
        spelled = SPELLED if is_spelled(field) else None
        fields.append(pa.field(name, column.type, metadata=spelled))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def is_spelled(field: pa.Field) -> bool:
    """Return whether the values of a column are JSON texts."""
    return (field.metadata or {}).get(b"anabranch") == b"json"


def _round_down(moments: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    target = pa.timestamp("us", moments.type.tz)
    if moments.type.unit != "ns":
        return _scale_up(moments, target)
    numbers = moments.cast(pa.int64())
    quotient = pc.divide(numbers, 1000)
    below = pc.less(numbers, pc.multiply(quotient, 1000))
    return pc.subtract(quotient, below.cast(pa.int64())).cast(target)


def _scale_up(moments: pa.Array, target: pa.DataType) -> pa.Array:
    """Return seconds or milliseconds as microseconds, or unchanged if they do not fit into 64 bits."""
    import pyarrow as pa

    try:
        return moments.cast(target)
    except pa.ArrowInvalid:
        return moments


def read_batch(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a block. Text that is not UTF-8 is returned as bytes, which fit no field.

    A timestamp outside Python's calendar is returned as microseconds.
    """
    columns = [
        list_values(column, spelled=is_spelled(field))
        for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    names = batch.schema.names
    for values in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
        yield dict(zip(names, values, strict=True))


def list_values(column: pa.Array, *, spelled: bool = False) -> list[Any]:
    """Return the values of a column, converted as in `read_batch`."""
    import pyarrow as pa

    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        wide = pa.types.is_large_string(column.type)
        if not wide and not pa.types.is_string(column.type):
            raise
        data = column.cast(pa.large_binary() if wide else pa.binary()).to_pylist()
        values = [_try_text(value) for value in data]
    except (ValueError, OverflowError):
        if not pa.types.is_timestamp(column.type):
            raise
        values = _list_moments(column)
    return [_try_json(value) for value in values] if spelled else values


def _list_moments(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    scale = {"s": 1_000_000, "ms": 1_000}.get(column.type.unit, 1)
    numbers = column.cast(pa.int64()).to_pylist()
    values: list[Any] = []
    for moment, number in zip(column, numbers, strict=True):
        try:
            values.append(moment.as_py())
        except (ValueError, OverflowError):
            values.append(number * scale)
    return values


def _try_text(data: bytes | None) -> str | bytes | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _try_json(value: Any) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return value
