"""The check that a program's states and events have a durable form, before a run."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

from anabranch.errors import Location
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.state.durable.codec import find_records, has_durable_form, list_records, make_codec
from anabranch.state.durable.durable_names import CodecError, is_record

_EXPECTED = (
    "None, bool, int, float, str, bytes, Decimal, Fraction, datetime, UUID, enums, tuples, lists, dicts, "
    "sets, NumPy arrays, NamedTuples and dataclasses of these, and states of anabranch.state"
)


def check_durable(program: Program) -> None:
    """Raise if a program's events, initial states or annotated fields can't be stored.

    A value in a field without an annotation is checked when it is stored.
    """
    codec = make_codec(program)
    for state_type in program.state_types:
        shape: Any = state_type.shape
        for name, start in (("init", shape.init), ("zero", shape.zero)):
            if start is MISSING:
                continue
            try:
                codec.encode(start)
            except CodecError as error:
                raise _refuse(
                    f"the {name} of {state_type.name}", error.got or "", program.where
                ) from error
    records: dict[type, None] = dict.fromkeys(program.event_types)
    for state_type in program.state_types:
        records |= dict.fromkeys(find_records(state_type.shape))
    for record in _follow(records):
        for field, hint in _read_hints(record).items():
            for kind in _list_classes(hint):
                if not has_durable_form(kind):
                    what = f"the field {field!r} of {record.__name__}"
                    raise _refuse(what, f"a {kind.__name__}", program.where)


def _refuse(what: str, got: str, where: Location | None) -> CodecError:
    return CodecError(
        f"{what} has no durable form",
        where=where,
        expected=_EXPECTED,
        got=got,
        cure="keep plain values or records of plain values in the state, and compute the rest from them",
    )


def _follow(records: Iterable[type]) -> Iterator[type]:
    """Yield records and the records in the annotations of their fields, each once."""
    waiting, seen = [*records], set[type]()
    while waiting:
        record = waiting.pop(0)
        if record in seen or not is_record(record):
            continue
        seen.add(record)
        yield record
        for hint in _read_hints(record).values():
            waiting += list_records(hint)


def _read_hints(record: type) -> dict[str, Any]:
    names = getattr(record, "_fields", None) or getattr(record, "__dataclass_fields__", {})
    try:
        hints = get_type_hints(record)
    except (NameError, TypeError):
        return {}
    return {name: hints[name] for name in names if name in hints}


def _list_classes(hint: Any) -> Iterator[type]:
    """Yield the classes in an annotation that values of it are instances of."""
    if get_origin(hint) is not None or isinstance(hint, types.UnionType):
        for part in get_args(hint):
            yield from _list_classes(part)
        return
    # An abstract class does not determine the type of the values.
    abstract = getattr(hint, "__module__", "") in ("typing", "collections.abc", "builtins", "abc")
    if isinstance(hint, type) and not abstract and not issubclass(hint, Enum):
        yield hint
