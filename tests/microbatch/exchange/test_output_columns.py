"""Output columns: every type of value into columns and back, and the names of columns."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pytest

from anabranch.microbatch.exchange.event_columns import convert_events, read_event_schema
from anabranch.microbatch.exchange.output_columns import OutputColumns, arrow_type, spark_type
from anabranch.microbatch.exchange.packed_rows import make_table, pack, unpack
from anabranch.microbatch.exchange.result_rows import describe_late, describe_output, encode_json
from anabranch.model.events import FOREVER, Event
from anabranch.model.values.output_types import OutputTypes
from anabranch.model.values.value_types import read_type


class Txn(NamedTuple):
    time: int


class Color(Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Inner(NamedTuple):
    a: int
    b: str | None


@dataclass(frozen=True)
class Total:
    id: str
    time: int


class Empty(NamedTuple):
    pass


TZ = timezone(timedelta(hours=2))
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - taken as UTC
VALUES = [
    (int, (1 << 63) - 1, "bigint", (1 << 63) - 1),
    (float, 3, "double", 3.0),
    (float, -0.1, "double", -0.1),
    (bool, True, "boolean", True),
    (str, "ü\n\0", "string", "ü\n\0"),
    (bytes, b"\x00\xff", "binary", b"\x00\xff"),
    (Decimal, Decimal("1.10"), "decimal(38,18)", Decimal("1.10")),
    (datetime, datetime(2026, 1, 1, 2, tzinfo=TZ), "timestamp", datetime(2026, 1, 1, tzinfo=UTC)),
    (datetime, NAIVE, "timestamp", datetime(2026, 1, 1, tzinfo=UTC)),
    (date, date(2026, 1, 2), "date", date(2026, 1, 2)),
    (Color, Color.RED, "string", "red"),
    (Size, Size.LARGE, "bigint", 3),
    (Literal["a", "b"], "b", "string", "b"),
    (Fraction, Fraction(1, 3), "string", "1/3"),
    (int | None, None, "bigint", None),
    (list[int | None], [1, None], "array<bigint>", [1, None]),
    (tuple[bytes, ...], (b"a",), "array<binary>", [b"a"]),
    (tuple[int, bytes], (1, b"a"), "struct<`_1`:bigint,`_2`:binary>", {"_1": 1, "_2": b"a"}),
    (dict[str, date], {"a": date(2026, 1, 2)}, "map<string,date>", [("a", date(2026, 1, 2))]),
    (dict[int, str], {3: "c"}, "map<bigint,string>", [(3, "c")]),
    (Inner, Inner(1, None), "struct<`a`:bigint,`b`:string>", {"a": 1, "b": None}),
    (list[Inner], [Inner(1, "x")], "array<struct<`a`:bigint,`b`:string>>", [{"a": 1, "b": "x"}]),
    (Any, {"z": [1, None]}, "string", '{"z":[1,null]}'),
]


def convert(types, values, only=None):
    found = OutputTypes(tuple(map(read_type, types)))
    rows = [
        describe_output(value, Event(Txn(n), "s", n), 0, (n, 0, "s", n), found)
        for n, value in enumerate(values)
    ]
    # Through a pack, as rows travel.
    packs = pa.record_batch({"pack": list(pack(make_table(rows)))})
    columns = OutputColumns(found, only)
    return columns, columns.convert(pa.Table.from_batches(unpack(packs)))


@pytest.mark.parametrize(("annotation", "value", "ddl", "expected"), VALUES, ids=repr)
def test_a_field_of_every_type_has_a_column_of_its_own(annotation, value, ddl, expected):
    record = NamedTuple("Record", [("field", annotation)])  # noqa: UP014 - the type is data
    columns, table = convert([record], [record(value)])
    assert spark_type(read_type(annotation)) == ddl
    assert table.schema == columns.schema
    assert table.column("field").type == arrow_type(read_type(annotation))
    assert table.column("field").to_pylist() == [expected]
    (row,) = table.to_pylist()
    back = columns.describe(row)["field"]
    normal = {Decimal: "1.1", datetime: "2026-01-01T00:00:00+00:00"}.get(annotation)
    assert back == (json.loads(encode_json(value)) if normal is None else normal)


def test_a_scalar_output_is_the_column_value():
    columns, table = convert([int], [4, 5])
    assert columns.ddl == "`id` string, `time` bigint, `op` int, `value` bigint"
    assert table.to_pylist() == [
        {"id": '[0,0,"s",0]#0', "time": 0, "op": 1, "value": 4},
        {"id": '[1,0,"s",1]#0', "time": 1, "op": 1, "value": 5},
    ]


def test_an_output_of_unknown_type_is_json():
    columns, table = convert([], [{"a": (1, 2)}])
    assert table.column("value").to_pylist() == ['{"a":[1,2]}']
    assert columns.describe(table.to_pylist()[0]) == {"a": [1, 2]}


def test_a_field_named_like_one_of_our_columns_keeps_its_name():
    columns, table = convert([Total], [Total("x", 7)])
    assert columns.own == ("_id", "_time", "op")
    assert table.to_pylist() == [
        {"_id": '[0,0,"s",0]#0', "_time": 0, "op": 1, "id": "x", "time": 7}
    ]


def test_several_types_have_a_column_each_or_a_frame_each():
    values = [Inner(1, "x"), Total("t", 2), Inner(3, None)]
    columns, table = convert([Inner, Total], values)
    assert table.column_names == ["id", "time", "op", "Inner", "Total"]
    assert table.column("Inner").to_pylist() == [{"a": 1, "b": "x"}, None, {"a": 3, "b": None}]
    assert table.column("Total").to_pylist() == [None, {"id": "t", "time": 2}, None]
    assert [columns.describe(row) for row in table.to_pylist()][1] == {"id": "t", "time": 2}
    _, selected = convert([Inner, Total], values, only=1)
    assert selected.select(["_time", "id", "time"]).to_pylist() == [
        {"_time": 1, "id": "t", "time": 2}
    ]


def test_an_output_without_fields_has_our_columns_only():
    columns, table = convert([Empty], [Empty()])
    assert table.column_names == ["id", "time", "op"]
    assert columns.describe(table.to_pylist()[0]) == {}


def test_a_late_event_has_its_distance_as_a_number_even_beyond_63_bits():
    rows = [describe_late(Event(Txn(-5), "s", 1), distance) for distance in (7, (1 << 63) + 5)]
    table = convert_events("late", make_table(rows), timestamped=False)
    assert table.schema == read_event_schema("late", timestamped=False)
    assert table.column("distance").to_pylist() == [7, FOREVER]
    assert table.column("event").to_pylist() == ['{"time":-5}'] * 2
    assert table.column("reason").to_pylist()[1].startswith(f"{(1 << 63) + 5} behind")


class Plain(NamedTuple):
    text: str
    whole: int
    number: float
    flag: bool
    maybe: int | None
    many: list[int]
    color: Color


NUMBERS = [
    float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308, (1 << 60) + 1,
    3, 0.1 + 0.2, 1e22,
]  # fmt: skip


def test_differential_many_values_are_read_as_few_are():
    values = [
        Plain(f'ü\n\0"\\{n}', (1 << 63) - 1 - n, NUMBERS[n % 10], n % 2 == 0, n or None, [n] * (n % 3), Color.RED)
        for n in range(200)
    ]  # fmt: skip
    _, many = convert([Plain], values)
    few = [
        row
        for n in range(0, 200, 10)
        for row in convert([Plain], values[n : n + 10])[1].to_pylist()
    ]
    fields = [{name: row[name] for name in Plain._fields} for row in many.to_pylist()]
    assert repr(fields) == repr([{name: row[name] for name in Plain._fields} for row in few])
    assert [row["number"] for row in fields[3:10]] == [-0.0, 5e-324, NUMBERS[5], float((1 << 60) + 1), 3.0, 0.1 + 0.2, 1e22]  # fmt: skip
    _, whole = convert([int], [(-1) ** n * ((1 << 63) - 1 - n) for n in range(100)])
    assert whole.column("value").to_pylist() == [
        (-1) ** n * ((1 << 63) - 1 - n) for n in range(100)
    ]
    _, mixed = convert([Plain, int], [value if n % 3 else n for n, value in enumerate(values)])
    assert mixed.column("int").to_pylist() == [None if n % 3 else n for n in range(200)]
    assert [one and one["text"] for one in mixed.column("Plain").to_pylist()] == [
        value.text if n % 3 else None for n, value in enumerate(values)
    ]


def test_types_of_one_name_have_columns_of_their_own():
    shown = OutputTypes((read_type(tuple[int, str]), read_type(tuple[str]), read_type(int)))
    columns = OutputColumns(shown)
    assert [name for name, _ in columns.fields] == ["tuple", "tuple_2", "int"]
    assert columns.describe({"tuple": None, "tuple_2": {"_1": "a"}, "int": None}) == ["a"]
