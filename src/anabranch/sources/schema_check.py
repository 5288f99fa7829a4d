"""Checks of schemas against event types: a column that can never fit is an error before the first row.

A row that does not fit its event type is rejected, and the run continues. If a column is missing, or no value
of its type fits, every row would be rejected, and the caller has made a mistake. The check tries sample
values of the column's type as fields of a row.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.errors import InputError
from anabranch.model.events import EventType, field_types
from anabranch.model.program import Program
from anabranch.model.values.fields import (
    Unfit,
    admits_none,
    field_defaults,
    is_scalar,
    read_value,
)
from anabranch.sources.arrow_tables import is_spelled
from anabranch.sources.source_options import Source

if TYPE_CHECKING:
    import pyarrow as pa

_TEXTS = (
    "", "a", "1", "1.5", "YQ==", "1/2", "2026-01-01", "2026-01-01T00:00:00", "12:00:00", "true",
    "1 min", "12345678-1234-5678-1234-567812345678",
)  # fmt: skip

_SPARK_TYPES = {
    int: "bigint", float: "double", bool: "boolean", str: "string", bytes: "binary",
    datetime: "timestamp", date: "date", Decimal: "decimal(38,18)",
}  # fmt: skip
"""The type of a cast to each type of field."""


Show = Callable[[str], str]
"""A function that returns the name of a column's type."""


class Misfit(NamedTuple):
    """A column that can't be read as the field of an event type."""

    column: str
    expected: str
    found: str | None
    cast: str | None = None


class ColumnNames(NamedTuple):
    """The names of the columns with the time, the sequence, the heartbeats, the event type and the channel."""

    time: str = "time"
    seq: str | None = None
    heartbeat: str | None = None
    event_type: str | None = None
    channel: str | None = None


def name_columns_beside(source: Source) -> ColumnNames:
    """Return the names of a source's columns beside the fields."""
    return ColumnNames(
        source.time, source.seq, source.heartbeat, source.type_column, source.channel_column
    )


def check_columns(
    source: Source, program: Program, schema: pa.Schema, place: str, show: Show | None = None
) -> None:
    """Raise `InputError` if no row with the columns of a source can become an event; `place` is its kind."""
    event_types = source.list_event_types(program)
    misfits = find_misfits(schema, event_types, name_columns_beside(source), show=show)
    if misfits:
        what = name_rows(source, place)
        raise explain_misfits(misfits, event_types, schema.names, what=what, place=place)


def name_rows(source: Source, place: str) -> str:
    """Return a name of the rows of a source: "a frame", or "the frame of 'cards'"."""
    return (
        f"a {place}" if source.channel_name is None else f"the {place} of {source.channel_name!r}"
    )


def find_misfits(
    schema: pa.Schema,
    event_types: Sequence[EventType],
    names: ColumnNames,
    *,
    show: Show | None = None,
) -> list[Misfit]:
    """Return the columns for which every row of a schema would be rejected.

    A row has one of the `event_types`. If there are several, one that fits is enough, since the types of the
    rows are not known here. But a column that fits none of the fields of its name is always a misfit. `show`
    returns the name of a column's type.
    """
    shown = show or (lambda name: str(schema.field(name).type))
    found = list(_check_beside(schema, names, shown))
    each = {
        event_type: list(_check_event_type(schema, event_type, names, shown))
        for event_type in event_types
    }
    if each and all(each.values()):
        fewest = min(each.values(), key=len)
        return [*found, *fewest]
    return [*found, *_find_unfit_everywhere(schema, each, names)]


def check_files(paths: Sequence[str], event_types: Sequence[EventType], names: ColumnNames) -> None:
    """Raise if no row of the first and of the last of Parquet or Arrow files could become an event.

    Files of one folder may differ, and the first ones may be older than the program: so both must be wrong.
    """
    refusal: InputError | None = None
    for path in dict.fromkeys([*paths[:1], *paths[-1:]]):
        schema = _peek(path)
        misfits = None if schema is None else find_misfits(schema, event_types, names)
        if schema is None or not misfits:
            return
        what = f"file {path}"
        refusal = refusal or explain_misfits(
            misfits, event_types, schema.names, what=what, place=""
        )
    if refusal is not None:
        raise refusal


def _peek(path: str) -> pa.Schema | None:
    """Return the schema of a Parquet or Arrow file; None if it can't be read, which its reader reports."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.read_schema(path)
    except (pa.ArrowException, OSError):
        pass
    try:
        with pa.memory_map(path) as channel:
            try:
                return pa.ipc.open_file(channel).schema
            except pa.ArrowInvalid:
                channel.seek(0)
                return pa.ipc.open_stream(channel).schema
    except (pa.ArrowException, OSError):
        return None


def _find_unfit_everywhere(
    schema: pa.Schema, each: Mapping[EventType, list[Misfit]], names: ColumnNames
) -> Iterator[Misfit]:
    for column in schema.names:
        asking = [event_type for event_type in each if column in _list_columns(event_type, names)]
        misfits = [one for event_type in asking for one in each[event_type] if one.column == column]
        if asking and len(misfits) == len(asking):
            yield misfits[0]


def _list_columns(event_type: EventType, names: ColumnNames) -> dict[str, Any]:
    return {(names.time if n == "time" else n): kind for n, kind in field_types(event_type).items()}


def _check_event_type(
    schema: pa.Schema, event_type: EventType, names: ColumnNames, shown: Callable[[str], str]
) -> Iterator[Misfit]:
    defaults = field_defaults(event_type)
    for column, annotation in _list_columns(event_type, names).items():
        optional = admits_none(annotation) or (column in defaults and column != names.time)
        if column not in schema.names:
            if not optional:
                yield Misfit(column, _name_type(annotation), None)
            continue
        field = schema.field(column)
        if is_spelled(field) or not is_scalar(annotation):
            continue
        values = list_values(field.type)
        if values is None or (not values and optional):
            continue
        if not any(_fits(value, annotation) for value in values):
            cast = next((_SPARK_TYPES[k] for k in _SPARK_TYPES if annotation is k), None)
            yield Misfit(column, _name_type(annotation), shown(column), cast)


def _check_beside(
    schema: pa.Schema, names: ColumnNames, shown: Callable[[str], str]
) -> Iterator[Misfit]:
    """Yield the columns beside an event that have an unusable type."""
    asked: list[tuple[str | None, Any, str, str]] = [
        (names.seq, int, "an integer, the sequence", "bigint"),
        (names.heartbeat, int, "an integer or a timestamp, the heartbeat", "bigint"),
        (names.event_type, str, "a string, the event type", "string"),
    ]
    for column, annotation, expected, cast in asked:
        if column is None or column not in schema.names:
            continue
        values = list_values(schema.field(column).type)
        if (column == names.seq and values and isinstance(values[0], datetime)) or (
            values and not any(_fits(value, annotation) for value in values)
        ):
            yield Misfit(column, expected, shown(column), cast)


def _fits(value: Any, annotation: Any) -> bool:
    try:
        read_value(value, annotation)
    except Unfit:
        return False
    return True


def list_values(kind: pa.DataType) -> list[Any] | None:
    """Return sample values of a column's type as in rows; none for a column of nulls.

    Return None for a type of which a few values are not enough: a list, a struct, a map.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return list_values(kind.value_type)
    for is_kind, values in _list_kinds():
        if is_kind(kind):
            return values
    return None


def _list_kinds() -> list[tuple[Callable[[Any], bool], list[Any]]]:
    from pyarrow import types

    return [
        (types.is_null, []),
        (types.is_boolean, [True]),
        (types.is_integer, [0, 1]),
        (types.is_floating, [0.0, 1.5]),
        (types.is_decimal, [Decimal(0), Decimal("1.5")]),
        (types.is_string, list(_TEXTS)),
        (types.is_large_string, list(_TEXTS)),
        (types.is_timestamp, [datetime(2026, 1, 1, tzinfo=UTC)]),
        (types.is_date, [date(2026, 1, 1)]),
        (types.is_time, [time(12)]),
        (types.is_duration, [timedelta(1)]),
        (types.is_binary, [b""]),
        (types.is_large_binary, [b""]),
        (types.is_fixed_size_binary, [b""]),
    ]


def _name_type(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def explain_misfits(
    misfits: Sequence[Misfit],
    event_types: Iterable[EventType],
    columns: Sequence[str],
    *,
    what: str,
    place: str,
) -> InputError:
    """Return the error for misfit columns: for each, the expected and the actual type.

    `what` names the frame or file; `place` is the Python expression of a frame, or empty.
    """
    names = ", ".join(event_type.__name__ for event_type in event_types)
    return InputError(
        f"{what} has no events of {names}: none of its rows would fit",
        expected=_join(f"{one.column}: {one.expected}" for one in misfits),
        got=_join(
            f"{one.column}: {one.found}" if one.found else f"no column {one.column!r}"
            for one in misfits
        ),
        cure="; ".join(dict.fromkeys(_cure(one, columns, place) for one in misfits)),
    )


def _join(lines: Iterable[str]) -> str:
    return f"\n{'':12}".join(lines)


def _cure(one: Misfit, columns: Sequence[str], place: str) -> str:
    if one.found is not None:
        if place and one.cast:
            return f'{place}.withColumn("{one.column}", col("{one.column}").cast("{one.cast}"))'
        return f"write {one.column!r} with another type, or change the field's annotation"
    near = difflib.get_close_matches(one.column, columns, 1)
    if near and place:
        return f'{place}.withColumnRenamed("{near[0]}", "{one.column}")'
    meant = f" (is {near[0]!r} meant?)" if near else ""
    return f"add a column {one.column!r}{meant}, or give the field a default"
