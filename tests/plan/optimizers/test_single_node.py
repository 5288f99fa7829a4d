from anabranch import take
from anabranch.plan.optimizers.single_node import plan_sequentially
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode
from examples.smart_home import Minute, Pressure, Temp, smart_home
from examples.value_barrier import Barrier, Value, value_barrier


def test_one_worker_stands_where_most_arrives():
    rates = Rates(
        [
            Load(take(Value, channel="a"), 50, "m1"),
            Load(take(Value, channel="b"), 30, "m2"),
            Load(take(Barrier), 21, "m2"),
        ]
    )
    assert plan_sequentially(value_barrier, rates) == Plan(
        PlanNode(Value, Barrier, machine="m2"), "sequential"
    )


def test_it_answers_for_every_event_type_whatever_the_rates_name():
    rates = Rates([Load(take(Temp, room="hall"), 1)])
    assert plan_sequentially(smart_home, rates).root == PlanNode(
        Temp, Pressure, Minute, state="home", machine="local"
    )
