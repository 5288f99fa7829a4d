"""The columns of a block as lists of Python values, for every form in which a block can hold its rows.

The fields of a row are in columns, or in a JSON text, or in cells of CSV, as in `raw_rows`. A row that
can't be opened with the others is *odd*: the row reader opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.job.job import Job
from anabranch.model.values.event_times import FIRST_MOMENT, LAST_MOMENT
from anabranch.model.values.field_lists import lift_moments
from anabranch.model.values.fields import MISSING, strip_none
from anabranch.sources.arrow_tables import is_spelled, list_values
from anabranch.sources.json_objects import parse_objects
from anabranch.sources.text_blocks import LINE, ROW

if TYPE_CHECKING:
    import pyarrow as pa

_OVERHEAD = 24
"""The bytes that one byte of a value may become when it is encoded, beside the name of a record or an enum."""

_FIXED = 64
"""More than the bytes of an encoded number, datetime or date, or of the frame of any other value."""


@dataclass(frozen=True)
class Block:
    """A block of rows in lists.

    `beside` returns the list of a column with None for a missing value, and None if there is no such column.
    `fields` returns the list of a field with `MISSING` for a missing value; it takes the field's type, to convert a
    column at once where that is possible. `texts` are the columns of cells, `sparse` is set if a
    value may be missing, `odd` are the rows that can't be read with the others, and `size` is more than the bytes of
    any other row, encoded.
    """

    count: int
    beside: Callable[[str], list[Any] | None]
    fields: Callable[[str, Any], list[Any] | None]
    texts: frozenset[str]
    sparse: bool
    odd: frozenset[int]
    size: int


def select_lines(reading: Reading, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the row reader's columns of a block: the lines and places, if the block has lines."""
    if LINE not in (reading.json_column, reading.line_column):
        return batch
    return batch.select([name for name in (LINE, ROW) if name in batch.schema.names])


def open_block(job: Job, reading: Reading, batch: pa.RecordBatch) -> Block | None:
    """Return the lists of a block, or None if its rows must be read one by one."""
    if reading.json_column is not None:
        return _open_texts(job, reading, batch)
    if reading.line_column is not None:
        return _open_cells(job, reading, batch)
    return _open_columns(job, reading, batch)


def measure_byte(job: Job) -> int:
    """Return the maximal number of bytes that a byte of a value becomes when it is encoded."""
    names = [len(name.encode()) for name in job.codec.records]
    members = (
        len(member.encode())
        for kind in job.codec.records.values()
        for member in getattr(kind, "__members__", ())
    )
    return _OVERHEAD + max(names, default=0) + max(members, default=0)


def _open_columns(job: Job, reading: Reading, batch: pa.RecordBatch) -> Block:
    aside = [name for name in (reading.corrupt_column, reading.reason_column) if name is not None]
    odd: set[int] = set()
    for name in aside:
        if name in batch.schema.names:
            odd.update(_find_places(batch.column(name).is_valid()))
    names = [name for name in batch.schema.names if name not in aside]
    return _make_block(job, reading, batch.select(names), odd, frozenset())


def _open_cells(job: Job, reading: Reading, batch: pa.RecordBatch) -> Block | None:
    """Open the cells that are columns already; the cells of a row that is not plain are all null there."""
    import pyarrow as pa

    names = [name for name in batch.schema.names if name != LINE]
    columns = batch.select(names)
    texts = frozenset(field.name for field in columns.schema if pa.types.is_string(field.type))
    return _make_block(job, reading, columns, set(), texts)


def _make_block(
    job: Job, reading: Reading, batch: pa.RecordBatch, odd: set[int], texts: frozenset[str]
) -> Block:
    per_byte = measure_byte(job)
    known = {name: place for place, name in enumerate(batch.schema.names)}
    bounds = [bound_bytes(column, per_byte) for column in batch.columns]
    if sum(bounds) > reading.max_bytes:
        longest = reading.max_bytes // max(1, len(bounds))
        for number, bound in enumerate(bounds):
            if bound > longest:
                odd.update(find_large(batch.column(number), per_byte, longest))
        size = longest * len(bounds)
    else:
        size = sum(bounds)

    def beside(name: str) -> list[Any] | None:
        if name not in known:
            return None
        field = batch.schema.field(known[name])
        return list_values(batch.column(known[name]), spelled=is_spelled(field))

    def fields(name: str, annotation: Any) -> list[Any] | None:
        if name not in known:
            return None
        column = batch.column(known[name])
        values = _list_moments(column, annotation)
        values = beside(name) if values is None else values
        assert values is not None
        return _mark_missing(values)

    return Block(batch.num_rows, beside, fields, texts, sparse=True, odd=frozenset(odd), size=size)


def _open_texts(job: Job, reading: Reading, batch: pa.RecordBatch) -> Block | None:
    assert reading.json_column is not None
    batch = select_lines(reading, batch)
    if reading.json_column not in batch.schema.names:
        return None
    texts = list_values(batch.column(reading.json_column))
    per_byte = measure_byte(job)
    found = parse_objects(texts, reading.max_bytes)
    longest = reading.max_bytes // (2 * per_byte)
    odd = {
        place
        for place, (text, value) in enumerate(zip(texts, found, strict=True))
        if value is None or len(text) > longest
    }
    rows: list[dict[str, Any]] = [{} if value is None else value for value in found]
    others = {name: place for place, name in enumerate(batch.schema.names)}
    del others[reading.json_column]

    def beside(name: str) -> list[Any] | None:
        if name in others:
            field = batch.schema.field(others[name])
            return list_values(batch.column(others[name]), spelled=is_spelled(field))
        return [row.get(name) for row in rows]

    def fields(name: str, annotation: Any) -> list[Any]:
        return [row.get(name, MISSING) for row in rows]

    # A text of a few bytes may have many fields of a few bytes each, such as 1: each byte counts.
    size = per_byte * longest
    return Block(batch.num_rows, beside, fields, frozenset(), False, frozenset(odd), size)


def _mark_missing(values: list[Any]) -> list[Any]:
    if type(None) not in set(map(type, values)):
        return values
    return [MISSING if value is None else value for value in values]


def _list_moments(column: pa.Array, annotation: Any) -> list[Any] | None:
    """Return timestamps converted to the type of their field; None if they must be listed as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = strip_none(annotation)
    if not pa.types.is_timestamp(column.type) or column.type.unit != "us":
        return None
    numbers = column.cast(pa.int64())
    if kind is int:
        listed: list[Any] = numbers.to_pylist()
        return listed
    bounds = pc.min_max(numbers).as_py()
    if kind is not datetime or column.null_count == len(column):
        return None
    if bounds["min"] < FIRST_MOMENT or bounds["max"] > LAST_MOMENT:
        return None
    return lift_moments(numbers.to_pylist())


def bound_bytes(column: pa.Array, per_byte: int) -> int:
    """Return more than the bytes of any value of a column, encoded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        return bound_bytes(column.dictionary, per_byte)
    if _is_text(kind):
        longest = pc.max(pc.binary_length(column)).as_py()
        return _FIXED + per_byte * (1 + (longest or 0))
    if pa.types.is_struct(kind):
        parts = [column.field(number) for number in range(kind.num_fields)]
        names = sum(len(kind.field(number).name) for number in range(kind.num_fields))
        return _FIXED + per_byte + 4 * names + sum(bound_bytes(part, per_byte) for part in parts)
    if pa.types.is_map(kind):
        pairs = (column.keys, column.items)
        most = _count_most(column)
        return _FIXED + most * sum(bound_bytes(part, per_byte) for part in pairs)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _FIXED + _count_most(column) * bound_bytes(column.values, per_byte)
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return 1 << 62
    return _FIXED + per_byte


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


def _count_most(column: pa.Array) -> int:
    """Return the largest number of elements of a list or a map."""
    import numpy as np

    if not len(column):
        return 0
    offsets = np.asarray(column.offsets)
    return int((offsets[1:] - offsets[:-1]).max())


def find_large(column: pa.Array, per_byte: int, longest: int) -> Iterable[int]:
    """Return the places of values that may take more bytes than a limit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_text(column.type):
        most = (longest - _FIXED) // per_byte - 1
        return _find_places(pc.fill_null(pc.greater(pc.binary_length(column), most), False))
    if not pa.types.is_nested(column.type):
        return range(len(column))
    return [
        place
        for place in range(len(column))
        if bound_bytes(column.slice(place, 1), per_byte) > longest
    ]


def _find_places(mask: pa.Array) -> Collection[int]:
    import numpy as np

    places: list[int] = np.flatnonzero(np.asarray(mask)).tolist()
    return places
