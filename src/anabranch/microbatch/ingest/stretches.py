"""Stretches: the items of a channel in a task, in order of its sequence, and how they are sent to shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.channels import NEVER, Channel
from anabranch.eventtime.disorder import Estimated
from anabranch.kernels.numpy_columns import Strings
from anabranch.microbatch.columns.event_tables import EventTable, concatenate, write_columns
from anabranch.microbatch.columns.routing import route_table
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import Chunk
from anabranch.microbatch.ingest.row_reader import MOST_CHUNKS
from anabranch.microbatch.job.job import Job
from anabranch.model.events import FOREVER, EventType, Heartbeat

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


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


def cut_at_gaps(stretch: Stretch, bad: list[int]) -> list[Stretch] | None:
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
    job: Job,
    channel: str,
    part: Stretch,
    place: int,
    wanted: Array | None = None,
    parts: Sequence[Stretch] | None = None,
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the events of chunks to their shards: those that are already late, and the others.

    `wanted` is a mask of the items to send (default: all), `parts` are the chunks of the stretch (default: one). An
    envelope holds the events of all of them: a shard finds the chunk of an event by its number.
    """
    import numpy as np

    followed = [follow_stretch(job.channels[channel], one) for one in parts or [part]]
    watermark = np.concatenate(followed)
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
                    yield (
                        shard,
                        Kind.LATE_TABLE,
                        pack_table(job, piece, first, place, behind=bounds),
                    )
                continue
            for shard, piece in route_table(job.layout, event_type, events, channel):
                yield shard, Kind.TABLE, pack_table(job, piece, first, place)


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


def pack_table(
    job: Job, table: EventTable, first: int, place: int, behind: Array | None = None
) -> bytes:
    """Return a table as the payload of an envelope, with the first sequence of its chunk, and its place."""
    more = {"channel": table.channels, "seq": table.seqs}
    if behind is not None:
        more["behind"] = behind
    note = {"type": table.event_type, "first": first, "place": place}
    return write_columns(table.columns, more, note, job.codec)
