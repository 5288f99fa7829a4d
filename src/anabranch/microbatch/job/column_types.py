"""The types of columns."""

from __future__ import annotations

from anabranch.kernels.column_layouts import OBJECT, Leaf, OptionalColumn, read_record
from anabranch.model.events import EventType, field_names


def fits_columns(event_type: EventType) -> bool:
    """Return whether events of an event type can be stored in columns.

    Each field is an int, float, bool, text, datetime or date, or one of them or None.
    """
    defaults = getattr(event_type, "_field_defaults", None)
    return defaults == {} and find_odd_field(event_type) is None


def find_odd_field(event_type: EventType) -> str | None:
    """Return the first field of an event type that can't be a column, or None."""
    for name, part in zip(field_names(event_type), read_record(event_type).parts, strict=True):
        inner = part.inner if isinstance(part, OptionalColumn) else part
        if not isinstance(inner, Leaf) or inner.kind == OBJECT:
            return name
    return None
