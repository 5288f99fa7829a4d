"""The row reader: how a map task reads its part of a source, one row at a time.

Rows become events or are rejected with a reason; each event carries the largest time before it in its chunk;
every shard gets its events, and a chunk for each channel of the task.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise, repeat
from operator import lt
from typing import Any, TypeGuard

from anabranch.eventtime.channels import (
    describe_repeat,
    describe_stranger,
    find_fault,
    find_heartbeat_fault,
    find_sequence_fault,
    fits,
)
from anabranch.microbatch.columns.routing import route_events
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import Carried, Chunk, pack_chunks, pack_events
from anabranch.microbatch.exchange.result_rows import clip, describe_event, encode_json, name_row
from anabranch.microbatch.job.job import Job
from anabranch.model.events import Event, EventType, Heartbeat, Item, Malformed, field_names
from anabranch.model.values.event_times import time_field, to_time
from anabranch.model.values.fields import Unfit, read_fields, read_value
from anabranch.sources.event_limits import find_large_number
from anabranch.sources.raw_rows import UNREADABLE, Opened, decode, is_blank, open_row
from anabranch.sources.text_blocks import ROW
from anabranch.state.durable.codec import CodecError

MOST_CHUNKS = 4096
"""The maximal number of chunks of one channel in a task."""


MAX_RECORD_BYTES = 1 << 20
"""The default limit of an event's size: 1 MiB."""


@dataclass(frozen=True)
class Reading:
    """The options for reading the rows of a frame: the columns, and the limit of an event's size."""

    event_type: str | None = None
    channel: str | None = None
    time: str = "time"
    seq: str | None = None
    type_column: str | None = None
    channel_column: str | None = None
    heartbeat: str | None = None
    json_column: str | None = None
    corrupt_column: str | None = None
    reason_column: str | None = None
    max_bytes: int = MAX_RECORD_BYTES
    line_column: str | None = None
    header: tuple[str, ...] = ()

    def time_column(self, event_type: EventType) -> str:
        """Return the column with the time of events of a type: that of the field, if none is named."""
        return time_field(event_type) if self.time == "time" else self.time


def read_row(job: Job, reading: Reading, row: Mapping[str, Any]) -> Event | Heartbeat | Malformed:
    """Return the item of a row, and never raise: a bad row must not stop a stream."""
    opened = open_row(row, reading)
    if opened.fault is not None:
        return _spoil(reading, opened, opened.fault)
    item = _read(job, reading, opened)
    if not opened.corrupt or isinstance(item, Malformed):
        return item
    # The other reader was stricter; the columns that it left empty must not pass for nulls.
    return _spoil(reading, opened, UNREADABLE)


def _read(job: Job, reading: Reading, opened: Opened) -> Event | Heartbeat | Malformed:
    beside = opened.beside
    name = _find_channel(reading, beside)
    channel = str(name)
    seq = beside.get(reading.seq) if reading.seq else None
    if channel not in job.channels:
        return _spoil(reading, opened, describe_stranger(name, job.channels))
    if reading.seq and not _is_integer(seq):
        return _spoil(reading, opened, f"sequence {reading.seq!r} is {seq!r}, not an integer")
    fault = find_sequence_fault(seq)
    if fault is not None:
        return _spoil(reading, opened, fault)
    if reading.heartbeat and beside.get(reading.heartbeat) is not None:
        promised = _read_promise(job, beside[reading.heartbeat])
        if promised is None:
            return _spoil(reading, opened, f"heartbeat is {beside[reading.heartbeat]!r}")
        beat = Heartbeat(promised, channel, seq)
        fault = find_heartbeat_fault(beat)
        return beat if fault is None else _spoil(reading, opened, fault)
    type_name = beside.get(reading.type_column) if reading.type_column else None
    type_name = reading.event_type if type_name is None else type_name
    event_type = _find_event_type(job, type_name)
    if event_type is None:
        return _spoil(reading, opened, _describe_unknown(job, type_name))
    column = reading.time_column(event_type)
    time = beside.get(column)
    if time is None:
        return _spoil(reading, opened, f"time {column!r} is null or missing")
    try:
        fields = {**opened.fields, time_field(event_type): time}
        data = read_fields(event_type, fields, text=opened.text, sparse=opened.sparse)
        event = Event(data, channel, seq)
    except Unfit as error:
        return _spoil(reading, opened, str(error))
    fault = (
        find_fault(event, job.program.inputs)
        or find_large_number(event)
        or find_excess(job, event, reading.max_bytes)
    )
    return event if fault is None else _spoil(reading, opened, fault)


def find_excess(job: Job, event: Event, most: int) -> str | None:
    """Return why an event can't be sent: it is too large, or a text can't be encoded as UTF-8; else None."""
    name = event.event_type.__name__
    values = [getattr(event.data, field) for field in field_names(event.event_type)]
    # Most events are far below the limit, and are not encoded only to be measured.
    if sum(map(_weigh, values)) < most:
        return None
    try:
        size = len(job.codec.encode(values))
    except (CodecError, ValueError) as error:
        return f"{name} can't be encoded: {str(error).splitlines()[0]}"
    if size <= most:
        return None
    return f"{name} takes {size:,} bytes; the limit is {most:,} (max_record_bytes)"


def _weigh(value: Any) -> float:
    """Return a lower bound of the size of a value, without encoding it."""
    if value is None or isinstance(value, bool | float):
        return 9
    if isinstance(value, int):
        return 9 + value.bit_length()
    return 5 + len(value) if isinstance(value, str) and value.isascii() else math.inf


def take_in(
    job: Job, reading: Reading, rows: Iterable[Mapping[str, Any]], place: int = 0
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the envelopes of a task: (shard, kind, payload). `place` distinguishes the task from others."""
    read = (
        None if is_blank(row, reading.json_column) else read_row(job, reading, row) for row in rows
    )
    return send_items(job, read, place)


def send_items(
    job: Job, found: Iterable[Item | None], place: int = 0
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the envelopes of the items of a task: (shard, kind, payload); None is no item."""
    items: dict[str, list[Event | Heartbeat]] = {}
    rejected: list[tuple[Any, ...]] = []
    bad: dict[str, list[int]] = {}
    for item in found:
        if item is None:
            continue
        if isinstance(item, Malformed):
            rejected.append(describe_malformed(item))
            if item.seq is not None:
                bad.setdefault(item.channel, []).append(item.seq)
        else:
            items.setdefault(item.channel, []).append(item)
    lined = {channel: _line_up(items[channel], rejected) for channel in sorted(items)}
    if rejected:
        yield 0, Kind.REJECTED, job.codec.encode(rejected)
        # Every shard must get a chunk of every batch, or its counts would be missing from the ledger.
        for shard in range(job.layout.shards):
            yield shard, Kind.CHUNKS, pack_chunks(job.codec, ())
    outgoing: dict[int, list[Carried]] = {}
    for channel, mine in lined.items():
        parts = _cut_at_gaps(mine, bad.get(channel, ()))
        chunks = [_follow(job, channel, part, place, outgoing) for part in parts or [mine]]
        if parts is None:
            chunks = [chunk._replace(sparse=True) for chunk in chunks]
        payload = pack_chunks(job.codec, chunks)
        for shard in range(job.layout.shards):
            yield shard, Kind.CHUNKS, payload
    for shard, carried in outgoing.items():
        yield shard, Kind.EVENTS, pack_events(job.codec, job.program.event_types, carried)


def _line_up(
    items: list[Event | Heartbeat], rejected: list[tuple[Any, ...]]
) -> list[Event | Heartbeat]:
    """Return a task's items of a channel in order of its sequence; of one number, the first event only."""
    if items[0].seq is None or _is_rising([item.seq or 0 for item in items]):
        return items
    items.sort(key=lambda item: (item.seq, isinstance(item, Heartbeat)))
    kept: list[Event | Heartbeat] = []
    last: int | None = None
    for item in items:
        if isinstance(item, Event):
            if item.seq == last:
                rejected.append(describe_repeated(item))
                continue
            last = item.seq
        kept.append(item)
    return kept


def _is_rising(seqs: list[int]) -> bool:
    return all(map(lt, seqs, seqs[1:]))


def describe_repeated(event: Event) -> tuple[Any, ...]:
    """Return the result row of an event whose number is not larger than the last, without its kind."""
    reason = describe_repeat(event.channel, event.seq or 0)
    return tuple(describe_event("rejected", event, reason))[1:-1]


def _cut_at_gaps(
    items: list[Event | Heartbeat], bad: Sequence[int]
) -> list[list[Event | Heartbeat]] | None:
    """Cut a task's items of a channel at the gaps of its sequence; None if there are too many.

    Spark packs files into tasks by their sizes, so the missing numbers may be in another
    task; only rejected rows, whose numbers are `bad`, are not missing. A sequence with gaps everywhere is
    not cut: it is one chunk.
    """
    rows = sorted({*bad})
    seqs = [item.seq or 0 for item in items]
    jumps = [
        place
        for place, (before, after) in enumerate(pairwise(seqs), start=1)
        if after - before > 1 and _is_gap(before, after, rows)
    ]
    if len(jumps) > MOST_CHUNKS:
        return None
    return [items[a:b] for a, b in pairwise((0, *jumps, len(items)))]


def _is_gap(before: int, after: int, bad: list[int]) -> bool:
    missing = after - before - 1
    return missing > 0 and missing > bisect_left(bad, after) - bisect_right(bad, before)


def _follow(
    job: Job,
    channel: str,
    items: list[Event | Heartbeat],
    place: int,
    outgoing: dict[int, list[Carried]],
) -> Chunk:
    """Route a channel's events, each with the largest time before it; return the chunk."""
    exact = job.channels[channel].needs_each_item
    times = [item.time for item in items]
    beats = [isinstance(item, Heartbeat) for item in items]
    events: list[Any] = [item for item in items if isinstance(item, Event)]
    seen = _list_largest(times, beats) if items[0].seq is not None else repeat((None, None))
    routes = route_events(job.layout, events)
    for event, (largest, promised), shards in zip(events, seen, routes, strict=False):
        carried = tuple.__new__(Carried, (event, largest, promised, place))
        for shard in shards:
            outgoing.setdefault(shard, []).append(carried)
    promises = [time for time, beat in zip(times, beats, strict=True) if beat]
    others = [time for time, beat in zip(times, beats, strict=True) if not beat]
    listed = zip([item.seq or 0 for item in items], times, beats, strict=True) if exact else ()
    return Chunk(
        channel,
        items[0].seq,
        events[-1].seq if events else None,
        max(others, default=None),
        max(promises, default=None),
        tuple(listed),
        place=place,
        beat=beats[0],
    )


def _list_largest(times: list[int], beats: list[bool]) -> Iterable[tuple[int | None, int | None]]:
    """Return the largest time and the largest promise before each event."""
    if True not in beats:
        return zip([None, *accumulate(times, max)], repeat(None), strict=False)
    found: list[tuple[int | None, int | None]] = []
    largest: int | None = None
    promised: int | None = None
    for time, beat in zip(times, beats, strict=True):
        if beat:
            promised = time if promised is None else max(promised, time)
            continue
        found.append((largest, promised))
        largest = time if largest is None else max(largest, time)
    return found


def describe_malformed(item: Malformed) -> tuple[Any, ...]:
    """Return the result row of a bad row, without its kind; each part has a limited length."""
    raw = item.raw
    if isinstance(raw, Mapping):
        raw = encode_json({key: _plain(value) for key, value in raw.items()})
    channel = clip(item.channel) if item.channel else None
    name = name_row("rejected", item.channel or None, item.seq, raw)
    return (name, None, None, channel, item.seq, 0, None, clip(raw), clip(item.reason))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return decode(value)
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def _spoil(reading: Reading, opened: Opened, reason: str) -> Malformed:
    beside = opened.beside
    channel = _find_channel(reading, beside)
    seq = beside.get(reading.seq) if reading.seq else None
    number = seq if _is_integer(seq) and fits(seq) else None
    raw = opened.raw
    if isinstance(raw, Mapping) and ROW in raw:
        raw = {name: value for name, value in raw.items() if name != ROW}
    return Malformed(raw, reason, "" if channel is None else str(channel), number)


def _find_channel(reading: Reading, beside: Mapping[str, Any]) -> Any:
    found = beside.get(reading.channel_column) if reading.channel_column else None
    return reading.channel if found is None else found


def _is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _find_event_type(job: Job, name: Any) -> EventType | None:
    return next(
        (event_type for event_type in job.program.inputs if event_type.__name__ == name), None
    )


def _describe_unknown(job: Job, name: Any) -> str:
    known = ", ".join(event_type.__name__ for event_type in job.program.inputs)
    what = "event type is missing" if name is None else f"unknown event type {name!r}"
    return f"{what}; the program knows {known}"


def _read_promise(job: Job, value: Any) -> int | None:
    if isinstance(value, str) and job.program.timestamped:
        try:
            value = read_value(value, datetime)
        except Unfit:
            return None
    value = to_time(value)
    return value if _is_integer(value) else None
