"""Envelopes: one row of Spark's carries a whole batch of events to a shard.

A map task sends each shard what is for it, and to every shard, also to those it has no events for,
what it saw of each channel: its *chunks*. So every shard follows every channel, and all of them know the
same watermark without asking anybody.
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
"""What an envelope is to Spark. Kinds: `events`, `chunks`, `rejected`."""

CLOCK = "clock_ms"
"""The recorded time of the batch: a column that envelopes have if some channel may be idle."""


class Chunk(NamedTuple):
    """A run of one channel's sequence that one map task saw whole.

    `first` is the least sequence of its items, `last` the largest of its events, `largest` the largest
    time of its events, `promised` the largest heartbeat. `times` holds (sequence, time, beat) of every item,
    where the channel's rules need each of them. `place` is the task's, in the order of reading. A chunk
    that is `sparse` lacks so many numbers that it could not be cut where they are missing; with `beat`,
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
    """An event on its way, with the largest time and promise that its chunk saw before it.

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
    """Return envelopes as Spark's rows; Spark knows a shard by its key."""
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
