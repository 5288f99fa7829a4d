"""Intake: what a map task does with the rows of its part of a source's frame.

Rows become events or are rejected with the reason; each event learns what its chunk saw before it;
every shard gets its events, and a chunk for each source the task may have met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from anabranch.eventtime.sources import find_fault
from anabranch.model.events import Event, Heartbeat, Malformed, Tag
from anabranch.model.fields import Unfit, read_fields, to_microseconds
from anabranch.spark.envelopes import Carried, Chunk, pack_chunks, pack_events
from anabranch.spark.said import encode_json
from anabranch.spark.shards import Job

MOST_CHUNKS = 4096
"""Into how many chunks a task may cut what it has of one source."""


@dataclass(frozen=True)
class Reading:
    """How the rows of a frame are read: which column says what."""

    tag: str | None = None
    source: str | None = None
    time: str = "time"
    seq: str | None = None
    tag_column: str | None = None
    source_column: str | None = None
    heartbeat: str | None = None


def read_row(job: Job, reading: Reading, row: Mapping[str, Any]) -> Event | Heartbeat | Malformed:
    """Return what a row is, and never raise: a bad row is no reason to stop a stream."""
    name = row.get(reading.source_column) if reading.source_column else reading.source
    source = str(name)
    seq = row.get(reading.seq) if reading.seq else None
    if source not in job.sources:
        known = ", ".join(job.sources)
        return _spoil(row, f"unknown source {name!r}; declared are {known}", source, seq)
    if reading.seq and (not isinstance(seq, int) or isinstance(seq, bool)):
        return _spoil(row, f"sequence {reading.seq!r} is {seq!r}, not an integer", source, None)
    if reading.heartbeat and row.get(reading.heartbeat) is not None:
        promised = _to_time(row[reading.heartbeat])
        if promised is None:
            return _spoil(row, f"heartbeat is {row[reading.heartbeat]!r}", source, seq)
        return Heartbeat(promised, source, seq)
    tag_name = row.get(reading.tag_column) if reading.tag_column else reading.tag
    tag = _find_tag(job, tag_name)
    if tag is None:
        return _spoil(row, f"unknown tag {tag_name!r}", source, seq)
    time = row.get(reading.time)
    if time is None:
        return _spoil(row, f"time {reading.time!r} is null or missing", source, seq)
    # A column without a value is a field left out: several tags may share a frame's columns.
    present = {name: value for name, value in row.items() if value is not None} | {"time": time}
    try:
        event = Event(read_fields(tag, present, text=False, sparse=True), source, seq)
    except Unfit as error:
        return _spoil(row, str(error), source, seq)
    fault = find_fault(event, job.program.tags)
    return event if fault is None else _spoil(row, fault, source, seq)


def take_in(
    job: Job, reading: Reading, rows: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the envelopes of a task: (shard, kind, payload)."""
    items: dict[str, list[Event | Heartbeat]] = {}
    rejected: list[tuple[Any, ...]] = []
    for row in rows:
        item = read_row(job, reading, row)
        if isinstance(item, Malformed):
            rejected.append(_describe(item))
        else:
            items.setdefault(item.source, []).append(item)
    if rejected:
        yield 0, "rejected", job.codec.encode(rejected)
        # Every shard must hear of every batch, or its counts would be missing from the ledger.
        for shard in range(job.wiring.shards):
            yield shard, "chunks", pack_chunks(job.codec, ())
    outgoing: dict[int, list[Carried]] = {}
    for source in sorted(items):
        mine = items[source]
        if mine[0].seq is not None:
            mine.sort(key=lambda item: (item.seq, isinstance(item, Heartbeat)))
        chunks = [_follow(job, source, part, outgoing) for part in _cut_at_gaps(mine)]
        payload = pack_chunks(job.codec, chunks)
        for shard in range(job.wiring.shards):
            yield shard, "chunks", payload
    for shard, carried in outgoing.items():
        yield shard, "events", pack_events(job.codec, job.program.tags, carried)


def _cut_at_gaps(items: list[Event | Heartbeat]) -> list[list[Event | Heartbeat]]:
    """Cut what a task has of a source where its sequence jumps.

    Spark packs files into tasks as their sizes fit, so what is missing here may be with another
    task. A sequence with gaps all over is left whole: it is no packing, it is how it counts.
    """
    jumps = [
        place
        for place in range(1, len(items))
        if (items[place].seq or 0) > (items[place - 1].seq or 0) + 1
    ]
    if len(jumps) > MOST_CHUNKS:
        return [items]
    return [items[a:b] for a, b in pairwise((0, *jumps, len(items)))]


def _follow(
    job: Job, source: str, items: list[Event | Heartbeat], outgoing: dict[int, list[Carried]]
) -> Chunk:
    """Route a source's events, each with what was seen before it; return what was seen in all."""
    largest: int | None = None
    promised: int | None = None
    numbered = items[0].seq is not None
    times: list[tuple[int, int, bool]] = []
    exact = job.sources[source].ahead is not None
    for item in items:
        beat = isinstance(item, Heartbeat)
        if exact:
            times.append((item.seq or 0, item.time, beat))
        if isinstance(item, Heartbeat):
            promised = item.time if promised is None else max(promised, item.time)
            continue
        before = (largest, promised) if numbered else (None, None)
        for shard in job.wiring.route(item):
            outgoing.setdefault(shard, []).append(Carried(item, *before))
        largest = item.time if largest is None else max(largest, item.time)
    return Chunk(source, items[0].seq, items[-1].seq, largest, promised, tuple(times))


def _describe(item: Malformed) -> tuple[Any, ...]:
    raw = encode_json({key: _plain(value) for key, value in dict(item.raw).items()})
    name = f"rejected:{item.source}:{item.seq}:{raw}"
    return (name, None, None, item.source, item.seq, 0, None, raw, item.reason)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def _spoil(row: Mapping[str, Any], reason: str, source: str, seq: int | None) -> Malformed:
    return Malformed(dict(row), reason, source, seq)


def _find_tag(job: Job, name: Any) -> Tag | None:
    return next((tag for tag in job.program.tags if tag.__name__ == name), None)


def _to_time(value: Any) -> int | None:
    if isinstance(value, datetime):
        return to_microseconds(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
