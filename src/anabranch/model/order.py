"""The total order of all events: `(time, rank of event type, channel, sequence)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.model.events import Event, EventType, content_of
from anabranch.model.values.event_times import time_of

OrderKey = tuple[Any, ...]
"""The sort key of an event. Keys of one program compare with each other, and with bounds."""

_AFTER_EVERY_RANK = 1 << 30


def order_key(event: Event, ranks: Mapping[EventType, int]) -> OrderKey:
    """Return the key of an event in the total order."""
    data, channel, seq = event
    if seq is None:
        return (time_of(data), ranks[type(data)], channel, -1, content_of(event))
    return (time_of(data), ranks[type(data)], channel, seq)


def bound_after(time: int) -> OrderKey:
    """Return a key after every event at or before `time`, and before every later one."""
    return (time, _AFTER_EVERY_RANK)


def sort_events(
    ranks: Mapping[EventType, int], events: Iterable[Event]
) -> list[tuple[OrderKey, Event]]:
    """Return events in the total order, each with a unique key.

    Only events without a sequence number can tie, and only if their content is equal. They are
    interchangeable, and are numbered so that each still has a unique key.
    """
    keyed = sorted(((order_key(event, ranks), event) for event in events), key=_first)
    for place in range(1, len(keyed)):
        key, previous = keyed[place][0], keyed[place - 1][0]
        if key == previous[: len(key)]:
            count = previous[len(key)] + 1 if len(previous) > len(key) else 1
            keyed[place] = ((*key, count), keyed[place][1])
    return keyed


def _first(pair: tuple[OrderKey, Event]) -> OrderKey:
    return pair[0]
