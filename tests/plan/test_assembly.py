"""From trees of event types to typed binary trees of nodes."""

import pytest

from anabranch import ForkJoin, Program, State, depends, on, take
from anabranch.plan.assembly import (
    TypeNode,
    assemble_balanced,
    assemble_lowest,
    place_at,
    place_by_rate,
)
from anabranch.plan.pricing.rates import Load
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import find_faults
from examples.smart_home import Minute, Pressure, Temp, smart_home
from examples.value_barrier import Barrier, Value, value_barrier
from tests.plan.programs import unforked

CUT = {"fork": lambda s, left, right: (s, 0), "join": lambda a, b: a + b}


def load(event_type, channel=None, rate=1.0, machine="local"):
    return Load(take(event_type, channel=channel), rate, machine)


def leaf(event_type, channel=None, machine="local"):
    return TypeNode((load(event_type, channel, machine=machine),))


def fan(count):
    """Return a barrier above that many values."""
    return TypeNode((load(Barrier),), tuple(leaf(Value, f"a{n}") for n in range(count)))


def test_a_leaf_becomes_a_worker():
    assert assemble_lowest(value_barrier, place_at(leaf(Value, "a"), "m")) == PlanNode(
        take(Value, channel="a"), machine="m"
    )


def test_two_children_become_two_sides():
    a, b = (take(Value, channel=s) for s in ("a0", "a1"))
    assert assemble_lowest(value_barrier, fan(2)) == PlanNode(
        Barrier, children=(PlanNode(a), PlanNode(b))
    )


def test_one_child_alone_is_drawn_up_to_its_parent():
    node = TypeNode((load(Barrier),), (leaf(Value, "a"),), "m")
    assert assemble_lowest(value_barrier, node) == PlanNode(
        Barrier, take(Value, channel="a"), machine="m"
    )


@pytest.mark.parametrize(
    ("children", "lowest", "balanced"),
    [(2, 2, 2), (3, 3, 3), (4, 4, 3), (8, 8, 4), (64, 64, 7), (65, 8, 8), (1000, 11, 11)],
)
def test_a_ladder_has_a_rung_per_child_and_a_balanced_tree_a_logarithm(children, lowest, balanced):
    """Forking one child off at a time is as published; beyond 64 children it is not sensible."""
    for assemble, height in ((assemble_lowest, lowest), (assemble_balanced, balanced)):
        plan = Plan(assemble(value_barrier, fan(children)))
        assert plan.height == height
        assert len(plan.nodes()) == 2 * children - 1
        assert plan.root.slices.event_types() == {Barrier}


def test_the_highest_child_is_forked_off_first():
    deep = TypeNode((), (leaf(Value, "x"), leaf(Value, "y")))
    node = TypeNode((), (leaf(Value, "a"), leaf(Value, "b"), deep))
    root = assemble_lowest(value_barrier, node)
    assert Plan(root).height == 3
    assert root.children[0].subtree().event_types() == {Value}
    assert {part.channel for part in root.children[0].subtree()} == {"x", "y"}


def test_typed_forks_get_each_child_on_the_side_that_handles_it():
    rooms = tuple(leaf(Temp, f"t{n}") for n in range(3))
    node = TypeNode((load(Minute),), (rooms[0], leaf(Pressure), *rooms[1:]))
    for assemble in (assemble_lowest, assemble_balanced):
        root = assemble(smart_home, node)
        assert find_faults(smart_home, Plan(root)) == []
        assert [child.state for child in root.children] == ["rooms", "gauge"]
        assert root.children[1].slices.event_types() == {Pressure}
        assert Plan(root).height == 4


def test_there_is_no_tree_without_forks():
    node = TypeNode((load(Barrier),), (leaf(Value, "a"), leaf(Value, "b")))
    program = Program(
        on(Value, update=lambda s, e: s), on(Barrier), depends(Barrier, Value, Barrier), init=0
    )
    assert assemble_lowest(program, node) is None
    assert assemble_balanced(program, node) is None


def test_there_is_no_tree_for_event_types_that_no_type_handles():
    assert assemble_lowest(unforked, leaf(Value)) is None
    assert assemble_balanced(unforked, leaf(Value)) is None


def test_there_is_no_tree_if_forks_lead_elsewhere():
    node = TypeNode((load(Minute),), (leaf(Pressure, "a"), leaf(Pressure, "b")))
    assert assemble_lowest(smart_home, node) is None


def test_every_child_is_tried_first_where_the_types_below_differ():
    """A fork into two of one type, each of which forks into types of its own."""
    both = [on(Temp, update=lambda s, e: s), on(Pressure, update=lambda s, e: s)]
    every = [*both, on(Minute, update=lambda s, e: s)]
    program = Program(
        State("top", *every, init=0),
        State("half", *every),
        State("rooms", on(Temp, update=lambda s, e: s)),
        State("gauge", on(Pressure, update=lambda s, e: s)),
        ForkJoin("top", "half", "half", **CUT),
        ForkJoin("half", "rooms", "gauge", **CUT),
    )
    # Only {Minute} beside {Temp, Pressure} can be had, whichever comes first.
    children = [leaf(Temp), leaf(Pressure), leaf(Minute)]
    for turn in range(3):
        node = TypeNode((), (*children[turn:], *children[:turn]))
        root = assemble_lowest(program, node)
        assert root is not None
        assert find_faults(program, Plan(root)) == []


def test_forks_that_lead_back_and_forth_are_not_followed_twice():
    """Each rest can be reached in 2^30 ways; there are 30 rests."""
    handlers = (on(Value, update=lambda s, e: s), on(Barrier, update=lambda s, e: s))
    program = Program(
        State("x", *handlers, init=0),
        State("y", *handlers),
        ForkJoin("x", "x", "y", **CUT),
        ForkJoin("y", "y", "x", **CUT),
        depends(Barrier, Value, Barrier),
    )
    plan = Plan(assemble_lowest(program, fan(30)))
    assert plan.height == 30
    assert find_faults(program, plan) == []


def test_workers_of_one_machine_meet_before_their_states_travel():
    places = ["m1", "m2", "m1", "m2"]
    children = tuple(leaf(Value, f"a{n}", machine=m) for n, m in enumerate(places))
    node = place_by_rate(TypeNode((load(Barrier, machine="m0"),), children), ["m0"])
    root = assemble_balanced(value_barrier, node)
    assert root.machine == "m0"
    assert [child.machine for child in root.children] == ["m1", "m2"]
    assert [[w.machine for w in child.children] for child in root.children] == [
        ["m1", "m1"],
        ["m2", "m2"],
    ]


def test_a_node_stands_where_most_of_its_own_events_arrive():
    loads = (load(Value, "a", 5, "m1"), load(Value, "b", 4, "m2"), load(Value, "c", 2, "m2"))
    node = TypeNode((), (TypeNode(loads), leaf(Barrier, machine="m3")))
    placed = place_by_rate(node, ["m0", "m1"])
    assert placed.machine == "m0"
    assert [child.machine for child in placed.children] == ["m2", "m3"]


def test_a_event_type_tree_knows_all_its_event_types():
    assert fan(2).event_types() == {Barrier, Value}
