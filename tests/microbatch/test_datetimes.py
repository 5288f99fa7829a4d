"""Datetimes as event times: shards give what the fold gives, on both paths, by whatever field is the time."""

import json
import random
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import pytest
from pyspark import cloudpickle

from anabranch import Event, EventTime, Program, depends, on
from anabranch.eventtime.channels import end_channels
from anabranch.eventtime.windows.panes import Windowing
from anabranch.eventtime.windows.triggers import AfterCount, AfterWatermark
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.microbatch.job.description import Description, describe_job
from anabranch.model.values.event_times import is_timestamped, time_field
from anabranch.query import aggregate, asof_join, interval_join, window_join
from anabranch.reference.sequential import run
from anabranch.sources import Channel
from anabranch.state import Count, Latest, MapOf, Sum, Value
from tests.cross.test_states import restart
from tests.microbatch.test_microbatches import Engine, cut
from tests.runtimes.runtimes import read_emitted, sum_up

START = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)
CHANNELS = [Channel("a", lateness="20 s"), Channel("b", lateness=timedelta(seconds=5))]


class Txn(NamedTuple):
    time: datetime
    user: str
    amount: int


class Pay(NamedTuple):
    user: str
    at: EventTime[datetime]
    amount: int


class Form(NamedTuple):
    """Whatever lies in columns, with and without values."""

    at: EventTime[datetime]
    user: str
    amount: int
    day: date
    paid: datetime | None
    due: date | None
    note: str | None
    rate: float | None
    ok: bool | None
    n: int | None


class Nap(NamedTuple):
    time: datetime
    user: str


FOLDS = {"n": Count(), "sum": (Sum(), "amount")}


def spend(state, event):
    return state + event.amount


def seen(state, event):
    return (event.time.isoformat(), state)


class Idle(NamedTuple):
    last: datetime | None = None
    n: int = 0


def remember(state, event):
    return Idle(event.at, state.n + 1)


def due(state):
    return None if state.last is None else state.last + timedelta(seconds=30)


def report(state, nap):
    return (nap.time - state.last, state.n)


PROGRAMS = {
    "tumbling": (aggregate(Txn, Tumbling("1 min"), per="user", **FOLDS), True),
    "sliding by another field": (
        aggregate(Pay, Sliding("1 min", every="20 s"), per="user", **FOLDS),
        True,
    ),
    "sessions": (aggregate(Pay, Sessions("2 s"), per="user", **FOLDS), True),
    "early panes": (
        aggregate(
            Pay,
            Windowing(
                Tumbling("1 min"),
                AfterWatermark(AfterCount(3), AfterCount(1)),
                allowed_lateness="1 s",
            ),
            per="user",
            **FOLDS,
        ),
        False,
    ),
    "a state per key": (
        Program(
            on(Txn, update=spend, output=seen),
            depends(Txn, Txn, same="user"),
            state=MapOf(Sum(), by="user"),
        ),
        True,
    ),
    "fields that may be None": (
        Program(
            on(
                Form,
                update=lambda state, event: state + (0 if event.n is None else event.n),
                output=lambda state, event: state,
            ),
            depends(Form, Form, same="user"),
            state=MapOf(Sum(), by="user"),
        ),
        True,
    ),
    "fields that are shown": (
        Program(
            on(Form, update=spend, output=lambda state, event: [repr(event)]),
            depends(Form, Form, same="user"),
            state=MapOf(Sum(), by="user"),
        ),
        True,
    ),
    "a time to live": (
        Program(
            on(Pay, update=spend, output=lambda state, event: state),
            depends(Pay, Pay, same="user"),
            state=MapOf(Sum(), by="user", ttl="20 s"),
        ),
        False,
    ),
    "timers": (
        Program(
            on(Pay, update=remember),
            on(Nap, due=due, output=report, update=lambda state, nap: Idle()),
            depends(Pay, Pay, same="user"),
            state=MapOf(Value(Idle()), by="user"),
        ),
        False,
    ),
    "the latest": (
        Program(
            on(
                Pay,
                update=lambda latest, pay: Latest().add(latest, pay),
                output=lambda latest, pay: None if latest is None else latest.at.isoformat(),
            ),
            depends(Pay, Pay, same="user"),
            state=MapOf(Latest(), by="user"),
        ),
        False,
    ),
    "interval join": (
        interval_join(Txn, Pay, on="user", lower="-5 s", upper="10 s", how="full"),
        False,
    ),
    "as-of join": (asof_join(Txn, Pay, on="user", within="10 s", how="left"), False),
    "window join": (window_join(Txn, Pay, on="user", window=Tumbling("20 s")), False),
}


def draw_form(rng, moment):
    values = {"paid": moment, "due": moment.date(), "note": "é", "rate": 0.5, "ok": True, "n": 3}
    drawn = {name: value if rng.random() < 0.5 else None for name, value in values.items()}
    return {"day": date(1969, 12, 31)} | drawn


def draw_events(program, seed):
    rng = random.Random(seed)
    items = []
    for name in ("a", "b"):
        moment = START
        for seq in range(60):
            moment += timedelta(microseconds=rng.choice((0, 1, 900_000, 4_000_000)))
            behind = timedelta(seconds=rng.choice((0, 0, 0, 3, 30)))
            fields = {"user": rng.choice("xyz"), "amount": rng.randint(1, 9)}
            event_type = rng.choice(program.inputs)
            time = {"time" if event_type is Txn else "at": moment - behind}
            fields |= draw_form(rng, moment) if event_type is Form else {}
            items.append(Event(event_type(**time, **fields), name, seq))
    return items


@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_differential_shards_say_what_the_fold_says(name, columns):
    program, fits = PROGRAMS[name]
    items = end_channels(draw_events(program, 3), channels=CHANNELS)
    expected = run(program, items, CHANNELS)
    assert len(expected.outputs) > 3
    assert expected.ledger.late > 0
    engine = Engine(program, CHANNELS, 3, columns=columns)
    assert (engine.columns is not None) == (columns and fits)
    for tasks in cut(random.Random(7), items):
        engine.batch(tasks)
        restart(engine)
    assert read_emitted(engine.emitted, engine.ledger) == sum_up(expected)


def test_an_event_type_that_travels_by_value_keeps_its_time():
    class Local(NamedTuple):
        at: EventTime[datetime]

    travelled = cloudpickle.loads(cloudpickle.dumps(Local))
    assert (time_field(travelled), is_timestamped(travelled)) == ("at", True)


def test_a_description_knows_the_time_without_the_program():
    for name in ("sliding by another field", "interval join", "tumbling"):
        job = Engine(PROGRAMS[name][0], CHANNELS, 2, columns=True).job
        found = Description.read(describe_job(job).write())
        assert list(map(time_field, found.type_classes)) == list(
            map(time_field, job.program.event_types)
        )


def test_a_window_of_datetimes_starts_and_ends_at_datetimes():
    program = aggregate(Txn, Tumbling("10 min"), per="user", n=Count())
    items = [Event(Txn(START, "x", 1), "a", 0)]
    bounds = datetime(2026, 3, 29, 0, 50, tzinfo=UTC), datetime(2026, 3, 29, 1, tzinfo=UTC)
    emitted = run(program, end_channels(items, channels=CHANNELS[:1]), CHANNELS[:1]).values
    assert [(one.start, one.end) for one in emitted] == [bounds]
    assert emitted[0].time == bounds[1] - timedelta(microseconds=1)
    engine = Engine(program, CHANNELS[:1], 1, columns=True)
    for tasks in cut(random.Random(7), end_channels(items, channels=CHANNELS[:1])):
        engine.batch(tasks)
    rows = [row for row in engine.emitted if row.kind == "output"]
    assert [json.loads(row.value)["start"] for row in rows] == ["2026-03-29T00:50:00+00:00"]
    assert [row.time for row in rows] == [1_774_746_000_000_000 - 1]


def test_a_timestamp_beyond_the_calendar_is_rejected_on_both_paths():
    program = aggregate(Txn, Tumbling("10 min"), per="user", n=Count())
    row = {"channel": "a", "seq": 0, "type": "Txn", "user": "x", "amount": 1, "time": 1 << 61}
    for columns in (False, True):
        engine = Engine(program, CHANNELS, 1, columns=columns)
        engine.batch([[row]])
        found = [one.reason for one in engine.emitted if one.kind == "rejected"]
        assert found == ["field 'time' of Txn: expected datetime, got 2305843009213693952 (int)"]
