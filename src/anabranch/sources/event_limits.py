"""Limits of events that come from outside: what a runtime with columns holds, every runtime takes."""

from __future__ import annotations

from anabranch.eventtime.channels import fits
from anabranch.model.events import Event, field_names


def find_large_number(event: Event) -> str | None:
    """Return the reason why an event can't be taken: a whole number of more than 64 bits."""
    for name in field_names(event.event_type):
        value = getattr(event.data, name)
        if isinstance(value, int) and not fits(value):
            return f"field {name!r} of {event.event_type.__name__} does not fit into 64 bits"
    return None
