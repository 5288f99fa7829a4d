"""Placement from the leaves up, against every way to put nodes on machines."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import take
from anabranch.plan.pricing.cost import Prices, price
from anabranch.plan.pricing.machine_placement import place
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode
from examples.value_barrier import Barrier, Value, value_barrier

MACHINES = ("m0", "m1", "m2")
SLICES = [take(Barrier), *(take(Value, channel=s) for s in "abcd")]
PRICES = st.builds(
    Prices,
    event_bytes=st.sampled_from([1.0, 64.0, 500.0]),
    state_bytes=st.sampled_from([1.0, 64.0, 5000.0]),
)
RATES = st.lists(
    st.builds(
        Load,
        st.sampled_from(SLICES),
        st.sampled_from([0.0, 1.0, 3.0, 10.0, 100.0]),
        st.sampled_from(MACHINES),
    ),
    min_size=1,
    max_size=6,
).map(Rates)
NAMES = st.sampled_from(SLICES)


def trees():
    return st.recursive(
        st.builds(PlanNode, NAMES),
        lambda below: st.builds(
            lambda own, a, b: PlanNode(*own, children=(a, b)),
            st.lists(NAMES, max_size=2), below, below,
        ),
        max_leaves=3,
    )  # fmt: skip


def put(node, machines):
    """Put nodes on machines, in the order of a walk."""
    machine = next(machines)
    children = [put(child, machines) for child in node.children]
    return PlanNode(*node.slices, children=children, state=node.state, machine=machine)


@given(trees(), RATES, PRICES)
def test_no_other_placement_sends_fewer_bytes(root, rates, prices):
    count = sum(1 for _ in root.walk())
    least = min(
        price(value_barrier, Plan(put(root, iter(chosen))), rates, prices).network_bytes
        for chosen in product(MACHINES, repeat=count)
    )
    placed = place(value_barrier, Plan(root, "p"), rates, MACHINES, prices)
    cost = price(value_barrier, placed, rates, prices)
    assert cost.network_bytes == pytest.approx(least)
    assert placed.name == "p"


@given(trees(), RATES)
def test_only_machines_change(root, rates):
    placed = place(value_barrier, Plan(root), rates, MACHINES)
    count = sum(1 for _ in root.walk())
    assert put(placed.root, iter([None] * count)) == put(root, iter([None] * count))


def test_a_worker_stands_where_its_events_arrive():
    rates = Rates([Load(SLICES[1], 5, "m1"), Load(SLICES[2], 9, "m2"), Load(SLICES[0], 1, "m0")])
    root = PlanNode(Barrier, children=(PlanNode(SLICES[1]), PlanNode(SLICES[2])))
    small_states = Prices(state_bytes=1, request_bytes=1)
    placed = place(value_barrier, Plan(root), rates, (), small_states)
    assert [w.machine for w in placed.nodes().values()] == ["m0", "m1", "m2"]


def test_a_state_too_large_to_travel_keeps_its_workers_together():
    rates = Rates([Load(SLICES[1], 5, "m1"), Load(SLICES[2], 9, "m2"), Load(SLICES[0], 1, "m0")])
    root = PlanNode(Barrier, children=(PlanNode(SLICES[1]), PlanNode(SLICES[2])))
    placed = place(value_barrier, Plan(root), rates, (), Prices(state_bytes=1e9))
    assert [w.machine for w in placed.nodes().values()] == ["m2", "m2", "m2"]


def test_of_equal_machines_the_first_is_taken():
    rates = Rates([Load(SLICES[1], 5, "m1"), Load(SLICES[2], 5, "m2")])
    placed = place(value_barrier, Plan(PlanNode(Value, Barrier)), rates, ("m0",))
    assert placed.root.machine == "m1"
