"""States with one entry per channel of a run."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from anabranch.model.events import CHANNEL
from anabranch.state.collections import MapOf


@dataclass(frozen=True)
class PerChannel(MapOf):
    """One state of the `inner` kind per channel: counts per task, offsets of a channel.

    A handler sees the entry of its event's channel; with `whole=True`, the `Map` of all entries. A fork
    gives each side the entries of the channels whose events it processes.

    >>> from anabranch.state import Count
    >>> PerChannel(Count()).init
    Map({})
    """

    _: KW_ONLY
    by: str = CHANNEL
