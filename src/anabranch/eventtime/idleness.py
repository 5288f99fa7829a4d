"""Idleness: channels that have fallen silent, and how far the others go on without them.

A clock decides who is idle, so it is no part of what a program means. Whoever has a clock decides,
and *records* the decision: as a heartbeat on behalf of the silent channel, at a place in that channel's
own sequence. From then on it is data like any other. The reference that is given the recorded
heartbeats gives the same answer, and a batch that is repeated with its recorded time decides alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.eventtime.channels import BEFORE_ALL, NEVER, Channel
from anabranch.model.events import Heartbeat


def add_silence(channel: Channel, silence_ms: int, elapsed_ms: int) -> int:
    """Return how long a channel has been silent after another batch without it.

    What lies between two batches counts for half the timeout at the most. A query that was down for
    an hour has not heard an hour of silence: it takes two batches without a channel, at the least.

    >>> s = Channel("a", idle_after_s=60)
    >>> add_silence(s, 0, 5_000), add_silence(s, 5_000, 3_600_000), add_silence(s, 5_000, -8)
    (5000, 35000, 5000)
    """
    counted = max(0, elapsed_ms)
    if channel.idle_after_s is not None:
        counted = min(counted, -(-_to_ms(channel.idle_after_s) // 2))
    return silence_ms + counted


def is_idle(channel: Channel, silence_ms: int) -> bool:
    """Say whether a channel has been silent for so long that nobody waits for it."""
    return channel.idle_after_s is not None and silence_ms >= _to_ms(channel.idle_after_s)


def waive(
    channels: Mapping[str, Channel],
    watermarks: Mapping[str, int],
    silences_ms: Mapping[str, int],
    reached: int | None,
) -> dict[str, int]:
    """Return what is promised on behalf of idle channels: how far those have come that are not.

    It goes no further than `reached`, the largest time that anybody has brought: if the others have
    ended, a channel that wakes up later must not find that all time is over.
    """
    idle = [name for name in channels if is_idle(channels[name], silences_ms.get(name, 0))]
    waited = [watermarks.get(name, NEVER) for name in channels if name not in idle]
    if not idle or not waited or reached is None:
        return {}
    least = min(reached, *waited)
    return {name: least for name in idle if watermarks.get(name, NEVER) < least}


def record(waived: Iterable[tuple[str, int, int | None]]) -> list[Heartbeat]:
    """Return decisions (channel, promise, last sequence read) as heartbeats for the reference.

    >>> record([("a", 9, 4), ("b", 9, None)])[0]
    Heartbeat(time=9, channel='a', seq=4)
    """
    return [
        Heartbeat(promise, name, BEFORE_ALL if last is None else last)
        for name, promise, last in waived
    ]


def _to_ms(seconds: float) -> int:
    return round(seconds * 1000)
