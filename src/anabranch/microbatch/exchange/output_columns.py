"""Output columns: the columns of outputs in frames and files, by the types of their program.

Result rows contain outputs as JSON, which compares to the bit; here it becomes columns of Arrow and Spark
types, once, where rows leave a query. `docs/result-columns.md` has the table of types.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.microbatch.exchange.event_columns import (
    convert_times,
    find_time_type,
    name_time_type,
)
from anabranch.microbatch.exchange.result_rows import encode_json
from anabranch.model.values import value_types as kinds
from anabranch.model.values.fields import encode_value, to_utc
from anabranch.model.values.output_types import UNKNOWN, OutputTypes
from anabranch.model.values.value_types import ValueType

if TYPE_CHECKING:
    import pyarrow as pa

Decode = Callable[[Any], Any]

OURS = ("id", "time", "op")
"""The library's columns of an output. If a field has the same name, the column gets an underscore in front."""

_DDL = {
    kinds.INT: "bigint", kinds.FLOAT: "double", kinds.BOOL: "boolean", kinds.STR: "string",
    kinds.BYTES: "binary", kinds.DECIMAL: f"decimal({kinds.PRECISION},{kinds.SCALE})",
    kinds.DATETIME: "timestamp", kinds.DATE: "date", kinds.TEXT: "string", kinds.JSON: "string",
}  # fmt: skip


@dataclass(frozen=True)
class OutputColumns:
    """The columns of a program's outputs; if `only` is the number of a type, of that type only."""

    types: OutputTypes = UNKNOWN
    only: int | None = None
    timestamped: bool = False
    """Whether the program's times are timestamps."""

    @property
    def shown(self) -> tuple[ValueType, ...]:
        """Return the types whose outputs are shown."""
        return self.types.types if self.only is None else (self.types.types[self.only],)

    @cached_property
    def fields(self) -> tuple[tuple[str, ValueType], ...]:
        """Return the names and types of the columns with the values of outputs."""
        shown = self.shown
        if not shown:
            return (("value", kinds.ANYTHING),)
        if len(shown) > 1:
            return tuple(zip(name_columns(shown), shown, strict=True))
        return shown[0].parts if shown[0].has_fields else (("value", shown[0]),)

    @cached_property
    def own(self) -> tuple[str, str, str]:
        """Return the names of the library's columns: id, time, op."""
        taken = {name.casefold() for name, _ in self.fields}
        names = []
        for own in OURS:
            free = own
            while free in taken:
                free = f"_{free}"
            names.append(free)
        return names[0], names[1], names[2]

    @property
    def ddl(self) -> str:
        """Return the columns as Spark DDL."""
        name, time, op = self.own
        ours = [f"`{name}` string", f"`{time}` {name_time_type(self.timestamped)}", f"`{op}` int"]
        return ", ".join([*ours, *(f"{_quote(n)} {spark_type(t)}" for n, t in self.fields)])

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns as an Arrow schema."""
        import pyarrow as pa

        time = find_time_type(timestamped=self.timestamped)
        ours = zip(self.own, (pa.string(), time, pa.int32()), strict=True)
        return pa.schema([*ours, *((name, arrow_type(t)) for name, t in self.fields)])

    def convert(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Return the output rows of a result in columns of their own."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.only is not None and len(self.types.types) > 1:
            rows = rows.filter(pc.equal(rows.column("form"), self.only))
        values = self._convert_values(rows.column("value"), rows.column("form"))
        time = convert_times(rows.column("time"), timestamped=self.timestamped)
        ours = [rows.column("id"), time, rows.column("op")]
        return pa.table([*ours, *values], schema=self.schema)

    def _convert_values(self, texts: Any, forms: Any) -> Sequence[pa.Array]:
        import pyarrow.compute as pc

        shown = self.shown
        if not shown:
            return [texts]
        if len(shown) == 1:
            array = read_texts(shown[0], texts)
            return array.flatten() if shown[0].has_fields else [array]
        columns = []
        for number, type_ in enumerate(shown):
            mine = pc.equal(forms, number)
            # The next value where an output is of this type, and null elsewhere.
            places = pc.subtract(pc.cumulative_sum(pc.cast(mine, "int64")), 1)
            own = pc.if_else(mine, places, None)
            columns.append(read_texts(type_, texts.filter(mine)).take(own))
        return columns

    def describe(self, row: dict[str, Any]) -> Any:
        """Return an output as JSON, from a row of its columns, in Arrow or in a JSON file.

        A JSON file omits columns without a value.
        """
        shown = self.shown
        if not shown:
            return json.loads(row["value"])
        if len(shown) == 1:
            return _describe(shown[0], row if shown[0].has_fields else row.get("value"))
        number = next(n for n, (name, _) in enumerate(self.fields) if row.get(name) is not None)
        return _describe(shown[number], row[self.fields[number][0]])

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputColumns, (self.types, self.only, self.timestamped)


def name_columns(types: Sequence[ValueType]) -> list[str]:
    """Return the names of the columns of several types; a name that is taken gets a number.

    Names are compared without case, as Spark compares them.
    """
    names: list[str] = []
    for type_ in types:
        base = name = type_.name.partition("[")[0]
        number = 1
        while name.casefold() in map(str.casefold, names):
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names


def spark_type(type_: ValueType) -> str:
    """Return a type as Spark DDL.

    >>> from anabranch.model.values.value_types import read_type
    >>> spark_type(read_type(dict[str, list[int]]))
    'map<string,array<bigint>>'
    """
    inner = [spark_type(part) for _, part in type_.parts]
    if type_.kind == kinds.ENUM:
        return inner[0]
    if type_.kind == kinds.LIST:
        return f"array<{inner[0]}>"
    if type_.kind == kinds.MAP:
        return f"map<{inner[0]},{inner[1]}>"
    if type_.has_fields:
        named = zip(type_.field_names, inner, strict=True)
        return f"struct<{','.join(f'{_quote(name)}:{kind}' for name, kind in named)}>"
    return _DDL[type_.kind]


def arrow_type(type_: ValueType) -> pa.DataType:
    """Return a type as an Arrow type."""
    import pyarrow as pa

    scalars = {
        kinds.INT: pa.int64(), kinds.FLOAT: pa.float64(), kinds.BOOL: pa.bool_(),
        kinds.BYTES: pa.binary(), kinds.DECIMAL: pa.decimal128(kinds.PRECISION, kinds.SCALE),
        kinds.DATETIME: pa.timestamp("us", tz="UTC"), kinds.DATE: pa.date32(),
    }  # fmt: skip
    inner = [arrow_type(part) for _, part in type_.parts]
    if type_.kind == kinds.ENUM:
        return inner[0]
    if type_.kind == kinds.LIST:
        return pa.list_(inner[0])
    if type_.kind == kinds.MAP:
        return pa.map_(inner[0], inner[1])
    if type_.has_fields:
        return pa.struct(list(zip(type_.field_names, inner, strict=True)))
    return scalars.get(type_.kind, pa.string())


def read_texts(type_: ValueType, texts: Any) -> pa.Array:
    """Return a column of JSON values as a column of their type."""
    import pyarrow as pa

    if len(texts) >= _MANY and _is_plain(type_):
        return _read_plain(type_, texts)
    found = json.loads(f"[{','.join(texts.to_pylist())}]")
    decode = _find_decoder(type_)
    if decode is not None:
        found = [None if value is None else decode(value) for value in found]
    return pa.array(found, arrow_type(type_))


_MANY = 64
"""From so many values on, Arrow's own JSON reader is faster in spite of its start-up time."""

_PLAIN = (kinds.INT, kinds.FLOAT, kinds.BOOL, kinds.STR, kinds.TEXT)


def _is_plain(type_: ValueType) -> bool:
    """Return whether Arrow's own JSON reader can read values of a type."""
    if type_.kind in (kinds.RECORD, kinds.LIST, kinds.ENUM):
        return bool(type_.parts) and all(_is_plain(part) for _, part in type_.parts)
    return type_.kind in _PLAIN


def _read_plain(type_: ValueType, texts: Any) -> pa.Array:
    """Return JSON values as a column, without a Python object for each."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import json as arrow_json

    texts = _join_chunks(texts)
    if type_.kind == kinds.INT and not type_.optional:
        return pc.cast(texts, pa.int64())
    lines = pc.binary_join_element_wise('{"v":', texts, "}\n", "")
    # All lines, concatenated; the last offset is their length.
    _, offsets, data = lines.buffers()
    end = memoryview(offsets).cast("i")[len(lines)]
    data = data.slice(0, end)
    schema = pa.schema([("v", arrow_type(type_))])
    table = arrow_json.read_json(
        pa.BufferReader(data),
        # One block: a value must not be split between two.
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema),
    )
    return _join_chunks(table.column("v"))


def _join_chunks(column: Any) -> pa.Array:
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _find_decoder(type_: ValueType) -> Decode | None:
    """Return a function from a JSON value to a value for Arrow; None if they are the same."""
    if type_.kind in _DECODERS:
        return _DECODERS[type_.kind]
    inner = [_find_decoder(part) for _, part in type_.parts]
    if type_.kind == kinds.ENUM:
        return inner[0]
    if type_.kind == kinds.LIST:
        return _decode_list(inner[0]) if inner[0] else None
    if type_.kind == kinds.MAP:
        return _decode_map(*(part or _keep for part in inner))
    if type_.kind == kinds.TUPLE:
        parts = [(name, part or _keep) for name, part in zip(type_.field_names, inner, strict=True)]
        return lambda value: {
            name: None if one is None else decode(one)
            for (name, decode), one in zip(parts, value, strict=True)
        }
    if type_.kind == kinds.RECORD and any(inner):
        named = [(name, part) for name, part in zip(type_.field_names, inner, strict=True) if part]
        return lambda value: {
            **value,
            **{n: None if value[n] is None else decode(value[n]) for n, decode in named},
        }
    return None


def _decode_list(decode: Decode) -> Decode:
    return lambda value: [None if one is None else decode(one) for one in value]


def _decode_map(decode_key: Decode, decode: Decode) -> Decode:
    def read(value: Any) -> list[tuple[Any, Any]]:
        pairs = value.items() if isinstance(value, dict) else value
        return [(decode_key(key), None if one is None else decode(one)) for key, one in pairs]

    return read


def _keep(value: Any) -> Any:
    return value


_DECODERS: dict[str, Decode] = {
    kinds.FLOAT: float,
    kinds.BYTES: base64.b64decode,
    kinds.DECIMAL: Decimal,
    kinds.DATETIME: lambda value: to_utc(datetime.fromisoformat(value)),
    kinds.DATE: date.fromisoformat,
    kinds.JSON: encode_json,
}


def _describe(type_: ValueType, value: Any) -> Any:
    """Return a value of a column as a JSON value."""
    if value is None:
        return None
    if type_.kind == kinds.JSON:
        return json.loads(value)
    if type_.kind == kinds.DECIMAL:
        text = f"{Decimal(value):f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if type_.kind == kinds.DATETIME and isinstance(value, datetime):
        return to_utc(value).isoformat()
    if type_.kind == kinds.ENUM:
        return _describe(type_.parts[0][1], value)
    if type_.kind == kinds.LIST:
        return [_describe(type_.parts[0][1], one) for one in value]
    if type_.kind == kinds.TUPLE:
        return [_describe(part, value.get(name)) for name, part in type_.parts]
    if type_.kind == kinds.RECORD:
        return {name: _describe(part, value.get(name)) for name, part in type_.parts}
    if type_.kind == kinds.MAP:
        (_, of_key), (_, of_value) = type_.parts
        found = value.items() if isinstance(value, dict) else value
        pairs = [(_describe(of_key, key), _describe(of_value, one)) for key, one in found]
        named = all(isinstance(key, str) for key, _ in pairs)
        return dict(pairs) if named else [list(pair) for pair in pairs]
    return encode_value(value)
