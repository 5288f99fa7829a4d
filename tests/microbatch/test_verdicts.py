"""Verdicts on events: the reference and shards give the same, however an input is cut; no Spark is needed."""

import dataclasses
import json
import random
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Event, Heartbeat, Program, depends, load, on
from anabranch.eventtime.channels import NEVER, Channel, end_channels
from anabranch.eventtime.disorder import Estimated
from anabranch.microbatch.columns.routing import spread_channels
from anabranch.microbatch.ingest import look_ahead
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import can_look_ahead
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.ingest.stretches import _promise
from anabranch.microbatch.store.column_entries import forget_tables
from anabranch.model.events import FOREVER, spread
from anabranch.model.values.fields import encode_value
from anabranch.reference.sequential import run
from anabranch.reference.speculative import run as emit
from anabranch.sources import files as file_source
from anabranch.sources.files import Files
from anabranch.spark import Frame
from anabranch.spark.runs import run as run_on_spark
from anabranch.spark.sources.envelope_source import FusedReader
from anabranch.state import MapOf, Sum
from tests.microbatch.test_microbatches import (
    WAYS,
    Engine,
    cut,
    emitted_rows,
    expected_rows,
    to_row,
)
from tests.spark.sources.test_envelope_source import follow


class Txn(NamedTuple):
    time: int
    account: int
    amount: int


class Close(NamedTuple):
    time: int


class Mute(Exception):  # noqa: N818 - as users name them
    def __str__(self):
        raise RuntimeError("no words")


def add(total, txn):
    if txn.amount == 7:
        raise Mute
    if txn.amount == 8:
        raise SystemExit(0)
    return total + txn.amount


def report(totals, close):
    return sorted(totals.entries().items())


def alert(total, txn):
    return (txn.account, total) if txn.amount > 5 else None


PROGRAMS = {
    "keyed": Program(
        on(Txn, update=add, output=alert),
        depends(Txn, Txn, same="account"),
        state=MapOf(Sum(), by="account"),
        name="keyed",
    ),
    "forked": Program(
        on(Txn, update=add),
        on(Close, output=report),
        depends(Close, Txn, Close),
        state=MapOf(Sum(), by="account"),
        name="forked",
    ),
    "sequential": Program(
        on(Txn, update=lambda total, txn: add(total * 2 % 1009, txn), output=alert),
        on(Close, output=lambda total, close: total, update=lambda total, close: 0),
        depends(Txn, Txn),
        depends(Close, Txn, Close),
        init=0,
        name="sequential",
    ),
}
RULES = {
    "in order": {},
    "late": {"lateness": 3},
    "strict": {"unique_times": True},
    "heartbeats": {"lateness": None},
    "hardly ever late": {"lateness": (1 << 63) + 5},
    "never late": {"lateness": 1 << 70},
    "ahead": {"lateness": 2, "max_ahead": 40},
    "estimated": {"lateness": Estimated(0.9, within=12, most=6)},
    "in turn": {"order": "arrival"},
}
EXTREMES = (NEVER, NEVER + 1, -(1 << 61), 1 << 61, FOREVER - 1, FOREVER)


def draw_channel(rng, name, event_types, extremes):
    """Draw what a channel brings: gaps, repeats, heartbeats and extreme times, in order of its sequence."""
    items, seq, time = [], rng.choice((0, -5, NEVER)), rng.randint(0, 5)
    for _ in range(rng.randint(10, 40)):
        time += rng.choice((0, 1, 1, 2))
        at = time - rng.randint(0, 6) if rng.random() < 0.2 else time
        if rng.random() < extremes:
            at = rng.choice(EXTREMES)
        roll = rng.random()
        if roll < 0.1:
            items.append(Heartbeat(at, name, rng.choice((seq, max(seq - 1, NEVER)))))
        elif roll < 0.3 and items:
            # What comes again is what came before, however long ago.
            items += rng.sample(items, min(len(items), rng.randint(1, 4)))
            continue
        else:
            event_type = rng.choice(event_types) if rng.random() < 0.2 else Txn
            data = (
                Close(at) if event_type is Close else Txn(at, rng.randint(0, 3), rng.randint(-9, 9))
            )
            items.append(Event(data, name, seq))
        seq += 1 if rng.random() < 0.7 else rng.randint(2, 9)
    return items


def give_account(answer):
    """Return what the reference came to, as shards show it."""
    return {
        "outputs": expected_rows(answer),
        "late": sorted((x.event.channel, x.event.seq, x.distance) for x in answer.late),
        "rejected": sorted((r.item.channel, r.item.seq, r.reason) for r in answer.rejected),
        "ledger": answer.ledger,
    }


def take_account(engine):
    late = [
        (s.channel, s.seq, int(s.reason.partition(" ")[0]))
        for s in engine.emitted
        if s.kind == "late"
    ]
    rejected = [(s.channel, s.seq, s.reason) for s in engine.emitted if s.kind == "rejected"]
    return {
        "outputs": emitted_rows(engine),
        "late": sorted(late),
        "rejected": sorted(rejected),
        "ledger": engine.ledger,
    }


@WAYS
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_differential_reference_and_shards_give_the_same_verdicts(name, rule, columns):
    program = PROGRAMS[name]
    seen = set()
    for seed in range(4 if columns else 8):
        rng = random.Random(f"{name} {rule} {seed}")
        channels = (Channel("a", **RULES[rule]), Channel("b"), Channel("c", lateness=4))
        extremes = rng.choice((0, 0, 0.03))
        items = [
            item
            for channel in (*channels, Channel("stranger"))
            for item in draw_channel(rng, channel.name, program.inputs, extremes)
        ]
        items = items if rng.random() < 0.3 else end_channels(items, channels=channels)
        answer = run(program, items, channels)
        engine = Engine(program, channels, rng.choice((1, 3)), columns=columns)
        for batch in cut(rng, items):
            engine.batch(batch)
            if rng.random() < 0.3:
                forget_tables()  # As after a restart.
        assert emit(program, items, channels).answer.ledger == answer.ledger
        expected = give_account(answer)
        found = take_account(engine)
        assert found == expected, f"seed {seed}"
        seen |= {reason.partition(" ")[0] for _, _, reason in expected["rejected"]}
    assert {"sequence", "unknown", "on"} <= seen


def transfer(seq, time=None, amount=-5):
    return Event(Txn(seq if time is None else time, 1, amount), "bank", seq)


@WAYS
def test_of_two_different_events_with_one_number_the_first_is_kept(columns):
    program = PROGRAMS["sequential"]
    channels = (Channel("bank"),)
    items = [
        transfer(1), transfer(2), transfer(1, 3), transfer(4), transfer(4, 4, 9),
        Event(Close(5), "bank", 4), transfer(6), transfer(2, 6, 1), transfer(7),
    ]  # fmt: skip
    items = end_channels(items, channels=channels)
    expected = give_account(run(program, items, channels))
    assert [seq for _, seq, _ in expected["rejected"]] == [1, 2, 4, 4]
    rows = [to_row(item) for item in items]
    for cuts in ([], [5], [3, 6], range(1, len(rows))):
        bounds = [0, *cuts, len(rows)]
        engine = Engine(program, channels, 1, columns=columns)
        for start, end in pairwise(bounds):
            engine.batch([rows[start:end]])
        assert take_account(engine) == expected, list(cuts)


@WAYS
def test_a_batch_that_comes_again_changes_nothing_but_the_count_of_rejected(columns):
    program = PROGRAMS["keyed"]
    channels = (Channel("bank", lateness=2),)
    rows = [to_row(transfer(n, 100 + n, 6)) for n in range(20)]
    once, twice = (Engine(program, channels, 2, columns=columns) for _ in range(2))
    once.batch([rows])
    twice.batch([rows])
    twice.batch([[row | {"time": row["time"] + 1_000_000} for row in rows]])
    assert twice.watermark == once.watermark
    assert emitted_rows(twice) == emitted_rows(once)
    assert twice.ledger == once.ledger._replace(input=40, rejected=20)


@pytest.mark.parametrize("seq", [None, "seq"], ids=["places", "column"])
@pytest.mark.parametrize("shards", [1, 3])
def test_differential_repeats_in_files_that_are_folded_as_they_are_read(
    tmp_path, monkeypatch, seq, shards
):
    monkeypatch.setattr(look_ahead, "_FEWEST_EVENTS", 0)
    monkeypatch.setattr(file_source, "BLOCK_ROWS", 5)
    program, rejected = load("examples/key_counter.py"), 0
    inc, read = program.event_type("Inc"), program.event_type("Read")
    for seed in range(15):
        rng = random.Random(f"{seq} {shards} {seed}")
        channels = [Channel("a", lateness=rng.choice((0, 3))), Channel("m")]
        rows = {"a": [(n, inc(n + rng.randint(0, 2), rng.randint(0, 3))) for n in range(80)]}
        rows["m"] = [(n, read(9 * n + 5, rng.randint(0, 3))) for n in range(9)]
        items, folders = [], []
        for channel in channels:
            queue, number = rows[channel.name], 0
            folder = tmp_path / f"{seed}" / channel.name
            folder.mkdir(parents=True)
            while queue:
                part = [queue.pop(0) for _ in range(min(len(queue), rng.randint(1, 14)))]
                if rng.random() < 0.3:
                    queue = part[rng.randint(0, len(part) - 1) :] + queue
                table = pa.Table.from_pylist([{"seq": n} | data._asdict() for n, data in part])
                pq.write_table(table, folder / f"{number:03}.parquet")
                for place, (n, data) in enumerate(part):
                    at = (number << 32) + place if seq is None else n
                    items.append(Event(data, channel.name, at))
                number += 1
            event_type = inc if channel.name == "a" else read
            reading = Reading(event_type=event_type.__name__, channel=channel.name, seq=seq)
            folders.append(Folder(Files(folder, files_per_batch=rng.randint(1, 4)), reading))
        engine = Engine(program, channels, shards, columns=True)
        engine.job = dataclasses.replace(engine.job, folders=tuple(folders))
        assert can_look_ahead(engine.job)
        follow(FusedReader(engine.job, 2), engine)
        answer = run(program, items, channels)
        assert take_account(engine) == give_account(answer), f"seed {seed}"
        rejected += answer.ledger.rejected
    assert (rejected > 0) == (seq is not None)


def test_events_are_spread_alike_in_rows_and_columns():
    seqs = [NEVER, -1, 0, 1, FOREVER - 1, FOREVER]
    for lanes in (1, 3, 16):
        found = spread_channels(np.array([0] * 6 + [1] * 6), np.array(seqs * 2), ("a", "b"), lanes)
        events = [Event(Close(1), name, seq) for name in "ab" for seq in seqs]
        assert found.tolist() == [spread(event) % lanes for event in events]


@pytest.mark.parametrize("slack", [0, 1, 1 << 61, FOREVER, FOREVER + 1, FOREVER * 2, 1 << 70])
def test_a_promise_never_wraps_around(slack):
    times = [NEVER + 1, -(1 << 61), -1, 0, 1, 1 << 61, FOREVER - 1]
    expected = [max(NEVER, time - slack) for time in times]
    assert _promise(np.array(times, np.int64), slack).tolist() == expected


class Visit(NamedTuple):
    time: int
    at: datetime
    local: datetime
    event_types: dict[str, int]


def tell(state, visit):
    if visit.event_types.get("fail"):
        raise Mute
    return (
        visit.at.hour,
        visit.local.hour,
        str(visit.at.tzinfo),
        sorted(visit.event_types.items()),
    )


visits = Program(on(Visit, output=tell, update=lambda n, visit: n + 1), init=0, name="visits")


def test_a_frame_gives_the_verdicts_of_the_reference_in_any_zone(spark):
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    maps = [{"x": 1}, {"fail": 1}, {"x": 2}, {}, {"y": 3}, {"z": 4}]
    times = [5, 6, 7, FOREVER - 1, NEVER + 1, 8]
    seqs = [0, 1, 1, 2, 3, 4]
    channels = ["a"] * 5 + ["stranger"]
    items = [
        Event(Visit(t, noon, noon, m), s, n)
        for t, m, s, n in zip(times, maps, channels, seqs, strict=True)
    ]
    answer = run(visits, end_channels(items, channels=[Channel("a")]), [Channel("a")])
    schema = "time long, at timestamp, local timestamp_ntz, event_types map<string, int>, channel string, seq long"
    rows = [(t, noon, noon.replace(tzinfo=None), m, s, n)
            for t, m, s, n in zip(times, maps, channels, seqs, strict=True)]  # fmt: skip
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        frame = spark.createDataFrame(rows, schema).coalesce(1)
        source = Frame(
            frame, event="Visit", seq="seq", channel_column="channel", channels=[Channel("a")]
        )
        result = run_on_spark(visits, [source], shards=1)
        result = result.with_packs(result.packs.cache())
        found = result.outputs.orderBy("time").collect()
        late = result.late.collect()
        rejected = result.rejected.collect()
        result.packs.unpersist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [json.loads(row.value) for row in found] == [encode_value(v) for v in answer.values]
    assert json.loads(found[0].value) == [12, 12, "UTC", [["x", 1]]]
    assert [(row.seq, row.distance) for row in late] == [(3, FOREVER)]
    assert [(x.event.seq, x.distance > FOREVER) for x in answer.late] == [(3, True)]
    assert sorted(row.reason for row in rejected) == sorted(r.reason for r in answer.rejected)
