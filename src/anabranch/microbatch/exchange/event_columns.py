"""Event columns: the columns of late and of rejected events in frames and files, and those of the ledger.

The time of a row is a bigint, or a timestamp if the program's times are timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.model.values.event_times import FIRST_MOMENT, LAST_MOMENT

if TYPE_CHECKING:
    import pyarrow as pa

_EVENT = "id string, time {time}, type string, channel string, seq bigint"

_KINDS = {
    "late": f"{_EVENT}, event string, distance bigint, reason string",
    "rejected": f"{_EVENT}, reason string, raw string",
    "ledger": "operator string, counts string",
}
"""`event` is JSON; `distance` is how far the event is behind, at most 2^63 - 1, in microseconds if times are
timestamps. `raw` is the event or the text as it was read; a long one is truncated. `counts` is JSON: an
operator's counts so far, and its watermarks."""

_FROM = {"raw": "event", "operator": "reason", "counts": "value"}
"""The columns of a result row that have another name in frames."""


def describe_kind(kind: str, *, timestamped: bool) -> str:
    """Return the columns of a kind of rows as Spark DDL."""
    return _KINDS[kind].format(time=name_time_type(timestamped))


def read_event_schema(kind: str, *, timestamped: bool) -> pa.Schema:
    """Return the Arrow schema of a kind of rows."""
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}
    columns = [
        column.split() for column in describe_kind(kind, timestamped=timestamped).split(", ")
    ]
    return pa.schema([(name, types[type_]) for name, type_ in columns])


def convert_events(kind: str, rows: pa.Table | pa.RecordBatch, *, timestamped: bool) -> pa.Table:
    """Return the rows of a kind in its own columns."""
    import pyarrow as pa

    schema = read_event_schema(kind, timestamped=timestamped)
    columns = [rows.column(_FROM.get(name, name)) for name in schema.names]
    if "time" in schema.names:
        place = schema.names.index("time")
        columns[place] = convert_times(columns[place], timestamped=timestamped)
    return pa.table(columns, schema=schema)


def name_time_type(timestamped: bool) -> str:  # noqa: FBT001 - its only argument
    """Return the Spark type of the time of a row."""
    return "timestamp" if timestamped else "bigint"


def find_time_type(*, timestamped: bool) -> pa.DataType:
    """Return the Arrow type of the time of a row."""
    import pyarrow as pa

    return pa.timestamp("us", tz="UTC") if timestamped else pa.int64()


def convert_times(times: Any, *, timestamped: bool) -> Any:
    """Return a column of times in its type; times out of range give the first or last timestamp."""
    import pyarrow.compute as pc

    if not timestamped:
        return times
    after = pc.max_element_wise(times, FIRST_MOMENT, skip_nulls=False)
    return pc.min_element_wise(after, LAST_MOMENT, skip_nulls=False).cast(
        find_time_type(timestamped=True)
    )
