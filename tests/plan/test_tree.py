import pytest

from anabranch import Shard, Slices, take
from anabranch.errors import PlanError
from anabranch.plan.tree import Plan, PlanNode
from examples.value_barrier import Barrier, Value

A, B = (PlanNode(take(Value, channel=name), machine=name) for name in ("a", "b"))
DEEP = Plan(
    PlanNode(Barrier, children=(PlanNode(children=(A, B)), PlanNode(take(Value, channel="c"))))
)


def test_workers_are_found_by_path_from_the_root_down():
    assert list(DEEP.nodes()) == ["0", "0.0", "0.0.0", "0.0.1", "0.1"]
    assert DEEP.nodes()["0.0.1"] is B


def test_a_subtree_answers_for_all_below_it():
    assert DEEP.root.children[0].subtree() == Slices(
        [take(Value, channel="a"), take(Value, channel="b")]
    )
    assert DEEP.root.subtree().event_types() == {Barrier, Value}


@pytest.mark.parametrize(
    ("plan", "height"),
    [(Plan(A), 1), (Plan(PlanNode(children=(A, B))), 2), (DEEP, 3)],
)
def test_the_height_is_the_longest_way_down(plan, height):
    assert plan.height == height


@pytest.mark.parametrize("children", [(A,), (A, B, PlanNode(Barrier))])
def test_a_fork_has_two_sides(children):
    with pytest.raises(PlanError, match=f"has {len(children)} children") as refused:
        PlanNode(Barrier, children=children)
    assert refused.value.expected == "none or two: a fork has two sides"


def test_a_leaf_without_slices_is_refused():
    with pytest.raises(PlanError, match="a node without children has nothing to do"):
        PlanNode()


def test_a_worker_without_slices_may_fork():
    assert len(PlanNode(children=(A, B)).slices) == 0


def test_equal_parts_make_equal_plans_whatever_the_order_of_slices():
    half, other = take(Value, lane=Shard(0, 2)), take(Value, lane=Shard(1, 2))
    assert Plan(PlanNode(half, other)) == Plan(PlanNode(other, half))
    assert hash(PlanNode(half, other)) == hash(PlanNode(other, half))
    assert PlanNode(half) != PlanNode(half, machine="m")
    assert PlanNode(half) != PlanNode(half, state="part")
    assert PlanNode(children=(A, B)) != PlanNode(children=(B, A))


def test_a_worker_shows_its_slices_and_its_children():
    assert repr(PlanNode(Barrier, children=(A, B))) == (
        "PlanNode(Barrier, [PlanNode(Value@a), PlanNode(Value@b)])"
    )
