"""Lookups: each event with the rows of slowly changing tables that are in force at its time."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
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
"""Where a row is kept: by the name of its type, its key field, and the value of that."""


@dataclass(frozen=True)
class Table:
    """A table that changes: each event of type `row` puts in a row, or another one in its place.

    `key` is the field by which rows are told apart, `on` the field of the event that names one; if it is
    called the same, it need not be given. An event of type `gone`, with the key, takes a row out.
    """

    row: EventType
    key: str
    on: str | None = None
    gone: EventType | None = None

    def find_place(self, value: Any) -> Place:
        """Return where a row with this key is kept."""
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
    """Say each event with the row of every table that it names, as of its time.

    It is said when the event comes: `Matched(left=event, right=rows)`, where rows has a field per table, or
    what `select(event, rows)` returns, if that is not None. An event without some row is not said; with
    how="left" it is, with None in its place. At equal times a row comes before the events that look it
    up; with ties="left_first", after them.

    Tables are channels like others, so no event is looked up before their watermarks have passed it. Only
    rows change the state, and every worker follows them: events go anywhere, whatever they look up.
    Where one key of both is all there is, `asof_join` does the same and spreads the table too.
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
        handle(event, output=Lookup(pairing, tuple(tables), known).say),
        *handlers,
        *(depends(change, event, *changes) for change in changes),
        state=Replicated(Map()),
        rank=(*changes, event) if ties == "right_first" else (event, *changes),
        outputs=find_outputs(pairing, read_type(event), _describe_rows(tables)),
        name=name,
    )


@dataclass(frozen=True)
class Putting:
    """What a change of tables does to the rows that are in force."""

    event_type: EventType
    tables: tuple[Table, ...]

    def put(self, rows: Map[Place, Any], row: Any) -> Map[Place, Any]:
        """Put in a row, or another in its place."""
        for key in dict.fromkeys(t.key for t in self.tables if t.row is self.event_type):
            rows = rows.set((self.event_type.__name__, key, getattr(row, key)), row)
        return rows

    def take(self, rows: Map[Place, Any], event: Any) -> Map[Place, Any]:
        """Take out what an event says is gone, in every table that it speaks of."""
        for table in self.tables:
            if table.gone is self.event_type:
                rows = rows.remove(table.find_place(getattr(event, table.key)))
        return rows


@dataclass(frozen=True)
class Lookup:
    """What is said of an event: it, and the rows in force."""

    pairing: Pairing
    names: tuple[str, ...]
    tables: tuple[Table, ...]

    def say(self, rows: Map[Place, Any], event: Any) -> list[Any]:
        """Say an event with the rows that it names."""
        values = (getattr(event, table.on or table.key) for table in self.tables)
        places = [t.find_place(value) for t, value in zip(self.tables, values, strict=True)]
        found = [rows.get(place) for place in places]
        if any(row is None for row in found) and not self.pairing.keeps(LEFT):
            return []
        return self.pairing.say([(event, make_rows(self.names)(*found))])


@cache
def make_rows(names: tuple[str, ...]) -> Any:
    """Return the one type, in this process, of the rows of tables with these names."""
    return namedtuple("Rows", names)  # noqa: PYI024 - the fields are data here


def _describe_rows(tables: Mapping[str, Table]) -> ValueType:
    types = {name: make_optional(read_type(table.row)) for name, table in tables.items()}
    return make_record("Rows", None, **types)


def _check_tables(event: EventType, tables: Mapping[str, Any], where: Location | None) -> None:
    if not tables:
        raise ProgramError(
            "lookup has no table to look anything up in",
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
                f"lookup can't tell {name} from what it is to do with it",
                where=where,
                expected="an event type each for events, rows, and rows that are gone",
                got=f"{event.__name__}, {table.row.__name__}"
                + (f", {table.gone.__name__}" if table.gone is not None else ""),
            )
