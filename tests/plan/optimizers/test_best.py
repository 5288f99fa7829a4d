"""The cheapest plan: against all plans on all machines, where there are few enough of them."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch import Shard, take
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.optimizers.best import FEW, plan_best
from anabranch.plan.optimizers.enumeration import enumerate_plans
from anabranch.plan.pricing.cost import PRICES, Prices, price
from anabranch.plan.pricing.machine_placement import place
from anabranch.plan.pricing.rates import Load, Rates, spread_hot
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import find_faults
from examples import fraud as frauds
from examples import key_counter as counter
from examples import page_view as pages
from examples import taxi_tips as taxis
from examples import value_barrier as barrier
from tests.plan.programs import Month, Reading, laned, unforked

SLICES = {
    "value–barrier": (
        barrier.value_barrier,
        [take(barrier.Barrier), *(take(barrier.Value, channel=s) for s in ("a1", "a2", "a3"))],
    ),
    "page view": (
        pages.page_view,
        [
            take(pages.Update, page=1),
            *(take(pages.View, page=1, channel=s) for s in ("v1", "v2")),
            take(pages.Update, page=2),
            take(pages.View, page=2),
        ],
    ),
    "fraud": (frauds.fraud, [take(frauds.Rule), *(take(frauds.Txn, channel=s) for s in "abc")]),
    "taxi": (taxis.taxi_tips, [take(taxis.Hour), *(take(taxis.Tip, taxi=n) for n in (1, 2, 3))]),
    "key counter": (
        counter.key_counter,
        [
            take(counter.Read, key=1),
            take(counter.Inc, key=1),
            take(counter.Read, key=2),
            *(take(counter.Inc, key=2, channel=s) for s in "ab"),
        ],
    ),
}
RATE = st.sampled_from([0.1, 1.0, 50.0, 3_000.0, 90_000.0, 600_000.0])
MACHINE = st.sampled_from(["m0", "m1"])


def put(node, machines):
    machine = next(machines)
    children = [put(child, machines) for child in node.children]
    return PlanNode(*node.slices, children=children, state=node.state, machine=machine)


def find_cheapest(program, rates, machines):
    """Price every valid plan on every choice of machines, one by one."""
    return min(
        price(program, Plan(put(plan.root, iter(chosen))), rates).total
        for plan in enumerate_plans(program, [load.slice for load in rates.loads])
        for chosen in product(machines, repeat=len(plan.nodes()))
    )


@pytest.mark.parametrize("name", ["value–barrier", "fraud", "taxi"])
@settings(max_examples=15)
@given(st.data())
def test_no_plan_on_any_machines_is_cheaper(name, data):
    program, slices = SLICES[name]
    rates = Rates([Load(part, data.draw(RATE), data.draw(MACHINE)) for part in slices])
    plan = plan_best(program, rates, ("m0", "m1"))
    assert find_faults(program, plan) == []
    cheapest = find_cheapest(program, rates, ("m0", "m1"))
    assert price(program, plan, rates).total <= cheapest * (1 + 1e-9)


@pytest.mark.parametrize("name", ["page view", "key counter"])
@settings(max_examples=15)
@given(st.data())
def test_no_enumerated_plan_is_cheaper_where_it_is_placed_best(name, data):
    """Five slices have too many placements to try them all; test_placement does that."""
    program, slices = SLICES[name]
    rates = Rates([Load(part, data.draw(RATE), data.draw(MACHINE)) for part in slices])
    plan = plan_best(program, rates)
    assert find_faults(program, plan) == []
    cheapest = min(
        price(program, place(program, other, rates), rates).total
        for other in enumerate_plans(program, slices)
    )
    assert price(program, plan, rates).total <= cheapest * (1 + 1e-9)


@pytest.mark.parametrize("name", SLICES)
@settings(max_examples=10)
@given(st.data())
def test_no_other_optimizer_is_cheaper(name, data):
    program, slices = SLICES[name]
    rates = Rates([Load(part, data.draw(RATE), data.draw(MACHINE)) for part in slices])
    best = price(program, plan_best(program, rates), rates).total
    for optimize in OPTIMIZERS.values():
        assert best <= price(program, optimize(program, rates, ()), rates).total * (1 + 1e-9)


def test_small_is_what_the_five_programs_here_are():
    assert max(len(slices) for _, slices in SLICES.values()) == FEW


# Hot and cold.


def leaves(plan):
    return [node for node in plan.nodes().values() if not node.children]


def test_a_slice_too_hot_for_one_worker_gets_lanes():
    rates = Rates([Load(take(barrier.Value), 5_000_000), Load(take(barrier.Barrier), 1)])
    plan = plan_best(barrier.value_barrier, rates)
    assert find_faults(barrier.value_barrier, plan) == []
    assert {part for leaf in leaves(plan) for part in leaf.slices} == {
        take(barrier.Value, lane=Shard(n, 8)) for n in range(8)
    }
    assert plan.root.slices.event_types() == {barrier.Barrier}
    assert price(barrier.value_barrier, plan, rates).busiest < 1


def test_a_hot_key_gets_lanes_and_cold_keys_share_a_worker():
    loads = [Load(take(counter.Read, key=key), 0.1) for key in range(10)]
    loads += [Load(take(counter.Inc, key=key), 3_000_000 if key == 7 else 5) for key in range(10)]
    rates = Rates(loads)
    plan = plan_best(counter.key_counter, rates)
    assert find_faults(counter.key_counter, plan) == []
    holding = {
        key: [w for w in plan.nodes().values() if take(counter.Inc, key=key) in w.slices]
        for key in range(10)
    }
    assert holding.pop(7) == []
    hot_keys = [leaf for leaf in leaves(plan) if any(p.choice("@lane") for p in leaf.slices)]
    assert len(hot_keys) == 5
    # The nine cold keys and the hot one's reads have one node, or two at the most.
    assert all(len(nodes) == 1 for nodes in holding.values())
    assert len({id(node) for nodes in holding.values() for node in nodes}) <= 2
    assert price(counter.key_counter, plan, rates).busiest < 1


def test_what_can_not_be_spread_stays_on_one_worker():
    rates = Rates([Load(take(Reading), 5_000_000), Load(take(Month), 1)])
    assert plan_best(unforked, rates) == Plan(PlanNode(Reading, Month, machine="local"), "best")


def test_canonical_lanes_are_all_there_are():
    rates = Rates([Load(take(Reading), 5_000_000), Load(take(Month), 1)])
    plan = plan_best(laned, rates)
    assert find_faults(laned, plan) == []
    assert {part for leaf in leaves(plan) for part in leaf.slices} == {
        take(Reading, lane=Shard(n, 4)) for n in range(4)
    }


def test_little_to_do_is_done_by_one_worker():
    program, slices = SLICES["key counter"]
    rates = Rates([Load(part, 1.0) for part in slices])
    assert len(plan_best(program, rates).nodes()) == 1


def test_prices_decide():
    """What is hot depends on what an event costs."""
    rates = Rates([Load(take(barrier.Value), 100), Load(take(barrier.Barrier), 0.01)])
    assert len(plan_best(barrier.value_barrier, rates).nodes()) == 1
    slow = Prices(seconds_per_event=0.02)
    assert len(leaves(plan_best(barrier.value_barrier, rates, (), slow))) == 3
    assert len(spread_hot(barrier.value_barrier, rates, slow.capacity).loads) == 4
    assert PRICES.capacity > 100


def test_rates_that_name_one_event_type_only_give_a_valid_plan():
    rates = Rates([Load(take(barrier.Value, channel=s), 400_000) for s in "ab"])
    plan = plan_best(barrier.value_barrier, rates)
    assert find_faults(barrier.value_barrier, plan) == []
    assert len(leaves(plan)) == 2
