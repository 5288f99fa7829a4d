"""Clocks: the time of day as events of a channel, so that a replay has the same clock.

A program has one time, that of its events. For timers by the time of day, use the recorded arrival time
as the time of events, and add a channel of ticks, which continues when no events arrive. Timers are then
due by the clock, and the outputs are still a function of the recorded input.
"""

from __future__ import annotations

from typing import NamedTuple

from anabranch.eventtime.windows.window_types import check_whole
from anabranch.model.events import Event

CLOCK = "clock"
"""The default name of a channel of ticks."""


class Tick(NamedTuple):
    """One reading of a clock."""

    time: int


def make_ticks(start: int, end: int, every: int, *, channel: str = CLOCK) -> list[Event]:
    """Return the ticks of a clock from `start` to before `end`, as events of a channel.

    >>> [event.time for event in make_ticks(10, 40, 10)]
    [10, 20, 30]
    """
    check_whole("every of make_ticks", every, least=1)
    times = range(start, end, every)
    return [Event(Tick(time), channel, seq) for seq, time in enumerate(times)]
