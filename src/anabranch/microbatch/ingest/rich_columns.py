"""Rich columns: the fields of a block that are enums, Decimals, bytes, records, lists and the like.

Members of enums become a column of their names, and other values a column of objects, each converted as the row reader
does. Values for which that is not certain are *odd*, and their rows are left to the row reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.channels import fits
from anabranch.kernels.column_layouts import ColumnLayout, EnumColumn, OptionalColumn
from anabranch.microbatch.ingest.block_columns import bound_bytes, find_large, measure_byte
from anabranch.microbatch.job.job import Job
from anabranch.model.events import EventType
from anabranch.model.values.field_lists import read_list
from anabranch.model.values.fields import MISSING, admits_none, list_defaults, strip_none
from anabranch.sources.arrow_tables import list_values
from anabranch.state.durable.codec import CodecError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]


class RichColumn(NamedTuple):
    """The names or objects of a column, and which of its rows are not odd; a null is not odd."""

    values: pa.Array | Array
    good: Array


def find_member_type(part: ColumnLayout) -> Any:
    """Return the enum of a field's column, or None if it holds objects."""
    inner = part.inner if isinstance(part, OptionalColumn) else part
    return inner.cls if isinstance(inner, EnumColumn) else None


def read_rich(
    job: Job, part: ColumnLayout, annotation: Any, given: pa.Array, most: int, *, text: bool
) -> RichColumn | None:
    """Return a column converted to the type of its field; None if no row is certain.

    A value may take at most `most` bytes. With `text`, values are cells of CSV.
    """
    import numpy as np
    import pyarrow as pa

    per_byte = measure_byte(job)
    good = np.ones(len(given), np.bool_)
    if bound_bytes(given, per_byte) > most:
        good[list(find_large(given, per_byte, most))] = False
    try:
        if find_member_type(part) is not None:
            values, odd = _read_names(given, strip_none(annotation), text=text)
        else:
            values, odd = _read_objects(given, annotation, text=text)
    except (ValueError, OverflowError, pa.ArrowException):
        return None  # Such as timestamps out of range, inside a list.
    good[odd] = False
    return RichColumn(values, good)


def _read_names(given: pa.Array, kind: Any, *, text: bool) -> tuple[pa.Array, list[int]]:
    """Return members by their names, each distinct value converted once, and the places of odd values."""
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_dictionary(given.type):
        given = given.dictionary_encode()
    read = read_list(list_values(given.dictionary), kind, text=text)
    strange = {*read.odd, *(n for n, member in enumerate(read.values) if _is_large(member))}
    names = ["" if n in strange else member._name_ for n, member in enumerate(read.values)]
    found = pa.DictionaryArray.from_arrays(given.indices, pa.array(names, pa.string()))
    if not strange:
        return found, []
    places = given.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    odd: list[int] = np.flatnonzero(np.isin(places, sorted(strange))).tolist()
    return found, odd


def _read_objects(given: pa.Array, annotation: Any, *, text: bool) -> tuple[Array, list[int]]:
    import numpy as np

    places = np.flatnonzero(np.array(given.is_valid(), np.bool_)).tolist()
    whole = len(places) == len(given)
    read = read_list(list_values(given if whole else given.drop_null()), annotation, text=text)
    odd = {*read.odd, *(n for n, value in enumerate(read.values) if _is_large(value))}
    values = np.fromiter(read.values, dtype=object, count=len(places))
    if whole:
        return values, sorted(odd)
    spread = np.full(len(given), None, dtype=object)
    spread[places] = values
    return spread, [places[n] for n in odd]


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and not fits(value)


def find_rich_blank(
    job: Job, event_type: EventType, name: str, annotation: Any, most: int
) -> tuple[Any] | None:
    """Return the value of a missing field, if it has one of at most `most` bytes: its default, or None."""
    defaults = list_defaults(event_type)
    if name not in defaults:
        return (None,) if admits_none(annotation) else None
    value = defaults[name]
    try:
        small = value is not MISSING and len(job.codec.encode(value)) <= most
    except (CodecError, ValueError):
        return None
    return (value,) if small and not _is_large(value) else None


def repeat_rich(part: ColumnLayout, value: Any, count: int) -> pa.Array | Array:
    """Return a column that repeats one value."""
    import numpy as np
    import pyarrow as pa

    if find_member_type(part) is not None:
        return pa.repeat(pa.scalar(None if value is None else value._name_, pa.string()), count)
    return np.fromiter([value] * count, dtype=object, count=count)


def fill_rich(column: pa.Array | Array, missing: Array, value: Any) -> pa.Array | Array:
    """Return a column with a value where rows lack one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.Array):
        return pc.if_else(pa.array(missing), value._name_, column.cast(pa.string()))
    column[missing] = [value] * int(missing.sum())
    return column
