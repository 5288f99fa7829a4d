"""Markers, ranks and lanes: what a dependence relation says about each tag's part in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.errors import Location, ProgramError
from anabranch.model.dependence import Dependence, Depends
from anabranch.model.events import LANE, Tag, field_names


def is_marker(dependence: Dependence, tag: Tag) -> bool:
    """Say whether a tag synchronises others: it orders events that are free among themselves.

    It depends on itself, and on another tag more strictly than that tag depends on itself. A
    taxi's positions depend on each other per taxi; the hour depends on all of them, so the hour
    is the marker.
    """
    if not dependence.restrictions(tag, tag):
        return False
    return any(
        other is not tag and _orders_more(dependence, tag, other)
        for other in dependence.neighbours(tag)
    )


def _orders_more(dependence: Dependence, tag: Tag, other: Tag) -> bool:
    across = dependence.restrictions(tag, other)
    within = dependence.restrictions(other, other)
    return all(any(set(a) < set(w) for a in across) for w in within)


def orders_itself(dependence: Dependence, tag: Tag) -> bool:
    """Return whether events of a tag depend on each other, other than within a canonical lane."""
    return any(LANE not in same for same in dependence.restrictions(tag, tag))


def ties(dependence: Dependence, a: Tag, b: Tag) -> bool:
    """Return whether two tags order each other without either being a marker (inc and dec)."""
    return (
        a is not b
        and bool(dependence.restrictions(a, b))
        and not is_marker(dependence, a)
        and not is_marker(dependence, b)
    )


def rank_tags(
    dependence: Dependence,
    given: tuple[Tag, ...],
    where: Location | None,
    timers: tuple[Tag, ...] = (),
) -> tuple[Tag, ...]:
    """Return the tags as they come at equal times: those given, then markers, the rest, and timers.

    Among markers, the one that more tags depend on comes first, and of two that are alike in that
    the one written first: a symmetric relation can't tell the month from the day.
    """
    for tag in given:
        if tag not in dependence.tags:
            raise ProgramError(
                f"rank names {getattr(tag, '__name__', tag)!r}, which the program does not know",
                where=where,
                expected=f"some of {', '.join(known.__name__ for known in dependence.tags)}",
                got=str(getattr(tag, "__name__", tag)),
            )
    if len(set(given)) < len(given):
        raise ProgramError("rank names a tag twice", where=where)
    rest = [tag for tag in dependence.tags if tag not in given and tag not in timers]
    found = [tag for tag in rest if is_marker(dependence, tag)]
    found.sort(key=lambda tag: -len(dependence.neighbours(tag)))
    return (*given, *found, *(tag for tag in rest if tag not in found), *timers)


def laned_tags(dependence: Dependence) -> tuple[Tag, ...]:
    """Return the tags whose events may be spread over lanes: independent even at equal fields."""
    return tuple(tag for tag in dependence.tags if not dependence.restrictions(tag, tag))


def timer_statements(timers: Iterable[Any], shape: Any, tags: Iterable[Tag]) -> list[Depends]:
    """Return what timers add to the dependence: each is ordered with all that meets its entry."""
    keys: list[str] = []
    while shape.by is not None:
        keys.append(shape.by)
        shape = shape.inner
    return [
        Depends(timer.tag, (tag,), tuple(key for key in keys if _both_have(key, timer.tag, tag)))
        for timer in timers
        for tag in tags
    ]


def control_statements(shape: Any, handlers: Iterable[Any]) -> list[Depends]:
    """Return what control events add to the dependence: all that sees the common part needs its order."""
    keys: list[str] = []
    while shape.by is not None and not hasattr(shape, "find_part"):
        keys.append(shape.by)
        shape = shape.inner
    if shape.by is None:
        return []
    handlers = [handler for handler in handlers if handler.due is None]
    control = [h.tag for h in handlers if not h.whole and shape.by not in field_names(h.tag)]
    return [
        Depends(tag, (h.tag,), tuple(key for key in keys if _both_have(key, tag, h.tag)))
        for tag in control
        for h in handlers
    ]


def lane_statements(declared: Iterable[Any], laned: tuple[Tag, ...]) -> list[Depends]:
    """Return what lanes add to the dependence: events of one lane keep their order.

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


def _both_have(field: str, a: Tag, b: Tag) -> bool:
    return field in field_names(a) and field in field_names(b)
