"""Envelopes: one Spark row carries a whole batch of events to a shard.

A map task sends each shard its events, and sends every shard, also those without events, a summary of
each channel: its *chunks*. So every shard follows every channel, and all of them compute the
same watermark without communication.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.microbatch.columns.allocator import pause_collection
from anabranch.microbatch.exchange.partition_keys import find_keys
from anabranch.model.events import Event, EventType
from anabranch.model.values.field_lists import stores_fields
from anabranch.state.durable.codec import Codec

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "shard int, kind string, payload binary"
"""The Spark schema of an envelope. Kinds: `events`, `chunks`, `rejected`."""

CLOCK = "clock_ms"
"""The recorded time of the batch: a column of envelopes if some channel may be idle."""


_BESIDE = 5
"""The lists of a payload beside the fields: channel, number, time and promise before, and place."""


class Chunk(NamedTuple):
    """A contiguous part of one channel's sequence that one map task has read.

    `first` is the least sequence of its items, `last` the largest of its events, `largest` the largest
    time of its events, `promised` the largest heartbeat. `times` contains (sequence, time, beat) of every item
    if the channel's rules need each of them. `place` is that of the task, in the order of reading. A chunk
    that is `sparse` lacks so many numbers that it could not be cut at the gaps; with `beat`,
    it begins with a heartbeat.
    """

    channel: str
    first: int | None
    last: int | None
    largest: int | None
    promised: int | None
    times: tuple[tuple[int, int, bool], ...] = ()
    place: int = 0
    sparse: bool = False
    beat: bool = False


class Carried(NamedTuple):
    """An event in an envelope, with the largest time and promise before it in its chunk.

    `place` is that of the task that read it.
    """

    event: Event
    before: int | None
    promised: int | None
    place: int = 0


def pack_events(
    codec: Codec, event_types: tuple[EventType, ...], events: Iterable[Carried]
) -> bytes:
    """Return events as the payload of an envelope: field by field, and an event type is a number."""
    carried = list(events)
    if not carried:
        return codec.encode_lists([[], 0, []], [[]] * _BESIDE)
    held, *seen = zip(*carried, strict=True)
    datas, channels, seqs = zip(*held, strict=True)
    found = list(map(type, datas))
    beside = [
        [values[0]] if _is_constant(values) else list(values) for values in (channels, seqs, *seen)
    ]
    lists: list[list[Any]] = []
    widths = []
    for number, event_type in enumerate(event_types):
        rows = [_values(data) for data in datas if type(data) is event_type]
        if rows:
            columns = list(map(list, zip(*rows, strict=True)))
            lists += columns
            widths.append((number, len(columns)))
    numbers = {event_type: number for number, event_type in enumerate(event_types)}
    types = [numbers[found[0]]] if len(widths) == 1 else [numbers[kind] for kind in found]
    return codec.encode_lists([types, len(carried), widths], beside + lists)


def _is_constant(values: Sequence[Any]) -> bool:
    return values.count(values[0]) == len(values) and len({*map(type, values)}) == 1


def unpack_events(
    codec: Codec, event_types: tuple[EventType, ...], payload: bytes
) -> list[Carried]:
    """Return the events of a payload."""
    with pause_collection():
        return _unpack(codec, event_types, payload)


def _unpack(codec: Codec, event_types: tuple[EventType, ...], payload: bytes) -> list[Carried]:
    found = codec.decode_lists(payload)
    if found is None:
        # Pages of versions that stored event by event.
        return [
            Carried(Event(event_types[number](*values), channel, seq), *seen)
            for number, values, channel, seq, *seen in codec.decode(payload)
        ]
    (types, count, widths), lists = found
    rows: dict[int, Iterator[Any]] = {}
    start = _BESIDE
    for number, width in widths:
        rows[number] = _make_data(event_types[number], lists[start : start + width])
        start += width
    datas = rows[types[0]] if len(types) < count else (next(rows[number]) for number in types)
    channels, seqs, before, promised, places = (
        repeat(values[0]) if len(values) < count else values for values in lists[:_BESIDE]
    )
    events = map(_make_event, zip(datas, channels, seqs, strict=False))
    return list(map(_make_carried, zip(events, before, promised, places, strict=False)))


_make_event = partial(tuple.__new__, Event)
_make_carried = partial(tuple.__new__, Carried)


def _make_data(event_type: EventType, columns: list[list[Any]]) -> Iterator[Any]:
    if stores_fields(event_type) and issubclass(event_type, tuple):
        return map(partial(tuple.__new__, event_type), zip(*columns, strict=True))
    return map(event_type, *columns)


def pack_chunks(codec: Codec, chunks: Iterable[Chunk]) -> bytes:
    """Return chunks as the payload of an envelope."""
    return codec.encode([tuple(chunk) for chunk in chunks])


def unpack_chunks(codec: Codec, payload: bytes) -> list[Chunk]:
    """Return the chunks of a payload."""
    return [Chunk(*chunk) for chunk in codec.decode(payload)]


def make_batch(envelopes: Iterable[tuple[int, str, bytes]], shards: int) -> pa.RecordBatch:
    """Return envelopes as Spark rows; the key of a shard is its number in Spark."""
    import pyarrow as pa

    rows, keys = list(envelopes), find_keys(shards)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([keys[shard] for shard, _, _ in rows], pa.int32()),
            pa.array([kind for _, kind, _ in rows], pa.string()),
            pa.array([payload for _, _, payload in rows], pa.binary()),
        ],
        ["shard", "kind", "payload"],
    )


def _values(data: Any) -> Iterable[Any]:
    return data if isinstance(data, tuple) else vars(data).values()
