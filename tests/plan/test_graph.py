"""Bundles are a shorthand for edges: they must say what all pairs say, one by one."""

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from anabranch import Dependence, Shard, depends, take
from anabranch.plan.graph import Islands, bundle_up, connect


class A(NamedTuple):
    time: int
    x: int
    y: int


class B(NamedTuple):
    time: int
    x: int
    y: int


class C(NamedTuple):
    time: int
    x: int
    y: int


EVENT_TYPES = (A, B, C)
PAIRS = [(a, b) for place, a in enumerate(EVENT_TYPES) for b in EVENT_TYPES[place:]]
SAMES = st.sampled_from([(), ("x",), ("y",), ("x", "y")])
CHOICES = st.sampled_from(
    [None, None, 1, 2, 1.0, *(Shard(n, c) for c in (1, 2, 3, 4) for n in range(c))]
)


@st.composite
def dependences(draw):
    statements = draw(st.lists(st.tuples(st.sampled_from(PAIRS), SAMES), max_size=5))
    return Dependence(EVENT_TYPES, [depends(a, b, same=same) for (a, b), same in statements])


@st.composite
def slices(draw):
    fields = {name: draw(CHOICES) for name in ("x", "y")}
    return take(
        draw(st.sampled_from(EVENT_TYPES)),
        channel=draw(st.sampled_from([None, "a", "b"])),
        lane=draw(st.sampled_from([None, None, Shard(0, 2), Shard(1, 2)])),
        **{name: choice for name, choice in fields.items() if choice is not None},
    )


def must_meet(dependence, x, y):
    return dependence.depend(x, y) or x.overlaps(y)


def walk_components(dependence, parts):
    """Find the components by visiting every pair."""
    left, found = set(range(len(parts))), []
    while left:
        queue, component = [min(left)], set()
        while queue:
            current = queue.pop()
            component.add(current)
            left.discard(current)
            queue += [n for n in left if must_meet(dependence, parts[current], parts[n])]
        found.append(sorted(component))
    return found


@given(dependences(), st.lists(slices(), max_size=9))
def test_bundles_have_exactly_the_edges_of_all_pairs(dependence, parts):
    edges = {
        frozenset((a, b))
        for bundle in bundle_up(dependence, parts)
        for a in bundle.left
        for b in bundle.right
        if a != b
    }
    assert edges == {
        frozenset((a, b))
        for a in range(len(parts))
        for b in range(a)
        if must_meet(dependence, parts[a], parts[b])
    }


@given(dependences(), st.lists(slices(), max_size=9))
@example(Dependence(EVENT_TYPES, []), [take(A), take(A, x=1)])
@example(Dependence(EVENT_TYPES, []), [take(A, channel="a"), take(A, channel="a")])
def test_components_are_those_of_all_pairs(dependence, parts):
    assert sorted(connect(dependence, parts)) == sorted(walk_components(dependence, parts))


@given(dependences(), st.lists(slices(), max_size=8))
def test_the_count_is_right_after_every_slice_that_is_added(dependence, parts):
    islands = Islands(len(parts), bundle_up(dependence, parts))
    for number in range(len(parts)):
        assert islands.add(number) == len(walk_components(dependence, parts[: number + 1]))


def test_components_come_in_order_of_their_first_member():
    dependence = Dependence(EVENT_TYPES, [depends(A, B, same="x")])
    parts = [take(B, x=2), take(A, x=1), take(C), take(B, x=1), take(A, x=2)]
    assert connect(dependence, parts) == [[0, 4], [1, 3], [2]]


def test_nothing_has_no_components():
    assert connect(Dependence(EVENT_TYPES, []), []) == []


def test_a_thousand_values_and_a_barrier_are_one_bundle():
    dependence = Dependence(EVENT_TYPES, [depends(A, B, A)])
    parts = [take(A), *(take(B, channel=f"s{n}") for n in range(1000))]
    bundles = [bundle for bundle in bundle_up(dependence, parts) if bundle.left != bundle.right]
    assert [(len(bundle.left), len(bundle.right)) for bundle in bundles] == [(1, 1000)]


def test_shards_of_one_count_are_bundled_like_keys():
    dependence = Dependence(EVENT_TYPES, [depends(A, B, same="x")])
    parts = [take(event_type, x=Shard(n, 500)) for event_type in (A, B) for n in range(500)]
    bundles = bundle_up(dependence, parts)
    assert sorted((b.left, b.right) for b in bundles) == [([n], [500 + n]) for n in range(500)]
