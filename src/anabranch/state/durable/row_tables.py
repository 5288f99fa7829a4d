"""Tables: entries of a state, or events, as rows that any Parquet reader supports.

A keyed state has a column `key`, followed by one column per field if the entry is a record, or else one
column `value`. A field with the name `key` becomes the column `value.key`, which is not a valid field name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from anabranch.state.durable.codec import Codec
from anabranch.state.durable.durable_names import CodecError
from anabranch.state.durable.kinds import Kind, Record
from anabranch.state.durable.value_columns import Records, from_arrow, to_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def to_table(
    key: Kind | None, entry: Kind, pairs: Iterable[tuple[Any, Any]], codec: Codec
) -> pa.Table:
    """Return pairs of key and entry as a table, in their order; with a key column only if `key` is given."""
    import pyarrow as pa

    keys, entries = [], []
    for one, value in pairs:
        keys.append(one)
        entries.append(value)
    columns = {} if key is None else {"key": to_arrow(key, keys, codec)}
    if not isinstance(entry, Record) or not entry.fields:
        return pa.table({**columns, "value": to_arrow(entry, entries, codec)})
    for field, kind in entry.fields:
        values = [getattr(value, field) for value in entries]
        columns[_name_column(field, key)] = to_arrow(kind, values, codec)
    return pa.table(columns)


def from_table(
    key: Kind | None, entry: Kind, table: pa.Table, records: Records, codec: Codec
) -> list[tuple[Any, Any]]:
    """Return the pairs of key and entry of a table; keys are None if it has no key column."""
    expected = name_columns(key, entry)
    if sorted(table.column_names) != sorted(expected):
        raise CodecError(
            "a table has other columns than its schema",
            expected=", ".join(expected),
            got=", ".join(table.column_names),
        )
    keys = [None] * len(table) if key is None else from_arrow(key, table["key"], records, codec)
    if isinstance(entry, Record) and entry.fields:
        import pyarrow as pa

        columns = [table[_name_column(field, key)].combine_chunks() for field, _ in entry.fields]
        names = [field for field, _ in entry.fields]
        struct = pa.StructArray.from_arrays(columns, names)
        return list(zip(keys, from_arrow(entry, struct, records, codec), strict=True))
    return list(zip(keys, from_arrow(entry, table["value"], records, codec), strict=True))


def name_columns(key: Kind | None, entry: Kind) -> list[str]:
    """Return the columns of a table, in order."""
    own = [] if key is None else ["key"]
    if isinstance(entry, Record) and entry.fields:
        return own + [_name_column(field, key) for field, _ in entry.fields]
    return [*own, "value"]


def _name_column(field: str, key: Kind | None) -> str:
    return "value.key" if field == "key" and key is not None else field
