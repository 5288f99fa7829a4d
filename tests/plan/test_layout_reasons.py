"""Where event types run, in words, and the tree in text."""

from typing import NamedTuple

from anabranch import Program, depends, load, on
from anabranch.plan.layout_plans import plan_layout
from anabranch.plan.layout_reasons import draw_layout, explain_fields, locate_types
from anabranch.plan.layouts import choose_layout
from anabranch.state import MapOf, Sum


class Value(NamedTuple):
    time: int
    key: int
    zone: int


class Mark(NamedTuple):
    time: int
    key: int
    zone: int


def tell(program, shards=4, hot_keys=()):
    found = locate_types(program, choose_layout(program, shards, hot_keys=hot_keys))
    return {where.event_type: (where.place, where.apart, where.why) for where in found}


def test_the_reason_is_given_for_every_type_that_does_not_run_apart():
    assert tell(load("examples/smart_home.py")) == {
        "Temp": ("in the shard of its room", True, "free: any order"),
        "Pressure": ("at the root, in order", False, "ordered"),
        "Minute": ("at the root, in order", False, "marker: waits for the events it depends on"),
    }
    assert tell(load("examples/inc_dec.py"))["Dec"] == (
        "at the root, in order", False, "free among its own, ordered with Inc",
    )  # fmt: skip
    assert tell(load("examples/exchange.py")) == {
        "Rate": ("in every shard, in order", False, "it changes the state that all keys see"),
        "Payment": (
            "in the shard of its customer", True, "it changes the entry of its customer only",
        ),
    }  # fmt: skip


def test_a_hot_key_is_named_where_it_is_spread():
    counter = load("examples/key_counter.py")
    assert tell(counter)["Inc"][2] == "free within one key: hot keys can be spread"
    assert (
        tell(counter, hot_keys=[1])["Inc"][2] == "free: any order; events of a hot key are spread"
    )


def test_one_shard_says_what_keeps_events_together():
    ordered = Program(on(Value, update=lambda s, e: s), depends(Value, Value), init=0)
    assert tell(ordered)["Value"] == (
        "in one shard, in order", False, "every Value depends on every other",
    )  # fmt: skip
    unkept = Program(on(Value, update=lambda s, e: s), depends(Value, Value, same="key"), init=0)
    assert tell(unkept)["Value"][2] == "the state is not kept per key"
    forkless = Program(
        on(Value, update=lambda s, e: s),
        on(Mark, output=lambda s, e: s),
        depends(Mark, Value, Mark),
        init=0,
    )
    assert tell(forkless) == {
        "Value": (
            "in one shard, in order", False,
            "free: any order, but the state has no fork, join and zero",
        ),
        "Mark": ("in one shard, in order", False, "every Mark depends on every other"),
    }  # fmt: skip


def test_a_field_that_does_not_separate_names_the_pair_that_stands_in_the_way():
    program = Program(
        on(Value, update=lambda s, e: s + 1),
        on(Mark, output=lambda s, e: s),
        depends(Value, Value, same=("key", "zone")),
        depends(Mark, Value, Mark, same="key"),
        state=MapOf(Sum(), by="key"),
    )
    assert explain_fields(program) == [
        "key separates: different values are independent",
        "zone does not separate: Value and Mark depend on each other at different zone",
    ]
    assert explain_fields(load("examples/exchange.py")) == [
        "customer does not separate everything: Rate has no customer"
    ]


def test_a_hot_key_hangs_beside_the_shards():
    program = load("examples/key_counter.py")
    _, plan = plan_layout(program, choose_layout(program, 2, hot_keys=[7]))
    root = plan.root.children
    assert len(root) == 2
    drawn = draw_layout(plan)
    assert sorted(line.lstrip("├└│─ ") for line in drawn[1:]) == [
        next(line.lstrip("├└│─ ") for line in drawn if "Read (key 7)" in line),
        "shard 0  Inc (key shard 0 of 2 but 7); Read (key shard 0 of 2 but 7)",
        "shard 0  Inc (lane 0 of 2, key 7)",
        "shard 1  Inc (key shard 1 of 2 but 7); Read (key shard 1 of 2 but 7)",
        "shard 1  Inc (lane 1 of 2, key 7)",
    ]
