"""What a key-by can do: separate keys, and nothing inside one."""

from anabranch import take
from anabranch.plan.optimizers.keyed import plan_by_key
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import find_faults
from examples.fraud import Rule, Txn, fraud
from examples.key_counter import Inc, Read, key_counter
from tests.plan.programs import Month, Reading, unforked, unforked_keyed


def test_each_key_has_a_worker_and_no_key_has_two():
    loads = [
        Load(take(event_type, key=key, channel=channel), 10 * key, f"m{key}")
        for key in (1, 2, 3)
        for event_type, channel in ((Inc, "a"), (Inc, "b"), (Read, None))
    ]
    plan = plan_by_key(key_counter, Rates(loads))
    assert find_faults(key_counter, plan) == []
    leaves = [node for node in plan.nodes().values() if not node.children]
    assert {(leaf.slices, leaf.machine) for leaf in leaves} == {
        (PlanNode(*(x.slice for x in loads if x.machine == machine)).slices, machine)
        for machine in ("m1", "m2", "m3")
    }
    assert plan.name == "keyed"


def test_an_increment_that_nobody_reads_stands_alone():
    loads = [Load(take(Inc, key=1, channel=s), 1) for s in "ab"]
    plan = plan_by_key(key_counter, Rates(loads))
    assert [len(w.slices) for w in plan.nodes().values()] == [0, 1, 1]


def test_where_everything_meets_it_is_sequential():
    rates = Rates([Load(take(Rule), 1), *(Load(take(Txn, channel=s), 9) for s in "ab")])
    assert plan_by_key(fraud, rates) == Plan(PlanNode(Txn, Rule, machine="local"), "keyed")


def test_without_a_fork_it_is_sequential():
    rates = Rates([Load(take(Reading, meter=n), 9) for n in (1, 2)])
    assert plan_by_key(unforked_keyed, rates) == Plan(PlanNode(Reading, machine="local"), "keyed")
    rates = Rates([Load(take(Reading, channel=n), 9) for n in "ab"])
    assert plan_by_key(unforked, rates) == Plan(PlanNode(Reading, Month, machine="local"), "keyed")
