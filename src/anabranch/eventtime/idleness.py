"""Idleness: silent channels, and the watermark up to which the others continue without them.

Idleness depends on a clock, so it is not part of a program's meaning. The runtime with the clock decides,
and *records* the decision: as a heartbeat of the silent channel, at a position in that channel's own
sequence. From then on it is data like any other. The reference gives the same result from an input with
the recorded heartbeats, and a batch that is repeated with its recorded time makes the same decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.eventtime.channels import BEFORE_ALL, NEVER, Channel
from anabranch.model.events import Heartbeat


def add_silence(channel: Channel, silence_ms: int, elapsed_ms: int) -> int:
    """Return how long a channel has been silent after another batch without it.

    The time between two batches counts for at most half the timeout. After an hour of downtime a channel
    has not been silent for an hour: it becomes idle after two batches without it, at the earliest.

    >>> s = Channel("a", idle_after_s=60)
    >>> add_silence(s, 0, 5_000), add_silence(s, 5_000, 3_600_000), add_silence(s, 5_000, -8)
    (5000, 35000, 5000)
    """
    counted = max(0, elapsed_ms)
    if channel.idle_after_s is not None:
        counted = min(counted, -(-_to_ms(channel.idle_after_s) // 2))
    return silence_ms + counted


def is_idle(channel: Channel, silence_ms: int) -> bool:
    """Return whether a channel has been silent for longer than its timeout."""
    return channel.idle_after_s is not None and silence_ms >= _to_ms(channel.idle_after_s)


def waive(
    channels: Mapping[str, Channel],
    watermarks: Mapping[str, int],
    silences_ms: Mapping[str, int],
    reached: int | None,
) -> dict[str, int]:
    """Return the watermarks that idle channels get: the least watermark of the channels that are not idle.

    It is at most `reached`, the largest time of all channels: if the others have ended, events that an
    idle channel delivers later must not all be late.
    """
    idle = [name for name in channels if is_idle(channels[name], silences_ms.get(name, 0))]
    waited = [watermarks.get(name, NEVER) for name in channels if name not in idle]
    if not idle or not waited or reached is None:
        return {}
    least = min(reached, *waited)
    return {name: least for name in idle if watermarks.get(name, NEVER) < least}


def record(waived: Iterable[tuple[str, int, int | None]]) -> list[Heartbeat]:
    """Return decisions (channel, watermark, last sequence number) as heartbeats for the reference.

    >>> record([("a", 9, 4), ("b", 9, None)])[0]
    Heartbeat(time=9, channel='a', seq=4)
    """
    return [
        Heartbeat(promise, name, BEFORE_ALL if last is None else last)
        for name, promise, last in waived
    ]


def _to_ms(seconds: float) -> int:
    return round(seconds * 1000)
