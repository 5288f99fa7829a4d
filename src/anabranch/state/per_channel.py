"""States per source: what each of the sources of a run has brought."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.events import SOURCE
from anabranch.state.collections import MapOf


@dataclass(frozen=True)
class PerSource(MapOf):
    """One state of the `inner` kind per source of events: counts per task, offsets of a source.

    Every handler sees the entry of the source that brought its event; with `whole=True`, the `Map` of all.
    A part of a run that gets the events of a source gets its entry with them.

    >>> from anabranch.state import Count
    >>> PerSource(Count()).init
    Map({})
    """

    by: str = SOURCE
