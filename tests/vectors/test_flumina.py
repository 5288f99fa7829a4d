"""What is true of Flumina's published cases before any runtime sees them.

That every runtime gives their answers is shown in `tests/runtimes`.
"""

import random

import pytest

from anabranch.errors import PlanError
from anabranch.plan.validity import check_plan, find_faults
from anabranch.reference.sequential import run
from tests.vectors.flumina import (
    BROKEN_FORK,
    BROKEN_FORK_PLAN,
    INVALID,
    OPTIMIZER_PLAN,
    VECTORS,
    Invalid,
    Vector,
    key_counter,
)

every_vector = pytest.mark.parametrize("vector", VECTORS.values(), ids=list(VECTORS))
small = {name: vector for name, vector in VECTORS.items() if vector.cut is None}


@pytest.mark.parametrize("vector", small.values(), ids=list(small))
@pytest.mark.parametrize("seed", range(5))
def test_arrival_order_does_not_show(vector: Vector, seed: int):
    shuffled = list(vector.items)
    random.Random(seed).shuffle(shuffled)
    in_order = run(vector.program, vector.items, vector.channels)
    answer = run(vector.program, shuffled, vector.channels)
    assert answer.values == vector.expected
    assert answer.state == in_order.state
    assert answer.ledger == in_order.ledger


@every_vector
def test_every_plan_of_a_vector_is_valid(vector: Vector):
    assert {name: find_faults(vector.program, plan) for name, plan in vector.plans.items()} == {
        name: [] for name in vector.plans
    }


@every_vector
def test_a_vector_has_plans_that_differ(vector: Vector):
    assert len({plan.root for plan in vector.plans.values()}) == len(vector.plans) > 1


def test_without_a_heartbeat_the_barrier_is_pending():
    vector = VECTORS["progress, nothing without a heartbeat"]
    answer = run(vector.program, vector.items, vector.channels)
    assert str(answer.ledger) == "2 input, 1 processed, 1 pending"
    assert [event.channel for event in answer.pending] == ["b"]


def test_where_only_heartbeats_count_everything_is_pending():
    vector = VECTORS["progress, nothing where only heartbeats count"]
    answer = run(vector.program, vector.items, vector.channels)
    assert str(answer.ledger) == "2 input, 2 pending"


def test_a_broken_fork_does_not_show_in_sequence():
    answer = run(BROKEN_FORK.program, BROKEN_FORK.items, BROKEN_FORK.channels)
    assert answer.values == [12, 12]


def test_a_plan_is_valid_even_if_the_fork_is_broken():
    # Validity is about event types and types; that the fork lies is for the laws to find.
    assert find_faults(BROKEN_FORK.program, BROKEN_FORK_PLAN) == []


@pytest.mark.parametrize("case", INVALID.values(), ids=list(INVALID))
def test_an_invalid_plan_is_refused_with_its_reason(case: Invalid):
    assert [str(fault) for fault in find_faults(case.program, case.plan)] == case.reasons
    with pytest.raises(PlanError) as refusal:
        check_plan(case.program, case.plan)
    assert refusal.value.got == "; ".join(case.reasons)


def test_the_plan_of_the_optimizer_is_valid():
    assert find_faults(key_counter, OPTIMIZER_PLAN) == []
