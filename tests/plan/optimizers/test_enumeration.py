"""All valid plans: as many as can be counted by hand, and the same as a search without pruning."""

from itertools import combinations, product

import pytest

from anabranch import Shard, take
from anabranch.plan.optimizers.enumeration import enumerate_plans, split
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import find_faults
from examples import smart_home as home
from examples.ewma import Reading, ewma
from examples.inc_dec import Dec, Inc, Mark, inc_dec
from examples.key_counter import Inc as Count
from examples.key_counter import Read, key_counter
from examples.page_view import Update, View, page_view
from examples.value_barrier import Barrier, Value, value_barrier
from tests.plan import programs

BY_KEY = [
    take(Read, key=1), take(Count, key=1),
    take(Read, key=2), take(Count, key=2, channel="a"), take(Count, key=2, channel="b"),
]  # fmt: skip
HOME = [
    take(home.Minute), take(home.Pressure),
    take(home.Temp, channel="kitchen"), take(home.Temp, channel="hall"),
]  # fmt: skip


def values(count):
    return [take(Barrier), *(take(Value, channel=f"a{n}") for n in range(count))]


def forms(program, slices):
    return [shape(program, plan.root) for plan in enumerate_plans(program, slices)]


def shape(program, node):
    """Return a node without the order of sides that fork alike."""
    below = [shape(program, child) for child in node.children]
    if len({child.state for child in node.children}) < 2:
        below.sort(key=repr)
    return (node.state, frozenset(node.slices), tuple(below))


def search(program, slices):
    """Return every valid plan, by building all trees of all types and asking validity alone."""
    return {
        shape(program, root)
        for root in build(tuple(slices), program.state_types)
        if not find_faults(program, Plan(root))
    }


def build(slices, states):
    yield from type_node(slices, (), states)
    for size in range(len(slices) - 1):
        for own in combinations(slices, size):
            rest = [part for part in slices if part not in own]
            for picks in product((0, 1), repeat=len(rest)):
                sides = [[p for p, s in zip(rest, picks, strict=True) if s == n] for n in (0, 1)]
                if all(sides):
                    for children in product(*(list(build(side, states)) for side in sides)):
                        yield from type_node(own, children, states)


def type_node(own, children, states):
    """Yield a node in each type that handles its own slices; the rest is left to validity."""
    for state in states:
        if state.handles(part.event_type for part in own):
            yield PlanNode(*own, children=children, state=state.name)


# With n values: all at the root; or k of them stay with the barrier and the others part into two
# groups, each planned alike. f(1) = 1, f(2) = 1 + 1, f(3) = 1 + 3·2 + 3, f(4) = 1 + (4·10 + 3·4)
# + 4·6 + 6, f(5) = 1 + (5·83 + 10·2·10) + 5·52 + 10·6 + 10.
@pytest.mark.parametrize(("channels", "plans"), [(1, 1), (2, 2), (3, 10), (4, 83), (5, 946)])
def test_plans_of_values_below_a_barrier_are_counted_by_hand(channels, plans):
    assert len(forms(value_barrier, values(channels))) == plans


# The reads r1 and r2, the increments i (of key 1), a and b (of key 2). One node: 1. Nothing at the
# root: {r1 i} beside key 2, which has 2 plans: 2. One slice at the root, r1: 2; i: 2; a: 1; b: 1;
# r2: {r1 i} beside a and b (2), or {r1 i} with either of them (4 plans each) beside the other: 10.
# Two: r1 r2 and i r2 leave three that are free of each other: 6 each; r1 a, r1 b, i a, i b, r2 a,
# r2 b and a b leave two groups: 1 each. Three: of ten pairs left, three depend: 7.
def test_plans_of_the_key_counter_are_as_many_as_a_search_finds():
    found = forms(key_counter, BY_KEY)
    assert len(found) == len(set(found)) == len(search(key_counter, BY_KEY)) == 1 + 2 + 16 + 19 + 7


@pytest.mark.parametrize(
    ("program", "slices"),
    [
        (value_barrier, values(3)),
        (key_counter, BY_KEY),
        (inc_dec, [take(Inc, channel="a"), take(Inc, channel="b"), take(Dec), take(Mark)]),
        (page_view, [take(View, page=1, channel="a"), take(View, page=1, channel="b"),
                     take(Update, page=1), take(View, page=2)]),
        (ewma, [take(Reading, sensor=Shard(n, 2), channel=s) for n in (0, 1) for s in "ab"]),
        (home.smart_home, HOME),
        (programs.typed, [take(programs.Month),
                          *(take(programs.Reading, channel=s) for s in "abc")]),
        (programs.ordered, [take(programs.Reading, channel=s) for s in "abc"]),
        (programs.unforked, [take(programs.Month), take(programs.Reading)]),
        (programs.calendar, [take(programs.Month), take(programs.Day, meter=1),
                             take(programs.Reading, meter=1), take(programs.Reading, meter=2)]),
        # What overlaps can't stand side by side, although nothing depends on it.
        (value_barrier, [take(Value), take(Value, channel="a"), take(Value, lane=Shard(0, 2))]),
    ],
    ids=lambda case: case.name if hasattr(case, "name") else "",
)  # fmt: skip
def test_exactly_the_valid_plans_are_enumerated(program, slices):
    found = forms(program, slices)
    assert len(found) == len(set(found)), "a plan came twice"
    assert set(found) == search(program, slices)


def test_a_slice_named_twice_is_one_slice():
    twice = [take(Value, channel="a"), *values(2), take(Barrier)]
    assert set(forms(value_barrier, twice)) == set(
        forms(value_barrier, [take(Value, channel="a"), *values(2)])
    )


def test_a_event_type_that_the_program_does_not_know_has_no_plan():
    assert forms(value_barrier, [take(Mark)]) == []


def test_plans_are_numbered():
    assert [p.name for p in enumerate_plans(value_barrier, values(2))] == ["plan 0", "plan 1"]


def test_a_split_keeps_the_first_on_the_left():
    a, b, c = (take(Value, channel=s) for s in "abc")
    assert list(split(value_barrier, [a, b, c])) == [((a,), (b, c)), ((a, b), (c,)), ((a, c), (b,))]


def test_what_depends_is_not_split():
    assert list(split(value_barrier, values(2))) == []
