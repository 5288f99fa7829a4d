"""Blocks read as columns: the events and rejected rows are those of the row reader, whatever the columns are."""

import json
import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import pytest

from anabranch import Event, EventTime, Heartbeat, Malformed, Program, depends, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.kernels.column_layouts import read_record
from anabranch.microbatch.columns.event_tables import read_columns
from anabranch.microbatch.columns.routing import route_events
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import unpack_chunks
from anabranch.microbatch.ingest import block_items
from anabranch.microbatch.ingest.block_columns import select_lines
from anabranch.microbatch.ingest.column_reader import take_in_columns
from anabranch.microbatch.ingest.file_rows import Folder, list_columns, number_rows, take_in_rows
from anabranch.microbatch.ingest.row_reader import Reading, describe_malformed, read_row
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.shards.columnar_shard import ColumnShard
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.plan.layouts import choose_layout
from anabranch.reference.sequential import run
from anabranch.sources.arrow_tables import clean_batch, read_batch
from anabranch.sources.files import Files, Taken, list_files, read_file
from anabranch.sources.raw_rows import is_blank
from anabranch.state import Count, MapOf, Sum
from anabranch.state.durable.codec import make_codec
from tests.microbatch.test_microbatches import Engine, emitted_rows, expected_rows

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")


class Trade(NamedTuple):
    time: int
    maybe: int | None
    key: str
    ratio: float
    day: date | None
    seen: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    note: str = "none"
    rate: float | None = 1.5
    flag: bool = False


class Quote(NamedTuple):
    time: int
    key: str
    ratio: int
    maybe: float | None = None


@dataclass(frozen=True)
class Deal:
    time: int
    maybe: int | None
    key: str
    size: int = 3


class Moment(NamedTuple):
    at: EventTime[datetime]
    key: str


def make_job(*event_types: type) -> Job:
    program = Program(
        *(on(event_type, update=lambda n, e: n + 1) for event_type in event_types),
        *(depends(a, b, same="key") for a in event_types for b in event_types),
        state=MapOf(Count(), by="key"),
    )
    layout, channels = choose_layout(program, 3), {"s": Channel("s", lateness=None)}
    plan = plan_columns(program, layout, channels, numbered=True)
    assert not isinstance(plan, str), plan
    return Job(program, layout, channels, make_codec(program), columns=plan)


TRADES = make_job(Trade, Quote)
MOMENTS = make_job(Moment)


def open_envelopes(job: Job, envelopes: Any) -> tuple[dict[int, tuple[int, str]], Counter[Any]]:
    """Return the shard and the fields of each event by its number, and the rejected rows."""
    events, rejected = {}, Counter[Any]()
    for shard, kind, payload in envelopes:
        if kind == Kind.REJECTED:
            rejected.update(job.codec.decode(payload))
        elif kind in (Kind.TABLE, Kind.LATE_TABLE):
            layouts = [read_record(event_type) for event_type in job.program.event_types]
            table = read_columns(lambda note, known=layouts: known[note["type"]], payload)
            for seq, data in zip(table.more["seq"].tolist(), table.columns.unpack(), strict=True):
                events[seq] = shard, repr(data)
    return events, rejected


def expect(job: Job, reading: Reading, batches: list[Any]) -> tuple[dict[int, Any], Counter[Any]]:
    rows = [row for batch in batches for row in read_batch(select_lines(reading, batch))]
    items = [read_row(job, reading, row) for row in rows if not is_blank(row, reading.json_column)]
    events = [item for item in items if isinstance(item, Event)]
    shards = [next(iter(found)) for found in route_events(job.layout, events)]
    assert shards == [job.layout.route(event)[0] for event in events]
    bad = [item for item in items if isinstance(item, Malformed)]
    placed = {
        event.seq: (shard, repr(event.data)) for event, shard in zip(events, shards, strict=True)
    }
    return placed, Counter(map(describe_malformed, bad))


ODD = [None, True, 1, 2.5, "x", "", 1 << 63, -(1 << 63), 1 << 70, [], {"maybe": None}, '"maybe": null', 'say "maybe"', "\ud800", "x" * 1500]  # fmt: skip


def draw_row(rng: random.Random) -> dict[str, Any]:
    n = rng.randrange(1000)
    if rng.random() < 0.3:
        return {
            "type": "Quote",
            "time": n,
            "key": f"k{n % 5}",
            "ratio": n,
            "maybe": rng.choice([None, 0.5]),
        }
    row = {"type": "Trade", "time": n, "maybe": rng.choice([None, n]), "key": f"é{n % 7}", "ratio": rng.choice([n, n / 7]),
           "day": rng.choice([None, "2026-02-28"]), "seen": "2026-01-01T00:00:00+02:00", "note": "x", "rate": None, "flag": True}  # fmt: skip
    for name in ("seen", "note", "rate", "flag"):
        if rng.random() < 0.4:
            del row[name]
    return row


def draw_lines(rng: random.Random, count: int) -> list[str]:
    share, lines = rng.choice([0.0, 0.1, 0.6]), []
    for _ in range(count):
        row = draw_row(rng)
        if rng.random() < share:
            name = rng.choice([*row])
            if rng.random() < 0.5:
                del row[name]
            else:
                row[name] = rng.choice(ODD)
        if rng.random() < 0.2:
            row["more"] = rng.choice(ODD)
        line = json.dumps(row)
        lines.append(line[:-4] if rng.random() < share / 8 else line)
    return lines


@pytest.mark.parametrize("seed", range(40))
def test_differential_lines_of_several_types_give_the_events_of_the_row_reader(tmp_path, seed):
    rng = random.Random(seed)
    (tmp_path / "s.json").write_text("\n".join(draw_lines(rng, 80)))
    options: dict[str, Any] = rng.choice(
        [{"type_column": "type"}, {"event_type": "Trade"}, {"event_type": "Quote"}]
    )
    check_files(tmp_path, "json", Reading(channel="s", **options))


def check_files(folder: Any, form: str, reading: Reading) -> None:
    files = Folder(Files(folder, format=form), reading)
    (found,) = list_files(files.files, Taken())
    batches = list(read_file(files.files, found, list_columns(TRADES, reading)))
    numbered = number_rows(reading, batches[0].schema)
    found_items = open_envelopes(TRADES, take_in_rows(TRADES, files, batches))
    assert found_items == expect(TRADES, numbered, batches)


@pytest.mark.parametrize("seed", range(30))
def test_differential_cells_with_defaults_give_the_events_of_the_row_reader(tmp_path, seed):
    rng = random.Random(seed)
    names = [name for name in Trade._fields if name in ("time", "key") or rng.random() < 0.8]
    rows = [",".join(names)]
    for line in draw_lines(rng, 60):
        row = json.loads(line) if line.endswith("}") else {}
        cells = ["" if row.get(name) is None else str(row[name]) for name in names]
        rows.append(",".join('"' + cell.replace('"', '""') + '"' for cell in cells))
    (tmp_path / "s.csv").write_bytes("\n".join(rows).encode("utf-8", "replace"))
    check_files(tmp_path, "csv", Reading(event_type="Trade", channel="s"))


KINDS = {
    "time": [pa.int64(), pa.int16(), pa.uint64(), pa.timestamp("us", "UTC"), pa.float64()],
    "maybe": [pa.int64(), pa.uint64(), pa.int8(), pa.null(), pa.float64()],
    "key": [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
    "ratio": [pa.float64(), pa.float32(), pa.int64(), pa.uint64(), pa.decimal128(20, 1)],
    "day": [pa.date32(), pa.string(), pa.date64(), pa.null()],
    "seen": [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Asia/Tokyo")],
    "note": [pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.int64()],
    "rate": [pa.float64(), pa.int64(), pa.null()],
    "flag": [pa.bool_(), pa.int8()],
}  # fmt: skip


def draw_array(rng: random.Random, name: str, kind: Any, count: int, nulls: float) -> Any:
    numbers = [
        None if rng.random() < nulls else rng.choice([0, 1, 2, 3, 100]) for _ in range(count)
    ]
    if pa.types.is_null(kind):
        return pa.nulls(count)
    if pa.types.is_uint64(kind):
        return pa.array([n if n != 3 else (1 << 63) + 2048 for n in numbers], kind)
    if pa.types.is_date(kind):
        return pa.array(numbers, pa.int32()).cast(pa.date32()).cast(kind)
    if pa.types.is_string(kind) and name == "day":
        return pa.array([None if n is None else f"2026-01-{n:02}" for n in numbers])
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return pa.array(numbers, pa.int64()).cast(kind, safe=False)
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_floating(kind):
        return pa.array(numbers, pa.int64()).cast(kind)
    return pa.array([None if n is None else f"k{n}" for n in numbers], pa.string()).cast(kind)


@pytest.mark.parametrize("seed", range(60))
def test_differential_columns_of_any_type_give_the_events_of_the_row_reader(seed):
    rng = random.Random(seed)
    count, nulls = 50, rng.choice([0.0, 0.1])
    arrays = {
        name: draw_array(
            rng, name, kinds[0] if rng.random() < 0.6 else rng.choice(kinds), count, nulls
        )
        for name, kinds in KINDS.items()
        if name == "time" or rng.random() > 0.1
    }
    batch = clean_batch(pa.record_batch(arrays | {"number": pa.array(range(count))}))
    reading = Reading(event_type="Trade", channel="s", seq="number")
    found = open_envelopes(TRADES, take_in_columns(TRADES, reading, [batch]))
    assert found == expect(TRADES, reading, [batch])


@pytest.fixture
def counted(monkeypatch):
    """Count the rows that are read one by one."""
    rows = []

    def note(job, reading, row):
        rows.append(row)
        return read_row(job, reading, row)

    monkeypatch.setattr(block_items, "read_row", note)
    return rows


def test_no_type_of_column_leads_to_rows_read_one_by_one(counted, monkeypatch):
    monkeypatch.setattr("anabranch.microbatch.ingest.column_reader.read_block", None)
    seen = pa.array([5, None, 7], pa.int64()).cast(pa.timestamp("ms"))
    columns = {"time": [1, 2, 3], "key": ["a", "b", "a"], "ratio": pa.array([1, 2, 3]), "seen": seen,
               "maybe": pa.array([1, None, 3], pa.uint64()), "number": [0, 1, 2]}  # fmt: skip
    reading = Reading(event_type="Trade", channel="s", seq="number")
    batch = clean_batch(pa.record_batch(columns))
    events, rejected = open_envelopes(TRADES, take_in_columns(TRADES, reading, [batch]))
    assert (len(events), len(rejected), counted) == (3, 0, [])


def test_a_null_and_a_missing_field_of_a_line_are_told_apart_by_columns(tmp_path, monkeypatch):
    rows = [{"type": "Quote", "time": n, "key": "a", "ratio": n} for n in range(3)]
    rows[1]["maybe"] = None
    (tmp_path / "s.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("anabranch.microbatch.ingest.column_reader.read_block", None)
    check_files(tmp_path, "json", Reading(channel="s", event_type="Quote"))


@pytest.mark.parametrize("trap", [{"maybe": None}, 'say "maybe"', '"maybe": null', "null", 1])
def test_a_missing_field_is_not_taken_for_a_null_elsewhere_in_its_line(tmp_path, trap):
    """Trade has no default of `maybe`: a line without it is rejected."""
    rows = [
        {"time": n, "key": "a", "ratio": 1, "day": None, "maybe": None, "more": trap}
        for n in range(4)
    ]
    del rows[1]["maybe"]
    (tmp_path / "s.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = Reading(channel="s", event_type="Trade")
    check_files(tmp_path, "json", reading)
    files = Folder(Files(tmp_path, format="json"), reading)
    (found,) = list_files(files.files, Taken())
    batches = list(read_file(files.files, found, list_columns(TRADES, reading)))
    events, rejected = open_envelopes(TRADES, take_in_rows(TRADES, files, batches))
    assert ([*events], len(rejected)) == ([0, 2, 3], 1)


def test_gaps_all_over_a_sequence_make_no_more_envelopes():
    count = 1000
    numbers = [n for n in range(count) if n % 10]
    columns = {"at": pa.array(numbers).cast(pa.timestamp("us")), "key": ["a", "b", "c"] * (len(numbers) // 3), "number": numbers}  # fmt: skip
    reading = Reading(event_type="Moment", channel="s", seq="number")
    envelopes = list(take_in_columns(MOMENTS, reading, [pa.record_batch(columns)], 4))
    chunks = [
        unpack_chunks(MOMENTS.codec, p)
        for to, kind, p in envelopes
        if (to, kind) == (0, Kind.CHUNKS)
    ]
    assert [len(part) for part in chunks] == [100]
    assert len(envelopes) <= 2 * MOMENTS.layout.shards
    counts = 0
    for shard in range(MOMENTS.layout.shards):
        held = ColumnShard(MOMENTS, shard, MemoryStore())
        held.process([(kind, payload) for to, kind, payload in envelopes if to == shard], None)
        counts += held.ledger.input
    assert counts == len(numbers)


def test_differential_events_that_are_dataclasses_take_the_columnar_path():
    program = Program(
        on(Deal, update=lambda total, e: total + e.size, output=lambda total, e: [total]),
        depends(Deal, Deal, same="key"),
        state=MapOf(Sum(), by="key"),
    )
    rng = random.Random(5)
    deals = [
        Event(Deal(n, rng.choice([None, n]), f"k{rng.randrange(9)}", n % 5), "s", n)
        for n in range(200)
    ]
    items = end_channels(deals, channels=[Channel("s")])
    rows = [
        {"channel": "s", "seq": item.seq, "heartbeat": item.time, "type": None, "time": None}
        if isinstance(item, Heartbeat)
        else {"channel": "s", "seq": item.seq, "heartbeat": None, "type": "Deal", **vars(item.data)}
        for item in items
    ]
    engine = Engine(program, [Channel("s")], 3, columns=True)
    assert engine.columns is not None
    for start in range(0, len(rows), 70):
        engine.batch([rows[start : start + 70]])
    assert emitted_rows(engine) == expected_rows(run(program, items, [Channel("s")]))
