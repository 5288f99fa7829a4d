from anabranch import take
from anabranch.plan.optimizers.greedy import plan_greedily
from anabranch.plan.optimizers.hybrid import plan_hybrid
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Worker
from examples.value_barrier import Barrier, Value, value_barrier

RATES = Rates(
    [
        Load(take(Value, source="a"), 50, "m1"),
        Load(take(Value, source="b"), 60, "m2"),
        Load(take(Barrier), 1, "m3"),
    ]
)


def move(worker, machine):
    below = [move(child, machine) for child in worker.children]
    return Worker(*worker.slices, children=below, state=worker.state, machine=machine)


def test_it_is_the_greedy_tree_on_the_central_machine():
    plan = plan_hybrid(value_barrier, RATES, ["centre", "m1"])
    assert plan.name == "hybrid"
    assert plan.root == move(plan_greedily(value_barrier, RATES).root, "centre")
    assert len(plan.workers()) == 3


def test_without_machines_the_first_that_is_mentioned_is_central():
    plan = plan_hybrid(value_barrier, RATES)
    assert {worker.machine for worker in plan.workers().values()} == {"m1"}
