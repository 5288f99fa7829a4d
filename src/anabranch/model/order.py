"""The one total order on all events: `(time, rank of tag, source, sequence)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.model.events import Event, Tag, content_of

OrderKey = tuple[Any, ...]
"""What events are sorted by. Keys of one program compare with each other, and with bounds."""

_AFTER_EVERY_RANK = 1 << 30


def order_key(event: Event, ranks: Mapping[Tag, int]) -> OrderKey:
    """Return the place of an event in the total order."""
    data, source, seq = event
    if seq is None:
        return (data.time, ranks[type(data)], source, -1, content_of(event))
    return (data.time, ranks[type(data)], source, seq)


def bound_after(time: int) -> OrderKey:
    """Return a key after every event at or before `time`, and before every later one."""
    return (time, _AFTER_EVERY_RANK)
