import pytest

from anabranch import Shard, take
from anabranch.model.targets import load
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.cost import assign, price
from anabranch.plan.pricing.duties import list_duties, name_slices
from anabranch.plan.pricing.rates import declare_rates, read_rates
from anabranch.plan.tree import Plan, PlanNode

NAMES = ("max_temperature", "key_counter", "inc_dec", "smart_home", "fraud", "value_barrier")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NAMES)
def test_duties_add_up_to_the_cost(name, optimizer):
    program = load(f"examples/{name}.py:{name}")
    rates = read_rates(program, f"docs/rates/{name}.json")
    plan = OPTIMIZERS[optimizer](program, rates, ())
    duties = list_duties(program, plan, rates)
    cost = price(program, plan, rates)
    assert sum(duty.rate for duty in duties.values()) == pytest.approx(rates.total)
    assert max(duty.busy for duty in duties.values()) == pytest.approx(cost.busiest)
    heights = {
        path: max(p.count(".") for p in duties if p.startswith(path)) - path.count(".")
        for path in duties
    }
    rounds = sum(duty.rate * heights[path] for path, duty in duties.items())
    assert rounds == pytest.approx(cost.rounds)


@pytest.fixture
def barrier():
    return load("examples/value_barrier.py:value_barrier")


def test_lanes_share_a_load_and_the_rest_goes_to_the_root(barrier):
    value = barrier.event_type("Value")
    lanes = [PlanNode(take(value, lane=Shard(n, 4))) for n in (0, 1)]
    plan = Plan(PlanNode(barrier.event_type("Barrier"), children=lanes))
    rates = declare_rates(barrier, [{"type": "Value", "channel": "a", "rate": 100}])
    assigned = assign(barrier, plan, rates)
    shares = {path: sum(load.rate for load in loads) for path, loads in assigned.items()}
    assert shares == {"0": 50, "0.0": 25, "0.1": 25}


def test_a_finer_shard_belongs_to_the_coarser_one_that_holds_it(barrier):
    value = barrier.event_type("Value")
    halves = [PlanNode(take(value, lane=Shard(n, 2))) for n in (0, 1)]
    plan = Plan(PlanNode(barrier.event_type("Barrier"), children=halves))
    rates = declare_rates(
        barrier, [{"type": "Value", "lane": f"{n}/4", "rate": 1 + n} for n in range(4)]
    )
    assigned = assign(barrier, plan, rates)
    shares = {path: sum(load.rate for load in loads) for path, loads in assigned.items()}
    assert shares == {"0": 0, "0.0": 1 + 3, "0.1": 2 + 4}


def test_slices_that_differ_by_channel_only_are_named_together(barrier):
    value = barrier.event_type("Value")
    assert name_slices([take(value, channel=name) for name in "ab"]) == [("Value", "from a, b")]
    assert name_slices([take(value, channel=name) for name in "abc"]) == [
        ("Value", "from 3 channels")
    ]
