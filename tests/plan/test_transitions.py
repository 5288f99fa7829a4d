"""From one plan to another: which joins and forks, what moves, what stays, what comes out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Map, Shard, Slices, take
from anabranch.errors import PlanError
from anabranch.model.values.hashing import hash_stably
from anabranch.plan.optimizers.enumeration import enumerate_plans
from anabranch.plan.transitions import TransitionStep, carry, normalise, transition
from anabranch.plan.tree import Plan, PlanNode
from examples import key_counter as counter
from examples import smart_home as home
from examples.key_counter import Inc, Read, key_counter
from examples.smart_home import smart_home
from examples.value_barrier import Barrier, Value, value_barrier

A, B, C = (PlanNode(take(Value, channel=name)) for name in "abc")
HALVES = [PlanNode(take(Value, channel="a", lane=Shard(n, 2))) for n in (0, 1)]


def above(left, right, *own, name="p"):
    return Plan(PlanNode(*own, children=(left, right)), name)


def steps(change):
    return [(step.action, step.path) for step in change.steps]


def test_a_plan_that_stays_needs_nothing():
    plan = above(A, B, Barrier)
    change = transition(value_barrier, plan, plan)
    assert (change.steps, change.moved) == ((), ())
    assert change.kept == (("0.0", "0.0"), ("0.1", "0.1"))
    assert change.describe() == "p -> p\n  nothing to do\n  2 leaf states stay, 0 subtrees move"


def test_one_worker_for_all_is_forked():
    change = transition(value_barrier, Plan(PlanNode(Value, Barrier)), above(A, B, Barrier))
    assert steps(change) == [("fork", "0")]
    assert (change.moved, change.kept) == ((("0", "0"),), ())


def test_a_leaf_is_split_and_its_sibling_stays():
    old = above(A, B, Barrier, name="old")
    new = above(PlanNode(children=HALVES), B, Barrier, name="new")
    change = transition(value_barrier, old, new)
    assert steps(change) == [("fork", "0.0")]
    assert (change.moved, change.kept) == ((("0.0", "0.0"),), (("0.1", "0.1"),))
    assert change.describe() == (
        "old -> new\n  fork at new node 0.0\n  1 leaf states stay, 1 subtrees move"
    )
    assert carry(value_barrier, change, {"0.0": 5, "0.1": 7}) == {"0.0.0": 5, "0.0.1": 0, "0.1": 7}


def test_two_leaves_are_merged_and_their_uncle_stays():
    old, new = above(PlanNode(children=HALVES), B, Barrier), above(A, B, Barrier)
    change = transition(value_barrier, old, new)
    assert steps(change) == [("join", "0.0")]
    assert (change.moved, change.kept) == ((("0.0", "0.0"),), (("0.1", "0.1"),))
    assert carry(value_barrier, change, {"0.0.0": 5, "0.0.1": 2, "0.1": 7}) == {"0.0": 7, "0.1": 7}


def test_joins_come_from_the_bottom_and_forks_from_the_top():
    old = above(A, PlanNode(children=(B, C)), Barrier)
    new = above(PlanNode(children=(A, B)), C, Barrier)
    change = transition(value_barrier, old, new)
    assert steps(change) == [("join", "0.1"), ("join", "0"), ("fork", "0"), ("fork", "0.0")]
    assert (change.moved, change.kept) == ((("0", "0"),), ())
    assert [str(step) for step in change.steps[1:3]] == [
        "join at old node 0",
        "fork at new node 0",
    ]


def test_sides_that_change_places_are_moved():
    change = transition(value_barrier, above(A, B, Barrier), above(B, A, Barrier))
    assert steps(change) == [("join", "0"), ("fork", "0")]


def test_a_slice_that_moves_between_a_worker_and_its_root_moves_its_side_only():
    x = take(Inc, key=1, channel="x")
    left, right = PlanNode(take(Inc, key=1), take(Read, key=1)), PlanNode(take(Inc, key=2))
    old = Plan(PlanNode(x, children=(left, right)))
    new = Plan(PlanNode(children=(left, right)))
    change = transition(key_counter, old, new)
    # Both sides cover what they did before: the root's slice is within the left one.
    assert change.steps == ()
    assert len(change.kept) == 2


def test_what_a_marker_owns_may_change_without_moving_a_state():
    old = above(A, B, Barrier)
    new = above(A, B, take(Barrier, channel="b"))
    assert transition(value_barrier, old, new).steps == ()


def test_two_subtrees_may_move_each_for_itself():
    halves = [PlanNode(take(Value, channel="b", lane=Shard(n, 2))) for n in (0, 1)]
    old = above(PlanNode(children=HALVES), B, Barrier)
    new = above(A, PlanNode(children=halves), Barrier)
    change = transition(value_barrier, old, new)
    assert steps(change) == [("join", "0.0"), ("fork", "0.1")]
    assert change.moved == (("0.0", "0.0"), ("0.1", "0.1"))
    assert carry(value_barrier, change, {"0.0.0": 1, "0.0.1": 2, "0.1": 4}) == {
        "0.0": 3, "0.1.0": 4, "0.1.1": 0,
    }  # fmt: skip


def test_only_the_type_that_changes_moves():
    gauge = PlanNode(home.Pressure, state="gauge")
    rooms = [PlanNode(take(home.Temp, room=Shard(n, 2)), state="rooms") for n in (0, 1)]

    def build(left):
        return Plan(PlanNode(home.Minute, state="home", children=(left, gauge)))

    old = build(PlanNode(home.Temp, state="rooms"))
    new = build(PlanNode(state="rooms", children=rooms))
    change = transition(smart_home, old, new)
    assert steps(change) == [("fork", "0.0")]
    assert change.kept == (("0.1", "0.1"),)
    states = {"0.0": Map({"hall": 20, "kitchen": 30}), "0.1": home.Gauge(1000, 10)}
    halves = [{}, {}]
    for room, top in states["0.0"].items():
        halves[hash_stably(room) % 2][room] = top
    assert carry(smart_home, change, states) == {
        "0.0.0": halves[0], "0.0.1": halves[1], "0.1": home.Gauge(1000, 10),
    }  # fmt: skip


def test_a_side_that_covers_less_than_before_moves_with_the_other():
    """Rooms by name leave an unknown room to the root, which a single node for rooms did not."""
    change = transition(smart_home, home.plans["rooms and gauge"], home.plans["room by room"])
    assert steps(change) == [("join", "0"), ("fork", "0"), ("fork", "0.0")]
    assert change.kept == ()


@pytest.mark.parametrize("place", [0, 1])
def test_both_plans_have_to_be_valid(place):
    torn = Plan(PlanNode(children=(PlanNode(Barrier), PlanNode(Value))), "torn")
    plans = [Plan(PlanNode(Value, Barrier))] * 2
    plans[place] = torn
    with pytest.raises(PlanError, match="plan 'torn' is not valid"):
        transition(value_barrier, *plans)


def test_a_step_says_which_plan_it_is_in():
    assert str(TransitionStep("join", "0.1")) == "join at old node 0.1"
    assert str(TransitionStep("fork", "0")) == "fork at new node 0"


# Carrying, against joining everything and forking it anew.

BY_KEY = [
    take(Read, key=1), take(Inc, key=1), take(Read, key=2),
    take(Inc, key=2, channel="a"), take(Inc, key=2, channel="b"),
]  # fmt: skip
COUNTER_PLANS = [*counter.plans.values(), *enumerate_plans(key_counter, BY_KEY)]


def fork_down(program, node, state, path="0"):
    if not node.children:
        return {path: state}
    left, right = node.children
    fork = program.find_fork(node.state, left.state, right.state)
    halves = fork.fork(state, left.subtree(), right.subtree())
    return {
        place: held
        for side, (child, half) in enumerate(zip(node.children, halves, strict=True))
        for place, held in fork_down(program, child, half, f"{path}.{side}").items()
    }


def join_up(program, node, states, path="0"):
    if not node.children:
        return states[path]
    left, right = (
        join_up(program, child, states, f"{path}.{side}")
        for side, child in enumerate(node.children)
    )
    return program.find_fork(node.state, *(c.state for c in node.children)).join(left, right)


COUNTS = st.dictionaries(st.integers(1, 3), st.integers(0, 9)).map(Map)


@given(st.sampled_from(COUNTER_PLANS), st.sampled_from(COUNTER_PLANS), st.data())
def test_no_count_is_lost_or_made_on_the_way(old, new, data):
    states = fork_down(key_counter, old.root, data.draw(COUNTS))
    for path in states:
        # What the leaves have counted since.
        for part in old.nodes()[path].slices:
            key = part.choice("key")
            if hasattr(key, "value"):
                more = data.draw(st.integers(0, 3))
                states[path] = states[path].set(key.value, states[path].get(key.value, 0) + more)
    change = transition(key_counter, old, new)
    carried = carry(key_counter, change, states)
    leaves = {path for path, node in new.nodes().items() if not node.children}
    assert set(carried) == leaves
    whole = join_up(key_counter, old.root, states)
    shape = key_counter.initial.shape
    assert shape.same(join_up(key_counter, new.root, carried), whole)
    if not change.kept:
        # Where everything moves it is the same as joining all and forking anew, leaf by leaf.
        assert carried == fork_down(key_counter, new.root, whole)


@given(st.lists(st.sampled_from(COUNTER_PLANS), min_size=3, max_size=6), COUNTS)
def test_a_chain_of_changes_comes_back_to_what_it_began_with(plans, state):
    states = fork_down(key_counter, plans[0].root, state)
    for old, new in pairwise(plans):
        states = carry(key_counter, transition(key_counter, old, new), states)
    assert key_counter.initial.shape.same(join_up(key_counter, plans[-1].root, states), state)


@given(st.sampled_from(COUNTER_PLANS), st.sampled_from(COUNTER_PLANS))
def test_kept_and_moved_are_all_there_is(old, new):
    change = transition(key_counter, old, new)
    for side, plan in enumerate((old, new)):
        leaves = {path for path, node in plan.nodes().items() if not node.children}
        below = {
            path
            for path in leaves
            for top in change.moved
            if f"{path}.".startswith(f"{top[side]}.")
        }
        kept = {pair[side] for pair in change.kept}
        assert kept | below == leaves
        assert not kept & below


# Normal forms.


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ([take(Value, lane=Shard(n, 3)) for n in range(3)], [take(Value)]),
        ([take(Value, lane=Shard(n, 3)) for n in (0, 2)], None),
        ([take(Inc, key=Shard(0, 2)), take(Inc, key=Shard(1, 2), channel="a")], None),
        ([take(Inc, key=Shard(n, 2), channel="a") for n in (0, 1)], [take(Inc, channel="a")]),
        # Lanes of shards of keys: two steps.
        (
            [take(Inc, key=Shard(k, 2), lane=Shard(n, 2)) for k in (0, 1) for n in (0, 1)],
            [take(Inc)],
        ),
        (
            [take(Inc, key=Shard(0, 2)), *(take(Inc, key=Shard(1, 2), lane=Shard(n, 2)) for n in (0, 1))],
            [take(Inc)],
        ),
        ([take(Inc, key=1), take(Inc, key=2)], None),
        ([take(Value, lane=Shard(0, 1))], [take(Value)]),
        ([], None),
    ],
)  # fmt: skip
def test_shards_that_are_the_whole_together_are_put_together(given, normal):
    assert normalise(Slices(given)) == Slices(given if normal is None else normal)


PARTS = st.builds(
    lambda key, lane: take(Inc, lane=lane, **({} if key is None else {"key": key})),
    st.sampled_from([None, 1, Shard(0, 2), Shard(1, 2), Shard(0, 3), Shard(1, 3), Shard(2, 3)]),
    st.sampled_from([None, Shard(0, 2), Shard(1, 2)]),
)


@given(st.lists(PARTS, max_size=7).map(Slices))
def test_a_normal_form_covers_the_same_events(slices):
    normal = normalise(slices)
    assert len(normal) <= len(slices)
    assert normalise(normal) == normal
    for key in range(12):
        for seq in range(4):
            event = Event(Inc(0, key), "a", seq)
            assert normal.covers(event) == slices.covers(event)
