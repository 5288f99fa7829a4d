"""Replicas: a copy that follows what batches change is what a full read says, and what the fold says."""

import random
import re
from collections import Counter
from math import gcd
from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, load, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.microbatch.inspect.replica import Replica
from anabranch.microbatch.inspect.state_tables import (
    describe_store,
    tabulate_store,
    unify_kinds,
)
from anabranch.microbatch.inspect.stored_state import read_overview, read_pending, sort_stores
from anabranch.microbatch.store.state_store import DamagedStateError
from anabranch.model.shapes import MISSING, WrittenShape
from anabranch.model.targets import load_module
from anabranch.model.values.maps import Map
from anabranch.plan.foldable_leaves import join_deltas
from anabranch.query.window_aggregates import aggregate
from anabranch.reference.sequential import run
from anabranch.state import Count, MapOf, Min, Sum
from anabranch.state.durable.codec import make_codec
from anabranch.state.durable.row_tables import from_table
from tests.microbatch.programs import PROGRAMS, Reading
from tests.microbatch.restore.test_shard_restore import list_values
from tests.microbatch.test_microbatches import EXAMPLES, Engine, cut, draw_items, to_row


def list_changes(before, after):
    """Yield what a batch wrote and removed, in the order of nothing in particular."""
    old = {value[:3]: value[3] for value in before}
    new = {value[:3]: value[3] for value in after}
    for place in old.keys() - new.keys():
        yield (*place, None)
    for place, data in new.items():
        if old.get(place) is not data:
            yield (*place, data)


def tabulate(values):
    """Return the tables of all stores, as a query sees them."""
    stores = sort_stores(values)
    description = read_overview(stores).description
    relation = unify_kinds(
        describe_store(description, address, store) for address, store in stores.items()
    )
    return relation, [
        tabulate_store(relation, description, address, store) for address, store in stores.items()
    ]


def read_rows(values):
    """Return the rows of all stores."""
    relation, tables = tabulate(values)
    return relation, [row for table in tables for row in table.to_pylist()]


def follow(engine, batches, rng):
    """Run batches, and yield a replica that follows them, some of them two at a time."""
    replica = None
    seen = []
    for number, batch in enumerate(batches):
        engine.batch(batch)
        if replica is not None and rng.random() < 0.3 and number < len(batches) - 1:
            continue
        values = list(list_values(engine))
        if replica is None:
            replica = Replica(number, values)
        else:
            replica.apply(number, list_changes(seen, values))
        seen = values
        yield number, replica, values


CASES = [(name, columns) for name in PROGRAMS for columns in (False, True)]


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_differential_a_replica_that_follows_says_what_a_new_one_says(name, columns):
    program = PROGRAMS[name]
    channels = tuple(Channel(name) for name in "abc")
    for seed in range(3):
        rng = random.Random(seed)
        items = end_channels(draw_items(rng, program, 30), channels=channels)
        hot_keys = rng.choice(((), (1, 2))) if not columns else ()
        engine = Engine(program, channels, rng.choice((1, 3)), hot_keys, columns=columns)
        for number, replica, values in follow(engine, cut(rng, items), rng):
            fresh = Replica(number, values)
            copy = replica.current
            assert (copy.batch, copy.watermark) == (number, fresh.current.watermark)
            assert copy.lookups.keys() == fresh.current.lookups.keys()
            relation, rows = read_rows(values)
            if relation.key is None:
                assert copy.find(None) == fresh.current.find(None)
            for key in range(-1, 6):
                assert copy.find(key) == fresh.current.find(key)
                assert (copy.find(key) is MISSING) == all(row.get("key") != key for row in rows)


@pytest.mark.parametrize("columns", [False, True], ids=["objects", "columns"])
@pytest.mark.parametrize("name", [*EXAMPLES, *PROGRAMS])
def test_oracle_rows_and_look_ups_are_the_state_of_the_fold(name, columns):
    if name in PROGRAMS:
        program, channels = PROGRAMS[name], tuple(Channel(one) for one in "abc")
        items = end_channels(draw_items(random.Random(7), program, 40), channels=channels)
    else:
        module = load_module(f"examples/{name}.py")
        program, channels = load(f"examples/{name}.py"), module.channels
        items = end_channels(module.events, channels=channels)
    engine = Engine(program, channels, 3, columns=columns)
    for batch in cut(random.Random(1), items):
        engine.batch(batch)
    values = list(list_values(engine))
    copy = Replica(0, values).current
    expected = run(program, items, channels).state
    if engine.job.layout.way == "forked":
        # Leaves that no marker has joined are not in it; with them it is what the fold says.
        found = gather(program, copy, values)
        for several in read_overview(sort_stores(values)).deltas.items():
            for delta in several[1]:
                found = join_deltas(program, found, {several[0]: lift(program, copy, delta)})
        assert found == expected
    elif engine.job.layout.way == "shared":
        assert gather(program, copy, values) == expected.each
        common = copy.find(None)
        assert common is MISSING or lift(program, copy, common) == expected.common
    elif engine.columns is None or engine.columns.windows is None:
        assert gather(program, copy, values) == expected
    else:
        assert read_rows(values)[1] == [], "all windows have been said"


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "objects"])
def test_of_several_pages_that_hold_a_key_the_last_one_is_right(columns):
    channels = (Channel("s", unique_times=True),)
    engine = Engine(PROGRAMS["hot_keys"], channels, 2, columns=columns)
    expected = {key: key for key in range(300)}
    batches = [expected, {key: 1000 + key for key in (3, 5, 299)}, {5: 2000, 400: 1}]
    seq, replica, seen = 0, None, []
    for number, batch in enumerate(batches):
        events = []
        for key, amount in batch.items():
            events.append(Event(Reading(seq, key, amount), "s", seq))
            seq += 1
        engine.batch([[to_row(event) for event in events]])
        values = list(list_values(engine))
        if replica is None:
            replica = Replica(number, values)
        else:
            replica.apply(number, list_changes(seen, values))
        seen = values
        expected = {**expected, **batch}
        assert {row["key"]: row["value"] for row in read_rows(values)[1]} == expected
        assert {key: replica.current.find(key) for key in expected} == expected
    if columns:
        assert sum(name.startswith("entries/") for *_, name, _ in values) > 3
    assert replica.current.find("5") is replica.current.find(5.5) is MISSING


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "objects"])
def test_a_page_that_is_gone_is_an_error_and_not_a_shorter_table(columns):
    engine = Engine(
        PROGRAMS["hot_keys"], (Channel("a", unique_times=True), Channel("b")), 1, columns=columns
    )
    events = [Event(Reading(n, n % 9, 1), "a", n) for n in range(40)]
    events += [Event(Reading(20, 3, 1), "b", 0)]
    engine.batch([[to_row(event) for event in events]])
    values = list(list_values(engine))

    def look(some):
        stores = sort_stores(some)
        description = read_overview(stores).description
        waiting = [
            e for a, store in stores.items() for e in read_pending(description, a.number, store)
        ]
        return len(read_rows(some)[1]), len(waiting)

    assert look(values) == (9, 21)
    pages = [value[2] for value in values if "/" in value[2]]
    assert {name.partition("/")[0] for name in pages} == {"entries", "pending"}
    for gone in pages:
        left = [value for value in values if value[2] != gone]
        with pytest.raises(DamagedStateError, match=re.escape(repr(gone))):
            look(left)


@pytest.mark.parametrize("windows", [True, False], ids=["windows", "entries"])
def test_a_replica_goes_from_any_values_to_any_others(windows):
    program = PROGRAMS["hot_keys"]
    if windows:
        program = aggregate(Reading, Tumbling(1000), per="meter", total=(Sum(), "amount"))
    channels = (Channel("s", unique_times=True),)
    several = []
    for amount in (3, 8):
        engine = Engine(program, channels, 2, columns=True)
        rows = [to_row(Event(Reading(n, n % 9, amount), "s", n)) for n in range(40)]
        engine.batch([rows])
        several.append(list(list_values(engine)))
    replica = Replica(0, several[0])
    before = replica.current
    replica.apply(1, list_changes(*several))
    for values, copy in zip(several, (before, replica.current), strict=True):
        fresh = Replica(0, values).current
        assert [copy.find(key) for key in range(9)] == [fresh.find(key) for key in range(9)]
    assert before.find(4) != replica.current.find(4)


def test_an_entry_that_is_let_go_of_is_missing_from_rows_and_look_ups_and_comes_again():
    program = Program(
        on(Bid, update=lambda total, bid: total + bid.price),
        depends(Bid, Bid, same="auction"),
        state=MapOf(WrittenShape(0), by="auction", sparse=True),
    )
    channels = (Channel("s", unique_times=True),)
    engine = Engine(program, channels, 2, columns=False)
    amounts = [{1: 5, 2: 7}, {1: -5}, {2: -7, 3: 1}, {1: 4}]
    replica, seen, seq = None, [], 0
    for number, batch in enumerate(amounts):
        events = []
        for auction, price in batch.items():
            events.append(Event(Bid(seq, auction, price), "s", seq))
            seq += 1
        engine.batch([[to_row(event) for event in events]])
        values = list(list_values(engine))
        if replica is None:
            replica = Replica(number, values)
        else:
            changes = list(list_changes(seen, values))
            assert any(data is None for *_, data in changes) == (number in (1, 2))
            replica.apply(number, changes)
        seen = values
        totals = Counter()
        for some in amounts[: number + 1]:
            totals.update(some)
        expected = {auction: total for auction, total in totals.items() if total}
        assert {row["key"]: row["value"] for row in read_rows(values)[1]} == expected
        found = {key: replica.current.find(key) for key in (1, 2, 3)}
        assert {key: value for key, value in found.items() if value is not MISSING} == expected


def gather(program, copy, values):
    """Return the state that look-ups of all keys add up to; rows must say exactly the same."""
    relation, tables = tabulate(values)
    codec = copy.description.codec
    pairs = [
        pair
        for table in tables
        for pair in from_table(relation.key, relation.entry, table, codec.records, codec)
    ]
    found = {key: copy.find(key) for key, _ in pairs}
    assert pairs == list(found.items())
    if relation.key is not None:
        return Map({key: lift(program, copy, value) for key, value in found.items()})
    return lift(program, copy, found[None]) if found else program.init


def lift(program, copy, value):
    """Return a value that was read without the program as the program knows it."""
    return make_codec(program).decode(copy.description.codec.encode(value))


class Offer(NamedTuple):
    time: int
    auction: str
    price: int


class Bid(NamedTuple):
    time: int
    auction: int
    price: int


@pytest.mark.parametrize("per", ["auction", None])
@pytest.mark.parametrize("event_type", [Bid, Offer])
@pytest.mark.parametrize("window", [Tumbling(10), Sliding(12, every=4), Sessions(5)], ids=str)
def test_oracle_slices_are_those_of_windows_that_have_not_been_said(event_type, per, window):
    for seed in range(8):
        check_slices(event_type, per, window, random.Random(seed))


def check_slices(event_type, per, window, rng):
    program = aggregate(
        event_type, window, per=per, n=Count(), low=(Min(), "price"), total=(Sum(), "price")
    )
    channels = (Channel("s", unique_times=True),)
    events, time = [], -7
    for seq in range(80):
        time += rng.choice((1, 1, 2, 3, 9))
        auction = rng.choice(("x", "y", "z") if event_type is Offer else (-5, 0, 7))
        events.append(Event(event_type(time, auction, seq), "s", seq))
    engine = Engine(program, channels, 2, columns=True)
    assert engine.columns.windows is not None
    done = 0
    for _, replica, values in follow(engine, cut(rng, events), rng):
        done = engine_input(values)
        copy, rows = replica.current, read_rows(values)[1]
        assert copy.watermark == (events[done - 1].time if done else copy.watermark)
        expected = brute_force(window, per, events[:done], copy.watermark)
        keyed = {}
        for row in rows:
            keyed.setdefault(row.pop("key", None), []).append(row)
        assert keyed == expected
        for key in expected:
            assert copy.find(key) == expected[key]
        assert copy.find("nobody") is MISSING or per is None


def engine_input(values):
    return read_overview(sort_stores(values)).ledger.input


def brute_force(window, per, events, watermark):
    """Return for each key the slices of windows that end after a watermark, from all events."""
    found = {}
    for event in events:
        key = None if per is None else event.data.auction
        found.setdefault(key, []).append(event.data)
    return {key: rows for key, data in found.items() if (rows := slice_up(window, data, watermark))}


def slice_up(window, events, watermark):
    groups = []
    if isinstance(window, Sessions):
        for event in events:
            if groups and event.time - groups[-1][-1].time < window.gap:
                groups[-1].append(event)
            else:
                groups.append([event])
        groups = [(g[0].time, g) for g in groups if g[-1].time + window.gap > watermark + 1]
        more = lambda group: {"max_time": group[-1].time}  # noqa: E731
    else:
        size, every = (window.size, getattr(window, "every", window.size))
        width = gcd(size, every)
        starts = {}
        for event in events:
            starts.setdefault(event.time // width * width, []).append(event)
        groups = [
            (start, group)
            for start, group in starts.items()
            if start // every * every + size > watermark + 1
        ]
        more = lambda group: {}  # noqa: E731
    return [
        {
            "start": start, "events": len(group), "count": len(group),
            "min_price": min(e.price for e in group), "sum_price": sum(e.price for e in group),
            **more(group),
        }
        for start, group in groups
    ]  # fmt: skip
