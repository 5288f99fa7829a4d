"""Field support: the types that event fields may have to be read from rows of files and frames."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from anabranch.errors import ProgramError
from anabranch.model.events import EventType, field_types
from anabranch.model.program import Program
from anabranch.model.values.fields import SCALARS, unwrap

_CONTAINERS = (list, tuple, set, frozenset, dict, Sequence, Iterable, AbstractSet, Mapping)

KNOWN = (
    "int, float, bool, str, bytes, Decimal, datetime, date, time, timedelta, UUID, an enum, a NamedTuple "
    "or dataclass, a list, tuple, set or dict of such types, or one of them or None"
)
"""The types that a field may have, for error messages."""


def check_fields(program: Program) -> None:
    """Raise if a program has an event type with a field that can't be read from rows."""
    for event_type in program.inputs:
        for name, annotation in field_types(event_type).items():
            odd = _find_odd(annotation, ())
            if odd is not None:
                raise ProgramError(
                    f"field {name!r} of {event_type.__name__} can't be read from rows",
                    where=program.initial.handlers[event_type].where,
                    expected=KNOWN,
                    got=f"`{name}: {_name(annotation)}`" + _point_out(odd, annotation),
                    cure="give the field one of these types, and convert it in the update",
                )


def _find_odd(annotation: Any, above: tuple[Any, ...]) -> Any:
    """Return the unsupported part of a type, or None."""
    annotation = unwrap(annotation)
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation in (Any, object, None, Ellipsis) or isinstance(annotation, TypeVar):
        return None
    if origin is Literal or (isinstance(annotation, type) and annotation in SCALARS):
        return None
    if origin in (Union, types.UnionType):
        # One supported choice is enough.
        found = [_find_odd(part, above) for part in parts if part is not types.NoneType]
        return found[0] if all(odd is not None for odd in found) else None
    kind = origin or annotation
    if not isinstance(kind, type) or kind in above:
        return None
    if issubclass(kind, enum.Enum):
        return None
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        record: EventType = kind
        return _find_first(field_types(record).values(), (*above, kind))
    if kind in _CONTAINERS:
        return _find_first(parts, above)
    return annotation


def _find_first(parts: Iterable[Any], above: tuple[Any, ...]) -> Any:
    found = (_find_odd(part, above) for part in parts)
    return next((odd for odd in found if odd is not None), None)


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _point_out(odd: Any, annotation: Any) -> str:
    return "" if odd is annotation else f", with {_name(odd)} in it"
