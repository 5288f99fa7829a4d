"""Event columns: the columns of late and of rejected events in frames and files, and those of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_EVENT = "id string, time bigint, type string, channel string, seq bigint"

LATE = f"{_EVENT}, event string, distance bigint, reason string"
"""`event` is JSON; `distance` is how far the event is behind, at most 2^63 - 1."""

REJECTED = f"{_EVENT}, reason string, raw string"
"""`raw` is the event or the text as it was read; a long one is truncated."""

LEDGER = "operator string, counts string"
"""`counts` is JSON: an operator's counts so far, and its watermarks."""

KINDS = {"late": LATE, "rejected": REJECTED, "ledger": LEDGER}

_FROM = {"raw": "event", "operator": "reason", "counts": "value"}
"""The columns of a result row that have another name in frames."""


def read_event_schema(kind: str) -> pa.Schema:
    """Return the Arrow schema of a kind of rows."""
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64()}
    columns = [column.split() for column in KINDS[kind].split(", ")]
    return pa.schema([(name, types[type_]) for name, type_ in columns])


def convert_events(kind: str, rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return the rows of a kind in its own columns."""
    import pyarrow as pa

    schema = read_event_schema(kind)
    return pa.table([rows.column(_FROM.get(name, name)) for name in schema.names], schema=schema)
