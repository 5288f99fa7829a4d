"""Schemas: the kinds of values in a snapshot, and those that a program declares.

A savepoint stores `describe_snapshot(...)` as its `schema`: the kinds of the values found, which are needed
to read its columns, and in `declared` the schema of the program that made it. Programs are compared by
their declared schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.model.events import LANE, field_names, field_types
from anabranch.model.program import Program, StateType
from anabranch.model.shapes import MISSING
from anabranch.model.values.maps import Map
from anabranch.state.collections import Struct
from anabranch.state.durable.codec import Codec, make_codec
from anabranch.state.durable.durable_names import is_record
from anabranch.state.durable.kind_trees import VERSION, align, is_number, read_version
from anabranch.state.durable.kinds import (
    ANY,
    INT,
    NUMBER,
    UNKNOWN,
    Fixed,
    Kind,
    KindError,
    Mapped,
    Record,
    Sequence,
    describe_type,
    describe_value,
    describe_values,
    read_kind,
    unify,
    unify_all,
    write_kind,
)
from anabranch.state.durable.value_columns import sort_items
from anabranch.state.evolution.changes import Identity
from anabranch.state.numbers import Count


@dataclass(frozen=True)
class EntryKinds:
    """The kinds of a state: of its keys, if it has entries `by` fields, and of an entry.

    `key` is the kind of the first key field; with more fields, the entry is a map itself. The innermost
    level has the lanes, if there are any.
    """

    by: tuple[str, ...]
    lanes: int | None
    key: Kind | None
    entry: Kind

    @property
    def keys(self) -> tuple[Kind, ...]:
        """Return the kinds of the keys, outermost first."""
        found = [] if self.key is None else [self.key]
        inner = self.entry
        for _ in self.by[1:]:
            found.append(inner.key if isinstance(inner, Mapped) else UNKNOWN)
            inner = inner.value if isinstance(inner, Mapped) else UNKNOWN
        return tuple(found)

    @property
    def leaf(self) -> Kind:
        """Return the kind of the innermost state, or of a lane of it."""
        inner = self.entry
        for _ in range(max(len(self.by) - 1, 0) + (self.lanes is not None)):
            inner = inner.value if isinstance(inner, Mapped) else UNKNOWN
        return inner


@dataclass(frozen=True)
class Schema:
    """The kinds of a snapshot or a program: of its state, deltas, events and records."""

    state: EntryKinds
    deltas: Mapping[str, EntryKinds] = field(default_factory=dict)
    events: Mapping[str, Kind] = field(default_factory=dict)
    records: Mapping[str, Kind] = field(default_factory=dict)
    changes: tuple[Identity, ...] = ()
    declared: Schema | None = None

    @property
    def promise(self) -> Schema:
        """Return the schema that the program declares."""
        return self.declared or self


def describe_program(program: Program) -> Schema:
    """Return the schema that a program's shapes and annotations declare."""
    records = {name: describe_type(record) for name, record in make_codec(program).records.items()}
    return Schema(
        state=_describe_state(program.initial),
        deltas={one.name: _describe_state(one) for one in program.state_types},
        events={event_type.__name__: describe_type(event_type) for event_type in program.inputs},
        records=records,
        changes=tuple(change.identity for change in program.changes),
    )


def describe_snapshot(
    program: Program, state: Any, deltas: Mapping[str, Any], events: Iterable[Any]
) -> Schema:
    """Return the schema of a snapshot, and of its program; `events` are the data of pending events."""
    declared, codec = describe_program(program), make_codec(program)
    by_type: dict[str, list[Any]] = {}
    for event in events:
        by_type.setdefault(type(event).__name__, []).append(event)
    return Schema(
        state=describe_entries(declared.state, list_entries(declared.state, state, codec)),
        deltas={
            name: describe_entries(
                declared.deltas[name], list_entries(declared.deltas[name], delta, codec)
            )
            for name, delta in sorted(deltas.items())
        },
        events={
            name: align(describe_values(some), declared.events.get(name, ANY))
            for name, some in sorted(by_type.items())
        },
        declared=declared,
    )


def describe_entries(declared: EntryKinds, pairs: Iterable[tuple[Any, Any]]) -> EntryKinds:
    """Return the kinds of pairs of key and entry, in the form that the program declares."""
    found = list(pairs)
    key = describe_values(key for key, _ in found) if declared.by else None
    entry = align(describe_values(entry for _, entry in found), declared.entry)
    return EntryKinds(declared.by, declared.lanes, key, entry)


def unify_entries(a: EntryKinds, b: EntryKinds) -> EntryKinds:
    """Return the kinds that cover both: for a state that is read part by part."""
    key = None if a.key is None or b.key is None else unify(a.key, b.key)
    return EntryKinds(a.by, a.lanes, key, unify(a.entry, b.entry))


def list_entries(entries: EntryKinds, state: Any, codec: Codec) -> list[tuple[Any, Any]]:
    """Return a state as pairs of key and entry, in the order of keys; one pair if it has no keys."""
    if not entries.by:
        return [(None, state)]
    found = state.entries()
    return [(key, found[key]) for key in sort_items(found, codec)]


def make_state(entries: EntryKinds, pairs: Iterable[tuple[Any, Any]]) -> Any:
    """Undo `list_entries`."""
    return Map(pairs) if entries.by else next(iter(pairs))[1]


def _describe_state(state_type: StateType) -> EntryKinds:
    by: list[str] = []
    keys: list[Kind] = []
    lanes = None
    shape: Any = state_type.shape
    # A state with a part that keys share is one value, which includes its entries.
    while shape.by is not None and not hasattr(shape, "find_part"):
        if shape.by == LANE:
            lanes = shape.lanes
        else:
            by.append(shape.by)
            keys.append(_describe_key(state_type, shape.by))
        shape = shape.inner
    kind = describe_shape(shape)
    if lanes is not None:
        kind = Mapped("Map", INT, kind)
    for key in reversed(keys[1:]):
        kind = Mapped("Map", key, kind)
    return EntryKinds(tuple(by), lanes, keys[0] if keys else None, kind)


def _describe_key(state_type: StateType, by: str) -> Kind:
    event_types = [
        event_type for event_type in state_type.handlers if by in field_names(event_type)
    ]
    return unify_all(describe_type(field_types(event_type)[by]) for event_type in event_types)


def describe_shape(shape: Any) -> Kind:
    """Return the kind of a shape without entries, derived from its initial states."""
    if isinstance(shape, Count):
        return INT
    inner = getattr(shape, "states", shape)
    if isinstance(inner, Struct):
        fields = ((name, describe_shape(one)) for name, one in inner.fields.items())
        return Record(f"Struct({','.join(inner.fields)})", tuple(fields))
    starts = [start for start in (shape.init, shape.zero) if start is not MISSING]
    return unify_all(map(describe_start, starts))


def describe_start(value: Any) -> Kind:
    """Return the kind of a state that starts from a value; a number may become a number of any kind."""
    if is_record(type(value)):
        return _describe_start_of_record(value)
    match value:
        case tuple() if value:
            return Fixed(tuple(map(describe_start, value)))
        case tuple() | list() | set() | frozenset():
            return Sequence(type(value).__name__, unify_all(map(describe_start, value)))
        case dict() | Map():
            keys, entries = map(describe_value, value), map(describe_start, value.values())
            return Mapped(type(value).__name__, unify_all(keys), unify_all(entries))
    kind = describe_value(value)
    return NUMBER if is_number(kind) else kind


def _describe_start_of_record(value: Any) -> Kind:
    """Return the kind in a record's annotations; for a `Struct`, which has none, that of its start."""
    declared = describe_type(type(value))
    assert isinstance(declared, Record)
    annotated = getattr(type(value), "__annotations__", {})
    fields = [
        (name, kind if name in annotated else describe_start(getattr(value, name)))
        for name, kind in declared.fields
    ]
    return Record(declared.name, tuple(fields))


def write_schema(schema: Schema) -> dict[str, Any]:
    """Return a schema as JSON."""
    return {
        "version": VERSION,
        "by": list(schema.state.by) or None,
        "lanes": schema.state.lanes,
        "state": _write_entries(schema.state),
        "deltas": {name: _write_entries(entries) for name, entries in schema.deltas.items()},
        "events": {name: write_kind(kind) for name, kind in schema.events.items()},
        "records": {name: write_kind(kind) for name, kind in schema.records.items()},
        "changes": [list(identity) for identity in schema.changes],
        "declared": None if schema.declared is None else write_schema(schema.declared),
    }


def read_schema(data: Any) -> Schema:
    """Return the schema in JSON values; raise if they are not a schema."""
    if not isinstance(data, dict):
        raise KindError("a schema can't be read", expected="an object", got=repr(data)[:80])
    read_version(data)
    try:
        return Schema(
            state=_read_entries(data["state"]),
            deltas={str(name): _read_entries(one) for name, one in data["deltas"].items()},
            events={str(name): read_kind(kind) for name, kind in data["events"].items()},
            records={str(name): read_kind(kind) for name, kind in data["records"].items()},
            changes=tuple(tuple(map(str, identity)) for identity in data["changes"]),
            declared=None if data["declared"] is None else read_schema(data["declared"]),
        )
    except (AttributeError, LookupError, TypeError) as error:
        raise KindError("a schema can't be read", got=f"{type(error).__name__}: {error}") from error


def _write_entries(entries: EntryKinds) -> dict[str, Any]:
    return {
        "by": list(entries.by),
        "lanes": entries.lanes,
        "key": None if entries.key is None else write_kind(entries.key),
        "entry": write_kind(entries.entry),
    }


def _read_entries(data: Any) -> EntryKinds:
    key = None if data["key"] is None else read_kind(data["key"])
    return EntryKinds(tuple(map(str, data["by"])), data["lanes"], key, read_kind(data["entry"]))
