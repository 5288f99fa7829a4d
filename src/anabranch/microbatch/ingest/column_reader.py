"""The columnar reader: how a map task reads its part of a source as columns.

Rows that are plain events are never read one by one. Other rows (with a null, a heartbeat,
another type than the field's) are read by the row reader, and then joined to the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.kernels.column_layouts import INT
from anabranch.kernels.numpy_columns import Columns, Strings
from anabranch.microbatch.columns.allocator import pause_collection
from anabranch.microbatch.columns.event_tables import EventTable, make_table, read_array
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import pack_chunks
from anabranch.microbatch.ingest.block_items import read_block
from anabranch.microbatch.ingest.plain_columns import find_plain, is_named, read_field
from anabranch.microbatch.ingest.row_reader import (
    Reading,
    describe_malformed,
    describe_repeated,
)
from anabranch.microbatch.ingest.stretches import (
    Stretch,
    cut_at_gaps,
    describe_stretch,
    line_up,
    send_stretch,
)
from anabranch.microbatch.job.column_plan import ColumnPlan
from anabranch.microbatch.job.column_types import lay_out_fields
from anabranch.microbatch.job.job import Job
from anabranch.model.events import Event, EventType, Heartbeat, Malformed

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]


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
    with pause_collection():
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
        parts = cut_at_gaps(stretch, found.bad.get(channel, []))
        chunks = [
            describe_stretch(channel, part)._replace(place=place, sparse=parts is None)
            for part in parts or [stretch]
        ]
        payload = pack_chunks(job.codec, chunks)
        for shard in range(job.layout.shards):
            yield shard, Kind.CHUNKS, payload
        yield from send_stretch(job, channel, stretch, place, parts=parts)


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
    left = None if not rest.any() else batch if rest.all() else batch.filter(_mask(rest))
    places = (np.flatnonzero(rest) + start).tolist()
    items = () if left is None else read_block(job, reading, left)
    for place, item in zip(places, items, strict=True):
        if item is None:
            continue
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
        table = make_table(number, lay_out_fields(event_type), [e for e, _ in events], plan.codes)
        piece = _Piece(table, np.array([place for _, place in events], np.int64))
        found.tables.setdefault(channel, []).append(piece)


def _pick(column: pa.Array | Array, rows: pa.Array | None) -> pa.Array | Array:
    """Return the values of a column in some rows; those of objects are in an array of NumPy."""
    import numpy as np

    if rows is None:
        return column
    return column[np.asarray(rows)] if isinstance(column, np.ndarray) else column.filter(rows)


def _mask(rows: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(rows)


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

    event_type = job.program.event_types[number]
    layout = lay_out_fields(event_type)
    if reading.type_column is None and reading.event_type != event_type.__name__:
        return
    plain = find_plain(job, event_type, layout, reading, batch)
    if plain is None:
        return
    for channel in plan.names if reading.channel_column else {*plan.names} & {str(reading.channel)}:
        named = [is_named(batch, reading.channel_column, channel)] if reading.channel_column else []
        masks = [*plain.masks, *named]
        mine = np.logical_and.reduce(masks) if masks else None
        count = batch.num_rows if mine is None else int(mine.sum())
        if not count:
            continue
        rows = None if mine is None or count == batch.num_rows else _mask(mine)
        strings = Strings()
        arrays = tuple(
            array
            for part, column in zip(layout.parts, plain.fields, strict=True)
            for array in read_field(part, _pick(column, rows), strings)
        )
        seqs = read_array(plain.seqs if rows is None else plain.seqs.filter(rows), INT, strings)
        codes = np.full(count, plan.codes[channel], np.int64)
        table = EventTable(number, codes, seqs, Columns(layout, arrays, count, strings))
        places = np.arange(count) if rows is None or mine is None else np.flatnonzero(mine)
        yield channel, _Piece(table, places)
        rest &= False if mine is None else ~mine
