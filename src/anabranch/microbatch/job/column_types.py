"""The types of columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from anabranch.eventtime.channels import fits
from anabranch.kernels.column_layouts import (
    ANYTHING,
    BOOL,
    DAY,
    ENUM,
    FLOAT,
    INT,
    MOMENT,
    OBJECT,
    STR,
    ColumnLayout,
    EnumColumn,
    Fields,
    Leaf,
    OptionalColumn,
    carry,
    is_record,
    read_record,
)
from anabranch.model.events import EventType, field_names
from anabranch.model.values.fields import list_defaults
from anabranch.state.durable.codec import Codec

_TYPES = {INT: int, FLOAT: float, BOOL: bool, STR: str, MOMENT: datetime, DAY: date}


@cache
def lay_out_fields(event_type: EventType) -> Fields:
    """Return the columns that events are read into.

    A field is an int, float, bool, text, datetime, date or member of an enum, or one of them or None; any other field is an
    object. So is a record, whose integers may have more than 64 bits.
    """
    return Fields(event_type, tuple(map(_flatten, read_record(event_type).parts)))


def _flatten(part: ColumnLayout) -> ColumnLayout:
    inner = part.inner if isinstance(part, OptionalColumn) else part
    return part if isinstance(inner, Leaf) else ANYTHING


def carry_fields(event_type: EventType, codec: Codec) -> Fields:
    """Return the columns that events are sent and stored in: objects are carried as bytes of the codec."""
    layout = carry(lay_out_fields(event_type), codec)
    assert isinstance(layout, Fields)
    return layout


def list_rich_fields(event_type: EventType) -> tuple[str, ...]:
    """Return the fields of an event type that are enums, or carried."""
    parts = zip(field_names(event_type), lay_out_fields(event_type).parts, strict=True)
    return tuple(name for name, part in parts if find_kind(part) in (ENUM, OBJECT))


def find_kind(part: ColumnLayout) -> str:
    """Return the kind of a field's column."""
    leaf: Any = part.inner if isinstance(part, OptionalColumn) else part
    kind: str = leaf.kind
    return kind


def fits_columns(event_type: EventType) -> bool:
    """Return whether events of an event type can be stored in columns.

    Making one only stores its fields, and the default of each field is of the field's type.
    """
    return is_record(event_type) and find_odd_default(event_type) is None


def find_odd_default(event_type: EventType) -> str | None:
    """Return the first field with a default that is not of the field's type, or None."""
    defaults = list_defaults(event_type)
    parts = lay_out_fields(event_type).parts
    for name, part in zip(field_names(event_type), parts, strict=True):
        if name in defaults and not _fits_default(part, defaults[name]):
            return name
    return None


def _fits_default(part: Any, value: Any) -> bool:
    if isinstance(part, OptionalColumn):
        return value is None or _fits_default(part.inner, value)
    if part == ANYTHING:
        return True  # It is encoded as an object, whatever it is.
    if isinstance(part, EnumColumn):
        return type(value) is part.cls
    # Neither True nor an IntEnum is an int in columns.
    if type(value) is not _TYPES.get(part.kind):
        return False
    if isinstance(value, datetime):
        return value.tzinfo is UTC
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return not isinstance(value, int) or fits(value)
