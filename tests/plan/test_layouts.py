"""Which way a program is wired, and where its events go."""

from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, load, on
from anabranch.plan.layout_plans import check_layout
from anabranch.plan.layouts import choose_layout
from anabranch.state import Count, MapOf, Replicated, Shared, Sum


class Value(NamedTuple):
    time: int
    key: int
    amount: int


class Mark(NamedTuple):
    time: int
    key: int


class Other(NamedTuple):
    time: int
    key: int


class Limit(NamedTuple):
    time: int
    most: int


class Tick(NamedTuple):
    time: int


@pytest.mark.parametrize(("name", "way"), [
    ("ewma", "keyed"), ("key_counter", "keyed"), ("click_through", "keyed"),
    ("page_view", "replicated"), ("exchange", "shared"),
    ("value_barrier", "forked"), ("max_temperature", "forked"), ("taxi_tips", "forked"),
    ("fraud", "forked"), ("inc_dec", "forked"), ("smart_home", "forked"),
])  # fmt: skip
def test_each_example_is_wired_its_best_way(name, way):
    assert choose_layout(load(f"examples/{name}.py"), 8).way == way


def test_a_sequential_program_says_what_stood_in_the_way_of_each_other_way():
    program = Program(
        on(Value, output=lambda s, e: s, update=lambda s, e: s + e.amount),
        on(Mark, output=lambda s, e: s),
        depends(Mark, Value, Mark),
        depends(Value, Value),
        init=0,
    )
    assert choose_layout(program, 8).reasons == (
        "replicated: events other than markers change the state",
        "forked: the state has no fork, join and zero to fold deltas from",
        "keyed: some events depend on each other whatever their fields are",
    )


class Transfer(NamedTuple):
    time: int
    account: int
    amount: int


def test_events_that_could_be_kept_apart_by_their_key_are_named_with_the_statement_to_write():
    def transfers(**same):
        return Program(
            on(Transfer, update=lambda s, e: max(0, s + e.amount), output=lambda s, e: s),
            depends(Transfer, Transfer, **same),
            state=MapOf(Sum(), by="account"),
        )

    assert choose_layout(transfers(), 8).way == "sequential"
    assert choose_layout(transfers(), 8).reasons[-1] == (
        "keyed: Transfer depends on Transfer whatever their fields are; "
        'with depends(Transfer, Transfer, same="account") different values of account run in parallel'
    )
    assert choose_layout(transfers(same="account"), 8).way == "keyed"


def names(event_types):
    return sorted(event_type.__name__ for event_type in event_types)


def test_leaves_that_speak_of_the_state_wait_for_the_root():
    layout = choose_layout(load("examples/fraud.py"), 8)
    assert (names(layout.leaves), names(layout.cuts), names(layout.deferring)) == (
        ["Txn"], ["Rule"], ["Txn"],
    )  # fmt: skip
    assert layout.reasons == (
        "in parallel, from zero: Txn; at the root: Rule",
        "the output of Txn depends on the state, so it is deferred until the root has it",
    )


def test_of_two_event_types_that_order_each_other_one_cuts_the_other():
    layout = choose_layout(load("examples/inc_dec.py"), 8)
    assert (names(layout.leaves), names(layout.cuts)) == (["Inc"], ["Dec", "Mark"])


def test_what_is_independent_of_the_leaves_runs_at_the_root_and_cuts_nothing():
    program = load("examples/smart_home.py")
    layout = choose_layout(program, 8)
    assert {event_type.__name__: name for event_type, name in layout.leaves.items()} == {
        "Temp": "rooms"
    }
    assert names(layout.cuts) == ["Minute"]
    pressure = Event(program.event_type("Pressure")(1, 1000), "gauge", 3)
    assert len(layout.route(pressure)) == 1
    assert layout.root(pressure) == 0


def test_events_of_one_key_meet_in_one_shard():
    layout = choose_layout(load("examples/key_counter.py"), 8)
    program = load("examples/key_counter.py")
    inc, read = program.event_type("Inc"), program.event_type("Read")
    for key in range(50):
        shards = {
            shard
            for n, event_type in enumerate((inc, read, inc))
            for shard in layout.route(Event(event_type(n, key), f"s{n}", n))
        }
        assert len(shards) == 1


def test_markers_go_to_every_shard_and_are_at_home_in_one():
    program = load("examples/value_barrier.py")
    layout = choose_layout(program, 5)
    marker = Event(program.event_type("Barrier")(3), "b", 0)
    assert list(layout.route(marker)) == [0, 1, 2, 3, 4]
    assert layout.home(marker) in range(5)


def test_values_of_one_hot_key_use_every_shard():
    program = load("examples/value_barrier.py")
    layout = choose_layout(program, 4)
    value = program.event_type("Value")
    used = {s for n in range(100) for s in layout.route(Event(value(n, n), "a", n))}
    assert used == {0, 1, 2, 3}


def test_a_state_that_is_not_kept_per_key_is_told_how_it_could_be():
    program = Program(
        on(Value, update=lambda s, e: {**s, e.key: e.amount}),
        depends(Value, Value, same="key"),
        init={},
    )
    layout = choose_layout(program, 4)
    assert layout.way == "sequential"
    assert "keyed: the state is not kept per key; use MapOf(..., by='key')" in layout.reasons


def test_a_handler_that_sees_the_whole_map_keeps_keys_together():
    program = Program(
        on(Value, update=lambda s, e: s + e.amount),
        on(Mark, output=lambda s, e: len(s), whole=True),
        depends(Mark, Value, Mark, same="key"),
        depends(Value, Value, same="key"),
        state=MapOf(Sum(), by="key"),
    )
    assert choose_layout(program, 4).way == "sequential"


def test_events_of_one_lane_meet_in_one_shard():
    program = Program(
        on(Value, update=lambda s, e: s + e.amount),
        on(Mark, output=lambda s, e: s),
        depends(Mark, Value, Mark),
        state=Sum(0.0),
        lanes=4,
    )
    layout = choose_layout(program, 8)
    assert layout.way == "forked"
    used = [layout.route(Event(Value(n, 1, n), "a", n)) for n in range(100)]
    assert used[:4] == used[4:8]
    assert {shard for shards in used for shard in shards} == {0, 1, 2, 3}


def test_a_hot_key_is_spread_and_its_markers_go_everywhere():
    program = load("examples/key_counter.py")
    inc, read = program.event_type("Inc"), program.event_type("Read")
    layout = choose_layout(program, 8, hot_keys=[2])

    def shards(event_type, key):
        return {s for n in range(100) for s in layout.route(Event(event_type(n, key), "a", n))}

    assert (shards(inc, 2), shards(read, 2)) == (set(range(8)), set(range(8)))
    assert len(shards(inc, 1) | shards(read, 1)) == 1
    assert layout.reasons[-1] == "Inc of a hot key is folded in parallel, from zero"


def test_a_hot_key_whose_events_keep_an_order_is_not_spread_and_says_so():
    layout = choose_layout(load("examples/ewma.py"), 8, hot_keys=["a"])
    assert layout.hot_keys == frozenset()
    assert layout.reasons[-1] == "a hot sensor is not spread: no events are free in it"


def test_an_entry_is_folded_in_one_shard_unless_it_is_hot():
    program = load("examples/taxi_tips.py")
    tip = program.event_type("Tip")
    for hot_keys, expected in (((), 1), ((1,), 8)):
        layout = choose_layout(program, 8, hot_keys=hot_keys)
        used = {s for n in range(100) for s in layout.route(Event(tip(n, 1, n), "a", n))}
        assert len(used) == expected


def test_who_speaks_of_a_state_with_many_entries_is_not_folded_apart():
    program = Program(
        on(Value, output=lambda s, e: s, update=lambda s, e: s + e.amount),
        on(Mark, output=lambda s, e: len(s), whole=True),
        depends(Mark, Value, Mark),
        state=MapOf(Sum(), by="key"),
    )
    layout = choose_layout(program, 4)
    assert layout.way == "sequential"
    assert "forked: the output of Value depends on a state with many entries" in layout.reasons


def test_what_reads_a_copy_that_only_markers_write_goes_anywhere():
    program = Program(
        on(Value, output=lambda s, e: s),
        on(Mark, update=lambda s, e: e.time),
        depends(Mark, Value, Mark, same="key"),
        state=MapOf(Replicated(), by="key"),
    )
    layout = choose_layout(program, 4)
    assert layout.way == "replicated"
    used = {s for n in range(100) for s in layout.route(Event(Value(n, 1, n), "a", n))}
    assert used == {0, 1, 2, 3}


def test_a_program_without_markers_or_keys_is_sequential():
    program = Program(on(Value, update=lambda s, e: s + 1), depends(Value, Value), state=Count())
    assert choose_layout(program, 4).way == "sequential"


def test_two_event_types_that_order_each_other_are_not_spread_over_copies():
    """Neither changes the state, but their order shows: only one shard keeps it."""
    program = Program(
        on(Value, output=lambda s, e: s),
        on(Other, output=lambda s, e: s),
        on(Mark, update=lambda s, e: e.time),
        depends(Mark, Value, Other, Mark),
        depends(Value, Other),
        init=0,
    )
    layout = choose_layout(program, 4)
    assert layout.way == "sequential"
    assert "replicated: some events other than markers are ordered" in layout.reasons
    check_layout(program, layout)


def test_keys_that_share_a_part_stay_together_if_their_events_depend_on_each_other():
    program = Program(
        on(Value, update=lambda s, e: s.entry + e.amount),
        on(Limit, update=lambda s, e: e.most),
        depends(Value, Value),
        depends(Limit, Value, Limit),
        state=Shared(Replicated(0), MapOf(Sum(), by="key")),
    )
    layout = choose_layout(program, 4)
    assert layout.way == "sequential"
    assert layout.reasons == (
        "shared: Value and Value depend on each other at different values of key too",
    )
    check_layout(program, layout)


def test_an_event_without_the_field_of_the_entries_goes_anywhere():
    program = Program(
        on(Value, update=lambda s, e: s + e.amount),
        on(Limit, output=lambda s, e: e.most),
        on(Tick, output=lambda s, e: len(s), whole=True),
        depends(Tick, Value, Limit, Tick),
        state=MapOf(Sum(), by="key"),
    )
    layout = choose_layout(program, 4)
    assert (layout.way, names(layout.leaves)) == ("forked", ["Limit", "Value"])
    used = {s for n in range(100) for s in layout.route(Event(Limit(n, n), "a", n))}
    assert used == {0, 1, 2, 3}
