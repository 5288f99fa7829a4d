"""Leaves folded where they are read: the same answer, also where the forecast was wrong."""

import dataclasses
import random
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Event, EventTime, Heartbeat, Malformed, Program, depends, load, on
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.microbatch.ingest import early_folds, look_ahead
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import can_look_ahead
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.model.events import FOREVER
from anabranch.query.window_aggregates import aggregate
from anabranch.reference.event_files import read_items
from anabranch.reference.sequential import run
from anabranch.sources import files as file_source
from anabranch.sources.files import Files
from anabranch.spark.sources.envelope_source import FusedReader
from anabranch.state import Count, MapOf, Max, Min, Sum
from tests.microbatch.test_microbatches import Engine, emitted_rows, expected_rows
from tests.spark.sources.test_envelope_source import follow

value_barrier = load("examples/value_barrier.py")
key_counter = load("examples/key_counter.py")


class Sale(NamedTuple):
    time: int
    shop: str
    amount: int


class Report(NamedTuple):
    time: int


def report(sales, report):
    return sorted(sales.entries().items())


sales = Program(
    on(Sale, update=lambda total, sale: total + sale.amount),
    on(Report, output=report),
    depends(Report, Sale, Report),
    state=MapOf(Sum(), by="shop"),
    name="sales",
)


def draw(rng, event_type, name, channel, count):
    """Draw the items of one channel, some of them late and some of them broken."""
    items, time = [], 0
    for seq in range(count):
        time += rng.choice([0, 1, 1, 2])
        at = max(
            0, time - (rng.randint(0, 2 * (channel.lateness or 0) + 2) if rng.random() < 0.2 else 0)
        )
        fields = {"time": at}
        for field in event_type._fields[1:]:
            fields[field] = (
                rng.choice("xyz") if event_type.__annotations__[field] is str else rng.randint(0, 9)
            )
        if rng.random() < 0.02 and len(event_type._fields) > 1:
            fields[event_type._fields[-1]] = None
        items.append((seq, fields))
    return items


def promise(rng, items):
    """Turn most events of a channel into heartbeats: what could stop a key is rare then."""
    for _, fields in items:
        if rng.random() < 0.8:
            fields["beat"] = fields["time"]
            fields.update(dict.fromkeys(set(fields) - {"beat"}))


def read_item(event_type, fields, channel, seq):
    if fields.get("beat") is not None:
        return Heartbeat(fields["beat"], channel, seq)
    if None in fields.values():
        return Malformed(fields, "broken", channel, seq)
    return Event(event_type(**fields), channel, seq)


def write_files(rng, folder, event_type, items):
    """Cut a channel into files, and give each row the sequence that its place gives it."""
    folder.mkdir(parents=True)
    numbered, types = [], {int: pa.int64(), str: pa.string()}
    columns = [(f, types[event_type.__annotations__[f]]) for f in event_type._fields]
    schema = pa.schema([*columns, ("beat", pa.int64())])
    number = 0
    while items:
        part = [items.pop(0) for _ in range(min(len(items), rng.randint(1, 12)))]
        pq.write_table(
            pa.Table.from_pylist([fields for _, fields in part], schema),
            folder / f"{number:03}.parquet",
        )
        numbered += [((number << 32) + place, fields) for place, (_, fields) in enumerate(part)]
        number += 1
    return numbered


class Ask(NamedTuple):
    time: int
    shop: str


shop_totals = Program(
    on(Sale, update=lambda total, sale: total + sale.amount),
    on(Ask, output=lambda total, ask: (ask.shop, total)),
    depends(Ask, Sale, Ask, same="shop"),
    state=MapOf(Sum(), by="shop"),
    name="shop_totals",
)
sales_windows = aggregate(
    Sale, Sliding(6, every=2), per="shop", n=Count(), most=(Max(), "amount"), sum=(Sum(), "amount")
)
visits = aggregate(Sale, Sessions(3), per="shop", n=Count(), least=(Min(), "amount"))
all_sales = aggregate(Sale, Tumbling(4), sum=(Sum(), "amount"))
CASES = {
    "sales_windows": (sales_windows, {"a": "Sale", "b": "Sale"}),
    "visits": (visits, {"a": "Sale", "b": "Sale"}),
    "all_sales": (all_sales, {"a": "Sale", "b": "Sale"}),
    "value_barrier": (value_barrier, {"a": "Value", "b": "Value", "m": "Barrier"}),
    "sales": (sales, {"a": "Sale", "b": "Sale", "m": "Report"}),
    "key_counter": (key_counter, {"a": "Inc", "b": "Inc", "m": "Read"}),
    "shop_totals": (shop_totals, {"a": "Sale", "b": "Sale", "m": "Ask"}),
}


@pytest.fixture
def watched(monkeypatch):
    """Count what was folded where it was read, and what had to be read again."""
    seen = {"folded": 0, "again": 0}
    fold, again, add = early_folds._fold, early_folds.read_again, early_folds.Gathering.add

    def count_add(gathering, table, claim):
        seen["folded"] += len(table)
        return add(gathering, table, claim)

    add_slices = early_folds.SliceGathering.add

    def count_slices(gathering, table, claim):
        seen["folded"] += len(table)
        return add_slices(gathering, table, claim)

    def count_fold(job, table, cuts):
        seen["folded"] += len(table)
        return fold(job, table, cuts)

    def count_again(job, claims, shard):
        seen["again"] += 1
        return again(job, claims, shard)

    monkeypatch.setattr(early_folds, "_fold", count_fold)
    monkeypatch.setattr(early_folds.Gathering, "add", count_add)
    monkeypatch.setattr(early_folds.SliceGathering, "add", count_slices)
    monkeypatch.setattr("anabranch.microbatch.shards.columnar_shard.read_again", count_again)
    monkeypatch.setattr(look_ahead, "_FEWEST_EVENTS", 0)
    monkeypatch.setattr(file_source, "BLOCK_ROWS", 5)
    return seen


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_differential_prefolded_files_give_the_sequential_answer(
    tmp_path, watched, monkeypatch, case, shards
):
    program, event_types = CASES[case]
    for seed in range(12):
        rng = random.Random(f"{case} {shards} {seed}")
        # Of many markers in a file, none is read ahead; of many that wait, none is remembered.
        monkeypatch.setattr(look_ahead, "MOST_WAITING", rng.choice([2, 4, 10_000]))
        lateness = rng.choice([0, 3])
        channels = [Channel(name, lateness=0 if name == "m" else lateness) for name in event_types]
        items, folders = [], []
        for channel in channels:
            event_type = program.event_type(event_types[channel.name])
            place = tmp_path / f"{seed}" / channel.name
            drawn = draw(rng, event_type, channel.name, channel, 12 if channel.name == "m" else 60)
            if channel.name == "m" and rng.random() < 0.3:
                promise(rng, drawn)
            for seq, fields in write_files(rng, place, event_type, drawn):
                items.append(read_item(event_type, fields, channel.name, seq))
            reading = Reading(
                event_type=event_type.__name__, channel=channel.name, heartbeat="beat"
            )
            folders.append(Folder(Files(place, files_per_batch=rng.randint(1, 4)), reading))
        engine = Engine(program, channels, shards, columns=True)
        engine.job = dataclasses.replace(engine.job, folders=tuple(folders))
        assert can_look_ahead(engine.job)
        follow(FusedReader(engine.job, 2), engine)
        answer = run(program, items, channels)
        assert emitted_rows(engine) == expected_rows(answer)
        kept = engine.ledger
        assert (kept.late, kept.rejected) == (len(answer.late), len(answer.rejected))
        assert kept.processed == answer.ledger.processed
        assert kept.pending == answer.ledger.pending
    assert watched["folded"] > 30


def write_values(folder, name, values):
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(values), folder / name)


def run_barriers(tmp_path, before=lambda: None):
    """Run two channels to their end; the first file of values is what is in the folder already."""
    values, barriers = tmp_path / "a", tmp_path / "m"
    for number in range(1, 3):
        write_values(
            values,
            f"{number}.parquet",
            [{"time": 10 * number + n, "value": 1} for n in range(10)],
        )
    write_values(barriers, "0.parquet", [{"time": t} for t in (5, 15, 25, 40)])
    channels = [Channel("a"), Channel("m")]
    folders = (
        Folder(Files(values, files_per_batch=1), Reading(event_type="Value", channel="a")),
        Folder(Files(barriers, files_per_batch=9), Reading(event_type="Barrier", channel="m")),
    )
    engine = Engine(value_barrier, channels, 1, columns=True)
    engine.job = dataclasses.replace(engine.job, folders=folders)
    before()
    follow(FusedReader(engine.job, 2), engine)
    return engine


def test_a_forecast_that_holds_is_never_read_again(tmp_path, watched):
    write_values(tmp_path / "a", "0.parquet", [{"time": n, "value": 1} for n in range(10)])
    engine = run_barriers(tmp_path)
    assert [row.value for row in engine.emitted if row.kind == "output"] == ["5", "15", "25"]
    assert (watched["folded"], watched["again"]) == (27, 0)


def test_a_rejected_event_makes_the_forecast_wrong_and_the_files_are_read_again(tmp_path, watched):
    # The footer tells of a time that no good event has.
    broken = {"time": 22, "value": None}
    first = [{"time": n, "value": 1} for n in range(10)]
    write_values(tmp_path / "a", "0.parquet", [*first, broken])
    engine = run_barriers(tmp_path)
    assert [row.value for row in engine.emitted if row.kind == "output"] == ["5", "15", "25"]
    assert (engine.ledger.rejected, engine.ledger.late) == (1, 0)
    assert watched["again"] > 0


def test_cuts_that_are_too_many_to_be_kept_are_waited_for(tmp_path, watched, monkeypatch):
    monkeypatch.setattr(look_ahead, "MOST_WAITING", 2)
    write_values(tmp_path / "a", "0.parquet", [{"time": n, "value": 1} for n in range(10)])
    engine = run_barriers(tmp_path)
    assert [row.value for row in engine.emitted if row.kind == "output"] == ["5", "15", "25"]
    assert watched["again"] == 0


def test_a_stop_that_nobody_foresaw_is_noticed_wherever_it_lies(tmp_path, watched, monkeypatch):
    write_values(tmp_path / "a", "0.parquet", [{"time": t, "key": 1} for t in (1, 2, 8, 9)])
    write_values(tmp_path / "m", "0.parquet", [{"time": t, "key": 1} for t in (5, 12)])
    # A driver that sees no markers: the stop at 5 lies between two blocks, and in neither of them.
    monkeypatch.setattr(file_source, "BLOCK_ROWS", 2)
    monkeypatch.setattr(look_ahead.LookAheadReader, "_list_cuts", lambda *_: [])
    folders = (
        Folder(Files(tmp_path / "a"), Reading(event_type="Inc", channel="a")),
        Folder(Files(tmp_path / "m"), Reading(event_type="Read", channel="m")),
    )
    engine = Engine(
        key_counter,
        [Channel("a", unique_times=True), Channel("m", unique_times=True)],
        1,
        columns=True,
    )
    engine.job = dataclasses.replace(engine.job, folders=folders)
    follow(FusedReader(engine.job, 1), engine)
    assert [row.value for row in engine.emitted if row.kind == "output"] == ["[1,2]"]
    assert watched["again"] == 1


def run_windows(tmp_path, times, event_type=Sale, size=10):
    """Count events of one folder in windows to their end; return the engine and the reference's answer."""
    program = aggregate(event_type, Tumbling(size), per="shop", n=Count())
    place = tmp_path / "v"
    place.mkdir(exist_ok=True)
    for number, column in enumerate(times):
        count = len(column)
        table = pa.table(
            {event_type._fields[0]: column, "shop": ["x"] * count, "amount": [1] * count}
        )
        pq.write_table(table, place / f"{number}.parquet")
    end = {event_type._fields[0]: pa.array([None], pa.int64()), "heartbeat": pa.array([FOREVER])}
    pq.write_table(pa.table(end), place / f"{len(times)}.parquet")
    channel = Channel("a", lateness=None)
    reading = Reading(event_type=event_type.__name__, channel="a", heartbeat="heartbeat")
    engine = Engine(program, [channel], 1, columns=True)
    assert engine.columns is not None
    folder = Folder(Files(place, files_per_batch=9), reading)
    engine.job = dataclasses.replace(engine.job, folders=(folder,))
    assert can_look_ahead(engine.job)
    follow(FusedReader(engine.job, 2), engine)
    items = [
        item._replace(seq=(number << 32) + row, channel="a")
        for number in range(len(times) + 1)
        for row, item in enumerate(read_items(program, [str(place / f"{number}.parquet")]))
    ]
    return engine, run(program, items, [channel])


FAR = 1 << 61


@pytest.mark.parametrize("times", [
    [pa.array([1, 2, FAR, 3]), pa.array([-FAR, 4, 30])],
    [pa.array([1, 2]), pa.array([FAR - 1, 1 - FAR])],
    [pa.array([1, 1 << 63, 5], pa.uint64()), pa.array([7])],
    [pa.array([5, FAR + 1]).cast(pa.timestamp("us", "UTC")), pa.array([7]).cast(pa.timestamp("us", "UTC"))],
    [pa.array([-1_001, 1_999, 5_000]).cast(pa.timestamp("ns", "UTC"))],
    [pa.array([5_000, 6_000]).cast(pa.timestamp("us"))],
])  # fmt: skip
def test_differential_odd_times_are_judged_alike_where_leaves_are_folded_as_they_are_read(
    tmp_path, times
):
    engine, answer = run_windows(tmp_path, times)
    rejected = {(row.seq, row.reason) for row in engine.emitted if row.kind == "rejected"}
    assert {seq for seq, _ in rejected} == {one.item.seq for one in answer.rejected}
    assert emitted_rows(engine) == expected_rows(answer)
    assert engine.ledger == answer.ledger
    assert answer.ledger.processed
    assert not answer.ledger.pending


class DatedSale(NamedTuple):
    at: EventTime[datetime]
    shop: str
    amount: int


MINUTE = 60_000_000


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.timestamp("ms")]
)
def test_differential_windows_of_datetimes_are_folded_as_they_are_read(tmp_path, watched, kind):
    minutes = [[0, 1, 12], [11, 19, 31], [-5]]
    scale = MINUTE // 1000 if kind.unit == "ms" else MINUTE
    times = [pa.array([scale * m for m in some]).cast(kind) for some in minutes]
    engine, answer = run_windows(tmp_path, times, DatedSale, "10 min")
    assert emitted_rows(engine) == expected_rows(answer)
    assert engine.ledger == answer.ledger
    assert [one.start.minute for one in answer.values] == [50, 0, 10, 30]
    assert watched["folded"] > 0


def test_a_file_that_is_no_parquet_is_named_by_the_driver_too(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "9.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match=r"9\.parquet can't be read as parquet"):
        run_windows(tmp_path, [])
