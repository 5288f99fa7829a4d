"""Markers, ranks and lanes, derived from a dependence relation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.errors import Location, ProgramError
from anabranch.model.dependence import Dependence, Depends
from anabranch.model.events import LANE, EventType, field_names


def is_marker(dependence: Dependence, event_type: EventType) -> bool:
    """Return whether an event type synchronises others: it orders events that are independent of each other.

    A marker depends on itself, and on another event type more strictly than that event type depends on
    itself. For example, a taxi's positions depend on each other per taxi, and the hour depends on all of
    them, so the hour is the marker.
    """
    if not dependence.restrictions(event_type, event_type):
        return False
    return any(
        other is not event_type and _orders_more(dependence, event_type, other)
        for other in dependence.neighbours(event_type)
    )


def _orders_more(dependence: Dependence, event_type: EventType, other: EventType) -> bool:
    across = dependence.restrictions(event_type, other)
    within = dependence.restrictions(other, other)
    return all(any(set(a) < set(w) for a in across) for w in within)


def orders_itself(dependence: Dependence, event_type: EventType) -> bool:
    """Return whether events of an event type depend on each other, other than within a canonical lane."""
    return any(LANE not in same for same in dependence.restrictions(event_type, event_type))


def ties(dependence: Dependence, a: EventType, b: EventType) -> bool:
    """Return whether two event types order each other without either being a marker (inc and dec)."""
    return (
        a is not b
        and bool(dependence.restrictions(a, b))
        and not is_marker(dependence, a)
        and not is_marker(dependence, b)
    )


def rank_types(
    dependence: Dependence,
    given: tuple[EventType, ...],
    where: Location | None,
    timers: tuple[EventType, ...] = (),
) -> tuple[EventType, ...]:
    """Return the event types in their order at equal times: those given, then markers, the rest, and timers.

    Among markers, those that more event types depend on are first; of two with as many, the one that was
    declared first. A symmetric relation does not distinguish the month from the day.
    """
    for event_type in given:
        if event_type not in dependence.event_types:
            raise ProgramError(
                f"rank names {getattr(event_type, '__name__', event_type)!r}, which the program does not handle",
                where=where,
                expected=f"some of {', '.join(known.__name__ for known in dependence.event_types)}",
                got=str(getattr(event_type, "__name__", event_type)),
            )
    if len(set(given)) < len(given):
        raise ProgramError("rank names an event type twice", where=where)
    rest = [
        event_type
        for event_type in dependence.event_types
        if event_type not in given and event_type not in timers
    ]
    found = [event_type for event_type in rest if is_marker(dependence, event_type)]
    found.sort(key=lambda event_type: -len(dependence.neighbours(event_type)))
    return (
        *given,
        *found,
        *(event_type for event_type in rest if event_type not in found),
        *timers,
    )


def laned_types(dependence: Dependence) -> tuple[EventType, ...]:
    """Return the event types whose events may be spread over lanes: independent even at equal fields."""
    return tuple(
        event_type
        for event_type in dependence.event_types
        if not dependence.restrictions(event_type, event_type)
    )


def timer_statements(
    timers: Iterable[Any], shape: Any, event_types: Iterable[EventType]
) -> list[Depends]:
    """Return the dependences that timers add: each is ordered with all events that see its entry."""
    keys: list[str] = []
    while shape.by is not None:
        keys.append(shape.by)
        shape = shape.inner
    return [
        Depends(
            timer.event_type,
            (event_type,),
            tuple(key for key in keys if _both_have(key, timer.event_type, event_type)),
        )
        for timer in timers
        for event_type in event_types
    ]


def control_statements(shape: Any, handlers: Iterable[Any]) -> list[Depends]:
    """Return the dependences that control events add: handlers that see the shared part need its order."""
    keys: list[str] = []
    while shape.by is not None and not hasattr(shape, "find_part"):
        keys.append(shape.by)
        shape = shape.inner
    if shape.by is None:
        return []
    handlers = [handler for handler in handlers if handler.due is None]
    control = [
        h.event_type for h in handlers if not h.whole and shape.by not in field_names(h.event_type)
    ]
    return [
        Depends(
            event_type,
            (h.event_type,),
            tuple(key for key in keys if _both_have(key, event_type, h.event_type)),
        )
        for event_type in control
        for h in handlers
    ]


def lane_statements(declared: Iterable[Any], laned: tuple[EventType, ...]) -> list[Depends]:
    """Return the dependences that lanes add: events of one lane keep their order.

    Where states are kept per key, lanes are per key too, and other keys stay independent.
    """
    keys: set[str] = set()
    for states in declared:
        shape: Any = states.shape
        while shape is not None and shape.by is not None:
            keys.add(shape.by)
            shape = getattr(shape, "inner", None)
    return [
        Depends(a, (b,), (LANE, *sorted(key for key in keys if _both_have(key, a, b))))
        for place, a in enumerate(laned)
        for b in laned[place:]
    ]


def _both_have(field: str, a: EventType, b: EventType) -> bool:
    return field in field_names(a) and field in field_names(b)
