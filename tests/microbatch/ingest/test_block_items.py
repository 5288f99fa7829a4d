"""Blocks read in bulk: the items are those that the row reader returns for each row, in the same order."""

import csv
import io
import json
import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, EventTime, Heartbeat, Malformed, Program, depends, on
from anabranch.eventtime.channels import Channel
from anabranch.microbatch.exchange.envelopes import Carried, pack_events, unpack_events
from anabranch.microbatch.ingest import block_items
from anabranch.microbatch.ingest.block_columns import select_lines
from anabranch.microbatch.ingest.block_items import read_block
from anabranch.microbatch.ingest.file_rows import list_columns, number_rows
from anabranch.microbatch.ingest.row_reader import Reading, read_row
from anabranch.microbatch.job.job import Job
from anabranch.model.values.field_lists import read_list
from anabranch.model.values.fields import Unfit, read_text, read_value
from anabranch.plan.layouts import choose_layout
from anabranch.sources.arrow_tables import clean_batch, read_batch
from anabranch.sources.files import Files, Taken, list_files, read_file
from anabranch.sources.json_objects import parse_objects
from anabranch.sources.raw_rows import is_blank
from anabranch.sources.text_lines import parse_object
from anabranch.state import Count
from anabranch.state.durable.codec import make_codec

pa = pytest.importorskip("pyarrow")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Place(NamedTuple):
    x: int
    y: float = 0.5


@dataclass(frozen=True)
class Size:
    width: int
    height: int | None = None


class Everything(NamedTuple):
    at: EventTime[datetime]
    seen: datetime
    day: date
    price: Decimal
    name: str
    data: bytes
    place: Place
    tags: list[str]
    counts: dict[str, int]
    maybe: int | None
    colour: Colour
    level: Level
    ok: bool
    ratio: float
    n: int
    pause: timedelta
    id: UUID
    size: Size
    side: Literal["left", "right"]
    rest: Any = None
    note: str = "none"
    parts: tuple[int, ...] = ()


class Plain(NamedTuple):
    time: int
    name: str
    n: int
    ratio: float
    ok: bool
    maybe: float | None


@dataclass(frozen=True)
class Checked:
    time: int
    n: int
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.n == 7:
            raise ValueError("seven")


CHANNELS = {name: Channel(name, lateness=None) for name in ("s", "t")}


def make_job(*event_types: type) -> Job:
    program = Program(
        *(on(event_type, update=lambda n, e: n + 1) for event_type in event_types),
        *(depends(a, b) for a in event_types for b in event_types),
        state=Count(),
    )
    return Job(program, choose_layout(program, 1), CHANNELS, make_codec(program))


COUNTED = make_job(Plain, Checked)
TIMED = make_job(Everything)
EAST = timezone(timedelta(hours=2))
NOON = datetime(2026, 7, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def draw_row(rng: random.Random, event_type: type) -> dict[str, Any]:
    """Return a good row, as JSON values."""
    n = rng.randrange(1 << 40)
    moment = (NOON + timedelta(seconds=n % 10_000)).astimezone(rng.choice([UTC, EAST]))
    if event_type is Plain:
        return {"time": n, "name": rng.choice(["a", "é", "", "x" * 50]), "n": -n, "ratio": n / 7, "ok": n % 2 == 0,
                "maybe": rng.choice([None, 1.5, 2])}  # fmt: skip
    if event_type is Checked:
        return {"time": n, "n": rng.choice([1, 7]), **({"tags": ["a"]} if n % 2 else {})}
    return {
        "at": moment.isoformat(), "seen": moment.isoformat()[:19], "day": "2026-02-28",
        "price": str(n / 100), "name": rng.choice(["a", "é", '"'])*3, "data": "AP8=",
        "place": {"x": n, **({"y": 1} if n % 2 else {})}, "tags": ["a"] * rng.randrange(3),
        "counts": {"k": n} if n % 3 else {}, "maybe": rng.choice([None, n]), "colour": rng.choice(["red", "blue"]),
        "level": rng.choice([1, 2]), "ok": True, "ratio": rng.choice([n, n / 3]), "n": n, "pause": "5 s",
        "id": str(UUID(int=n)), "size": {"width": 1, **({"height": None} if n % 2 else {})},
        "side": rng.choice(["left", "right"]),
        **({"rest": rng.choice([None, 1, [1, "x"], {"a": 1.5}])} if n % 2 else {}),
        **({"note": "x"} if n % 3 else {}), **({"parts": [1, 2]} if n % 5 else {}),
    }  # fmt: skip


ODD = [None, True, 1, -0.0, 1.5, 1 << 63, -(1 << 63), 1 << 70, "x", "", "1", "true", "2026-01-01", [], [1, "x"], {}, {"x": "y"},
       "x" * 3000, "9999-12-31T23:59:59-12:00", "red", "\ud800", [[["a", 1], ["a", 2]]], "AP8", 10**400, "NaN"]  # fmt: skip


def damage(rng: random.Random, row: dict[str, Any]) -> None:
    """Change a row in one place: another value, no value, another name."""
    name = rng.choice([*row])
    if rng.random() < 0.3:
        del row[name]
    else:
        row[name] = rng.choice(ODD)


def draw_rows(
    rng: random.Random, event_types: tuple[type, ...], count: int
) -> list[dict[str, Any]]:
    share = rng.choice([0.0, 0.1, 0.5])
    rows = []
    for number in range(count):
        event_type = rng.choice(event_types)
        row = draw_row(rng, event_type) | {
            "type": event_type.__name__,
            "from": "s",
            "number": number,
        }
        if rng.random() < share:
            damage(rng, row)
        if rng.random() < share / 4:
            row["heartbeat"] = rng.choice([5, "x", 1 << 70, "2026-01-01T00:00:00"])
        if rng.random() < share / 4:
            row["from"] = rng.choice(["t", "u", None, 5])
        rows.append(row)
    return rows


def expect(job: Job, reading: Reading, batch: Any) -> list[Any]:
    rows = read_batch(select_lines(reading, batch))
    return [None if is_blank(r, reading.json_column) else read_row(job, reading, r) for r in rows]


def show(items: list[Any]) -> list[str]:
    """Return items as texts, so that 1 is not True, and NaN is NaN."""
    return [repr(item) for item in items]


def check(job: Job, reading: Reading, batch: Any) -> list[Any]:
    items = read_block(job, reading, batch)
    assert show(items) == show(expect(job, reading, batch))
    return items


def find_types(job: Job, reading: Reading) -> tuple[type, ...]:
    """Return the event types that rows have."""
    types = job.program.inputs
    return tuple(t for t in types if reading.type_column or t.__name__ == reading.event_type)


def read_files(job: Job, folder: Path, form: str, reading: Reading) -> Any:
    files = Files(folder, format=form)
    wanted = list_columns(job, reading)
    for found in list_files(files, Taken()):
        for batch in read_file(files, found, wanted, typed=form == "csv"):
            yield number_rows(reading, batch.schema), batch


READINGS = [
    (COUNTED, Reading(type_column="type", channel="s", heartbeat="heartbeat")),
    (COUNTED, Reading(type_column="type", channel="s", channel_column="from", seq="number")),
    (COUNTED, Reading(event_type="Plain", channel="s", heartbeat="heartbeat")),
    (COUNTED, Reading(event_type="Plain", channel="s", time="n", seq="number")),
    (COUNTED, Reading(event_type="Checked", channel="s", seq="number")),
    (TIMED, Reading(type_column="type", channel="s", heartbeat="heartbeat")),
    (TIMED, Reading(event_type="Everything", channel="s", max_bytes=2500)),
    (TIMED, Reading(event_type="Everything", channel="s", channel_column="from", time="seen")),
    (TIMED, Reading(event_type="Everything", channel="nowhere")),
]


def write_lines(rng: random.Random, rows: list[dict[str, Any]]) -> bytes:
    lines = []
    for row in rows:
        line = json.dumps(row, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        if rng.random() < 0.05:
            line = rng.choice(
                [
                    line[:-5],
                    b"",
                    b"  ",
                    b"[1]",
                    b"\xff" + line,
                    line + b"\r",
                    line.replace(b"1", b"NaN"),
                ]
            )
        lines.append(line)
    return b"\n".join(lines)


@pytest.mark.parametrize("seed", range(40))
def test_differential_lines_of_json_read_in_bulk_are_the_rows_read_one_by_one(tmp_path, seed):
    rng = random.Random(seed)
    job, reading = READINGS[seed % len(READINGS)]
    (tmp_path / "s.json").write_bytes(
        write_lines(rng, draw_rows(rng, find_types(job, reading), 60))
    )
    for numbered, batch in read_files(job, tmp_path, "json", reading):
        check(job, numbered, batch)


def to_cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("seed", range(40))
def test_differential_cells_of_csv_read_in_bulk_are_the_rows_read_one_by_one(tmp_path, seed):
    rng = random.Random(seed)
    job, reading = READINGS[seed % len(READINGS)]
    rows = draw_rows(rng, find_types(job, reading), 60)
    names = [*dict.fromkeys(name for row in rows for name in row)]
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(names)
    for row in rows:
        cells = [to_cell(row.get(name)) for name in names]
        writer.writerow(cells[:-1] if rng.random() < 0.05 else cells)
    (tmp_path / "s.csv").write_text(sheet.getvalue(), encoding="utf-8", newline="")
    for numbered, batch in read_files(job, tmp_path, "csv", reading):
        check(job, numbered, batch)


MOMENTS = [
    pa.timestamp(unit, zone)
    for unit in ("s", "ms", "us", "ns")
    for zone in (None, "UTC", "Europe/Berlin")
]
COLUMNS = {
    "time": [pa.int64(), pa.int32(), pa.uint64(), pa.float64(), pa.string(), *MOMENTS],
    "n": [pa.int64(), pa.int8(), pa.uint64(), pa.decimal128(20, 0), pa.bool_(), *MOMENTS[6:8]],
    "name": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary(), pa.int64()],
    "ratio": [pa.float64(), pa.float32(), pa.int64(), pa.uint64(), pa.decimal128(10, 2), pa.string()],
    "ok": [pa.bool_(), pa.int64(), pa.string()],
    "maybe": [pa.float64(), pa.int64(), pa.null(), pa.string()],
}  # fmt: skip
NESTED = {
    "at": MOMENTS, "seen": [*MOMENTS, pa.string(), pa.date32()], "day": [pa.date32(), pa.date64(), pa.string()],
    "price": [pa.decimal128(20, 2), pa.string(), pa.int64(), pa.float64()], "name": COLUMNS["name"],
    "data": [pa.binary(), pa.string(), pa.large_binary()], "place": [pa.struct([("x", pa.int64()), ("y", pa.float64())])],
    "tags": [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.int64())],
    "counts": [pa.map_(pa.string(), pa.int64())], "maybe": [pa.int64(), pa.null()],
    "colour": [pa.string(), pa.dictionary(pa.int8(), pa.string())], "level": [pa.int64(), pa.uint8(), pa.string()],
    "ok": [pa.bool_()], "ratio": COLUMNS["ratio"], "n": [pa.int64(), pa.uint64()], "pause": [pa.duration("us"), pa.string()],
    "id": [pa.string()], "size": [pa.struct([("width", pa.int64()), ("height", pa.int64())])], "side": [pa.string()],
    "rest": [pa.int64(), pa.list_(pa.float64()), pa.timestamp("us", "UTC")], "note": [pa.string()],
    "parts": [pa.list_(pa.int64())],
}  # fmt: skip


def draw_value(rng: random.Random, kind: Any, name: str) -> Any:
    """Return a value of an Arrow type; mostly one that fits the field."""
    types = pa.types
    if types.is_timestamp(kind):
        unit = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return rng.choice([1_800_000_000, 0, -5]) * unit + (rng.randrange(unit) if unit > 1 else 0)
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        good = {"colour": ["red", "blue"], "side": ["left", "right"], "id": [str(UUID(int=5))], "price": ["1.50"],
                "day": ["2026-01-01"], "pause": ["5 s"], "data": ["AP8="], "seen": ["2026-01-01T00:00:00+02:00"]}  # fmt: skip
        return rng.choice(good.get(name, ["a", "é", "", "x" * 40]) * 5 + ["1", "zz"])
    if types.is_binary(kind) or types.is_large_binary(kind):
        return rng.choice([b"a", b"\xff", b""])
    if types.is_decimal(kind):
        return Decimal(rng.randrange(10**6)).scaleb(-kind.scale)
    if types.is_date(kind):
        return date(2026, 1, rng.randrange(1, 28))
    if types.is_duration(kind):
        return timedelta(seconds=rng.randrange(100))
    if types.is_nested(kind):
        return draw_nested(rng, kind, name)
    return draw_number(rng, kind, name)


def draw_nested(rng: random.Random, kind: Any, name: str) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return {part.name: rng.choice([1, 2, 2, 2, None]) for part in kind}
    if types.is_map(kind):
        return rng.choice([[], [("a", 1)], [("a", 1), ("b", 2)], [("a", 1), ("a", 2)]])
    return [draw_value(rng, kind.value_type, name) for _ in range(rng.randrange(3))]


def draw_number(rng: random.Random, kind: Any, name: str) -> Any:
    types = pa.types
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if types.is_floating(kind):
        return rng.choice([0.5, -0.0, 2.0, float("inf")])
    if name == "level":
        return rng.choice([1, 2, 2, 3])
    if types.is_uint64(kind):
        return rng.choice([1, 5, (1 << 63) - 1, 1 << 63])
    return rng.choice([1, 7, 100]) if kind.bit_width == 8 else rng.randrange(1 << 30)


@pytest.mark.parametrize("seed", range(80))
def test_differential_columns_read_in_bulk_are_the_rows_read_one_by_one(seed):
    rng = random.Random(seed)
    count = rng.choice([1, 40])
    job, event_type, kinds = rng.choice(
        [(COUNTED, "Plain", COLUMNS), (TIMED, "Everything", NESTED), (COUNTED, "Checked", COLUMNS)]
    )
    nulls = rng.choice([0.0, 0.0, 0.2])
    arrays: dict[str, Any] = {}
    for name, several in kinds.items():
        kind = several[0] if rng.random() < 0.5 else rng.choice(several)
        values = [
            None if rng.random() < nulls or pa.types.is_null(kind) else draw_value(rng, kind, name)
            for _ in range(count)
        ]
        if rng.random() > 0.05:
            arrays[name] = (
                pa.array(values, pa.int64()).cast(kind)
                if pa.types.is_timestamp(kind)
                else pa.array(values, kind)
            )
    arrays["number"] = pa.array(range(count))
    arrays["from"] = pa.array([rng.choice(["s", "s", "t", None, "u"]) for _ in range(count)])
    arrays["bad"] = pa.array(
        [rng.choice([None, None, None, '{"time": 5, "n": 1}', "x,y"]) for _ in range(count)]
    )
    arrays["beat"] = pa.array([rng.choice([None, None, 5]) for _ in range(count)], pa.int64())
    options: dict[str, Any] = rng.choice([{}, {"channel_column": "from"}, {"corrupt_column": "bad"}, {"reason_column": "bad"},
                                          {"heartbeat": "beat"}, {"seq": "number"}, {"max_bytes": 1500}])  # fmt: skip
    batch = clean_batch(pa.record_batch(arrays))
    check(job, Reading(event_type=event_type, channel="s", **options), batch)


@pytest.mark.parametrize("seed", range(20))
def test_differential_a_column_of_json_texts_is_read_as_its_rows(seed):
    rng = random.Random(seed)
    job = rng.choice([COUNTED, TIMED])
    rows = draw_rows(rng, job.program.inputs, 40)
    texts = [
        json.dumps(row).replace("\\ud800", "x")
        if rng.random() < 0.9
        else rng.choice(["", " ", "{", None])
        for row in rows
    ]
    beside = {"offset": pa.array(range(40)), "from": pa.array(["s", "t", None, "u"] * 10)}
    batch = pa.record_batch({"value": pa.array(texts, pa.string()), **beside})
    options: dict[str, Any] = rng.choice(
        [{}, {"channel_column": "from"}, {"channel_column": "nowhere"}]
    )
    reading = Reading(type_column="type", channel="s", json_column="value", seq="offset", **options)
    check(job, reading, batch)


@pytest.fixture
def counted(monkeypatch):
    """Count the rows that are read one by one."""
    rows = []

    def note(job, reading, row):
        rows.append(row)
        return read_row(job, reading, row)

    monkeypatch.setattr(block_items, "read_row", note)
    return rows


@pytest.mark.parametrize("form", ["json", "csv"])
def test_only_broken_rows_are_read_one_by_one(tmp_path, form, counted):
    rng = random.Random(1)
    rows = [draw_row(rng, Everything) for _ in range(200)]
    if form == "json":
        lines = [json.dumps(row) for row in rows]
        lines[7] = lines[7][:-3]
        lines[9] = json.dumps(rows[9] | {"n": "x"})
        (tmp_path / "s.json").write_text("\n".join(lines))
    else:
        with (tmp_path / "s.csv").open("w", newline="", encoding="utf-8") as sheet:
            writer = csv.writer(sheet)
            writer.writerow(Everything._fields)
            rows[7]["n"] = "x"
            cells = [[to_cell(row.get(name)) for name in Everything._fields] for row in rows]
            cells[9] = cells[9][:3]
            writer.writerows(cells)
    plain = Reading(event_type="Everything", channel="s")
    ((reading, batch),) = read_files(TIMED, tmp_path, form, plain)
    items = read_block(TIMED, reading, batch)
    assert len(counted) == 2
    assert [place for place, item in enumerate(items) if isinstance(item, Malformed)] == [7, 9]
    assert sum(isinstance(item, Event) for item in items) == 198


def test_a_heartbeat_among_events_is_read(counted):
    batch = pa.record_batch({"time": [1, None, 3], "n": [1, None, 2], "beat": [None, 5, None]})
    items = check(COUNTED, Reading(event_type="Checked", channel="s", heartbeat="beat"), batch)
    assert items == [Event(Checked(1, 1), "s"), Heartbeat(5, "s"), Event(Checked(3, 2), "s")]
    assert len(counted) == 1


EDGES = [-(1 << 63), 1 - (1 << 63), 0, (1 << 63) - 2, (1 << 63) - 1]


@pytest.mark.parametrize("form", ["columns", "json"])
@pytest.mark.parametrize("name", ["time", "n"])
def test_numbers_at_the_edge_of_64_bits_get_the_verdict_of_the_row_reader(form, name):
    more = [] if form == "columns" else [1 << 63, -(1 << 63) - 1]
    rows = [{"time": 1, "n": 1} | {name: edge} for edge in [*EDGES, *more]]
    if form == "columns":
        batch = pa.record_batch({key: [row[key] for row in rows] for key in ("time", "n")})
        items = check(COUNTED, Reading(event_type="Checked", channel="s"), batch)
        plain = pa.record_batch({**{key: [row[key] for row in rows] for key in ("time", "n")},
                                 "name": ["a"] * 5, "ratio": [1.0] * 5, "ok": [True] * 5})  # fmt: skip
        assert len(check(COUNTED, Reading(event_type="Plain", channel="s"), plain)) == 5
    else:
        full = [row | {"name": "a", "ratio": 1.0, "ok": True, "maybe": None} for row in rows]
        batch = pa.record_batch({"value": [json.dumps(row) for row in full]})
        items = check(COUNTED, Reading(event_type="Plain", channel="s", json_column="value"), batch)
    wrong = 2 + len(more) if name == "time" else len(more)
    assert sum(isinstance(item, Malformed) for item in items) == wrong


ANNOTATIONS = [
    int, float, bool, str, bytes, Decimal, date, datetime, timedelta, UUID, Colour, Level, Place, Size, Any, int | None,
    Colour | None, int | str, list[int], list[Place], set[str], tuple[int, ...], tuple[int, str], dict[str, int],
    dict[str, Place], dict[int, str], Literal["a", 1], Checked,
]  # fmt: skip
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=2), st.dates(),
    st.datetimes(), st.decimals(allow_nan=False), st.sampled_from(["red", "2026-01-01", "5 s", "AAAA", "1.5", 1, 2, 7, True, 1.0]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "width", "time", "n", "1"]), inner, max_size=3)
        | st.lists(st.tuples(st.sampled_from(["a", "b", 1]), inner), max_size=2)
    ),
    max_leaves=5,
)


def read_alone(value: Any, annotation: Any, *, text: bool) -> Any:
    try:
        return True, read_text(value, annotation) if text else read_value(value, annotation)
    except Unfit:
        return False, None


@given(st.lists(values, max_size=6), st.sampled_from(ANNOTATIONS))
def test_oracle_a_list_is_read_as_its_values(listed, annotation):
    compare_lists(listed, annotation, text=False)


@given(
    st.lists(st.text(max_size=4) | st.sampled_from(["1", "red", "[1]", "2026-01-01"]), max_size=6),
    st.sampled_from(ANNOTATIONS),
)
def test_oracle_a_list_of_cells_is_read_as_its_cells(listed, annotation):
    compare_lists(listed, annotation, text=True)


def compare_lists(listed: list[Any], annotation: Any, *, text: bool) -> None:
    found = read_list(listed, annotation, text=text)
    for place, value in enumerate(listed):
        fits, expected = read_alone(value, annotation, text=text)
        if place in found.odd:
            continue  # An odd value may fit: it is read again by itself.
        assert fits
        assert repr(found.values[place]) == repr(expected)
        assert type(found.values[place]) is type(expected)


@given(st.lists(st.text(max_size=12) | st.recursive(st.none() | st.floats() | st.integers() | st.text(max_size=3),
       lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3), max_leaves=4).map(json.dumps), max_size=5), st.booleans())  # fmt: skip
def test_oracle_objects_parsed_together_are_those_parsed_alone(texts, as_bytes):
    given_texts = [text.encode("utf-8", "surrogatepass") if as_bytes else text for text in texts]
    for text, found in zip(given_texts, parse_objects(given_texts, 1000), strict=True):
        if found is not None:
            assert repr(found) == repr(parse_object(text, 1000))


@pytest.mark.parametrize("seed", range(5))
def test_events_in_an_envelope_come_back_the_same(tmp_path, seed):
    rng = random.Random(seed)
    job = rng.choice([COUNTED, TIMED])
    rows = draw_rows(rng, job.program.inputs, 50)
    (tmp_path / "s.json").write_bytes(write_lines(rng, rows))
    reading = Reading(type_column="type", channel="s")
    events = [
        item
        for numbered, batch in read_files(job, tmp_path, "json", reading)
        for item in read_block(job, numbered, batch)
        if isinstance(item, Event)
    ]
    carried = [
        Carried(event, place or None, -place, place % 2) for place, event in enumerate(events)
    ]
    types = job.program.event_types
    for sent in (carried, carried[:1], []):
        back = unpack_events(job.codec, types, pack_events(job.codec, types, sent))
        assert show(back) == show(sent)
    old = [(types.index(type(e.data)), tuple(vars(e.data).values()) if isinstance(e.data, Checked) else tuple(e.data),
            e.channel, e.seq, *seen) for e, *seen in carried]  # fmt: skip
    assert show(unpack_events(job.codec, types, job.codec.encode(old))) == show(carried)
