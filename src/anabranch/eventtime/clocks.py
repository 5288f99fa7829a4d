"""Clocks: the time of day as events of a channel, so that a replay reads the same clock again.

A program knows one time, that of its events. Whoever wants timers by the time of day lets that time be
when events came, as their channel recorded it, and adds a channel of ticks, which goes on when nothing
comes. Timers are then due by the clock, and the answer is still a function of what was recorded.
"""

from __future__ import annotations

from typing import NamedTuple

from anabranch.eventtime.windows.window_types import check_whole
from anabranch.model.events import Event

CLOCK = "clock"
"""What a channel of ticks is called, if nobody says otherwise."""


class Tick(NamedTuple):
    """A clock's word that it was `time` when it was looked at."""

    time: int


def make_ticks(start: int, end: int, every: int, channel: str = CLOCK) -> list[Event]:
    """Return the ticks of a clock from `start` to before `end`, as a channel would bring them.

    >>> [event.time for event in make_ticks(10, 40, 10)]
    [10, 20, 30]
    """
    check_whole("every of make_ticks", every, least=1)
    times = range(start, end, every)
    return [Event(Tick(time), channel, seq) for seq, time in enumerate(times)]
