"""Stand-ins: classes for the records of an older program, whose own classes may not exist any more."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import make_dataclass
from enum import Enum
from typing import Any, cast

from anabranch.state.collections import make_struct_type
from anabranch.state.durable.kinds import EnumKind, Kind, Record


def make_stand_in(kind: Kind) -> type:
    """Return a class with the name and fields of an older record, or the members of an older enum."""
    if isinstance(kind, EnumKind):
        return cast("type", Enum(kind.name, [(member, member) for member in kind.members]))
    assert isinstance(kind, Record)
    fields = tuple(name for name, _ in kind.fields)
    if kind.name.startswith("Struct("):
        return cast("type", make_struct_type(fields))
    if any(name.startswith("_") for name in fields):
        return make_dataclass(kind.name, fields, frozen=True)
    made: Any = namedtuple(kind.name, fields)  # type: ignore[misc]  # noqa: PYI024 - fields are data
    return cast("type", made)
