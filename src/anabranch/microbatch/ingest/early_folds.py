"""Early folds: leaves are folded in the task that reads them, so that it sends deltas instead of events.

The task relies on the look-ahead: on its channel's watermark before the file, on the program's watermark
after the batch, and on the cuts of its leaves. With the deltas it sends a *claim*, to every shard: its
assumptions. All shards have the same chunks and cuts, so all of them reach the same verdict on it.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anabranch.eventtime.channels import Channel
from anabranch.eventtime.ledger import Ledger
from anabranch.kernels.arrays.indexes import Index
from anabranch.kernels.numpy_columns import Columns, Strings, fill
from anabranch.microbatch.columns.event_tables import (
    EventTable,
    concatenate,
    read_columns,
    write_columns,
)
from anabranch.microbatch.columns.routing import hash_numbers, hash_texts
from anabranch.microbatch.columns.window_slices import (
    WindowSlices,
    join_slices,
    route_slices,
    write_slices,
)
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import Chunk, pack_chunks, unpack_chunks
from anabranch.microbatch.exchange.result_rows import ResultRow
from anabranch.microbatch.fold.column_folds import Counting, Folds, count_cuts
from anabranch.microbatch.fold.early_deltas import EarlyDelta, Gathered
from anabranch.microbatch.fold.window_folds import fold_table, is_near
from anabranch.microbatch.ingest.channel_verdicts import Standing, advance, came_before
from anabranch.microbatch.ingest.column_reader import read_tables
from anabranch.microbatch.ingest.file_rows import (
    Folder,
    find_place,
    list_columns,
    number_rows,
    take_in_rows,
)
from anabranch.microbatch.ingest.look_ahead import Cut, LookAhead, LookAheadResult
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.ingest.stretches import follow_stretch, line_up, send_stretch
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.model.events import field_types
from anabranch.model.step import begin_delta
from anabranch.sources.files import ROW, Found, read_file

if TYPE_CHECKING:
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

Envelope = tuple[int, str, bytes]

_FEWEST = 1 << 20
"""Events that are folded before the task checks whether early folding is worth it."""


class Claim(NamedTuple):
    """The assumptions about a chunk when it was folded.

    `before` is its channel's watermark before it, `watermark` the program's after the batch. `cuts` are
    all cuts between its least and its largest time, `low` and `high`. `folder` and `file` are its location.
    It is also assumed that none of its numbers was read before.
    """

    channel: str
    first: int
    place: int
    before: int
    watermark: int
    low: int
    high: int
    cuts: tuple[Cut, ...]
    folder: int
    file: Found


class EarlyFold(NamedTuple):
    """The result of folding a chunk: deltas, counts, and rows."""

    deltas: list[EarlyDelta]
    counts: dict[str, int]
    emitted: list[ResultRow]


def is_foldable(job: Job, folder: Folder) -> bool:
    """Return whether all events of a folder may be folded in the task that reads them."""
    return job.columns is not None and folder.find_event_type(job) in job.columns.early


class Gathering:
    """The states of keys that a task folds from zero, separately for each segment, over all its input."""

    def __init__(self, job: Job, look_ahead: LookAhead) -> None:
        assert job.columns is not None
        self._job = job
        self._cuts = look_ahead.cuts
        self._until = look_ahead.until
        initial: Any = job.program.initial
        self._by, self._zero = initial.shape.by, begin_delta(initial.shape.inner)
        self._kernel = job.columns.kernels[initial.name]
        self._strings = Strings()
        self._keys = Index()
        self._pairs = Index()
        self._states = fill(self._kernel.layout, self._zero, 0, self._strings)
        self._events = np.empty(0, np.int64)

    def add(self, table: EventTable, claim: Claim) -> bool:
        """Fold a block; return whether that was possible, and worth it."""
        if len(self._events) * 2 > max(int(self._events.sum()), _FEWEST):
            return False  # Hardly any two events have the same key and segment.
        table = concatenate([table], self._strings)
        slots = self._keys.find(table.field(self._by))
        if self._cuts:
            rank = self._job.program.ranks[self._job.program.event_types[table.event_type]]
            segments = count_cuts(table.times, claim.cuts, rank)
            segments += bisect_left(self._cuts, (claim.low,))
            slots = self._pairs.find(slots * (len(self._cuts) + 1) + segments)
        self._grow(self._pairs.count if self._cuts else self._keys.count)
        counting = Counting(0, [], dict.fromkeys(Ledger._fields, 0), (), lambda _: None)
        states = Folds(self._job, MemoryStore(), counting).fold_early(table, self._states, slots)
        if states is None:
            return False
        self._states = states
        self._events += np.bincount(slots, minlength=len(self._events))
        return True

    def _grow(self, count: int) -> None:
        held = self._states
        missing = count - held.length
        if missing:
            more = fill(self._kernel.layout, self._zero, missing, self._strings)
            pairs = zip(held.arrays, more.arrays, strict=True)
            arrays = tuple(np.concatenate(pair) for pair in pairs)
            self._states = Columns(held.layout, arrays, count, self._strings)
            self._events = np.concatenate([self._events, np.zeros(missing, np.int64)])

    def send(self) -> Iterator[Envelope]:
        """Yield the folded states to the shards of their keys."""
        pairs = self._pairs.keys if self._cuts else np.arange(self._keys.count)
        places, segments = np.divmod(pairs, len(self._cuts) + 1)
        keys = self._keys.keys[places]
        shards = self._find_shards(keys)
        for shard in range(self._job.layout.shards):
            slots = np.flatnonzero((self._events > 0) & (shards == shard))
            if not len(slots):
                continue
            arrays = tuple(array[slots] for array in self._states.arrays)
            states = Columns(self._states.layout, arrays, len(slots), self._strings)
            events = int(self._events[slots].sum())
            note: dict[str, Any] = {"events": events, "cuts": self._cuts, "until": self._until}
            if self._is_text:
                note["keys"] = [self._strings[code] for code in keys[slots].tolist()]
            more = {"key": keys[slots], "segment": segments[slots]}
            yield shard, Kind.EARLY_ENTRIES, write_columns(states, more, note)

    @property
    def _is_text(self) -> bool:
        kinds = {field_types(event_type)[self._by] for event_type in self._job.program.event_types}
        return kinds == {str}

    def _find_shards(self, keys: Array) -> Array:
        hashed = hash_texts(self._strings)[keys] if self._is_text else hash_numbers(keys)
        return hashed % self._job.layout.shards


class SliceGathering:
    """The slices that a task folds over all its input."""

    def __init__(self, job: Job) -> None:
        assert job.columns is not None
        assert job.columns.windows is not None
        self._job = job
        self._plan = job.columns.windows
        self._slices: list[WindowSlices] = []

    def add(self, table: EventTable, claim: Claim) -> bool:
        """Fold a block, which is always possible."""
        self._slices.append(fold_table(self._plan, table))
        return True

    def send(self) -> Iterator[Envelope]:
        """Yield the folded slices to the shards of their keys."""
        if self._slices:
            whole = join_slices(self._slices, self._plan)
            for shard, slices in route_slices(whole, self._job.layout.shards):
                yield shard, Kind.SLICES, write_slices(slices, {})


def begin_gathering(job: Job, look_ahead: LookAhead) -> Gathering | SliceGathering | None:
    """Return the gathering of a task's folded keys, if keys are independent; else None."""
    assert job.columns is not None
    if job.columns.windows is not None:
        return SliceGathering(job)
    return Gathering(job, look_ahead) if job.layout.way == "keyed" else None


def read_gathered(job: Job, payload: bytes) -> tuple[Gathered, int]:
    """Return the deltas of an envelope, and the number of events in them."""
    assert job.columns is not None
    layout = job.columns.kernels[job.program.initial.name].layout
    states, more, note = read_columns(lambda _: layout, payload)
    keys, texts = more["key"], None
    if "keys" in note:
        texts = Strings()
        keys = texts.codes(note["keys"])
    cuts = [(time, rank) for time, rank in note["cuts"]]
    found = Gathered(keys, texts, states, more["segment"], cuts, note["until"])
    return found, note["events"]


def fold_file(
    job: Job,
    place: int,
    found: Found,
    look_ahead: LookAheadResult,
    gathering: Gathering | SliceGathering | None = None,
) -> Iterator[Envelope]:
    """Yield the envelopes of a file, block by block: folded, or as events if folding is not possible.

    If keys are independent, their states are added to the task's gathering.
    """
    folder: Folder = job.folders[place]
    channel = job.channels[str(folder.reading.channel)]
    reading = number_rows(folder.reading)
    standing = Standing(look_ahead.before[place, found.number])
    for batch in read_file(folder.files, found, list_columns(job, folder.reading)):
        table = _read_leaves(job, reading, batch)
        envelopes: list[Envelope] | None = None
        if table is not None:
            seen = [_describe(channel.name, table, find_place([batch]))]
            claim = _make_claim(seen[0], table, standing, look_ahead.look_ahead, place, found)
            if claim.high < look_ahead.look_ahead.until and _is_foldable(job, table):
                envelopes = _fold_block(job, table, seen[0], claim, gathering)
        if envelopes is None:
            envelopes = list(take_in_rows(job, folder, [batch]))
            chunks = [p for to, kind, p in envelopes if (to, kind) == (0, Kind.CHUNKS)]
            seen = [chunk for payload in chunks for chunk in unpack_chunks(job.codec, payload)]
        for chunk in seen:
            standing = advance(channel, standing, chunk)
        yield from envelopes


def _make_claim(
    chunk: Chunk,
    table: EventTable,
    standing: Standing,
    look_ahead: LookAhead,
    place: int,
    found: Found,
) -> Claim:
    assert chunk.first is not None
    assert chunk.largest is not None
    low, high = int(table.times.min()), chunk.largest
    between = tuple(find_between(look_ahead.cuts, low, high))
    return Claim(
        chunk.channel,
        chunk.first,
        chunk.place,
        standing.watermark,
        look_ahead.watermark,
        low,
        high,
        between,
        place,
        found,
    )


def _fold_block(
    job: Job,
    table: EventTable,
    chunk: Chunk,
    claim: Claim,
    gathering: Gathering | SliceGathering | None,
) -> list[Envelope] | None:
    channel = job.channels[claim.channel]
    envelopes: list[Envelope] = []
    ripe = _find_ripe(channel, table, claim)
    left = None
    if ripe is not None:
        left, whole = ~ripe, table
        table = table.take(ripe)
    if gathering is None:
        home = zlib.crc32(f"{channel.name}/{claim.first}".encode()) % job.layout.shards
        envelopes.append((home, Kind.EARLY_DELTAS, _pack(job, _fold(job, table, claim.cuts))))
    elif len(table) and not gathering.add(table, claim):
        return None
    if left is not None:
        envelopes += send_stretch(job, channel.name, line_up([whole], []), chunk.place, left)
    payload = job.codec.encode((*claim[:-1], tuple(claim.file)))
    for shard in range(job.layout.shards):
        envelopes += [
            (shard, Kind.CHUNKS, pack_chunks(job.codec, [chunk])),
            (shard, Kind.CLAIM, payload),
        ]
    return envelopes


def read_claim(job: Job, payload: bytes) -> Claim:
    """Return the claim of an envelope."""
    claim = Claim(*job.codec.decode(payload))
    cuts = tuple((time, rank) for time, rank in claim.cuts)
    return claim._replace(cuts=cuts, file=Found(*claim.file))


def read_early_fold(job: Job, payload: bytes) -> EarlyFold:
    """Return the deltas of an envelope."""
    deltas, counts, emitted = job.codec.decode(payload)
    return EarlyFold(
        [EarlyDelta(*delta) for delta in deltas], counts, [ResultRow(*row) for row in emitted]
    )


def holds(claim: Claim, before: Standing, watermark: int, cuts: Sequence[Cut]) -> bool:
    """Return whether the assumptions about a chunk turned out to be true; cuts are in order."""
    return (
        claim.before == before.watermark
        and not came_before(before, claim.first)
        and claim.watermark <= watermark
        and {*find_between(cuts, claim.low, claim.high)} <= {*claim.cuts}
    )


def find_between(cuts: Sequence[Cut], low: int, high: int) -> Sequence[Cut]:
    """Return the cuts from one time to another."""
    return cuts[bisect_left(cuts, (low,)) : bisect_left(cuts, (high + 1,))]


def read_again(job: Job, claims: Iterable[Claim], shard: int) -> Iterator[bytes]:
    """Yield the events of claimed files for a shard, as if nothing had been folded."""
    files: dict[tuple[int, Found], set[int]] = {}
    for claim in claims:
        files.setdefault((claim.folder, claim.file), set()).add(claim.place)
    for (number, file), places in sorted(files.items()):
        folder: Folder = job.folders[number]
        # The blocks of a file are the same on every read; some may have been sent as events already.
        for batch in read_file(folder.files, file, list_columns(job, folder.reading)):
            if find_place([batch]) in places:
                for to, kind, payload in take_in_rows(job, folder, [batch]):
                    if to == shard and kind in (Kind.TABLE, Kind.LATE_TABLE):
                        yield payload


def _read_leaves(job: Job, reading: Reading, batch: pa.RecordBatch) -> EventTable | None:
    """Return the events of a block, or None if it contains anything else or its sequence has a gap."""
    if reading.seq not in batch.schema.names:
        return None
    tables = read_tables(job, reading, [batch])
    if tables is None or len(tables) != 1 or not len(tables[0]):
        return None
    seqs = tables[0].seqs
    before, after = seqs[:-1], seqs[1:]
    if reading.seq != ROW and not bool(((after > before) & (after - 1 == before)).all()):
        return None
    return tables[0]


def _is_foldable(job: Job, table: EventTable) -> bool:
    """Return whether no event of a block is rejected by its windows."""
    assert job.columns is not None
    return job.columns.windows is None or bool(is_near(table.times).all())


def _describe(channel: str, table: EventTable, place: int) -> Chunk:
    first, last = int(table.seqs[0]), int(table.seqs[-1])
    return Chunk(channel, first, last, int(table.times.max()), None, place=place)


def _find_ripe(channel: Channel, table: EventTable, claim: Claim) -> Array | None:
    """Return which events are on time and stable; None if all are."""
    times = table.times
    rising = times[1:] > times[:-1] if channel.unique_times else times[1:] >= times[:-1]
    if channel.lateness is not None and rising.all():
        if times[0] > claim.before and times[-1] <= claim.watermark:
            return None
        return np.asarray((times > claim.before) & (times <= claim.watermark))
    reached = np.maximum(follow_stretch(channel, line_up([table], [])), claim.before)
    return np.asarray((times > reached) & (times <= claim.watermark))


def _fold(job: Job, table: EventTable, cuts: tuple[Cut, ...]) -> EarlyFold:
    assert job.columns is not None
    event_type = job.program.event_types[table.event_type]
    name, rank = job.layout.leaves[event_type], job.program.ranks[event_type]
    counts = dict.fromkeys(Ledger._fields, 0)
    counts["input"] = len(table)
    emitted: list[ResultRow] = []
    if not len(table):
        return EarlyFold([], counts, emitted)
    counting = Counting(0, emitted, counts, job.columns.names, lambda _: None)
    found = Folds(job, MemoryStore(), counting).fold_type(
        name, {table.event_type: table}, cuts, None
    )
    last = int(table.times.max()), rank
    deltas = [
        EarlyDelta(*(cuts[place] if place < len(cuts) else last), place == len(cuts), name, delta)
        for place, delta in found
    ]
    return EarlyFold(deltas, counts, emitted)


def _pack(job: Job, folded: EarlyFold) -> bytes:
    deltas, emitted = ([tuple(row) for row in rows] for rows in (folded.deltas, folded.emitted))
    return job.codec.encode((deltas, folded.counts, emitted))
