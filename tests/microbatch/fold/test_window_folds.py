"""Windows by columns against the program that they are: the same rows, ids and counts."""

import json
import random
from typing import NamedTuple

import numpy as np
import pytest

from anabranch import Event
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.windows.panes import Windowing
from anabranch.eventtime.windows.triggers import AfterCount, AfterWatermark, Repeatedly
from anabranch.eventtime.windows.window_types import Global, Sessions, Sliding, Tumbling
from anabranch.microbatch.columns.event_tables import OutgrownStateError
from anabranch.microbatch.columns.session_pieces import find_pieces
from anabranch.microbatch.fold import window_folds as columnar
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.window_plan import SlicePart
from anabranch.plan.layouts import choose_layout
from anabranch.query.window_aggregates import aggregate
from anabranch.reference.sequential import run
from anabranch.state import Count, Max, Mean, Min, Sum, TopK
from tests.microbatch.test_microbatches import Engine, cut, emitted_rows, expected_rows, to_row


class Bid(NamedTuple):
    time: int
    auction: int
    price: int


class Ping(NamedTuple):
    time: int
    at: int
    host: int


class Offer(NamedTuple):
    time: int
    auction: str
    price: int


CHANNELS = (Channel("a", lateness=2), Channel("b"))
NAMES = ["x", "y's", 'a "b" \\ é\n']


def draw_bids(rng, event_type, count):
    items = []
    for name in "ab":
        time = rng.randint(-20, 20)
        for seq in range(count):
            time += rng.choice((0, 0, 1, 1, 2, 30 if rng.random() < 0.05 else 0))
            at = time - rng.randint(0, 3) if name == "a" else time
            auction = rng.randint(-1, 2)
            key = auction if event_type is Bid else NAMES[auction]
            items.append(Event(event_type(at, key, rng.randint(-99, 99)), name, seq))
    return items


@pytest.mark.parametrize("per", ["auction", None])
@pytest.mark.parametrize("event_type", [Bid, Offer])
def test_differential_windows_by_columns_say_what_the_program_says(event_type, per, monkeypatch):
    emitted = 0
    for seed in range(40):
        rng = random.Random(seed)
        # Pairs of a key and a slice have a place of their own, or none.
        monkeypatch.setattr(columnar, "_DENSE", rng.choice([-1 << 40, 1 << 22]))
        size = rng.randint(1, 12)
        every, offset = rng.randint(1, size), rng.randint(-3, 5)
        window = rng.choice(
            [
                Tumbling(size, offset=offset),
                Sliding(size, every, offset=offset),
                Sessions(rng.randint(1, 6)),
            ]
        )
        program = aggregate(
            event_type, window, per=per,
            n=Count(), top=(Max(), "price"), low=(Min(), "price"), sum=(Sum(), "price"),
            mean=(Mean(), "price"),
        )  # fmt: skip
        items = draw_bids(rng, event_type, 50)
        items = end_channels(items, channels=CHANNELS) if rng.random() < 0.5 else items
        answer = run(program, items, CHANNELS)
        engine = Engine(program, CHANNELS, rng.choice([1, 3]), columns=True)
        assert engine.columns.windows is not None
        for batch in cut(rng, items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer), seed
        assert engine.ledger == answer.ledger
        emitted += len(answer.outputs)
    assert emitted > 500


def test_differential_triggers_that_speak_once_say_the_same_by_columns():
    emitted = 0
    for seed in range(30):
        rng = random.Random(seed)
        window = rng.choice([Tumbling(5), Sliding(6, every=2), Sessions(3)])
        trigger = AfterWatermark(late=rng.choice([AfterCount(1), Repeatedly(AfterCount(2))]))
        way = rng.choice(["discarding", "accumulating", "retracting"])
        over = Windowing(window, trigger, accumulation=way)
        program = aggregate(Bid, over, per="auction", n=Count(), sum=(Sum(), "price"))
        items = end_channels(draw_bids(rng, Bid, 30), channels=CHANNELS)
        answer = run(program, items, CHANNELS)
        engine = Engine(program, CHANNELS, 2, columns=True)
        assert engine.columns.windows is not None
        for batch in cut(rng, items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer), seed
        emitted += len(answer.outputs)
    assert emitted > 500


def test_slices_that_no_open_window_needs_are_forgotten():
    program = aggregate(Bid, Sliding(10, every=5), per="auction", n=Count())
    engine = Engine(program, (Channel("b", unique_times=True),), 1, columns=True)
    for time in range(0, 4000, 4):
        engine.batch([[to_row(Event(Bid(time, time % 3, 1), "b", time))]])
    assert len(engine.stores[0].pages) < 20
    rows = [s for s in engine.emitted if s.kind == "output"]
    assert len(rows) == len(
        run(
            program,
            [Event(Bid(t, t % 3, 1), "b", t) for t in range(0, 4000, 4)],
            (Channel("b", unique_times=True),),
        ).outputs
    )


def test_differential_keys_far_apart_in_time_have_slices_of_their_own():
    program = aggregate(Bid, Tumbling(3), per="auction", n=Count(), top=(Max(), "price"))
    far = [-(1 << 60), -(1 << 59), 0, 1 << 59, 1 << 60]
    bids = [Bid(time + key % 2, key, key) for time in far for key in range(9)]
    items = end_channels([Event(bid, "b", seq) for seq, bid in enumerate(bids)])
    engine = Engine(program, (Channel("b", lateness=2),), 1, columns=True)
    engine.batch([[to_row(item) for item in items]])
    assert emitted_rows(engine) == expected_rows(run(program, items, (Channel("b", lateness=2),)))


def test_pages_of_a_long_window_stay_few():
    program = aggregate(Bid, Tumbling(100_000), per="auction", n=Count())
    engine = Engine(program, (Channel("b", unique_times=True),), 1, columns=True)
    for time in range(300):
        engine.batch([[to_row(Event(Bid(time, time % 90, 1), "b", time))]])
    assert len(engine.stores[0].pages) < 12
    engine.batch([[to_row(Event(Bid(200_000, 0, 1), "b", 200_000))]])
    counts = [json.loads(row.value)["value"]["n"] for row in engine.emitted if row.kind == "output"]
    assert (len(counts), sum(counts)) == (90, 300)


@pytest.mark.parametrize(("over", "folds", "reason"), [
    (Global(), {"n": Count()}, "Global windows do not lie on a grid"),
    (Tumbling(5), {"k": (TopK(2), "price")}, "k is not a count, sum, minimum or maximum of integers"),
    (Tumbling(5), {"n": (Sum(), len)}, "n is not a count, sum, minimum or maximum of integers"),
    (Windowing(Tumbling(5), Repeatedly(AfterCount(1))), {"n": Count()},
     "windows have a trigger of their own, Repeatedly(inner=AfterCount(n=1))"),
    (Windowing(Tumbling(5), AfterCount(3), may_lose=True), {"n": Count()},
     "windows have a trigger of their own, AfterCount(n=3)"),
    (Windowing(Tumbling(5), allowed_lateness=3), {"n": Count()}, "windows stay open for late events"),
    (Windowing(Tumbling(5), output_time="latest"), {"n": Count()},
     "panes have a time of their own, or are always emitted"),
    (Tumbling(5), {}, "windows use a user-defined fold"),
])  # fmt: skip
def test_what_does_not_fit_columns_says_why(over, folds, reason):
    program = aggregate(Bid, over, per="auction", **folds)
    assert (
        plan_columns(program, choose_layout(program, 2), {"b": Channel("b")}, numbered=True)
        == reason
    )


def test_windows_by_another_field_than_the_clock_say_so():
    program = aggregate(Ping, Tumbling(5), per="host", at="at", delay=2, n=Count())
    reason = plan_columns(program, choose_layout(program, 2), {"b": Channel("b")}, numbered=True)
    assert reason == "windows are over at, and not over time"


def test_a_trigger_that_only_names_the_watermark_fits_columns():
    program = aggregate(
        Bid, Windowing(Tumbling(5), AfterWatermark(late=AfterCount(1))), per="auction", n=Count()
    )
    plan = plan_columns(program, choose_layout(program, 2), {"b": Channel("b")}, numbered=True)
    assert plan.windows.parts == (SlicePart("count"),)


@pytest.mark.parametrize(("bids", "message"), [
    ([Bid(1, 0, 1 << 62), Bid(2, 0, 1 << 62)], "a sum of a window may not fit into 64 bits"),
    ([Bid(1, 0, 1 << 62), Bid(7, 0, 1 << 62), Bid(30, 0, 0)], "may not fit into 64 bits"),
])  # fmt: skip
def test_what_outgrows_64_bits_stops_and_tells_the_cure(bids, message):
    program = aggregate(Bid, Sliding(10, every=5), per="auction", sum=(Sum(), "price"))
    engine = Engine(program, (Channel("b", unique_times=True),), 1, columns=True)
    rows = [to_row(Event(bid, "b", seq)) for seq, bid in enumerate(bids)]
    for row in rows[:-1]:
        engine.batch([[row]])
    with pytest.raises(OutgrownStateError, match=message):
        engine.batch([rows[-1:]])


@pytest.mark.parametrize("window", [Tumbling(10), Sliding(10, every=5), Sessions(10)])
@pytest.mark.parametrize("shards", [1, 3])
def test_differential_an_event_too_far_away_for_a_window_is_rejected(window, shards):
    program = aggregate(Bid, window, per="auction", n=Count())
    far = 1 << 61
    times = [-(1 << 62), -far, 1 - far, 1, 2, 30, far - 1, far, 1 << 62, (1 << 63) - 2]
    channel = Channel("b", lateness=None)
    items = [Event(Bid(time, seq % 3, 1), "b", seq) for seq, time in enumerate(times)]
    items = end_channels(items, channels=[channel])
    answer = run(program, items, [channel])
    assert (answer.ledger.processed, answer.ledger.rejected) == (5, 5)
    line = program.where.line  # The aggregate's own: no function of the user has raised.
    assert answer.rejected[0].reason == (
        f"on Bid: InputError: time {-(1 << 62)} is out of range for a window"
        f" (test_window_folds.py:{line})"
    )
    for columns in (False, True):
        engine = Engine(program, (channel,), shards, columns=columns)
        assert bool(engine.columns) == columns
        for part in ([items[:4]], [items[4:8], items[8:]]):
            engine.batch([[to_row(item) for item in task] for task in part])
        assert emitted_rows(engine) == expected_rows(answer)
        assert engine.ledger == answer.ledger
        rejected = {(row.seq, row.reason) for row in engine.emitted if row.kind == "rejected"}
        assert rejected == {(one.item.seq, one.reason) for one in answer.rejected}


def test_differential_sessions_far_apart_in_time_are_found_all_the_same():
    far = 1 << 60
    for seed in range(100):
        rng = random.Random(seed)
        rows = [(rng.randint(0, 2), rng.randint(0, 9), rng.randint(0, 4)) for _ in range(12)]
        keys, firsts = (np.array([row[n] for row in rows]) for n in (0, 1))
        lasts = firsts + np.array([row[2] for row in rows])
        near = find_pieces(keys, firsts, lasts, 3)
        # One more key, at the other end of time, makes the numbers too large for a running maximum.
        wide = find_pieces(np.append(keys, 9), np.append(firsts, -far), np.append(lasts, far), 3)
        assert [part[: len(near[n])].tolist() for n, part in enumerate(wide)] == [
            part.tolist() for part in near
        ]


def test_differential_events_taken_in_turn_give_the_same_panes_however_batches_are_cut():
    deferring = AfterWatermark(early=Repeatedly(AfterCount(2)), late=AfterCount(1))
    over = Windowing(Tumbling(10), deferring, allowed_lateness=8, accumulation="retracting")
    program = aggregate(Ping, over, per="host", at="at", delay=2, n=Count())
    channels = (Channel("a", order="arrival"), Channel("b", order="arrival"))
    timings = set()
    for seed in range(40):
        rng = random.Random(seed)
        items = []
        for name in "ab":
            for seq in range(40):
                at = seq + rng.randint(-12 if rng.random() < 0.3 else -1, 1)
                items.append(Event(Ping(at, at, rng.randint(0, 2)), name, seq))
        items = end_channels(items, channels=channels) if seed % 2 else items
        answer = run(program, items, channels)
        assert answer.ledger.late == 0
        engine = Engine(program, channels, 3)
        for batch in cut(rng, items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer), seed
        assert engine.ledger == answer.ledger
        timings |= {getattr(value, "timing", "missed") for value in answer.values}
    assert timings == {"early", "on_time", "late", "missed"}


def test_the_time_of_an_event_that_comes_in_turn_is_its_channels_clock():
    program = aggregate(Ping, Tumbling(100), at="at", delay=0)
    pings = [Ping(5, 5, 0), Ping(3, 3, 0), Ping(9, 9, 0), Ping(4, 4, 0)]
    items = end_channels([Event(ping, "a", seq) for seq, ping in enumerate(pings)])
    (emitted,) = run(program, items, (Channel("a", order="arrival"),)).values
    assert emitted.value == (Ping(5, 5, 0), Ping(5, 3, 0), Ping(9, 9, 0), Ping(9, 4, 0))
    with pytest.raises(ValueError, match="is in arrival order, in which no event is late"):
        Channel("a", lateness=3, order="arrival")
