"""V1 and V2, case by case and against their definition. Nothing else makes a plan valid."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Shard, take
from anabranch.errors import PlanError
from anabranch.model.values.hashing import hash_stably
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import Fault, check_plan, find_faults
from examples.ewma import Reading as Sensed
from examples.ewma import ewma
from examples.fraud import Rule, Txn, fraud
from examples.key_counter import Inc, Read, key_counter
from examples.smart_home import Minute, Pressure, Temp, smart_home
from tests.plan.programs import Day, Month, Reading, laned, laned_per_meter, typed, unforked


def side_by_side(left, right, *above):
    """Return a plan with two leaves, each of one slice or several, below a root."""
    leaves = [PlanNode(*(x if isinstance(x, tuple) else (x,))) for x in (left, right)]
    return Plan(PlanNode(*above, children=leaves))


def faults_of(program, plan):
    return [str(fault) for fault in find_faults(program, plan)]


# The published negatives.


def test_an_increment_and_a_read_of_one_key_are_not_for_siblings():
    plan = side_by_side(take(Inc, key=1), take(Read, key=1))
    assert faults_of(key_counter, plan) == [
        "V2 at node 0.0: Inc[key=1] depends on Read[key=1] at node 0.1"
    ]


def test_one_event_type_is_not_for_two_siblings():
    plan = side_by_side(take(Inc, key=1), take(Inc, key=1))
    assert faults_of(key_counter, plan) == [
        "V2 at node 0.0: Inc[key=1] is also at node 0.1 as Inc[key=1]"
    ]


def test_a_state_type_has_to_handle_the_event_types_of_its_worker():
    gauge = PlanNode(Pressure, Temp, state="gauge")
    plan = Plan(PlanNode(Minute, state="home", children=(PlanNode(Temp, state="rooms"), gauge)))
    assert faults_of(smart_home, plan) == [
        "V1 at node 0.1: state type 'gauge' does not handle Temp",
        "V2 at node 0.0: Temp is also at node 0.1 as Temp",
    ]


# V1: types.


def test_the_root_has_the_type_a_run_starts_from():
    assert faults_of(typed, Plan(PlanNode(Reading, state="part"))) == [
        "V1 at node 0: the root's state type is 'part', not 'year'"
    ]


def test_a_event_type_the_program_does_not_know_is_not_handled():
    assert faults_of(key_counter, Plan(PlanNode(Month, Inc, Txn))) == [
        "V1 at node 0: state type 'state' does not handle Month",
        "V1 at node 0: state type 'state' does not handle Txn",
    ]


def test_an_unknown_state_type_is_named_and_nothing_else_is_said_of_its_worker():
    lost = PlanNode(Month, state="decade")
    plan = Plan(PlanNode(state="year", children=(PlanNode(Reading, state="year"), lost)))
    assert faults_of(typed, plan) == [
        "V1 at node 0: there is no fork year -> year, decade",
        "V1 at node 0.1: the program has no state type 'decade'",
        "V2 at node 0.0: Reading depends on Month at node 0.1",
    ]


def test_a_root_of_an_unknown_type_has_two_faults():
    assert find_faults(typed, Plan(PlanNode(Reading, state="decade"))) == [
        Fault("V1", "0", "the root's state type is 'decade', not 'year'"),
        Fault("V1", "0", "the program has no state type 'decade'"),
    ]


@pytest.mark.parametrize(
    ("left", "right", "missing"),
    [("part", "year", "year -> part, year"), ("year", "year", "year -> year, year")],
)
def test_a_fork_goes_to_these_types_in_this_order(left, right, missing):
    leaves = (
        PlanNode(take(Reading, channel="a"), state=left),
        PlanNode(take(Reading, channel="b"), state=right),
    )
    plan = Plan(PlanNode(Month, state="year", children=leaves))
    assert faults_of(typed, plan) == [f"V1 at node 0: there is no fork {missing}"]


def test_a_fork_that_the_program_has_is_enough():
    leaves = (
        PlanNode(take(Reading, channel="a"), state="year"),
        PlanNode(take(Reading, channel="b"), state="part"),
    )
    assert find_faults(typed, Plan(PlanNode(Month, state="year", children=leaves))) == []


def test_a_program_without_forks_runs_on_one_worker_only():
    assert find_faults(unforked, Plan(PlanNode(Reading, Month))) == []
    plan = side_by_side(take(Reading, channel="a"), take(Reading, channel="b"), Month)
    assert faults_of(unforked, plan) == ["V1 at node 0: there is no fork state -> state, state"]


# V2: who may stand beside whom.


def test_cousins_are_compared_too():
    left = PlanNode(children=(PlanNode(take(Inc, key=1)), PlanNode(take(Inc, key=2))))
    right = PlanNode(children=(PlanNode(take(Inc, key=3)), PlanNode(take(Read, key=2))))
    assert faults_of(key_counter, Plan(PlanNode(children=(left, right)))) == [
        "V2 at node 0.0.1: Inc[key=2] depends on Read[key=2] at node 0.1.1"
    ]


def test_an_uncle_is_compared_with_those_below_his_sibling():
    left = PlanNode(
        take(Read, key=1), children=(PlanNode(take(Inc, key=1)), PlanNode(take(Inc, key=2)))
    )
    plan = Plan(PlanNode(children=(left, PlanNode(take(Inc, key=1, channel="a")))))
    assert faults_of(key_counter, plan) == [
        "V2 at node 0.0: Read[key=1] depends on Inc[key=1]@a at node 0.1",
        "V2 at node 0.0.0: Inc[key=1] is also at node 0.1 as Inc[key=1]@a",
    ]


def test_workers_above_one_another_may_depend_and_overlap():
    leaves = (PlanNode(take(Inc, key=1)), PlanNode(take(Inc, key=2)))
    assert find_faults(key_counter, Plan(PlanNode(Read, Inc, children=leaves))) == []


def test_one_worker_may_hold_what_depends_and_overlaps():
    plan = Plan(PlanNode(Inc, Read, take(Inc, key=1), take(Read, key=Shard(0, 2))))
    assert find_faults(key_counter, plan) == []


def test_every_pair_at_fault_is_reported():
    plan = side_by_side((take(Inc, key=1), take(Read, key=1)), (take(Inc, key=1), Read))
    assert faults_of(key_counter, plan) == [
        "V2 at node 0.0: Inc[key=1] is also at node 0.1 as Inc[key=1]",
        "V2 at node 0.0: Inc[key=1] depends on Read at node 0.1",
        "V2 at node 0.0: Read[key=1] depends on Inc[key=1] at node 0.1",
        "V2 at node 0.0: Read[key=1] is also at node 0.1 as Read",
    ]


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        (Shard(0, 2), Shard(1, 2), True),
        (Shard(0, 2), Shard(1, 4), True),  # odd and even
        (Shard(0, 2), Shard(2, 4), False),  # 2, 6, 10 … are even
        (Shard(0, 2), Shard(0, 3), False),  # 0 and 6
        (Shard(1, 6), Shard(3, 4), False),  # 7
        (Shard(1, 6), Shard(2, 4), True),  # odd and even again
        (Shard(0, 1), Shard(5, 7), False),  # one shard is everything
    ],
)
@pytest.mark.parametrize("event_types", [(Inc, Inc), (Inc, Read), (Read, Read)])
def test_shards_are_apart_iff_no_hash_is_in_both(a, b, apart, event_types):
    plan = side_by_side(take(event_types[0], key=a), take(event_types[1], key=b))
    assert (find_faults(key_counter, plan) == []) is apart


def test_a_key_is_apart_from_the_shards_it_does_not_hash_to():
    homes = [
        n for n in range(4) if find_faults(
            key_counter, side_by_side(take(Inc, key=7), take(Read, key=Shard(n, 4)))
        )
    ]  # fmt: skip
    assert homes == [hash_stably(7) % 4]


def test_channels_separate_what_is_independent():
    plan = side_by_side(take(Txn, channel="a"), take(Txn, channel="b"), Rule)
    assert find_faults(fraud, plan) == []


def test_channels_do_not_separate_what_depends():
    plan = side_by_side(take(Sensed, channel="a"), take(Sensed, channel="b"))
    assert faults_of(ewma, plan) == ["V2 at node 0.0: Reading@a depends on Reading@b at node 0.1"]
    plan = side_by_side(take(Txn, channel="a"), take(Rule, channel="b"))
    assert faults_of(fraud, plan) == ["V2 at node 0.0: Txn@a depends on Rule@b at node 0.1"]


def test_a_channel_overlaps_with_every_channel():
    plan = side_by_side(take(Txn, channel="a"), Txn, Rule)
    assert faults_of(fraud, plan) == ["V2 at node 0.0: Txn@a is also at node 0.1 as Txn"]


def test_lanes_separate_what_is_independent_and_nothing_else():
    lanes = [Shard(n, 2) for n in (0, 1)]
    plan = side_by_side(*(take(Txn, lane=lane) for lane in lanes), Rule)
    assert find_faults(fraud, plan) == []
    plan = side_by_side(*(take(Sensed, lane=lane) for lane in lanes))
    assert faults_of(ewma, plan) == [
        "V2 at node 0.0: Reading[lane in 0/2] depends on Reading[lane in 1/2] at node 0.1"
    ]
    plan = side_by_side(take(Inc, key=1, lane=lanes[0]), take(Read, key=1, lane=lanes[1]))
    assert faults_of(key_counter, plan) == [
        "V2 at node 0.0: Inc[lane in 0/2, key=1] depends on Read[lane in 1/2, key=1] at node 0.1"
    ]


def test_canonical_lanes_are_cut_by_lane_only():
    by_lane = [take(Reading, lane=Shard(n, 2)) for n in (0, 1)]
    assert find_faults(laned, side_by_side(*by_lane, Month)) == []
    by_channel = [take(Reading, channel=name) for name in ("a", "b")]
    assert faults_of(laned, side_by_side(*by_channel, Month)) == [
        "V2 at node 0.0: Reading@a depends on Reading@b at node 0.1"
    ]


def test_canonical_lanes_per_key_are_cut_by_key_or_lane():
    def cut(**left_right):
        names = list(left_right)
        parts = [{name: left_right[name][side] for name in names} for side in (0, 1)]
        plan = side_by_side(*(take(Reading, **part) for part in parts), Day)
        return find_faults(laned_per_meter, plan)

    halves = (Shard(0, 2), Shard(1, 2))
    assert cut(meter=(1, 2)) == []
    assert cut(lane=halves) == []
    assert cut(meter=(1, 1), lane=halves) == []
    assert [fault.rule for fault in cut(meter=(1, 1), channel=("a", "b"))] == ["V2"]


# Saying so.


def test_a_valid_plan_is_returned_as_it_is():
    plan = Plan(PlanNode(Inc, Read))
    assert check_plan(key_counter, plan) is plan


def test_an_invalid_plan_is_refused_with_every_reason():
    plan = Plan(side_by_side(take(Inc, key=1), take(Read, key=1)).root, "torn")
    with pytest.raises(PlanError) as refused:
        check_plan(key_counter, plan)
    assert str(refused.value).splitlines()[0] == "plan 'torn' is not valid for program"
    assert refused.value.got == "V2 at node 0.0: Inc[key=1] depends on Read[key=1] at node 0.1"
    assert refused.value.expected.startswith("V1 (state types fit) and V2")
    assert refused.value.where == key_counter.where


# The definition, word by word, on random trees.

KEYS = st.sampled_from([None, 1, 2, Shard(0, 2), Shard(1, 2), Shard(0, 3)])
LANES = st.sampled_from([None, None, Shard(0, 2), Shard(1, 2)])


@st.composite
def slices(draw):
    key, lane = draw(KEYS), draw(LANES)
    channel = draw(st.sampled_from([None, None, "a", "b"]))
    fields = {} if key is None else {"key": key}
    return take(draw(st.sampled_from([Inc, Read])), channel=channel, lane=lane, **fields)


def trees():
    leaves = st.lists(slices(), min_size=1, max_size=2).map(lambda parts: PlanNode(*parts))
    return st.recursive(
        leaves,
        lambda below: st.builds(
            lambda parts, a, b: PlanNode(*parts, children=(a, b)),
            st.lists(slices(), max_size=2), below, below,
        ),
        max_leaves=5,
    )  # fmt: skip


@given(trees())
def test_v2_is_its_definition(root):
    """For all w, w' that are not above one another: disjoint, and independent."""
    plan = Plan(root)
    expected = set()
    for (p, w), (q, v) in combinations(plan.nodes().items(), 2):
        if f"{q}.".startswith(f"{p}.") or f"{p}.".startswith(f"{q}."):
            continue
        for x in w.slices:
            for y in v.slices:
                if x.overlaps(y) or key_counter.dependence.depend(x, y):
                    expected.add((p, str(x), q, str(y)))
    found = find_faults(key_counter, plan)
    assert len(found) == len(expected)
    assert {fault.rule for fault in found} <= {"V2"}
    texts = {(p, q, x, y) for p, x, q, y in expected}
    for fault in found:
        assert any(
            fault.node == p
            and fault.reason
            in (f"{x} is also at node {q} as {y}", f"{x} depends on {y} at node {q}")
            for p, q, x, y in texts
        )


EVENTS = [
    Event(event_type(0, key), channel, seq)
    for event_type in (Inc, Read)
    for key in range(4)
    for channel in ("a", "b", "c")
    for seq in (0, 1)
]


@given(trees())
def test_what_a_valid_plan_runs_apart_is_disjoint_and_independent_event_by_event(root):
    plan = Plan(root)
    if find_faults(key_counter, plan):
        return
    for (p, w), (q, v) in combinations(plan.nodes().items(), 2):
        if q.startswith(f"{p}."):
            continue
        ours = [event for event in EVENTS if w.slices.covers(event)]
        theirs = [event for event in EVENTS if v.slices.covers(event)]
        assert not set(ours) & set(theirs)
        assert not any(key_counter.dependence.depend(x, y) for x in ours for y in theirs)
