"""Plain columns: the fields of events as arrays, and masks of the rows for which that is certain.

A row is *plain* if the arrays hold what the row reader would read. Which rows are, is found for a whole column at
once: by the type of the column, its nulls, the range of its times, the length of its texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.channels import NEVER
from anabranch.kernels.column_layouts import (
    BOOL,
    DAY,
    ENUM,
    FLOAT,
    INT,
    MOMENT,
    OBJECT,
    STR,
    ColumnLayout,
    Fields,
    OptionalColumn,
)
from anabranch.kernels.numpy_columns import Strings
from anabranch.microbatch.columns.calendar_columns import FIRST_DAY, LAST_DAY, read_calendar
from anabranch.microbatch.columns.event_tables import read_array
from anabranch.microbatch.ingest.rich_columns import (
    fill_rich,
    find_member_type,
    find_rich_blank,
    read_rich,
    repeat_rich,
)
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.job.column_types import find_kind
from anabranch.microbatch.job.job import Job
from anabranch.model.events import FOREVER, EventType, field_names, field_types
from anabranch.model.values.event_times import (
    EPOCH,
    FIRST_MOMENT,
    LAST_MOMENT,
    time_field,
    to_microseconds,
)
from anabranch.model.values.fields import MISSING, admits_none, list_defaults
from anabranch.sources.arrow_tables import is_spelled
from anabranch.sources.text_blocks import LINE

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

_LONG_TEXT = 1000
"""A longer text, in bytes, is measured with its event."""

_REACH = {MOMENT: (FIRST_MOMENT, LAST_MOMENT), DAY: (FIRST_DAY, LAST_DAY)}
"""The range of Python's calendar, in microseconds and in days."""

_BLANKS: dict[str, Any] = {FLOAT: 0.0, BOOL: False, STR: ""}

_NUMBER_BYTES = 16
"""The maximal size of a number in an event, and of the overhead of a text."""


class PlainColumns(NamedTuple):
    """The columns of an event type's fields in a block, that of the sequence, and masks of plain rows.

    A row is plain if it is in all masks; a mask of all rows is omitted.
    """

    fields: list[pa.Array | Array]
    seqs: pa.Array
    masks: list[Array]


def find_plain(
    job: Job, event_type: EventType, layout: Fields, reading: Reading, batch: pa.RecordBatch
) -> PlainColumns | None:
    """Return the plain columns of an event type in a block, or None if no row is plain."""
    if reading.json_column not in (None, LINE) or reading.corrupt_column or reading.reason_column:
        return None
    if reading.seq is None or batch.schema.get_field_index(reading.seq) < 0:
        return None
    # A plain event is within the limit of an event's size, so that it need not be measured.
    longest = min(_LONG_TEXT, reading.max_bytes // len(layout.parts) - _NUMBER_BYTES)
    if longest < 0:
        return None
    masks = list(_find_rows(event_type, reading, batch))
    fields = []
    for name, part in zip(field_names(event_type), layout.parts, strict=True):
        if find_kind(part) in (ENUM, OBJECT):
            most = reading.max_bytes // len(layout.parts)
            column = _read_rich(job, event_type, name, part, reading, batch, masks, most)
        else:
            column = _read_column(event_type, name, part, reading, batch, masks)
        if column is None:
            return None
        if find_kind(part) == STR:
            masks.append(_is_short(column, longest))
        fields.append(column)
    seqs = _convert(batch.column(reading.seq), INT, masks)
    if seqs is None:
        return None
    if seqs.null_count:
        masks.append(_to_mask(seqs.is_valid()))
    return PlainColumns(fields, seqs, masks)


def _find_rows(event_type: EventType, reading: Reading, batch: pa.RecordBatch) -> Iterator[Array]:
    """Yield masks of the rows that may be events of a type, by the columns beside its fields."""
    if reading.type_column is not None:
        yield is_named(batch, reading.type_column, event_type.__name__)
    if reading.heartbeat and reading.heartbeat in batch.schema.names:
        beats = batch.column(reading.heartbeat)
        if beats.null_count < len(beats):
            yield _to_mask(beats.is_null())
    if reading.json_column == LINE:
        yield _is_short(batch.column(LINE), reading.max_bytes)


def _read_column(
    event_type: EventType,
    name: str,
    part: ColumnLayout,
    reading: Reading,
    batch: pa.RecordBatch,
    masks: list[Array],
) -> pa.Array | None:
    """Return the column of a field; add masks of its plain values. None if no value is plain."""
    is_time = name == time_field(event_type)
    source = reading.time_column(event_type) if is_time else name
    kind = find_kind(part)
    if batch.schema.get_field_index(source) < 0:
        # Lines of JSON that have no columns are not plain; elsewhere a column may be missing.
        missing = (
            None if is_time or reading.json_column == LINE else _find_blank(event_type, name, part)
        )
        return None if missing is None else _repeat(missing[0], kind, batch.num_rows)
    if is_spelled(batch.schema.field(source)):
        return None
    given = batch.column(source)
    column = _convert(given, kind, masks, stamped=is_time)
    if column is None:
        return None
    if column.null_count > given.null_count:
        # A text that could not be parsed is not a null.
        masks.append(_to_mask(column.is_valid()) == _to_mask(given.is_valid()))
    if column.null_count:
        column = _settle_nulls(event_type, name, part, reading, batch, column, masks)
    if kind in _REACH or is_time:
        low, high = _REACH.get(kind, (NEVER + 1, FOREVER - 1))
        times = _fill(column)
        if len(times) and (times.min() < low or times.max() > high):
            masks.append((times >= low) & (times <= high))
    return column


def _read_rich(
    job: Job,
    event_type: EventType,
    name: str,
    part: ColumnLayout,
    reading: Reading,
    batch: pa.RecordBatch,
    masks: list[Array],
    most: int,
) -> pa.Array | Array | None:
    """Return the column of a field that is an enum or an object; add masks of its plain values."""
    annotation = field_types(event_type)[name]
    blank = find_rich_blank(job, event_type, name, annotation, most)
    lines = reading.json_column == LINE
    if batch.schema.get_field_index(name) < 0:
        return None if lines or blank is None else repeat_rich(part, blank[0], batch.num_rows)
    if is_spelled(batch.schema.field(name)):
        return None
    given = batch.column(name)
    text = reading.line_column is not None and given.type == "string"
    rich = read_rich(job, part, annotation, given, most, text=text)
    if rich is None:
        return None
    if not rich.good.all():
        masks.append(rich.good)
    if not given.null_count:
        return rich.values
    valid = _to_mask(given.is_valid())
    if lines:
        explicit, missing = _find_nulls(batch.column(LINE), ~valid, name)
        has_default = name in list_defaults(event_type)
        known = valid | (explicit & admits_none(annotation))
        known |= missing & (has_default and blank is not None)
    else:
        missing, known = ~valid, valid | (blank is not None)
    if not known.all():
        masks.append(known)
    if blank is None or blank[0] is None or not missing.any():
        return rich.values
    return fill_rich(rich.values, missing, blank[0])


def _convert(
    column: pa.Array, kind: str, masks: list[Array], *, stamped: bool = False
) -> pa.Array | None:
    """Return a column in the type of a kind, if the row reader converts its values without loss."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types, found = pa.types, column.type
    if kind in _REACH:
        return read_calendar(kind, column)
    if kind == INT and stamped and types.is_timestamp(found):
        return read_calendar(MOMENT, column)
    if kind == INT and types.is_uint64(found):
        fits = pc.fill_null(pc.less_equal(column, pa.scalar(FOREVER, pa.uint64())), True)
        if not pc.all(fits).as_py():
            masks.append(_to_mask(fits))
            column = pc.if_else(fits, column, pa.scalar(0, pa.uint64()))
        return column.cast(pa.int64())
    if kind == INT:
        return column if types.is_integer(found) else None
    if kind == FLOAT and types.is_integer(found):
        return column.cast(pa.float64(), safe=False)
    if kind == FLOAT:
        return column if types.is_float64(found) or types.is_float32(found) else None
    if kind == BOOL:
        return column if types.is_boolean(found) else None
    text = found.value_type if types.is_dictionary(found) else found
    return column if types.is_string(text) or types.is_large_string(text) else None


def _settle_nulls(
    event_type: EventType,
    name: str,
    part: ColumnLayout,
    reading: Reading,
    batch: pa.RecordBatch,
    column: pa.Array,
    masks: list[Array],
) -> pa.Array:
    """Set the defaults of missing values in a column; add masks for nulls that are not plain.

    Outside JSON, a null is a missing value. In a line of JSON it is a null, or a missing value, which is another thing.
    """
    import pyarrow.compute as pc

    valid = _to_mask(column.is_valid())
    optional = isinstance(part, OptionalColumn)
    blank = None if name == time_field(event_type) else _find_blank(event_type, name, part)
    if reading.json_column != LINE:
        if blank is None:
            masks.append(valid)
            return column
        missing = ~valid
    else:
        explicit, missing = _find_nulls(batch.column(LINE), ~valid, name)
        has_default = name in list_defaults(event_type)
        known = valid | (explicit & optional) | (missing & (has_default and blank is not None))
        if not known.all():
            masks.append(known)
    if blank is None or blank[0] is None or not missing.any():
        return column
    filled = _repeat(blank[0], find_kind(part), 1)[0]
    if filled.type != column.type:
        column = column.cast(filled.type)
    return pc.if_else(_from_mask(missing), filled, column)


def _find_nulls(lines: pa.Array, null: Array, name: str) -> tuple[Array, Array]:
    """Return which of the plain lines that have no value of a name have a null, and which lack the name.

    In a plain line, a name in quotes is a name or the end of a text. A line with an object inside is left to Python.
    """
    import pyarrow.compute as pc

    few = lines.filter(_from_mask(null))
    quoted = json.dumps(name, ensure_ascii=False)
    none = _to_mask(pc.equal(pc.count_substring(few, quoted), 0))
    pattern = f"{_escape(quoted)}[ \\t]*:[ \\t]*null"
    named = _to_mask(pc.match_substring_regex(few, pattern))
    flat = _to_mask(pc.equal(pc.count_substring(few, "{"), 1))
    explicit, missing = null.copy(), null.copy()
    explicit[null] = named & flat
    missing[null] = none
    return explicit, missing


def _escape(text: str) -> str:
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else rf"\x{byte:02x}"
        for byte in text.encode()
    )


def _find_blank(event_type: EventType, name: str, part: ColumnLayout) -> tuple[Any] | None:
    """Return the value of a missing field, as its column holds it; None if there is none.

    It is the default, or None for an optional field.
    """
    value = list_defaults(event_type).get(name, MISSING)
    if value is MISSING:
        return (None,) if isinstance(part, OptionalColumn) else None
    if value is None:
        return (None,) if isinstance(part, OptionalColumn) else None
    if isinstance(value, datetime):
        return (to_microseconds(value),) if value.tzinfo is UTC else None
    if isinstance(value, date):
        return (value.toordinal() - EPOCH.toordinal(),)
    return (value,)


def _repeat(value: Any, kind: str, count: int) -> pa.Array:
    import pyarrow as pa

    types = {FLOAT: pa.float64(), BOOL: pa.bool_(), STR: pa.string()}
    return pa.repeat(pa.scalar(value, types.get(kind, pa.int64())), count)


def read_field(part: ColumnLayout, column: Any, strings: Strings) -> Iterator[Array]:
    """Yield the arrays of a field: an optional field has one more, the mask of its values."""
    import pyarrow as pa

    kind = find_kind(part)
    if kind == OBJECT:
        yield column
        return
    if not isinstance(part, OptionalColumn):
        yield read_array(column, kind, strings)
        return
    yield _to_mask(column.is_valid())
    if column.null_count:
        column = (
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        )
        member = find_member_type(part)
        filler = _BLANKS.get(kind, 0) if member is None else next(iter(member))._name_
        column = column.fill_null(pa.scalar(filler, column.type))
    yield read_array(column, kind, strings)


def is_named(batch: pa.RecordBatch, column: str, name: str) -> Array:
    """Return which rows have the event type or channel `name` in a column."""
    import numpy as np
    import pyarrow.compute as pc

    if column not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    return _to_mask(pc.fill_null(pc.equal(batch.column(column).cast("string"), name), False))


def _is_short(column: pa.Array, longest: int) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    lengths = pc.fill_null(pc.binary_length(column), 0)
    return _to_mask(pc.less_equal(lengths, longest))


def _fill(times: pa.Array) -> Array:
    import numpy as np
    import pyarrow.compute as pc

    filled = times if times.null_count == 0 else pc.fill_null(times, 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _to_mask(values: pa.Array) -> Array:
    import numpy as np

    return np.array(values, np.bool_)


def _from_mask(rows: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(rows)
