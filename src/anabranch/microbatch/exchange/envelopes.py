"""Envelopes: one Spark row carries a whole batch of events to a shard.

A map task sends each shard its events, and sends every shard, also those without events, a summary of
each channel: its *chunks*. So every shard follows every channel, and all of them compute the
same watermark without communication.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.microbatch.exchange.partition_keys import find_keys
from anabranch.model.events import Event, EventType
from anabranch.state.durable.codec import Codec

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "shard int, kind string, payload binary"
"""The Spark schema of an envelope. Kinds: `events`, `chunks`, `rejected`."""

CLOCK = "clock_ms"
"""The recorded time of the batch: a column of envelopes if some channel may be idle."""


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
    """Return events as the payload of an envelope; an event type is a number."""
    numbers = {event_type: number for number, event_type in enumerate(event_types)}
    rows = [
        (numbers[type(e.data)], tuple(_values(e.data)), e.channel, e.seq, before, promised, place)
        for e, before, promised, place in events
    ]
    return codec.encode(rows)


def unpack_events(
    codec: Codec, event_types: tuple[EventType, ...], payload: bytes
) -> list[Carried]:
    """Return the events of a payload."""
    return [
        Carried(Event(event_types[number](*values), channel, seq), *seen)
        for number, values, channel, seq, *seen in codec.decode(payload)
    ]


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
