"""Reading part files: the rows of a published batch as Arrow tables, with the types that they were written with."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def read_part(file: Path, schema: pa.Schema) -> pa.Table:
    """Return the rows of a part file in Parquet, JSON lines or CSV, with the columns of a schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.suffix == ".parquet":
        return pq.ParquetFile(file).read()
    rows = _read_csv(file, schema) if file.suffix == ".csv" else _read_lines(file)
    columns = [
        pa.array([_lift(row.get(field.name), field.type) for row in rows], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _read_csv(file: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    """Return the rows of a CSV file as texts; an empty field that is not quoted is None."""
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(
        column_types=dict.fromkeys(schema.names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = csv.ParseOptions(newlines_in_values=True)
    table = csv.read_csv(file, parse_options=parse, convert_options=options)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _lift(value: Any, kind: pa.DataType) -> Any:
    """Return a value of JSON, or a text of CSV, as a value of an Arrow type."""
    import pyarrow as pa

    types = pa.types
    if value is None:
        return None
    if types.is_struct(kind):
        return {part.name: _lift(value.get(part.name), part.type) for part in kind}
    if types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(_lift(key, kind.key_type), _lift(one, kind.item_type)) for key, one in pairs]
    if types.is_list(kind):
        return [_lift(one, kind.value_type) for one in value]
    if types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    if types.is_date(kind):
        return date.fromisoformat(value)
    if types.is_decimal(kind):
        return Decimal(value)
    if types.is_binary(kind):
        return base64.b64decode(value)
    if types.is_floating(kind):
        return float(value)
    if types.is_boolean(kind):
        return value if isinstance(value, bool) else value == "true"
    return int(value) if types.is_integer(kind) else value
