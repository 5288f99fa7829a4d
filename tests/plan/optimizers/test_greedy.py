"""Flumina's greedy optimizer, on what its authors published."""

from typing import NamedTuple

import pytest

from anabranch import Program, depends, on, take
from anabranch.errors import PlanError
from anabranch.plan.optimizers.greedy import grow_type_tree, plan_greedily
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import PlanNode
from anabranch.plan.validity import find_faults
from examples.ewma import Reading, ewma
from examples.inc_dec import Dec, Inc, Mark, inc_dec
from examples.key_counter import Inc as Count
from examples.key_counter import Read, key_counter
from examples.value_barrier import Barrier, Value, value_barrier
from tests.plan import programs

R1, R2, I1 = take(Read, key=1), take(Read, key=2), take(Count, key=1)
I2A, I2B = (take(Count, key=2, channel=name) for name in "ab")
PUBLISHED = [
    Load(R2, 10, "E0"),
    Load(R1, 15, "E1"),
    Load(I1, 100, "E1"),
    Load(I2A, 200, "E2"),
    Load(I2B, 300, "E3"),
]


def unordered(node):
    """Return a tree without left and right, with machines."""
    below = frozenset(map(unordered, node.children))
    assert len(below) == len(node.children)
    return (frozenset(node.slices), node.machine, below)


EXPECTED = unordered(
    PlanNode(
        machine="E0",
        children=(
            PlanNode(R1, I1, machine="E1"),
            PlanNode(
                R2,
                machine="E0",
                children=(PlanNode(I2A, machine="E2"), PlanNode(I2B, machine="E3")),
            ),
        ),
    )
)


def test_the_published_example_is_reproduced_machines_and_all():
    plan = plan_greedily(key_counter, Rates(PUBLISHED), ["E0", "E1", "E2", "E3"])
    assert unordered(plan.root) == EXPECTED
    assert plan.name == "greedy"
    assert find_faults(key_counter, plan) == []


@pytest.mark.parametrize("turn", range(5))
def test_the_order_in_which_rates_are_declared_does_not_matter_where_they_differ(turn):
    rates = Rates(PUBLISHED[turn:] + PUBLISHED[:turn])
    plan = plan_greedily(key_counter, rates, ["E0"])
    assert unordered(plan.root) == EXPECTED


def test_a_graph_in_pieces_leaves_the_root_without_slices():
    rates = Rates([Load(take(Reading, sensor=n), 1 + n, f"m{n}") for n in range(3)])
    root = plan_greedily(ewma, rates).root
    assert len(root.slices) == 0
    assert root.machine == "m0"
    assert root.subtree() == PlanNode(*(load.slice for load in rates.loads)).slices


class House(NamedTuple):
    time: int
    house: int


class EndTimeslice(NamedTuple):
    time: int


def test_the_energy_case_forks_its_houses_below_the_end_of_a_timeslice():
    program = Program(
        on(House, update=lambda s, e: s + 1),
        on(EndTimeslice, output=lambda s, e: s),
        depends(House, House, same="house"),
        depends(EndTimeslice, EndTimeslice, House),
        init=0,
        fork=lambda s, left, right: (s, 0),
        join=lambda a, b: a + b,
    )
    rates = Rates(
        [
            Load(take(EndTimeslice), 1, "centre"),
            Load(take(House, house=0), 1000, "h0"),
            Load(take(House, house=1), 900, "h1"),
        ]
    )
    # The rarer house comes first, as in the recorded run.
    assert plan_greedily(program, rates).root == PlanNode(
        EndTimeslice,
        machine="centre",
        children=(
            PlanNode(take(House, house=1), machine="h1"),
            PlanNode(take(House, house=0), machine="h0"),
        ),
    )


def test_equal_rates_are_taken_in_the_order_they_were_declared():
    loads = [Load(take(Inc), 5), Load(take(Dec, channel="a"), 5), Load(take(Dec, channel="b"), 5)]
    assert plan_greedily(inc_dec, Rates(loads)).root == PlanNode(
        Inc,
        machine="local",
        children=(
            PlanNode(take(Dec, channel="a"), machine="local"),
            PlanNode(take(Dec, channel="b"), machine="local"),
        ),
    )
    # Decrements come first now, one by one, and there is nothing left to part.
    turned = [loads[1], loads[2], loads[0]]
    assert plan_greedily(inc_dec, Rates(turned)).root == PlanNode(
        *(load.slice for load in loads), machine="local"
    )


def test_what_is_rare_goes_up_even_if_it_is_no_marker():
    loads = [Load(take(Mark), 100), Load(take(Inc), 1), Load(take(Dec), 2)]
    assert plan_greedily(inc_dec, Rates(loads)).root == PlanNode(Inc, Dec, Mark, machine="local")


def test_a_node_stands_where_most_of_its_own_events_arrive():
    loads = [
        Load(take(Barrier, channel="x"), 2, "m1"),
        Load(take(Barrier, channel="y"), 3, "m2"),
        Load(take(Barrier, channel="z"), 2, "m1"),
        Load(take(Value, channel="a"), 50, "m3"),
        Load(take(Value, channel="b"), 60, "m3"),
    ]
    assert plan_greedily(value_barrier, Rates(loads)).root.machine == "m1"


def test_one_slice_from_two_machines_stays_on_one_worker():
    loads = [
        Load(take(Value), 100, "E1"),
        Load(take(Value), 90, "E2"),
        Load(take(Barrier), 1, "E0"),
    ]
    plan = plan_greedily(value_barrier, Rates(loads))
    assert find_faults(value_barrier, plan) == []
    assert plan.root == PlanNode(Value, Barrier, machine="E1")


def test_the_event_type_tree_has_as_many_children_as_there_are_components():
    loads = [Load(take(Barrier), 1), *(Load(take(Value, channel=s), 9) for s in "abcd")]
    tree = grow_type_tree(value_barrier, loads)
    assert [load.slice for load in tree.loads] == [take(Barrier)]
    assert [[x.slice.channel for x in child.loads] for child in tree.children] == [
        ["a"], ["b"], ["c"], ["d"],
    ]  # fmt: skip


def test_a_program_without_forks_has_no_greedy_plan_and_is_told_why():
    rates = Rates(
        [Load(take(programs.Month), 1), *(Load(take(programs.Reading, channel=s), 9) for s in "ab")]
    )
    with pytest.raises(PlanError, match="unforked has no forks that lead") as refused:
        plan_greedily(programs.unforked, rates)
    assert refused.value.got == "no forks"
    assert "use the sequential plan" in refused.value.cure
