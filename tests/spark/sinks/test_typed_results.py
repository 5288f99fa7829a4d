"""Typed results on Spark: frames, Parquet and JSON of every type, several types, other types."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import pytest

from anabranch import Program, depends, on
from anabranch.errors import InputError
from anabranch.eventtime.windows.window_types import Tumbling
from anabranch.query import Result as WindowResult
from anabranch.query import aggregate
from anabranch.state import Count, Max, Sum

pytestmark = pytest.mark.spark


class Color(Enum):
    RED = "red"


class Txn(NamedTuple):
    time: int
    n: int


class Inner(NamedTuple):
    a: int
    b: str | None


class Rich(NamedTuple):
    time: int
    x: float
    text: str
    flag: bool
    raw: bytes
    price: Decimal
    at: datetime
    day: date
    color: Color
    pair: tuple[int, str]
    many: list[int]
    named: dict[str, int]
    inner: Inner | None
    whatever: Any


@dataclass(frozen=True)
class Total:
    total: int


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def tell(total, txn) -> list[Rich | Total]:
    rich = Rich(
        txn.time, txn.n / 2, "ü", True, b"\x00\xff", Decimal("1.10"), NOON, date(2026, 1, 2),
        Color.RED, (1, "x"), [1, 2], {"a": 1}, Inner(txn.n, None) if txn.n % 2 else None, {"z": [1]},
    )  # fmt: skip
    return [rich, Total("none" if txn.n == 2 else total)]


rich = Program(on(Txn, update=lambda n, txn: n + txn.n, output=tell), depends(Txn, Txn), init=0)

RICH = (
    "struct<time:bigint,x:double,text:string,flag:boolean,raw:binary,price:decimal(38,18),"
    "at:timestamp,day:date,color:string,pair:struct<_1:bigint,_2:string>,many:array<bigint>,"
    "named:map<string,bigint>,inner:struct<a:bigint,b:string>,whatever:string>"
)


def bring(spark, program, count=4, **options):
    from anabranch.spark import Frame, run

    rows = [(n, n, n) for n in range(count)]
    frame = spark.createDataFrame(rows, "seq long, time long, n long").coalesce(1)
    return run(program, [Frame(frame, channel="s", event=Txn, seq="seq")], shards=1, **options)


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_outputs_of_every_type_come_out_of_frames_and_files_as_they_are(spark, tmp_path, format_):
    from anabranch.spark import read_outputs, read_rejected
    from anabranch.spark.sinks.directory import publish

    result = bring(spark, rich)
    publish(result, 0, tmp_path, format_)
    published = read_outputs(spark, tmp_path)
    for frame in (result.outputs, published):
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        types.pop("batch", None)
        assert types == {
            "id": "string", "time": "bigint", "op": "int", "Rich": RICH, "Total": "struct<total:bigint>",
        }  # fmt: skip
        found = frame.selectExpr("id", "Rich", "Total", "unix_micros(Rich.at) AS micros")
        emitted = sorted(found.toArrow().to_pylist(), key=lambda row: row["id"])
        assert [row["Total"] for row in emitted] == [
            None,
            {"total": 0},
            None,
            {"total": 0},
            None,
            {"total": 1},
        ]
        third = emitted[2]
        assert third["micros"] == NOON.timestamp() * 1_000_000
        expected = {
            "x": 0.5, "text": "ü", "flag": True, "raw": b"\x00\xff", "price": Decimal("1.1"),
            "day": date(2026, 1, 2), "color": "red", "pair": {"_1": 1, "_2": "x"}, "many": [1, 2],
            "named": [("a", 1)], "inner": {"a": 1, "b": None}, "whatever": '{"z":[1]}',
        }  # fmt: skip
        assert {name: third["Rich"][name] for name in expected} == expected
        assert emitted[0]["Rich"]["inner"] is None
    rejected = read_rejected(spark, tmp_path).collect()
    assert [(row.seq, json.loads(row.raw)) for row in rejected] == [(2, {"time": 2, "n": 2})]
    line = tell.__code__.co_firstlineno
    assert rejected[0].reason == (
        "on Txn: OutputTypeError: an output is not of its annotated type: field 'total' of Total: "
        f"expected int, got 'none' (str) (test_typed_results.py:{line})"
    )


def test_one_of_several_types_is_selected_with_its_own_columns(spark):
    result = bring(spark, rich, 2)
    totals = result.select(Total).orderBy("time").collect()
    assert [row.asDict() for row in totals] == [
        {"id": f'[{n},0,"s",{n}]#1', "time": n, "op": 1, "total": 0} for n in (0, 1)
    ]
    assert result.select(Rich).columns[:5] == ["id", "_time", "op", "time", "x"]
    with pytest.raises(InputError, match="Inner is no type of the program's outputs"):
        result.select(Inner)


def test_windows_have_their_columns_by_construction_on_both_paths(spark):
    program = aggregate(
        Txn, Tumbling(2), per="n", seen=Count(), total=(Sum(), "n"), top=(Max(), "n")
    )
    for columnar in ("require", "never"):
        outputs = bring(spark, program, 3, columnar=columnar).outputs
        value = outputs.schema["value"].dataType.simpleString()
        assert value == "struct<seen:bigint,total:bigint,top:bigint>"
        assert outputs.columns[:4] == ["id", "_time", "_op", "key"]
        rows = outputs.orderBy("end", "key").select("key", "start", "end", "value.*").collect()
        assert [tuple(row) for row in rows] == [
            (0, 0, 2, 1, 0, 0), (1, 0, 2, 1, 1, 1), (2, 2, 4, 1, 2, 2),
        ]  # fmt: skip
        assert set(WindowResult._fields) < {*outputs.columns}
