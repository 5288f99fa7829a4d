"""Lookups: each event with the rows of slowly changing tables that are valid at its time."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any

from anabranch.errors import Location, ProgramError
from anabranch.model.dependence import depends
from anabranch.model.events import EventType, check_event_type
from anabranch.model.handlers import Handler
from anabranch.model.handlers import on as handle
from anabranch.model.locations import locate_caller
from anabranch.model.program import Program
from anabranch.model.values.maps import Map
from anabranch.model.values.value_types import ValueType, make_optional, make_record, read_type
from anabranch.query.asof_joins import TIES
from anabranch.query.join_pairs import (
    LEFT,
    Pairing,
    Select,
    check_field,
    check_word,
    find_outputs,
    read_pairing,
)
from anabranch.state.collections import Replicated

Place = tuple[str, str, Any]
"""The key of a row in the state: the name of its type, its key field, and the field's value."""


@dataclass(frozen=True)
class Table:
    """A table that changes: each event of type `row` inserts or replaces a row.

    `key` is the key field of the rows, `on` the field of the event with the key to look up (default: the same
    name as `key`). An event of type `gone`, with the key, deletes a row.
    """

    row: EventType
    key: str
    on: str | None = None
    _: KW_ONLY
    gone: EventType | None = None

    def find_place(self, value: Any) -> Place:
        """Return the place of the row with this key in the state."""
        return self.row.__name__, self.key, value


def lookup(
    event: EventType,
    /,
    *,
    how: str = "inner",
    ties: str = "right_first",
    select: Select | None = None,
    name: str = "program",
    **tables: Table,
) -> Program:
    """Join each event with the row of every table that it refers to, as of its time.

    The output is emitted on the event: `Matched(left=event, right=rows)`, where rows has a field per table, or
    the result of `select(event, rows)` if that is not None. An event without some row is not emitted; with
    how="left" it is, with None for the row. At equal times a row is before the events that look it up;
    with ties="left_first", after them.

    Tables arrive in channels, so no event is looked up before their watermarks have passed it. Only rows
    change the state, and every shard has a copy of them: an event can be processed by any shard. With one
    table and one key, `asof_join` has the same outputs and distributes the table by key, too.
    """
    where = locate_caller()
    check_event_type(event, where)
    check_word("lookup", "ties", ties, TIES, where)
    pairing = read_pairing("lookup", how, select, where, hows=("inner", "left"))
    _check_tables(event, tables, where)
    rows = dict.fromkeys(table.row for table in tables.values())
    gone = dict.fromkeys(table.gone for table in tables.values() if table.gone is not None)
    known = tuple(tables.values())
    handlers: list[Handler] = [handle(row, update=Putting(row, known).put) for row in rows]
    handlers += [handle(event_type, update=Putting(event_type, known).take) for event_type in gone]
    changes = (*rows, *gone)
    return Program(
        handle(event, output=Lookup(pairing, tuple(tables), known).emit),
        *handlers,
        *(depends(change, event, *changes) for change in changes),
        state=Replicated(Map()),
        rank=(*changes, event) if ties == "right_first" else (event, *changes),
        outputs=find_outputs(pairing, read_type(event), _describe_rows(tables)),
        name=name,
    )


@dataclass(frozen=True)
class Putting:
    """The handlers of changes of tables."""

    event_type: EventType
    tables: tuple[Table, ...]

    def put(self, rows: Map[Place, Any], row: Any) -> Map[Place, Any]:
        """Return the rows with one inserted or replaced."""
        for key in dict.fromkeys(t.key for t in self.tables if t.row is self.event_type):
            rows = rows.set((self.event_type.__name__, key, getattr(row, key)), row)
        return rows

    def take(self, rows: Map[Place, Any], event: Any) -> Map[Place, Any]:
        """Return the rows without those that an event deletes, in every table of its type."""
        for table in self.tables:
            if table.gone is self.event_type:
                rows = rows.remove(table.find_place(getattr(event, table.key)))
        return rows


@dataclass(frozen=True)
class Lookup:
    """The output of a lookup on an event: the event, and the rows that are valid at its time."""

    pairing: Pairing
    names: tuple[str, ...]
    tables: tuple[Table, ...]

    def emit(self, rows: Map[Place, Any], event: Any) -> list[Any]:
        """Return the output for an event and the rows that it refers to."""
        values = (getattr(event, table.on or table.key) for table in self.tables)
        places = [t.find_place(value) for t, value in zip(self.tables, values, strict=True)]
        found = [rows.get(place) for place in places]
        if any(row is None for row in found) and not self.pairing.keeps(LEFT):
            return []
        return self.pairing.list_outputs([(event, make_rows(self.names)(*found))])


@cache
def make_rows(names: tuple[str, ...]) -> Any:
    """Return the type of the rows of tables with these names; one type per process."""
    return namedtuple("Rows", names)  # noqa: PYI024 - the fields are data here


def _describe_rows(tables: Mapping[str, Table]) -> ValueType:
    types = {name: make_optional(read_type(table.row)) for name, table in tables.items()}
    return make_record("Rows", None, **types)


def _check_tables(event: EventType, tables: Mapping[str, Any], where: Location | None) -> None:
    if not tables:
        raise ProgramError(
            "lookup has no table",
            where=where,
            expected="lookup(Order, rate=Table(Rate, key='currency'))",
            got="no table",
        )
    for name, table in tables.items():
        if not isinstance(table, Table):
            raise ProgramError(
                f"{name} of lookup is not a table",
                where=where,
                expected=f"{name}=Table(Rate, key='currency')",
                got=repr(table),
            )
        for event_type in (table.row, *(() if table.gone is None else (table.gone,))):
            check_event_type(event_type, where)
        for event_type, field, word in (
            (table.row, table.key, "key"),
            (event, table.on or table.key, "on"),
            (table.gone, table.key, "key"),
        ):
            if event_type is not None:
                check_field("lookup", word, field, event_type, where)
        if event in (table.row, table.gone) or table.row is table.gone:
            raise ProgramError(
                f"lookup uses one event type twice for the table {name}",
                where=where,
                expected="different event types for events, rows, and deleted rows",
                got=f"{event.__name__}, {table.row.__name__}"
                + (f", {table.gone.__name__}" if table.gone is not None else ""),
            )
