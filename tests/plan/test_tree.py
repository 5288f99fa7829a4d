import pytest

from anabranch import Shard, Slices, take
from anabranch.errors import PlanError
from anabranch.plan.tree import Plan, Worker
from examples.value_barrier import Barrier, Value

A, B = (Worker(take(Value, source=name), machine=name) for name in ("a", "b"))
DEEP = Plan(Worker(Barrier, children=(Worker(children=(A, B)), Worker(take(Value, source="c")))))


def test_workers_are_found_by_path_from_the_root_down():
    assert list(DEEP.workers()) == ["0", "0.0", "0.0.0", "0.0.1", "0.1"]
    assert DEEP.workers()["0.0.1"] is B


def test_a_subtree_answers_for_all_below_it():
    assert DEEP.root.children[0].subtree() == Slices(
        [take(Value, source="a"), take(Value, source="b")]
    )
    assert DEEP.root.subtree().tags() == {Barrier, Value}


@pytest.mark.parametrize(
    ("plan", "height"),
    [(Plan(A), 1), (Plan(Worker(children=(A, B))), 2), (DEEP, 3)],
)
def test_the_height_is_the_longest_way_down(plan, height):
    assert plan.height == height


@pytest.mark.parametrize("children", [(A,), (A, B, Worker(Barrier))])
def test_a_fork_has_two_sides(children):
    with pytest.raises(PlanError, match=f"has {len(children)} children") as refused:
        Worker(Barrier, children=children)
    assert refused.value.expected == "none or two: a fork has two sides"


def test_a_leaf_without_slices_is_refused():
    with pytest.raises(PlanError, match="a worker without children has nothing to do"):
        Worker()


def test_a_worker_without_slices_may_fork():
    assert len(Worker(children=(A, B)).slices) == 0


def test_equal_parts_make_equal_plans_whatever_the_order_of_slices():
    half, other = take(Value, lane=Shard(0, 2)), take(Value, lane=Shard(1, 2))
    assert Plan(Worker(half, other)) == Plan(Worker(other, half))
    assert hash(Worker(half, other)) == hash(Worker(other, half))
    assert Worker(half) != Worker(half, machine="m")
    assert Worker(half) != Worker(half, state="part")
    assert Worker(children=(A, B)) != Worker(children=(B, A))


def test_a_worker_shows_its_slices_and_its_children():
    assert repr(Worker(Barrier, children=(A, B))) == (
        "Worker(Barrier, [Worker(Value@a), Worker(Value@b)])"
    )
