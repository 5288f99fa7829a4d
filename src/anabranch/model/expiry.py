"""Expiry: the timers that remove entries with a `ttl`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from functools import cache
from typing import Any

from anabranch.model.events import EventType, field_types
from anabranch.model.handlers import Handler


def find_expiry(shape: Any, handlers: Iterable[Handler]) -> Handler | None:
    """Return the handler of the timer that a state with a `ttl` sets, or None if it has no `ttl`.

    The innermost entries expire, so the timer has the key fields of all levels.
    """
    fields: list[str] = []
    while shape.by is not None:
        fields.append(shape.by)
        shape = shape.inner
    if not hasattr(shape, "expire"):
        return None
    event_types = [handler.event_type for handler in handlers]
    timer = make_expiry(tuple((name, _find_type(name, event_types)) for name in fields))
    return Handler(timer, update=shape.expire, due=shape.find_due, expires=True)


@cache
def make_expiry(fields: tuple[tuple[str, Any], ...]) -> Any:
    """Return the event type of timers for entries with these key fields; one per process."""
    words = [word.capitalize() for field, _ in fields for word in field.split("_")]
    name, names = f"{''.join(words)}Expiry", ("time", *(field for field, _ in fields))
    # Name and fields are computed, so there is no class to annotate.
    timer: Any = namedtuple(name, names)  # type: ignore[misc]  # noqa: PYI024
    timer.__annotations__ = {"time": int, **dict(fields)}
    return timer


def _find_type(field: str, event_types: Iterable[EventType]) -> Any:
    kinds = (field_types(event_type) for event_type in event_types)
    return next((kind[field] for kind in kinds if field in kind), Any)
