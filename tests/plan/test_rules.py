"""Rewrites, before and after; and what comes after still gives the sequential answer."""

import pytest

from anabranch import take
from anabranch.eventtime.channels import end_channels
from anabranch.plan.pricing.cost import PRICES, Prices
from anabranch.plan.pricing.rates import Load, Rates, sample_rates
from anabranch.plan.rules import RULES
from anabranch.plan.rules.balance import balance
from anabranch.plan.rules.collapse import collapse
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import find_faults
from anabranch.reference.verification import prepare
from examples import key_counter as counter
from examples import smart_home as home
from examples import value_barrier as barrier
from examples.value_barrier import Barrier, Value, value_barrier
from tests.plan.programs import Month, Reading, typed

ANYTHING = Rates([Load(take(Value), 1)])
A, B, C, D, E = (PlanNode(take(Value, channel=name)) for name in "abcde")


def pair(left, right, *own, machine=None):
    return PlanNode(*own, children=(left, right), machine=machine)


def rooms(*names):
    below = [PlanNode(take(home.Temp, channel=name), state="rooms") for name in names]
    while len(below) > 1:
        below = [PlanNode(state="rooms", children=(below[0], below[1])), *below[2:]]
    return below[0]


def outline(node):
    """Return a tree as nested text."""
    own = " ".join(part.channel or part.event_type.__name__ for part in node.slices)
    below = ", ".join(map(outline, node.children))
    return f"{own}({below})" if below else own


# Balance.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pair(A, pair(B, pair(C, D)), Barrier), "Barrier((a, b), (c, d))"),
        (pair(pair(pair(A, B), C), D, Barrier), "Barrier((a, b), (c, d))"),
        # A rung that owns something stays; what hangs from it is balanced by itself.
        (
            pair(A, pair(B, pair(C, pair(D, E)), take(Value, channel="x")), Barrier),
            "Barrier(a, x((b, c), (d, e)))",
        ),
    ],
)
def test_a_ladder_becomes_a_low_tree(before, after):
    assert find_faults(value_barrier, Plan(before)) == []
    (plan,) = balance(value_barrier, Plan(before, "p"), ANYTHING)
    assert (plan.name, outline(plan.root)) == ("p", after)


@pytest.mark.parametrize("low", [A, pair(A, B), pair(A, B, Barrier), pair(pair(A, B), pair(C, D))])
def test_nothing_is_proposed_for_what_is_low_already(low):
    assert list(balance(value_barrier, Plan(low), ANYTHING)) == []


def test_types_stay_on_their_sides():
    root = PlanNode(
        home.Minute,
        state="home",
        children=(rooms("a", "b", "c", "d"), PlanNode(home.Pressure, state="gauge")),
    )
    (plan,) = balance(home.smart_home, Plan(root), ANYTHING)
    assert plan.height == 4
    assert outline(plan.root) == "Minute(((a, b), (c, d)), Pressure)"
    assert find_faults(home.smart_home, plan) == []


def test_a_ladder_of_unlike_types_is_left_alone():
    a, b, c = (PlanNode(take(Reading, channel=s), state="part") for s in "abc")
    ladder = PlanNode(
        Month,
        state="year",
        children=(
            PlanNode(
                state="year",
                children=(
                    PlanNode(
                        state="year",
                        children=(PlanNode(take(Reading, channel="d"), state="year"), c),
                    ),
                    b,
                ),
            ),
            a,
        ),
    )
    assert find_faults(typed, Plan(ladder)) == []
    assert list(balance(typed, Plan(ladder), ANYTHING)) == []


def test_new_rungs_stand_on_the_machine_of_the_old_ones_top():
    (plan,) = balance(
        value_barrier, Plan(pair(A, pair(B, pair(C, D)), Barrier, machine="m")), ANYTHING
    )
    assert [child.machine for child in plan.root.children] == ["m", "m"]


# Collapse.


def test_an_idle_subtree_becomes_one_worker():
    busy = pair(A, B)
    rates = Rates(
        [
            *(Load(take(Value, channel=s), 500_000) for s in "ab"),
            *(Load(take(Value, channel=s), 10) for s in "cd"),
            Load(take(Barrier), 1),
        ]
    )
    proposed = list(collapse(value_barrier, Plan(pair(busy, pair(C, D), Barrier)), rates))
    merged = PlanNode(take(Value, channel="c"), take(Value, channel="d"))
    assert proposed[0].root == pair(busy, merged, Barrier)


def test_each_inner_worker_of_a_small_plan_is_tried_alone():
    rates = Rates([Load(take(Value, channel=s), 500_000) for s in "abcd"])
    plan = Plan(pair(pair(A, B), pair(C, D), Barrier))
    assert [outline(p.root) for p in collapse(value_barrier, plan, rates)] == [
        "Barrier a b c d",
        "Barrier(a b, (c, d))",
        "Barrier((a, b), c d)",
    ]


def test_a_worker_counts_all_that_is_below_it():
    """A quarter of a node's time, and no more, is idle; at 100 events per second it is 25."""
    prices = Prices(seconds_per_event=0.7 / 100)
    plan = Plan(pair(pair(A, B), C, Barrier))
    for rate, idle in ((12.4, True), (12.6, False)):
        rates = Rates(
            [Load(take(Value, channel=s), rate) for s in "ab"] + [Load(take(Barrier), 90)]
        )
        first = next(collapse(value_barrier, plan, rates, prices))
        assert outline(first.root) == ("Barrier(a b, c)" if idle else "Barrier a b c")


def test_a_leaf_has_nothing_to_collapse():
    assert list(collapse(value_barrier, Plan(A), ANYTHING)) == []


# Both, on what they are for.

PLANS = [
    pytest.param(module, program, plan, id=f"{program.name}/{name}")
    for module, program in (
        (barrier, value_barrier),
        (counter, counter.key_counter),
        (home, home.smart_home),
    )
    for name, plan in module.plans.items()
]


@pytest.mark.parametrize(("module", "program", "plan"), PLANS)
def test_a_rewritten_plan_is_valid_and_gives_the_sequential_answer(module, program, plan):
    rates = sample_rates(program, module.events)
    items = end_channels(module.events, channels=module.channels)
    proposed = [p for rule in RULES for p in rule(program, plan, rates, PRICES)]
    if len(plan.nodes()) > 1:
        assert proposed
    for candidate in proposed:
        assert find_faults(program, candidate) == []
        trial = prepare(program, candidate, items, module.channels)
        assert trial.answer.values == module.expected
        for seed in range(10):
            assert trial.verify(seed)[1] is None
