"""Carry a state from one program into the next, by way of the tables that a savepoint would keep."""

import json
from typing import Any, NamedTuple

from anabranch import Map, Program, depends, on
from anabranch.model.shapes import WrittenShape
from anabranch.state import (
    MapOf,
)
from anabranch.state.durable.codec import make_codec
from anabranch.state.durable.row_tables import to_table
from anabranch.state.evolution.migration import Migration, compare
from anabranch.state.evolution.schemas import (
    describe_program,
    describe_snapshot,
    list_entries,
    read_schema,
    write_schema,
)


class Tick(NamedTuple):
    time: int
    key: str


class Hour(NamedTuple):
    time: int


def keyed(
    init: Any,
    *changes: Any,
    join: Any = None,
    by: str = "key",
    event_type: type = Tick,
    **options: Any,
) -> Program:
    """Return a program with one entry per key; a shape is taken as it is."""
    shape = (
        init
        if hasattr(init, "same")
        else WrittenShape(init, join=join, fork=join and (lambda s, left, right: (s, s)))
    )
    return Program(
        on(event_type),
        depends(event_type, event_type, same=by),
        state=MapOf(shape, by=by),
        changes=changes,
        **options,
    )


def save(
    program: Program, state: Any, deltas: Any = None, events: Any = ()
) -> tuple[Any, list[Any]]:
    """Return the schema and the tables that a savepoint would keep."""
    schema = describe_snapshot(program, state, deltas or {}, events)
    codec = make_codec(program)
    pairs = list_entries(schema.state, state, codec)
    half = len(pairs) // 2
    parts = [pairs[:half], pairs[half:]]
    tables = [to_table(schema.state.key, schema.state.entry, part, codec) for part in parts if part]
    return read_schema(json.loads(json.dumps(write_schema(schema)))), tables


def carry(old: Program, state: Any, new: Program) -> Any:
    """Return an older state in a newer program, by way of its tables."""
    schema, tables = save(old, state)
    migration = Migration(schema, new)
    return migration.migrate_state(migration.read_state(tables))


def refusals(old: Program, new: Program) -> list[tuple[str, str]]:
    verdicts = compare(describe_program(old), new)
    return [(one.place, one.what) for one in verdicts if one.status == "refused"]


def record(name: str, **fields: Any) -> type:
    return NamedTuple(name, list(fields.items()))


def stats(**fields: Any) -> type:
    return record("Stats", **fields)


OLD = stats(count=int, total=int)
STATE = Map({"a": OLD(1, 10), "b": OLD(2, 20)})
