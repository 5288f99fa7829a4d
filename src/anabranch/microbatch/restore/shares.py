"""Dividing a savepoint: envelopes with the part of each shard, for any number of shards.

The contents of a savepoint do not depend on shards. So dividing them again changes the number of shards,
the layout, or the path from objects to columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.eventtime.joining import join_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.kernels.numpy_columns import Columns, Strings, pack
from anabranch.microbatch.columns.event_tables import OutgrownStateError
from anabranch.microbatch.columns.routing import hash_numbers, hash_texts
from anabranch.microbatch.columns.window_slices import WindowSlices, route_slices, write_slices
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.ingest.channel_verdicts import Standing
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.store.column_entries import pack_entries
from anabranch.model.events import LANE, Event
from anabranch.model.shapes import BASE
from anabranch.model.values.fields import Unfit
from anabranch.model.values.hashing import hash_stably
from anabranch.model.values.maps import Map

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Envelope = tuple[int, str, bytes]
"""The number of a shard, the kind of the envelope, and its payload."""

_MANY = 1 << 16
"""Entries of one envelope."""


def deal_heads(
    job: Job, standings: Mapping[str, Standing], ledger: Ledger, clock_ms: int | None
) -> Iterator[Envelope]:
    """Yield the head of every shard, with the standings of channels; one shard gets the ledger."""
    begun = begin_channels(job, standings)
    written = {name: tuple(standing) for name, standing in begun.items()}
    for shard in range(job.layout.shards):
        counted = ledger if shard == 0 else Ledger()
        yield _write(job, shard, Kind.RESTORE_HEAD, (written, tuple(counted), clock_ms))


def begin_channels(job: Job, standings: Mapping[str, Standing]) -> dict[str, Standing]:
    """Return the channels' standings; a new channel joins at the watermark of the savepoint."""
    gone = sorted(set(standings) - set(job.channels))
    if gone:
        raise InputError(
            f"the savepoint has events of {', '.join(gone)}, which no source declares now",
            expected=f"sources for {', '.join(sorted(standings))}",
            got=", ".join(sorted(job.channels)),
            cure="declare it again; for a channel that has ended, use a folder without new files",
        )
    added = [name for name in job.channels if name not in standings] if standings else []
    begun = join_channels(standings, (), added, ()).standings
    return {name: begun.get(name, Standing()) for name in job.channels}


def deal_pending(job: Job, events: Iterable[Event]) -> Iterator[Envelope]:
    """Yield pending events to the shards that they are routed to."""
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for event in events:
        for shard in job.layout.route(event):
            parts.setdefault(shard, []).append(tuple(event))
    for shard, part in sorted(parts.items()):
        yield _write(job, shard, Kind.RESTORE_PENDING, part)


def deal_state(job: Job, state: Any) -> Iterator[Envelope]:
    """Yield a whole state to the shards or roots that keep it, or its parts to the shards of their keys."""
    shard_layout = job.layout
    if shard_layout.way == "forked":
        spine, lanes = part_lanes(job.program.initial.shape, state)
        yield _write(job, 0, Kind.RESTORE_SPINE, (0, spine))
        yield from _deal_lanes(job, lanes)
        return
    if shard_layout.way == "keyed":
        yield from deal_objects(job, state.entries().items())
        return
    if shard_layout.way == "shared":
        for shard in range(shard_layout.shards):
            yield _write(job, shard, Kind.RESTORE_STATE, state.common)
        yield from deal_objects(job, state.each.entries().items())
        return
    for shard in range(shard_layout.shards):
        if keeps_book(job):
            yield from _write_objects(job, shard, state.entries())
        else:
            yield _write(job, shard, Kind.RESTORE_STATE, state)


def keeps_book(job: Job) -> bool:
    """Return whether shards keep the state in columns, entry by entry, with or without keys of their own."""
    by = job.program.initial.shape.by
    plain = job.columns is not None and job.columns.windows is None
    return plain and by is not None and job.layout.way != "forked"


def deal_objects(job: Job, entries: Iterable[tuple[Any, Any]]) -> Iterator[Envelope]:
    """Yield entries to the shards of their keys; those of hot keys, to their roots."""
    shard_layout = job.layout
    parts: dict[int, dict[Any, Any]] = {}
    roots: dict[int, dict[Any, Any]] = {}
    for key, entry in entries:
        place = hash_stably(key) % shard_layout.shards
        part = (roots if key in shard_layout.hot_keys else parts).setdefault(place, {})
        part[key] = entry
        if part is not roots.get(place) and len(part) >= _MANY:
            yield from _write_objects(job, place, parts.pop(place))
    for shard, part in sorted(parts.items()):
        yield from _write_objects(job, shard, part)
    for root, part in sorted(roots.items()):
        spine, lanes = part_lanes(job.program.initial.shape, Map(part))
        yield _write(job, root, Kind.RESTORE_SPINE, (root, spine))
        yield from _deal_lanes(job, lanes)


def _write_objects(job: Job, shard: int, part: dict[Any, Any]) -> Iterator[Envelope]:
    if job.columns is None:
        yield _write(job, shard, Kind.RESTORE_ENTRIES, Map(part))
        return
    import numpy as np

    layout = job.columns.kernels[job.program.initial.name].layout
    texts = Strings() if any(isinstance(key, str) for key in part) else None
    try:
        states = pack(layout, list(part.values()))
    except Unfit as error:
        raise OutgrownStateError(
            "an entry of the savepoint does not fit the columns of this run",
            got=str(error),
            cure='run with columnar="never", where any value fits',
        ) from error
    keys = np.fromiter(part, np.int64) if texts is None else texts.codes(part)
    yield _write(job, shard, Kind.RESTORE_ENTRIES, pack_entries(keys, texts, states))


def deal_columns(
    job: Job, keys: Array, texts: Strings | None, states: Columns
) -> Iterator[Envelope]:
    """Yield entries in columns to the shards of their keys, without Python objects."""
    import numpy as np

    shards = job.layout.shards
    hashes = hash_numbers(keys) if texts is None else hash_texts(texts)[keys]
    homes = hashes % shards
    everywhere = job.layout.way == "replicated"
    for shard in range(shards):
        rows = np.flatnonzero((homes == shard) | everywhere)
        for start in range(0, len(rows), _MANY):
            part = rows[start : start + _MANY]
            data = pack_entries(keys[part], texts, states.take(part))
            yield _write(job, shard, Kind.RESTORE_ENTRIES, data)


def deal_slices(job: Job, slices: WindowSlices, closed: int) -> Iterator[Envelope]:
    """Yield slices of windows to the shards of their keys; all get the time up to which windows are closed."""
    parts = dict(route_slices(slices, job.layout.shards))
    import numpy as np

    for shard in range(job.layout.shards):
        mine = parts.get(shard, slices.take(np.empty(0, np.int64)))
        yield _write(job, shard, Kind.RESTORE_SLICES, (write_slices(mine, {}), closed))


def part_lanes(shape: Any, state: Any) -> tuple[Any, Any]:
    """Split a state into the state at the last marker, and the states that its lanes have folded since.

    A root joins lanes at the next marker. Until then each lane continues in the shard of its events: so sums of
    floats are the same to the bit.
    """
    if shape.by is None:
        return state, None
    if shape.by == LANE:
        lanes = {lane: part for lane, part in state.entries().items() if lane != BASE}
        return Map({BASE: state[BASE]}), Map(lanes) if lanes else None
    bases, parts = {}, {}
    for key, entry in state.entries().items():
        bases[key], lanes = part_lanes(shape.inner, entry)
        if lanes is not None:
            parts[key] = lanes
    return Map(bases), Map(parts) if parts else None


def _deal_lanes(job: Job, lanes: Any) -> Iterator[Envelope]:
    if lanes is None:
        return
    initial = job.program.initial
    parts: dict[int, Any] = {}
    for path, lane, value in _list_lanes(initial.shape, lanes):
        shard = lane % job.layout.shards
        parts[shard] = _put(parts.get(shard, Map()), (*path, lane), value)
    for shard, part in sorted(parts.items()):
        yield _write(job, shard, Kind.RESTORE_DELTAS, {initial.name: part})


def _list_lanes(shape: Any, lanes: Any) -> Iterator[tuple[tuple[Any, ...], int, Any]]:
    for key, value in lanes.entries().items():
        if shape.by == LANE:
            yield (), key, value
        else:
            for path, lane, part in _list_lanes(shape.inner, value):
                yield (key, *path), lane, part


def _put(lanes: Any, path: tuple[Any, ...], value: Any) -> Any:
    first, *rest = path
    return lanes.set(first, _put(lanes.get(first, Map()), tuple(rest), value) if rest else value)


def _write(job: Job, shard: int, kind: Kind, data: Any) -> Envelope:
    return shard, kind, job.codec.encode(data)
