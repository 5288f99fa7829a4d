"""Verdicts on events by chunks of channels: the same as item by item, without gathering the items.

Each shard sees every chunk of a batch. In the order of sequences, the largest time before a chunk is
known, and inside the chunk each event carries the largest time before it. `eventtime.Watch` uses nothing
else. Chunks of one channel overlap only where numbers repeat: a number that is not larger than the last one
before its chunk is rejected, and a chunk of such numbers only moves no watermark. (If two *different* events
share a number, and another task or batch reads the second one amid new numbers, the largest time of its
chunk includes it.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channel_progress import Standing as Standing  # noqa: PLC0414 - it is found here too
from anabranch.eventtime.channel_progress import put_down, take_up
from anabranch.eventtime.channels import NEVER, Channel, Watch, describe_repeat, promise_of
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.held_back import ChannelStatus, describe_rule
from anabranch.eventtime.idleness import add_silence, is_idle, waive
from anabranch.microbatch.exchange.envelopes import Carried, Chunk


class BatchVerdicts(NamedTuple):
    """The standings of the channels after a batch, and a verdict on each event.

    A verdict is None if the event is accepted, its distance if it is late, the reason if it is rejected.
    `times` are those of events in arrival order, by channel and sequence.
    """

    standings: dict[str, Standing]
    verdicts: list[int | str | None]
    times: dict[tuple[str, int], int]


def judge(
    channels: Mapping[str, Channel],
    standings: Mapping[str, Standing],
    chunks: Iterable[Chunk],
    events: list[Carried],
) -> BatchVerdicts:
    """Return verdicts on a batch's events, each from its own channel's sequence up to it."""
    chunks = list(chunks)
    scanned: Verdicts = {}
    times: dict[tuple[str, int], int] = {}
    exact = [chunk for chunk in chunks if channels[chunk.channel].needs_each_item]
    after, before = follow_chunks(
        channels,
        standings,
        [chunk for chunk in chunks if not channels[chunk.channel].needs_each_item],
    )
    for name, mine in _by_channel(exact).items():
        standing = standings.get(name, Standing())
        after[name] = _scan(channels[name], standing, mine, scanned, times)
    places = {name: _by_place(found) for name, found in before.items()}
    verdicts = [
        scanned[one.event.channel, one.place, one.event.seq]
        if one.event.channel not in before and one.event.seq is not None
        else _judge(channels, places, one)
        for one in events
    ]
    return BatchVerdicts(after, verdicts, times)


Before = dict[str, list[tuple[Chunk, Standing]]]
"""The chunks of each channel in order, each with the standing of the channel before it."""

Verdicts = dict[tuple[str, int, int], int | str | None]
"""Verdicts by channel, place of the task, and sequence."""


def follow_chunks(
    channels: Mapping[str, Channel], standings: Mapping[str, Standing], chunks: Iterable[Chunk]
) -> tuple[dict[str, Standing], Before]:
    """Return the standing of each channel after a batch's chunks, and before each of them."""
    after = dict(standings)
    before: Before = {}
    for name, mine in _by_channel(chunks).items():
        standing = standings.get(name, Standing())
        before[name] = []
        for chunk in _in_order(name, mine):
            before[name].append((chunk, standing))
            standing = advance(channels[name], standing, chunk)
        after[name] = standing
    return after, before


def pass_over(
    channels: Mapping[str, Channel],
    standings: Mapping[str, Standing],
    chunks: Iterable[Chunk],
    elapsed_ms: int,
) -> dict[str, Standing]:
    """Return the standings without waiting for channels that have been silent for too long.

    The watermark promised on behalf of such a channel becomes its own, so that earlier events of it are late.
    """
    present = {chunk.channel for chunk in chunks}
    after = dict(standings)
    for name, channel in channels.items():
        old = standings.get(name, Standing())
        silence = 0 if name in present else add_silence(channel, old.silence_ms, elapsed_ms)
        after[name] = old._replace(silence_ms=silence)
    waived = waive(
        channels,
        {name: standing.watermark for name, standing in after.items()},
        {name: standing.silence_ms for name, standing in after.items()},
        max((s.largest for s in after.values() if s.largest is not None), default=None),
    )
    return after | {
        name: after[name]._replace(watermark=promise, waived=promise)
        for name, promise in waived.items()
    }


def describe_standings(
    channels: Mapping[str, Channel], standings: Mapping[str, Standing]
) -> dict[str, dict[str, Any]]:
    """Return the standings of the channels as they are published with a batch."""
    about: dict[str, dict[str, Any]] = {}
    for name, standing in standings.items():
        channel = channels[name]
        watermark, largest, last, disorder, silence_ms, waived, joined = standing
        status = ChannelStatus(
            watermark,
            largest,
            last,
            describe_rule(channel),
            Watch(channel, watermark, largest, disorder).delay,
            silence_ms,
            waived if waived > NEVER else None,
            is_idle(channel, silence_ms),
            joined=joined,
        )
        about[name] = status.describe()
    return about


def _by_channel(chunks: Iterable[Chunk]) -> dict[str, list[Chunk]]:
    found: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        found.setdefault(chunk.channel, []).append(chunk)
    return found


def _scan(
    channel: Channel,
    standing: Standing,
    chunks: list[Chunk],
    verdicts: Verdicts,
    times: dict[tuple[str, int], int],
) -> Standing:
    """Follow a channel item by item: some verdicts depend on all earlier items."""
    watch = take_up(channel, standing)
    items = [(s, beat, chunk.place, t) for chunk in chunks for s, t, beat in chunk.times]
    for seq, beat, place, time in sorted(items):
        if beat:
            watch.advance(time)
            continue
        repeated = watch.count(seq)
        verdict = watch.judge(time) if repeated is None else repeated
        verdicts[channel.name, place, seq] = verdict
        if channel.in_arrival_order and verdict is None and watch.largest is not None:
            times[channel.name, seq] = watch.largest
    return put_down(standing, watch)


def _in_order(name: str, chunks: list[Chunk]) -> list[Chunk]:
    """Return chunks in order of their sequence, or of their places if they begin with one number."""
    numbered = [chunk for chunk in chunks if chunk.first is not None]
    if not numbered:
        return chunks
    ordered = sorted(numbered, key=place_chunk)
    until: int | None = None
    for chunk in ordered:
        assert chunk.first is not None
        if until is not None and chunk.first <= until:
            # In a sequence with gaps everywhere, repeated numbers can't be distinguished from missing ones.
            raise InputError(
                f"parts of channel {name!r} overlap, and have gaps everywhere",
                expected="each task to read a part of a channel before or after the parts of the others",
                got=f"{chunk.first} to {chunk.last}, after {until}",
                cure="name a sequence column that grows with the data (offset, or file and row), "
                "and do not shuffle the frame before the run",
            )
        if chunk.sparse:
            until = chunk.last
    return ordered


def place_chunk(chunk: Chunk) -> tuple[int, bool, int]:
    """Return the sort key of a chunk in a batch: a heartbeat is after the event with its number."""
    return chunk.first or 0, chunk.beat, chunk.place


def advance(channel: Channel, standing: Standing, chunk: Chunk) -> Standing:
    """Return the standing of a channel after a chunk. A repeated chunk only repeats its promises."""
    last, largest = standing.last, standing.largest
    if chunk.last is None or last is None or chunk.last > last:
        largest = _largest(largest, chunk.largest)
        last = last if chunk.last is None else chunk.last
    promised = NEVER if chunk.promised is None else chunk.promised
    watermark = max(standing.watermark, promised, _promise(channel, largest))
    return standing._replace(watermark=watermark, largest=largest, last=last)


def came_before(standing: Standing, seq: int | None) -> bool:
    """Return whether a number is not larger than the last one of a channel."""
    return seq is not None and standing.last is not None and seq <= standing.last


def _promise(channel: Channel, largest: int | None) -> int:
    lateness = channel.lateness
    assert not isinstance(lateness, Estimated), f"{channel.name!r} is followed item by item"
    return promise_of(channel, largest, lateness)


Places = dict[int, list[tuple[Chunk, Standing]]]
"""Chunks of a channel by the places of their tasks; those of one task do not overlap."""


def _by_place(chunks: list[tuple[Chunk, Standing]]) -> Places:
    found: Places = {}
    for chunk, standing in chunks:
        found.setdefault(chunk.place, []).append((chunk, standing))
    return found


def _judge(
    channels: Mapping[str, Channel], places: Mapping[str, Places], carried: Carried
) -> int | str | None:
    event = carried.event
    standing = _find(places[event.channel], carried.place, event.seq)
    if came_before(standing, event.seq):
        return describe_repeat(event.channel, event.seq or 0)
    largest = _largest(standing.largest, carried.before)
    promised = NEVER if carried.promised is None else carried.promised
    watermark = max(standing.watermark, promised, _promise(channels[event.channel], largest))
    time = event.time
    return watermark - time if time <= watermark else None


def _find(places: Places, task: int, seq: int | None) -> Standing:
    if seq is None:
        # Without a sequence, the order of events within a batch is unknown.
        return next(iter(places.values()))[0][1]
    chunks = places[task]
    place = bisect_right(chunks, seq, key=lambda entry: entry[0].first or 0) - 1
    chunk, standing = chunks[place]
    assert place >= 0 and seq <= (chunk.last or 0), f"no chunk contains sequence {seq}"  # noqa: PT018
    return standing


def _largest(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)
