"""The types that columns can hold."""

from __future__ import annotations

from anabranch.kernels.column_layouts import (
    Leaf,
    read_record,
)
from anabranch.model.events import Tag


def fits_columns(tag: Tag) -> bool:
    """Say whether events of a tag lie in columns: each field a plain int, float, bool, text or datetime."""
    layout = read_record(tag)
    defaults = getattr(tag, "_field_defaults", None)
    plain = all(isinstance(part, Leaf) and part.kind != "object" for part in layout.parts)
    return plain and defaults == {}
