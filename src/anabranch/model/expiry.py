"""Expiry: the timers by which entries go that live for a time only."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from functools import cache
from typing import Any

from anabranch.model.events import EventType, field_types
from anabranch.model.handlers import Handler


def find_expiry(shape: Any, handlers: Iterable[Handler]) -> Handler | None:
    """Return the timer that a state with a `ttl` sets by itself, or None if it has none.

    The innermost entries are those that expire, so the timer names all fields that lead to one.
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
    """Return the one type, in this process, of timers of entries by these fields."""
    words = [word.capitalize() for field, _ in fields for word in field.split("_")]
    name, names = f"{''.join(words)}Expiry", ("time", *(field for field, _ in fields))
    # The name and the fields are data here.
    timer: Any = namedtuple(name, names)  # type: ignore[misc]  # noqa: PYI024
    timer.__annotations__ = {"time": int, **dict(fields)}
    return timer


def _find_type(field: str, event_types: Iterable[EventType]) -> Any:
    kinds = (field_types(event_type) for event_type in event_types)
    return next((kind[field] for kind in kinds if field in kind), Any)
