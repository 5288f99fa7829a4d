from anabranch import take
from anabranch.plan.optimizers.greedy import plan_greedily
from anabranch.plan.optimizers.hybrid import plan_hybrid
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import PlanNode
from examples.value_barrier import Barrier, Value, value_barrier

RATES = Rates(
    [
        Load(take(Value, channel="a"), 50, "m1"),
        Load(take(Value, channel="b"), 60, "m2"),
        Load(take(Barrier), 1, "m3"),
    ]
)


def move(node, machine):
    below = [move(child, machine) for child in node.children]
    return PlanNode(*node.slices, children=below, state=node.state, machine=machine)


def test_it_is_the_greedy_tree_on_the_central_machine():
    plan = plan_hybrid(value_barrier, RATES, ["centre", "m1"])
    assert plan.name == "hybrid"
    assert plan.root == move(plan_greedily(value_barrier, RATES).root, "centre")
    assert len(plan.nodes()) == 3


def test_without_machines_the_first_that_is_mentioned_is_central():
    plan = plan_hybrid(value_barrier, RATES)
    assert {node.machine for node in plan.nodes().values()} == {"m1"}
