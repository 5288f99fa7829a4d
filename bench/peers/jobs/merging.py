"""Merge channels by event time, as a user of an engine that leaves this to him has to.

A watermark, the least of the last times seen of each channel, shows what is complete. Events are arrays
that are sorted by time; only those at or before the watermark are touched. For values and barriers, and
for page views, which are the same but for what is added up.
"""

from typing import Any, NamedTuple

import numpy as np

CHANNELS = 3
"""Two that bring values, and one that brings markers, which is the last."""


class Chunk(NamedTuple):
    """Events of one channel in order. A marker's value is what it sets."""

    time: Any
    value: Any


class Merge(NamedTuple):
    """What is known of a key: the sum so far, what the last marker set, and what waits."""

    total: int
    version: int
    last: list[int]
    waiting: list[list[Chunk]]


class Closed(NamedTuple):
    """A segment that a marker closed: when, what held within it, and its sum."""

    time: int
    version: int
    total: int


def begin() -> Merge:
    """Return the state of a key that is new."""
    return Merge(0, -1, [-1] * CHANNELS, [[] for _ in range(CHANNELS)])


def advance(merge: Merge, arrived: list[tuple[int, Chunk]]) -> tuple[Merge, list[Closed]]:
    """Take in chunks, each with the number of its channel; return what became complete."""
    last, waiting = list(merge.last), [list(chunks) for chunks in merge.waiting]
    for channel, chunk in arrived:
        if len(chunk.time):
            waiting[channel].append(chunk)
            last[channel] = max(last[channel], int(chunk.time[-1]))
    watermark = min(last)
    taken = [_take(chunks, watermark) for chunks in waiting]
    time, value = (np.concatenate([chunk[i] for chunk in taken[:-1]]) for i in (0, 1))
    # Times are unique, and only sums are asked for: which values lie before which marker is enough.
    marks = taken[-1]
    segment = np.searchsorted(marks.time, time)
    sums = np.zeros(len(marks.time) + 1, np.int64)
    np.add.at(sums, segment, value)
    sums[0] += merge.total
    versions = [merge.version, *(int(version) for version in marks.value)]
    closed = [
        Closed(int(when), versions[place], int(sums[place]))
        for place, when in enumerate(marks.time)
    ]
    return Merge(int(sums[-1]), versions[-1], last, waiting), closed


def sort_chunk(time: Any, value: Any) -> Chunk:
    """Put the rows of one channel in order."""
    order = np.argsort(time, kind="stable")
    return Chunk(time[order], value[order])


def _take(chunks: list[Chunk], watermark: int) -> Chunk:
    """Take what is complete out of what waits."""
    ready: list[Chunk] = []
    while chunks and chunks[0].time[0] <= watermark:
        chunk = chunks[0]
        place = int(np.searchsorted(chunk.time, watermark, side="right"))
        ready.append(Chunk(chunk.time[:place], chunk.value[:place]))
        if place < len(chunk.time):
            chunks[0] = Chunk(chunk.time[place:], chunk.value[place:])
            break
        chunks.pop(0)
    if not ready:
        return Chunk(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Chunk(*(np.concatenate([chunk[i] for chunk in ready]) for i in (0, 1)))
