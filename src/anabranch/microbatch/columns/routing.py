"""Routing: the shards of the events of a table; the same as `Layout.route`, in columns."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from anabranch.kernels.numpy_columns import Strings
from anabranch.microbatch.columns.event_tables import EventTable
from anabranch.model.events import Event, EventType
from anabranch.plan.layouts import Layout

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_GOLDEN = 0x9E3779B97F4A7C15
_FEW = 64
"""A stretch of fewer events is not divided."""


def route_table(
    shard_layout: Layout, event_type: EventType, table: EventTable, channel: str
) -> Iterator[tuple[int, EventTable]]:
    """Yield each shard with its part of a table, whose events are of one channel."""
    import numpy as np

    if shard_layout.way == "sequential" or shard_layout.shards == 1:
        yield 0, table
    elif shard_layout.way != "keyed" and event_type in shard_layout.cuts:
        for shard in range(shard_layout.shards):
            yield shard, table
    elif (
        shard_layout.way == "forked"
        and event_type in shard_layout.leaves
        and shard_layout.lanes is None
    ):
        by = shard_layout.entries.get(event_type)
        if by is None:
            yield from _deal(shard_layout.shards, table, channel)
        else:
            yield from _split(table, hash_column(table, by) % shard_layout.shards)
    elif shard_layout.way == "keyed":
        yield from _split(table, hash_column(table, shard_layout.keys[0]) % shard_layout.shards)
    else:
        lanes = shard_layout.lanes if event_type in shard_layout.leaves else None
        places = spread_channels(
            np.zeros_like(table.seqs), table.seqs, (channel,), lanes or shard_layout.shards
        )
        yield from _split(table, places % shard_layout.shards)


def route_events(shard_layout: Layout, events: Sequence[Event]) -> list[Iterable[int]]:
    """Return the shards of each event, as `Layout.route` does; a key is hashed once."""
    if shard_layout.way != "keyed" or shard_layout.hot_keys:
        return [shard_layout.route(event) for event in events]
    values = list(map(attrgetter(*shard_layout.keys), [event.data for event in events]))
    if len(set(map(type, values))) > 1 or not values:
        return [shard_layout.route(event) for event in events]
    known: dict[Any, Iterable[int]] = {}
    try:
        for value, event in dict(zip(values, events, strict=True)).items():
            known[value] = shard_layout.route(event)
        return [known[value] for value in values]
    except (TypeError, KeyError):  # A key that can't be hashed, or is not equal to itself.
        return [shard_layout.route(event) for event in events]


def find_homes(shard_layout: Layout, table: EventTable, names: tuple[str, ...]) -> Array:
    """Return the shard that counts each event of a table that is sent to all of them."""
    return spread_channels(table.channels, table.seqs, names, shard_layout.shards)


def hash_column(table: EventTable, field: str) -> Array:
    """Return `hash_stably` of each value of a field."""
    values = table.field(field)
    if table.is_text(field):
        return hash_texts(table.columns.strings)[values]
    return hash_numbers(values)


def hash_numbers(values: Array) -> Array:
    """Return the hash of each integer or bool."""
    import numpy as np

    hashed = values.astype(np.int64).view(np.uint64) * np.uint64(_GOLDEN)
    return (hashed >> np.uint64(32)).astype(np.int64)


def hash_texts(strings: Strings) -> Array:
    """Return the hash of each text of a list."""
    return strings.hashes()


def _deal(shards: int, table: EventTable, channel: str) -> Iterator[tuple[int, EventTable]]:
    """Divide a stretch into as many pieces as there are shards: any shard may process any of its events."""
    count = len(table)
    first = (zlib.crc32(channel.encode()) + int(table.seqs[0])) % shards
    pieces = min(shards, -(-count // _FEW))
    for piece in range(pieces):
        rows = slice(count * piece // pieces, count * (piece + 1) // pieces)
        yield (first + piece) % shards, table.take(rows)


def _split(table: EventTable, shards: Array) -> Iterator[tuple[int, EventTable]]:
    import numpy as np

    # NumPy sorts numbers of 16 bits by radix sort.
    small = np.uint16 if shards.max() < 1 << 16 else np.int32
    order = np.argsort(shards.astype(small), kind="stable")
    sorted_shards = shards[order]
    starts = np.flatnonzero(np.r_[True, sorted_shards[1:] != sorted_shards[:-1]])
    ends = np.r_[starts[1:], len(order)]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(sorted_shards[start]), table.take(order[start:end])


def spread_channels(channels: Array, seqs: Array, names: tuple[str, ...], lanes: int) -> Array:
    """Return the result of `spread` for events of several channels, modulo a number of lanes."""
    import numpy as np

    bases = np.array([zlib.crc32(name.encode()) for name in names], np.int64)
    # Each term is reduced by itself: a sum with a large number would not fit into 64 bits.
    spread: Array = (bases[channels] % lanes + seqs % lanes) % lanes
    return spread
