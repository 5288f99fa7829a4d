"""CSV files of results, and the options with which Spark reads them with the same types.

A text is always quoted, so that an empty text differs from null, which is an empty field. Timestamps are
ISO 8601 in UTC, and bytes are base64. CSV has no nested values: such columns are refused by name.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.microbatch.exchange.output_columns import OutputColumns, spark_type
from anabranch.model.values import value_types as kinds
from anabranch.model.values.value_types import ValueType

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

READ_OPTIONS = {
    "header": "true", "multiLine": "true", "quote": '"', "escape": '"', "lineSep": "\n",
    "nullValue": "\x01null\x01", "emptyValue": "",
    "nanValue": "nan", "positiveInf": "inf", "negativeInf": "-inf", "mode": "FAILFAST",
}  # fmt: skip
"""The options of Spark's CSV reader for these files.

Spark reads an empty field that is not quoted as its null value, and a text that equals the null value as
null. So the null value is one that no text has.
"""

_NESTED = frozenset({kinds.LIST, kinds.MAP, kinds.TUPLE, kinds.RECORD})


def check_flat(columns: OutputColumns, *, cure: str) -> None:
    """Raise `InputError` with the name of the first column that CSV can't represent."""
    if len(columns.shown) > 1:
        raise InputError(
            "a program with several output types can't be written as CSV",
            expected="one output type, whose fields are the columns",
            got=" and ".join(name for name, _ in columns.fields),
            cure=f"{cure}; or write result.select(TYPE) of each type",
        )
    for name, type_ in columns.fields:
        if _find_kind(type_) in _NESTED:
            raise InputError(
                f"field {name!r} of the outputs can't be written as CSV",
                expected="fields without nested values: numbers, texts, times, enums",
                got=f"{name}: {spark_type(type_)}",
                cure=cure,
            )


def write_csv(table: pa.Table, file: Path | IO[bytes]) -> None:
    """Write a table of flat columns as CSV with a header."""
    import pyarrow as pa
    from pyarrow import csv

    columns = [_spell(column.combine_chunks()) for column in table.columns]
    csv.write_csv(pa.table(columns, names=table.column_names), file)


def _find_kind(type_: ValueType) -> str:
    return _find_kind(type_.parts[0][1]) if type_.kind == kinds.ENUM else type_.kind


def _spell(column: pa.Array) -> pa.Array:
    """Return a column in the form that CSV has for it."""
    import base64

    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        return pc.replace_substring(column.cast(pa.string()), " ", "T")
    if pa.types.is_binary(column.type):
        texts = (v if v is None else base64.b64encode(v).decode() for v in column.to_pylist())
        return pa.array(list(texts), pa.string())
    return column
