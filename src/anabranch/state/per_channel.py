"""States per channel: what each of the channels of a run has brought."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.events import CHANNEL
from anabranch.state.collections import MapOf


@dataclass(frozen=True)
class PerChannel(MapOf):
    """One state of the `inner` kind per channel of events: counts per task, offsets of a channel.

    Every handler sees the entry of the channel that brought its event; with `whole=True`, the `Map` of all.
    A part of a run that gets the events of a channel gets its entry with them.

    >>> from anabranch.state import Count
    >>> PerChannel(Count()).init
    Map({})
    """

    by: str = CHANNEL
