"""Round trips of typed results: every type of field on both paths, through frames, Parquet, JSON and CSV."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Program, depends, on
from anabranch.errors import InputError
from anabranch.sinks import read_late, read_outputs, read_rejected, write_directory
from anabranch.sources import Files
from anabranch.state import Count, MapOf

pytestmark = pytest.mark.spark

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
FORMATS = ("parquet", "json", "csv")
HARD = [
    "plain",
    "",
    None,
    'a "quoted", text',
    "two\nlines\r\nand\rmore",
    " ü\\ ",
    "null",
    "\\N",
    "#",
]


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Plain(NamedTuple):
    """A field of each type that the columnar path has."""

    time: datetime
    number: int
    ratio: float
    flag: bool
    text: str | None
    seen: datetime
    day: date
    maybe: int | None


class Rich(NamedTuple):
    """A field of each other flat type, which take the row path."""

    time: datetime
    number: int
    price: Decimal
    data: bytes
    size: Size
    text: str | None
    some: Decimal | None
    raw: bytes | None


class PlainRow(NamedTuple):
    number: int
    ratio: float
    flag: bool
    text: str | None
    seen: datetime
    day: date
    maybe: int | None


class RichRow(NamedTuple):
    number: int
    price: Decimal
    data: bytes
    size: Size
    text: str | None
    some: Decimal | None
    raw: bytes | None


def show_plain(count, e: Plain) -> PlainRow:
    return PlainRow(e.number, e.ratio, e.flag, e.text, e.seen, e.day, e.maybe)


def show_rich(count, e: Rich) -> RichRow:
    return RichRow(e.number, e.price, e.data, e.size, e.text, e.some, e.raw)


def make_program(event_type, output):
    return Program(
        on(event_type, update=lambda count, e: count + 1, output=output),
        depends(event_type, event_type, same="number"),
        state=MapOf(Count(), by="number"),
    )


plain, rich = make_program(Plain, show_plain), make_program(Rich, show_rich)


def list_plain():
    ratios = [0.1, float("inf"), -float("inf"), -0.0, 5e-324, 1e300, 1.0, 2.5, -7.25]
    return [
        {
            "time": NOON + timedelta(seconds=n, microseconds=n), "number": n - 4, "ratio": ratios[n],
            "flag": n % 2 == 0, "text": HARD[n], "seen": NOON - timedelta(days=90 * n, microseconds=1),
            "day": date(1969 + 9 * n, 12, 31), "maybe": None if n % 3 else 2**62 + n,
        }
        for n in range(len(HARD))
    ]  # fmt: skip


def list_rich():
    digits = Decimal("12345678901234567890.123456789012345678")
    return [
        {
            "time": NOON + timedelta(seconds=n), "number": n, "price": digits if n % 2 else digits.copy_negate(),
            "data": bytes([n, 255, 0]) if n else b"", "size": ("small", "large")[n % 2],
            "text": HARD[n], "some": None if n % 2 else Decimal("0.5"), "raw": None if n % 2 else b"",
        }
        for n in range(len(HARD))
    ]  # fmt: skip


CASES = {
    "columnar": (plain, list_plain(), "require"),
    "row path": (plain, list_plain(), "never"),
    "rich": (rich, list_rich(), "never"),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request, tmp_path_factory, spark):
    """Return a case: its rows, its result, and a folder in each format."""
    from anabranch.spark import run

    program, rows, columnar = CASES[request.param]
    home = tmp_path_factory.mktemp(request.param)
    (home / "in").mkdir()
    # The last row lies a minute behind, and the one before it has no number.
    late = rows[0] | {"time": NOON - timedelta(minutes=1)}
    bad = rows[0] | {"time": NOON + timedelta(seconds=20), "number": None}
    end = rows[0] | {"time": NOON + timedelta(hours=1), "number": 99}
    pq.write_table(make_table(program, [*rows, bad, late, end]), home / "in" / "1.parquet")
    source = Files(home / "in", format="parquet", lateness="1 s")
    result = run(program, source, spark=spark, shards=1, columnar=columnar)
    for format_ in FORMATS:
        write_directory(
            result,
            output=home / format_,
            checkpoint=home / f"{format_}-checkpoint",
            format=format_,
            available_now=True,
        ).awaitTermination()
    return program, rows, home


def make_table(program, rows):
    stamp = pa.timestamp("us", "UTC")
    types = {
        int: pa.int64(), float: pa.float64(), bool: pa.bool_(), datetime: stamp, date: pa.date32(),
        Decimal: pa.decimal128(38, 18), bytes: pa.binary(), Size: pa.string(), str | None: pa.string(),
        int | None: pa.int64(), Decimal | None: pa.decimal128(38, 18), bytes | None: pa.binary(),
    }  # fmt: skip
    (event_type,) = program.inputs
    schema = pa.schema([(n, types[t]) for n, t in event_type.__annotations__.items()])
    return pa.Table.from_pylist(rows, schema)


def collect(frame, *order):
    """Return the rows of a frame, with their timestamps in UTC."""
    table = frame.orderBy(*order).toArrow()
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            column = table.column(place).cast(pa.timestamp("us", "UTC"))
            table = table.set_column(place, field.name, column)
    return table.to_pylist()


@pytest.mark.parametrize("format_", FORMATS)
def test_every_type_of_field_is_read_back_as_it_was(spark, case, format_):
    _, rows, home = case
    outputs = read_outputs(spark, home / format_)
    assert dict(outputs.dtypes)["time"] == "timestamp"
    found = collect(outputs.drop("id", "op", "batch"), "time")
    assert found == rows
    # -0.0 equals 0.0.
    assert [str(row.get("ratio")) for row in found] == [str(row.get("ratio")) for row in rows]
    assert {row.op for row in outputs.select("op").collect()} == {1}


@pytest.mark.parametrize("format_", FORMATS)
def test_late_and_rejected_rows_have_timestamps(spark, case, format_):
    (_, rows, home), early = case, NOON - timedelta(minutes=1)
    (late,) = collect(read_late(spark, home / format_), "seq")
    last = rows[-1]["time"] - timedelta(seconds=1, microseconds=1)
    behind = last - early
    assert late["time"] == early
    assert late["distance"] == behind // timedelta(microseconds=1)
    assert json.loads(late["event"])["time"] == early.isoformat()
    (rejected,) = collect(read_rejected(spark, home / format_), "seq")
    assert rejected["time"] is None or rejected["time"] == NOON + timedelta(seconds=20)
    assert "field 'number' of" in rejected["reason"]


def test_frames_have_the_columns_of_files(spark, case):
    from anabranch.spark import run

    program, _, home = case
    source = Files(home / "in", format="parquet", lateness="1 s")
    result = run(program, source, spark=spark, shards=1)
    for frame, read in ((result.outputs, read_outputs), (result.late, read_late)):
        assert frame.schema == read(spark, home / "csv").drop("batch").schema
    assert result.rejected.schema == read_rejected(spark, home / "csv").drop("batch").schema


def test_files_have_times_that_other_programs_can_read(case):
    _, rows, home = case
    table = pq.read_table(next(home.glob("parquet/batch=0/outputs/*.parquet")))
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")
    lines = next(home.glob("json/batch=0/outputs/*.json")).read_text().splitlines()
    times = [json.loads(line)["time"] for line in lines]
    assert times == [row["time"].isoformat() for row in rows]
    text = next(home.glob("csv/batch=0/outputs/*.csv")).read_text()
    places = [
        text.index(f'"{row["time"].isoformat(timespec="microseconds")[:26]}Z"') for row in rows
    ]
    assert all(a < b for a, b in pairwise(places))


class Nested(NamedTuple):
    number: int
    words: list[str]


class Other(NamedTuple):
    number: int


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (Nested, "field 'words' of the outputs can't be written as CSV"),
        ((RichRow, Other), "a program with several output types can't be written as CSV"),
        (list[int], "field 'value' of the outputs can't be written as CSV"),
    ],
)
def test_nested_outputs_are_refused_as_csv_by_name(spark, tmp_path, output, message):
    from anabranch.spark import run

    (tmp_path / "in").mkdir()
    program = Program(
        on(Rich, update=lambda n, e: n, output=lambda n, e: None),
        depends(Rich, Rich),
        init=0,
        outputs=output,
    )
    result = run(program, Files(tmp_path / "in", format="json"), spark=spark, shards=1)
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(InputError, match=message):
        write_directory(result, **places, format="csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_an_unknown_format_is_refused(spark, tmp_path):
    from anabranch.spark import run

    (tmp_path / "in").mkdir()
    result = run(plain, Files(tmp_path / "in", format="json"), spark=spark, shards=1)
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(InputError, match="'orc' is no format"):
        write_directory(result, **places, format="orc")
