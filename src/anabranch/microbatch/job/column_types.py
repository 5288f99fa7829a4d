"""The types that columns can hold."""

from __future__ import annotations

from anabranch.kernels.column_layouts import OBJECT, Leaf, OptionalColumn, read_record
from anabranch.model.events import Tag, field_names


def fits_columns(tag: Tag) -> bool:
    """Return whether events of a tag lie in columns.

    Each field is an int, float, bool, text, datetime or date, or one of them or None.
    """
    defaults = getattr(tag, "_field_defaults", None)
    return defaults == {} and find_odd_field(tag) is None


def find_odd_field(tag: Tag) -> str | None:
    """Return the first field of a tag that has no column, or None."""
    for name, part in zip(field_names(tag), read_record(tag).parts, strict=True):
        inner = part.inner if isinstance(part, OptionalColumn) else part
        if not isinstance(inner, Leaf) or inner.kind == OBJECT:
            return name
    return None
