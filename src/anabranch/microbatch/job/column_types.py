"""The types of columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from anabranch.eventtime.channels import fits
from anabranch.kernels.column_layouts import (
    BOOL,
    DAY,
    FLOAT,
    INT,
    MOMENT,
    OBJECT,
    STR,
    Leaf,
    OptionalColumn,
    is_record,
    read_record,
)
from anabranch.model.events import EventType, field_names
from anabranch.model.values.fields import list_defaults

_TYPES = {INT: int, FLOAT: float, BOOL: bool, STR: str, MOMENT: datetime, DAY: date}


def fits_columns(event_type: EventType) -> bool:
    """Return whether events of an event type can be stored in columns.

    Making one only stores its fields, and each field is an int, float, bool, text, datetime or date, or one of them or None; so is its default.
    """
    return (
        is_record(event_type)
        and find_odd_field(event_type) is None
        and find_odd_default(event_type) is None
    )


def find_odd_field(event_type: EventType) -> str | None:
    """Return the first field of an event type that can't be a column, or None."""
    for name, part in zip(field_names(event_type), read_record(event_type).parts, strict=True):
        inner = part.inner if isinstance(part, OptionalColumn) else part
        if not isinstance(inner, Leaf) or inner.kind == OBJECT:
            return name
    return None


def find_odd_default(event_type: EventType) -> str | None:
    """Return the first field with a default that is not of the field's type, or None."""
    defaults = list_defaults(event_type)
    for name, part in zip(field_names(event_type), read_record(event_type).parts, strict=True):
        if name in defaults and not _fits_default(part, defaults[name]):
            return name
    return None


def _fits_default(part: Any, value: Any) -> bool:
    if isinstance(part, OptionalColumn):
        return value is None or _fits_default(part.inner, value)
    # Neither True nor an IntEnum is an int in columns.
    if type(value) is not _TYPES.get(part.kind):
        return False
    if isinstance(value, datetime):
        return value.tzinfo is UTC
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return not isinstance(value, int) or fits(value)
