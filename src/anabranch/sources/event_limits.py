"""Limits of input events: every runtime accepts the values that columns can hold, and no others."""

from __future__ import annotations

from anabranch.eventtime.channels import fits
from anabranch.model.events import Event, field_names


def find_large_number(event: Event) -> str | None:
    """Return the reason why an event is rejected: an integer of more than 64 bits; None if there is none."""
    for name in field_names(event.event_type):
        value = getattr(event.data, name)
        if isinstance(value, int) and not fits(value):
            return f"field {name!r} of {event.event_type.__name__} does not fit into 64 bits"
    return None
