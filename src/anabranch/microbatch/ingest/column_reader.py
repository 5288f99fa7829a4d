"""The columnar reader: how a map task reads its part of a source as columns.

Rows that are plain events are never read one by one. Other rows (with a null, a heartbeat,
another type than the field's) are read by the row reader, and then joined to the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.channels import NEVER, Channel
from anabranch.eventtime.disorder import Estimated
from anabranch.kernels.column_layouts import (
    BOOL,
    DAY,
    FLOAT,
    INT,
    MOMENT,
    STR,
    ColumnLayout,
    Fields,
    OptionalColumn,
)
from anabranch.kernels.numpy_columns import Columns, Strings
from anabranch.microbatch.columns.calendar_columns import FIRST_DAY, LAST_DAY, read_calendar
from anabranch.microbatch.columns.event_tables import (
    EventTable,
    concatenate,
    make_table,
    read_array,
    write_columns,
)
from anabranch.microbatch.columns.routing import route_table
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import Chunk, pack_chunks
from anabranch.microbatch.ingest.row_reader import (
    MOST_CHUNKS,
    Reading,
    describe_malformed,
    describe_repeated,
    read_row,
)
from anabranch.microbatch.job.column_plan import ColumnPlan
from anabranch.microbatch.job.job import Job
from anabranch.model.events import FOREVER, Event, EventType, Heartbeat, Malformed, field_names
from anabranch.model.values.event_times import FIRST_MOMENT, LAST_MOMENT, time_field
from anabranch.sources.arrow_tables import is_spelled, read_batch
from anabranch.sources.raw_rows import is_blank
from anabranch.sources.text_blocks import LINE, ROW

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


class _Found(NamedTuple):
    """The items that a task has read, by channel: tables of each event type, and the heartbeats."""

    tables: dict[str, list[_Piece]]
    beats: dict[str, list[Heartbeat]]
    rejected: list[tuple[Any, ...]]
    bad: dict[str, list[int]]


class _Piece(NamedTuple):
    """A table, and the places of its events among the rows of a task."""

    table: EventTable
    rows: Array


def take_in_columns(
    job: Job, reading: Reading, batches: Iterable[pa.RecordBatch], place: int = 0
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the envelopes of a task: (shard, kind, payload). `place` distinguishes the task from others."""
    found = _read_all(job, reading, batches)
    lined = {
        channel: _drop_repeated(job, found, channel)
        for channel in sorted({*found.tables, *found.beats})
    }
    if found.rejected:
        yield 0, Kind.REJECTED, job.codec.encode(found.rejected)
        # Every shard must get a chunk of every batch, or its counts would be missing from the ledger.
        for shard in range(job.layout.shards):
            yield shard, Kind.CHUNKS, pack_chunks(job.codec, ())
    for channel, stretch in lined.items():
        chunks: list[Chunk] = []
        envelopes: list[tuple[int, str, bytes]] = []
        parts = _cut_at_gaps(stretch, found.bad.get(channel, []))
        for part in parts or [stretch]:
            chunk = describe_stretch(channel, part)
            chunks.append(chunk._replace(place=place, sparse=parts is None))
            envelopes += send_stretch(job, channel, part, place)
        payload = pack_chunks(job.codec, chunks)
        for shard in range(job.layout.shards):
            yield shard, Kind.CHUNKS, payload
        yield from envelopes


def read_tables(
    job: Job, reading: Reading, batches: Iterable[pa.RecordBatch]
) -> list[EventTable] | None:
    """Return the events of batches, or None if they contain anything else."""
    found = _read_all(job, reading, batches)
    if found.rejected or found.beats:
        return None
    return [piece.table for pieces in found.tables.values() for piece in pieces]


def _read_all(job: Job, reading: Reading, batches: Iterable[pa.RecordBatch]) -> _Found:
    assert job.columns is not None
    found = _Found({}, {}, [], {})
    start = 0
    for batch in _gather(batches):
        _read(job, job.columns, reading, batch, found, start)
        start += batch.num_rows
    return found


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    held = list(batches)
    if len(held) < 2:
        yield from held
    else:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _read(
    job: Job,
    plan: ColumnPlan,
    reading: Reading,
    batch: pa.RecordBatch,
    found: _Found,
    start: int,
) -> None:
    """Sort the rows of a batch into plain events and others; `start` is the number of rows before it."""
    import numpy as np

    rest = np.ones(batch.num_rows, np.bool_)
    plain: list[tuple[str, _Piece]] = []
    try:
        for place in range(len(plan.layouts)):
            plain += _read_plain(job, plan, reading, batch, place, rest)
    except UnicodeDecodeError:
        # Some text is not UTF-8; the row reader rejects its row.
        rest[:] = True
        plain = []
    for channel, piece in plain:
        moved = piece._replace(rows=piece.rows + start)
        found.tables.setdefault(channel, []).append(moved)
    others: dict[tuple[str, EventType], list[tuple[Event, int]]] = {}
    left = _leave(reading, batch)
    left = left if rest.all() else left.filter(_mask(rest)) if rest.any() else None
    places = (np.flatnonzero(rest) + start).tolist()
    for place, row in zip(places, read_batch(left) if left is not None else (), strict=True):
        if is_blank(row, reading.json_column):
            continue
        item = read_row(job, reading, row)
        if isinstance(item, Malformed):
            found.rejected.append(describe_malformed(item))
            if item.seq is not None:
                found.bad.setdefault(item.channel, []).append(item.seq)
        elif isinstance(item, Heartbeat):
            found.beats.setdefault(item.channel, []).append(item)
        else:
            others.setdefault((item.channel, item.event_type), []).append((item, place))
    for (channel, event_type), events in others.items():
        number = job.program.event_types.index(event_type)
        table = make_table(number, plan.layouts[number], [e for e, _ in events], plan.codes)
        piece = _Piece(table, np.array([place for _, place in events], np.int64))
        found.tables.setdefault(channel, []).append(piece)


def _leave(reading: Reading, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the row reader's input for rows that are not plain: their lines, if there are any."""
    if LINE not in (reading.json_column, reading.line_column):
        return batch
    return batch.select([name for name in (LINE, ROW) if name in batch.schema.names])


def _mask(rows: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(rows)


def _read_plain(
    job: Job,
    plan: ColumnPlan,
    reading: Reading,
    batch: pa.RecordBatch,
    number: int,
    rest: Array,
) -> Iterator[tuple[str, _Piece]]:
    """Return the plain events of one event type in a batch."""
    import numpy as np

    if reading.json_column not in (None, LINE) or reading.corrupt_column or reading.reason_column:
        return
    event_type, layout = job.program.event_types[number], plan.layouts[number]
    if reading.type_column is None and reading.event_type != event_type.__name__:
        return
    columns = _find_columns(event_type, layout, reading, batch)
    if columns is None or reading.seq is None:
        return
    # A plain event is within the limit of an event's size, so that it need not be measured.
    longest = min(_LONG_TEXT, reading.max_bytes // len(columns) - _NUMBER_BYTES)
    if longest < 0:
        return
    seq = batch.column(reading.seq)
    masks = list(_find_plain(event_type, layout, reading, batch, [*columns, seq], longest))
    for channel in plan.names if reading.channel_column else {*plan.names} & {str(reading.channel)}:
        named = (
            [_is_named(batch, reading.channel_column, channel)] if reading.channel_column else []
        )
        mine = None if not masks and not named else np.logical_and.reduce([*masks, *named])
        count = batch.num_rows if mine is None else int(mine.sum())
        if not count:
            continue
        rows = None if mine is None or count == batch.num_rows else _mask(mine)
        strings = Strings()
        arrays = tuple(
            array
            for part, column in zip(layout.parts, columns, strict=True)
            for array in _read_field(part, column if rows is None else column.filter(rows), strings)
        )
        seqs = read_array(seq if rows is None else seq.filter(rows), INT, strings)
        codes = np.full(count, plan.codes[channel], np.int64)
        table = EventTable(number, codes, seqs, Columns(layout, arrays, count, strings))
        places = np.arange(count) if rows is None or mine is None else np.flatnonzero(mine)
        yield channel, _Piece(table, places)
        rest &= False if mine is None else ~mine


def _find_plain(
    event_type: EventType,
    layout: Fields,
    reading: Reading,
    batch: pa.RecordBatch,
    columns: list[pa.Array],
    longest: int,
) -> Iterator[Array]:
    """Yield masks of the rows that are plain events of an event type; a mask of all rows is omitted.

    `columns` are those of the event type's fields, and then the sequence.
    """
    import numpy as np

    if reading.type_column is not None:
        yield _is_named(batch, reading.type_column, event_type.__name__)
    if reading.heartbeat and reading.heartbeat in batch.schema.names:
        beats = batch.column(reading.heartbeat)
        if beats.null_count < len(beats):
            yield np.array(beats.is_null(), np.bool_)
    for column, part in zip(columns, (*layout.parts, None), strict=True):
        # In a line, a null may also be a missing field, or a line that is not plain.
        optional = isinstance(part, OptionalColumn) and LINE not in batch.schema.names
        if column.null_count and not optional:
            yield np.array(column.is_valid(), np.bool_)
    for kind, column in zip(_kinds(layout), columns[:-1], strict=True):
        if kind == STR:
            yield _is_short(column, longest)
    if reading.json_column == LINE:
        yield _is_short(batch.column(LINE), reading.max_bytes)
    yield from _find_times(event_type, layout, reading, batch, columns)


def _find_times(
    event_type: EventType,
    layout: Fields,
    reading: Reading,
    batch: pa.RecordBatch,
    columns: list[pa.Array],
) -> Iterator[Array]:
    """Yield masks of the rows whose times, datetimes and dates are valid in an event."""
    import numpy as np

    for name, kind, column in zip(field_names(event_type), _kinds(layout), columns, strict=False):
        if kind not in _REACH and name != time_field(event_type):
            continue
        # A time that is not valid in an event is left to the row reader, which rejects it; so is a text
        # that could not be parsed, which is not a null.
        given = batch.column(
            reading.time_column(event_type) if name == time_field(event_type) else name
        )
        if column.null_count > given.null_count:
            yield np.array(column.is_valid(), np.bool_) == np.array(given.is_valid(), np.bool_)
        low, high = _REACH.get(kind, (NEVER + 1, FOREVER - 1))
        times = _fill(column)
        if len(times) and (times.min() < low or times.max() > high):
            yield (times >= low) & (times <= high)


def _kinds(layout: Fields) -> list[str]:
    inner = (part.inner if isinstance(part, OptionalColumn) else part for part in layout.parts)
    return [part.kind for part in inner]  # type: ignore[union-attr]


def _read_field(part: ColumnLayout, column: pa.Array, strings: Strings) -> Iterator[Array]:
    """Yield the arrays of a field: an optional field has one more, the mask of its values."""
    import numpy as np
    import pyarrow as pa

    if not isinstance(part, OptionalColumn):
        yield read_array(column, part.kind, strings)  # type: ignore[union-attr]
        return
    yield np.array(column.is_valid(), np.bool_)
    kind = part.inner.kind  # type: ignore[union-attr]
    if column.null_count:
        column = (
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        )
        column = column.fill_null(pa.scalar(_BLANKS.get(kind, 0), column.type))
    yield read_array(column, kind, strings)


def _find_columns(
    event_type: EventType, layout: Fields, reading: Reading, batch: pa.RecordBatch
) -> list[pa.Array] | None:
    """Return the columns of an event type's fields whose types are those of the fields."""
    import pyarrow as pa

    found = []
    for name, kind in zip(field_names(event_type), _kinds(layout), strict=True):
        is_time = name == time_field(event_type)
        column_name = reading.time_column(event_type) if is_time else name
        if batch.schema.get_field_index(column_name) < 0:
            return None
        column = batch.column(column_name)
        if is_spelled(batch.schema.field(column_name)):
            return None
        stamped = is_time and kind == INT and pa.types.is_timestamp(column.type)
        if kind in _REACH or stamped:
            column = read_calendar(MOMENT if stamped else kind, column)
        if column is None or not _is_kind(column.type, INT if kind in _REACH else kind):
            return None
        found.append(column)
    if reading.seq is None or batch.schema.get_field_index(reading.seq) < 0:
        return None
    return found if _is_kind(batch.column(reading.seq).type, INT) else None


def _is_kind(kind: pa.DataType, wanted: str) -> bool:
    import pyarrow as pa

    types = pa.types
    if wanted == INT:
        return bool(
            types.is_signed_integer(kind)
            or types.is_uint32(kind)
            or types.is_uint16(kind)
            or types.is_uint8(kind)
        )
    if wanted == FLOAT:
        return bool(types.is_float64(kind) or types.is_float32(kind))
    if wanted == BOOL:
        return bool(types.is_boolean(kind))
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_named(batch: pa.RecordBatch, column: str, name: str) -> Array:
    """Return which rows have the event type or channel `name` in a column."""
    import numpy as np
    import pyarrow.compute as pc

    if column not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    same = pc.fill_null(pc.equal(batch.column(column).cast("string"), name), False)
    return np.array(same, np.bool_)


def _is_short(column: pa.Array, longest: int) -> Array:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    lengths = pc.fill_null(pc.binary_length(column), 0)
    return np.array(pc.less_equal(lengths, longest), np.bool_)


def _fill(times: pa.Array) -> Array:
    import numpy as np
    import pyarrow.compute as pc

    filled = times if times.null_count == 0 else pc.fill_null(times, 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


class Stretch(NamedTuple):
    """Part of a channel in order of its sequence: tables, and the origin of each item.

    `tables` has one table for each type; `origins` is the table and the row of each item, and -1
    for a heartbeat, whose time is its promise.
    """

    tables: list[EventTable]
    seqs: Array
    times: Array
    origins: Array
    rows: Array


def line_up(tables: list[EventTable], beats: list[Heartbeat]) -> Stretch:
    """Return a task's items of a channel, in the order of its sequence."""
    import numpy as np

    by_type: dict[int, list[EventTable]] = {}
    for table in tables:
        by_type.setdefault(table.event_type, []).append(table)
    merged = [concatenate(group, Strings()) for group in by_type.values()]
    seqs = [table.seqs for table in merged] + [np.array([b.seq for b in beats], np.int64)]
    times = [table.times for table in merged] + [np.array([b.time for b in beats], np.int64)]
    counts = [len(table) for table in merged]
    origins = [np.full(count, n, np.int64) for n, count in enumerate(counts)]
    origins.append(np.full(len(beats), -1, np.int64))
    rows = [np.arange(count) for count in (*counts, len(beats))]
    lined = [np.concatenate(parts) for parts in (seqs, times, origins, rows)]
    rising = lined[0][1:] > lined[0][:-1]
    if not rising.all():
        # A heartbeat is after an event of the same sequence.
        order = np.lexsort((lined[2] < 0, lined[0]))
        lined = [part[order] for part in lined]
    return Stretch(merged, *lined)


def _drop_repeated(job: Job, found: _Found, channel: str) -> Stretch:
    """Line up a task's items of a channel; of events with one number, the first is kept."""
    pieces = found.tables.get(channel, [])
    tables, beats = [piece.table for piece in pieces], found.beats.get(channel, [])
    stretch = line_up(tables, beats)
    same = (stretch.seqs[1:] == stretch.seqs[:-1]) & (stretch.origins[1:] >= 0)
    if not same.any():
        return stretch
    assert job.columns is not None
    fresh = _find_first(pieces)
    kept = []
    for piece, new in zip(pieces, fresh, strict=True):
        repeated = piece.table.take(~new).events(job.columns.names)
        found.rejected.extend(map(describe_repeated, repeated))
        kept.append(piece.table.take(new))
    return line_up([table for table in kept if len(table)], beats)


def _find_first(pieces: list[_Piece]) -> list[Array]:
    """Return for each event in pieces whether it is the first with its number, in the order of rows."""
    import numpy as np

    seqs = np.concatenate([piece.table.seqs for piece in pieces])
    rows = np.concatenate([piece.rows for piece in pieces])
    order = np.lexsort((rows, seqs))
    first = np.ones(len(seqs), np.bool_)
    first[order[1:]] = seqs[order[1:]] != seqs[order[:-1]]
    bounds = np.cumsum([len(piece.table) for piece in pieces])[:-1]
    return np.split(first, bounds)


def _cut_at_gaps(stretch: Stretch, bad: list[int]) -> list[Stretch] | None:
    """Cut a stretch at the gaps of its sequence; None if there are too many.

    Numbers of rejected rows, `bad`, are not missing; see `row_reader`.
    """
    import numpy as np

    seqs = stretch.seqs
    # Unsigned, since the distance of two numbers of 64 bits may need 64 bits.
    steps = seqs[1:].view(np.uint64) - seqs[:-1].view(np.uint64)
    known = np.ones(len(steps), np.uint64)
    if bad:
        rows = np.unique(np.array(bad, np.int64))
        between = np.searchsorted(rows, seqs[1:]) - np.searchsorted(rows, seqs[:-1], "right")
        known += np.maximum(between, 0).astype(np.uint64)
    jumps = np.flatnonzero(steps > known) + 1
    if len(jumps) > MOST_CHUNKS:
        return None
    bounds = [0, *jumps.tolist(), len(seqs)]
    return [
        Stretch(stretch.tables, *(part[start:end] for part in stretch[1:]))
        for start, end in pairwise(bounds)
    ]


def describe_stretch(channel: str, part: Stretch) -> Chunk:
    """Return the summary of a chunk for every shard."""
    beats = part.origins < 0
    events, promises = part.times[~beats], part.times[beats]
    largest = int(events.max()) if len(events) else None
    promised = int(promises.max()) if len(promises) else None
    last = int(part.seqs[~beats][-1]) if len(events) else None
    return Chunk(channel, int(part.seqs[0]), last, largest, promised, beat=bool(beats[0]))


def send_stretch(
    job: Job, channel: str, part: Stretch, place: int, wanted: Array | None = None
) -> Iterator[tuple[int, str, bytes]]:
    """Yield a chunk's events to their shards: those that are already late, and the others.

    `wanted` is a mask of the items to send (default: all).
    """
    watermark = follow_stretch(job.channels[channel], part)
    late = part.times <= watermark
    first = int(part.seqs[0])
    for number, table in enumerate(part.tables):
        mine = part.origins == number
        if wanted is not None:
            mine &= wanted
        if not mine.any():
            continue
        for behind in (False, True):
            chosen = mine & (late == behind)
            if not chosen.any():
                continue
            rows = part.rows[chosen]
            whole = len(rows) == len(table) and bool((rows[1:] > rows[:-1]).all())
            events = table if whole else table.take(rows)
            event_type = job.program.event_types[table.event_type]
            if behind:
                # Late whatever is before this chunk: only the distance is not known yet.
                for shard, piece, bounds in _route_late(
                    job, event_type, events, channel, watermark[chosen]
                ):
                    yield shard, Kind.LATE_TABLE, pack_table(piece, first, place, behind=bounds)
                continue
            for shard, piece in route_table(job.layout, event_type, events, channel):
                yield shard, Kind.TABLE, pack_table(piece, first, place)


def _route_late(
    job: Job, event_type: EventType, events: EventTable, channel: str, bounds: Array
) -> Iterator[tuple[int, EventTable, Array]]:
    import numpy as np

    for shard, piece in route_table(job.layout, event_type, events, channel):
        places = np.searchsorted(events.seqs, piece.seqs)
        yield shard, piece, bounds[places]


def follow_stretch(channel: Channel, part: Stretch) -> Array:
    """Return the watermark before each item that earlier items of its chunk promise."""
    import numpy as np

    beats = part.origins < 0
    count = len(part.times)
    lateness = channel.lateness
    assert not isinstance(lateness, Estimated), f"{channel.name!r} can't take the columnar path"
    if lateness is None:
        promises = np.full(count, NEVER, np.int64)
    else:
        promises = _promise(part.times, 0 if channel.unique_times else lateness + 1)
    promises = np.where(beats, part.times, promises)
    watermark = np.empty(count, np.int64)
    watermark[0] = NEVER
    np.maximum.accumulate(promises[:-1], out=watermark[1:])
    return watermark


def _promise(times: Array, slack: int) -> Array:
    """Return times minus a slack of any size, or NEVER if the result does not fit into 64 bits."""
    import numpy as np

    low = NEVER + slack
    if low > FOREVER:
        return np.full(len(times), NEVER, np.int64)
    reached = np.maximum(times, low)
    # A slack of more than 63 bits is subtracted in two steps: each of them fits.
    promised = reached - slack if slack <= FOREVER else (reached - low) + NEVER
    return np.where(times < low, NEVER, promised)


def pack_table(table: EventTable, first: int, place: int, behind: Array | None = None) -> bytes:
    """Return a table as the payload of an envelope, with the first sequence of its chunk, and its place."""
    more = {"channel": table.channels, "seq": table.seqs}
    if behind is not None:
        more["behind"] = behind
    return write_columns(
        table.columns, more, {"type": table.event_type, "first": first, "place": place}
    )
