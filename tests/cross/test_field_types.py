"""Every type of field, from every format, on every runtime: an update sees the same value of the same type."""

import csv
import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Event, EventTime, Program, depends, on
from anabranch.errors import ProgramError
from anabranch.eventtime.channels import end_channels
from anabranch.microbatch.exchange.result_rows import encode_json
from anabranch.microbatch.ingest.file_rows import Folder, read_rows, take_in_rows
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.query import aggregate
from anabranch.reference.event_files import read_items
from anabranch.reference.sequential import run
from anabranch.sources import Channel
from anabranch.sources.files import Files, Taken, list_files
from anabranch.state import Count, MapOf
from anabranch.windows import Tumbling
from tests.microbatch.test_microbatches import Engine


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(NamedTuple):
    x: int
    y: float


class Everything(NamedTuple):
    at: EventTime[datetime]
    seen: datetime
    day: date
    price: Decimal
    name: str
    data: bytes
    place: Place
    event_types: list[str]
    counts: dict[str, int]
    maybe: int | None
    colour: Colour
    ok: bool
    ratio: float
    n: int
    pause: timedelta
    id: UUID


EAST = timezone(timedelta(hours=2))
NOON = datetime(2026, 7, 1, 12, 0, 0, 250_000, tzinfo=UTC)
EVENTS = [
    Everything(
        NOON, NOON.replace(microsecond=0), date(2026, 2, 28), Decimal("12.50"), "é", b"\x00\xff",
        Place(1, 0.5), ["a", "b"], {"k": 3}, 7, Colour.RED, True, 0.25, 1 << 60,
        timedelta(minutes=1, microseconds=5), UUID(int=1),
    ),
    Everything(
        NOON + timedelta(microseconds=1), NOON - timedelta(days=1), date(1969, 12, 31),
        Decimal("-0.01"), "", b"", Place(-1, 2.0), [], {}, None, Colour.BLUE, False, -1.5, -1,
        timedelta(0), UUID(int=1 << 127),
    ),
]  # fmt: skip

PLAIN = {
    "at": pa.timestamp("us", "UTC"),
    "seen": pa.timestamp("us", "Europe/Berlin"),
    "day": pa.date32(),
    "price": pa.decimal128(10, 2),
    "name": pa.string(),
    "data": pa.binary(),
    "place": pa.struct([("x", pa.int64()), ("y", pa.float64())]),
    "event_types": pa.list_(pa.string()),
    "counts": pa.map_(pa.string(), pa.int64()),
    "maybe": pa.int64(),
    "colour": pa.string(),
    "ok": pa.bool_(),
    "ratio": pa.float64(),
    "n": pa.int64(),
    "pause": pa.duration("us"),
    "id": pa.string(),
}
READING = Reading(event_type="Everything", channel="input")


def show(count, event):
    """Say every field with its type."""
    return [(name, type(value).__name__, repr(value)) for name, value in event._asdict().items()]


def make_program():
    return Program(on(Everything, update=lambda n, event: n + 1, output=show), state=Count())


EXPECTED = sorted(emitted for event in EVENTS for emitted in show(0, event))


def to_columns(event):
    row = event._asdict()
    return row | {
        "place": row["place"]._asdict(),
        "colour": row["colour"].value,
        "id": str(row["id"]),
    }


def to_text(event):
    row = to_columns(event)
    moments = {"at": row["at"].astimezone(EAST).isoformat(), "seen": row["seen"].isoformat()[:-6]}
    return row | moments | {
        "day": row["day"].isoformat(),
        "price": str(row["price"]),
        "pause": {60_000_005: "1 min 5 us", 0: "PT0S"}[row["pause"] // timedelta(microseconds=1)],
        "data": {b"\x00\xff": "AP8=", b"": ""}[row["data"]],
    }  # fmt: skip


def write_json(path):
    path.write_text("".join(json.dumps(to_text(event)) + "\n" for event in EVENTS))


def write_csv(path):
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(Everything._fields))
        writer.writeheader()
        for event in EVENTS:
            row = to_text(event)
            nested = {name: json.dumps(row[name]) for name in ("place", "event_types", "counts")}
            quoted = {"name": row["name"] or " ", "data": row["data"] or "AP8="}
            writer.writerow(row | nested | quoted | {"ok": str(row["ok"]).lower()})


def make_table():
    rows = [to_columns(event) for event in EVENTS]
    return pa.table(
        {
            name: pa.array(
                [list(row[name].items()) if name == "counts" else row[name] for row in rows], kind
            )
            for name, kind in PLAIN.items()
        }
    )


def write_parquet(path):
    pq.write_table(make_table(), path)


def write_arrow(path):
    table = make_table()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)


FORMATS = {"json": write_json, "csv": write_csv, "parquet": write_parquet, "arrow": write_arrow}


def expect(form):
    if form != "csv":
        return EXPECTED
    # An empty cell is no value, in CSV; so the text and the bytes that are empty are others there.
    events = [EVENTS[0], EVENTS[1]._replace(name=" ", data=b"\x00\xff")]
    return sorted(emitted for event in events for emitted in show(0, event))


@pytest.mark.parametrize("form", FORMATS)
def test_the_reference_reads_every_type(tmp_path, form):
    path = tmp_path / f"input.{form}"
    FORMATS[form](path)
    answer = run(make_program(), end_channels(read_items(make_program(), [str(path)])))
    assert answer.rejected == []
    assert sorted(answer.values) == expect(form)


@pytest.mark.parametrize("form", FORMATS)
def test_shards_read_every_type(tmp_path, form):
    FORMATS[form](tmp_path / f"0.{form}")
    engine = Engine(make_program(), [Channel("input", lateness="1 s")], 1)
    folder = Folder(Files(tmp_path, format=form), READING)
    engine.job = replace(engine.job, ended=True)
    engine.batch_of(
        [
            envelope
            for batches in read_rows(engine.job, folder, list_files(folder.files, Taken()))
            for envelope in take_in_rows(engine.job, folder, batches)
        ]
    )
    assert [row.reason for row in engine.emitted if row.kind == "rejected"] == []
    emitted = [tuple(json.loads(row.value)) for row in engine.emitted if row.kind == "output"]
    assert sorted(emitted) == expect(form)


class Rocket:
    """A class that no row of a file can fill."""


class Launch(NamedTuple):
    time: int
    rockets: list[Rocket]


def test_a_field_that_no_row_can_fill_is_refused_by_its_name(message, tmp_path):
    program = Program(on(Launch, update=lambda n, event: n + 1), state=Count())
    with pytest.raises(ProgramError) as refusal:
        read_items(program, [str(tmp_path / "input.jsonl")])
    message("field_that_no_row_can_fill", str(refusal.value))


@pytest.mark.spark
def test_spark_reads_every_type_of_a_frame(spark, tmp_path):
    from anabranch.spark import Frame
    from anabranch.spark import run as run_on_spark

    write_parquet(tmp_path / "0.parquet")
    frame = spark.read.parquet(str(tmp_path)).selectExpr(
        "* EXCEPT (pause)",
        "make_dt_interval(0, 0, 0, CAST(pause AS DECIMAL(18, 6)) / 1000000) AS pause",
        "row_number() OVER (ORDER BY at) AS seq",
    )
    source = Frame(frame, channel="input", event=Everything, seq="seq", lateness="1 s")
    rows = run_on_spark(make_program(), [source], shards=1).rows.collect()
    assert [row.reason for row in rows if row.kind == "rejected"] == []
    emitted = [tuple(json.loads(row.value)) for row in rows if row.kind == "output"]
    assert sorted(emitted) == EXPECTED


class Visit(NamedTuple):
    at: EventTime[datetime]
    user: str


@pytest.mark.spark
def test_windows_of_timestamps_take_the_columnar_path_on_spark(spark, tmp_path):
    from anabranch.spark import Frame
    from anabranch.spark import run as run_on_spark

    program = aggregate(Visit, Tumbling("10 min"), per="user", n=Count())
    events = [Visit(NOON + timedelta(minutes=n), "xy"[n % 2]) for n in range(20)]
    table = pa.table(
        {
            "at": pa.array([event.at for event in events], pa.timestamp("us", "UTC")),
            "user": [event.user for event in events],
        }
    )
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    items = end_channels([Event(event, "input", n) for n, event in enumerate(events)])
    expected = sorted(encode_json(value) for value in run(program, items).values)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.read.parquet(str(tmp_path / "in"))
        numbered = frame.selectExpr("at", "user", "row_number() OVER (ORDER BY at) seq")
        sources = [
            Files(
                tmp_path / "in",
                format="parquet",
                ended=True,
                channel="input",
                event=Visit,
                lateness="1 s",
            ),
            Frame(numbered, channel="input", event=Visit, seq="seq", lateness="1 s"),
        ]
        for source in sources:
            result = run_on_spark(program, [source], shards=1, columnar="require")
            rows = result.rows.collect()
            assert sorted(row.value for row in rows if row.kind == "output") == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


class Slip(NamedTuple):
    at: EventTime[datetime]
    user: str
    day: date | None
    n: int | None
    note: str | None


TIMES = [
    "2026-07-01T12:00:00Z",
    "2026-07-01 14:00:00.5+02:00",
    "2026-07-01T12:00:01",
    "2026-07-01T12:00:01.123456",
    "20260701T120002Z",
    "2026-W27-3T12:00:03+00:00",
    "2026-07-01",
    "2026-07-01T12:00:04.1234567Z",
    "2026-02-30T12:00:00Z",
    "noon",
    "9999-12-31T23:59:59-01:00",
    "2026-07-01T12:00:05+00:00",
]
OTHERS = [
    {"day": "2026-07-01", "n": 1, "note": "a"},
    {"day": None, "n": None, "note": None},
    {"day": "1969-12-31", "n": None, "note": "b"},
    {"day": "2026-13-01", "n": 2, "note": "c"},
]


def write_slips(path, form, times):
    rows = [{"at": t, "user": "x", **OTHERS[n % 4]} for n, t in enumerate(times * 4)]
    if form == "json":
        # A field that is missing is another thing than a null.
        lines = [{k: v for k, v in row.items() if n % 5 or v} for n, row in enumerate(rows)]
        path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    elif form == "csv":
        with path.open("w", newline="") as out:
            writer = csv.DictWriter(out, list(Slip._fields))
            writer.writeheader()
            writer.writerows(rows)
    else:
        table = pa.table({name: [row[name] for row in rows] for name in Slip._fields})
        if form == "typed":
            moments = pa.array([datetime.fromisoformat(t[:19]) for t in times] * 4)
            days = pa.array([None, date(2026, 7, 1)] * (len(rows) // 2))
            table = table.set_column(0, "at", moments.cast(pa.timestamp("ms")))
            table = table.set_column(2, "day", days)
        pq.write_table(table, path)


@pytest.mark.parametrize("times", [TIMES, TIMES[:4]], ids=["odd", "plain"])
@pytest.mark.parametrize("form", ["json", "csv", "parquet", "typed"])
def test_columns_hold_what_rows_hold(tmp_path, form, times):
    times = [TIMES[0], TIMES[-1]] if form == "typed" else times
    kind = "parquet" if form == "typed" else form
    write_slips(tmp_path / f"0.{kind}", form, times)
    program = Program(
        on(Slip, update=lambda n, slip: n + 1, output=lambda n, slip: n),
        depends(Slip, Slip, same="user"),
        state=MapOf(Count(), by="user"),
    )
    sides = []
    for columns in (False, True):
        engine = Engine(program, [Channel("input", lateness="400000 w")], 1, columns=columns)
        assert (engine.columns is not None) == columns
        engine.job = replace(engine.job, ended=True)
        folder = Folder(Files(tmp_path, format=kind), replace(READING, event_type="Slip"))
        engine.batch_of(
            [
                envelope
                for batches in read_rows(engine.job, folder, list_files(folder.files, Taken()))
                for envelope in take_in_rows(engine.job, folder, batches)
            ]
        )
        sides.append(
            sorted((r.kind, r.seq, r.time, r.event, r.reason or "") for r in engine.emitted)
        )
    assert sides[0] == sides[1]
    assert [row[0] for row in sides[0]].count("output") >= 4
