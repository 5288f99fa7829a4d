"""Which events are folded from zero, by which state type, and how their deltas come together."""

from typing import NamedTuple

from anabranch import ForkJoin, Program, State, depends, on
from anabranch.plan.explanation import explain
from anabranch.plan.foldable_leaves import find_branches, find_leaf_types, join_deltas
from anabranch.plan.layout_plans import check_layout
from anabranch.plan.layouts import choose_layout
from anabranch.plan.pricing.rates import assume_rates


class Up(NamedTuple):
    time: int


class Down(NamedTuple):
    time: int


class Mark(NamedTuple):
    time: int


class Both(NamedTuple):
    ups: int
    downs: int


def bump(state, event):
    return state + 1


def part(name, *event_types):
    handlers = [on(event_type, update=bump) for event_type in event_types]
    return State(
        name, *handlers, init=0, zero=0, fork=lambda s, left, right: (s, 0), join=lambda a, b: a + b
    )


def make(*forks):
    """Make a program that counts two things, with two forks that each lead to one of the counts."""
    whole = State(
        "whole",
        on(Up, update=lambda s, e: s._replace(ups=s.ups + 1)),
        on(Down, update=lambda s, e: s._replace(downs=s.downs + 1)),
        on(Mark, output=lambda s, e: tuple(s)),
        init=Both(0, 0),
    )
    return Program(
        whole,
        part("ups", Up),
        part("downs", Down),
        State("frozen ups", on(Up, update=bump), init=0),
        State("frozen downs", on(Down, update=bump), init=0),
        *forks,
        depends(Mark, Up, Down, Mark),
    )


def cut(left, right):
    return ForkJoin("whole", left, right, lambda s, a, b: tuple(s), Both)


def test_each_side_of_a_fork_is_folded_by_its_own_type():
    program = make(cut("ups", "downs"))
    assert find_leaf_types(program) == {Up: "ups", Down: "downs"}
    assert join_deltas(program, Both(1, 2), {"ups": 10, "downs": 20}) == (11, 22)
    assert join_deltas(program, Both(1, 2), {"downs": 20}) == (1, 22)


def test_of_two_forks_of_one_type_one_is_taken_so_that_no_delta_is_lost():
    """Each fork leads to a count that folds from zero; a state is forked one way, not both."""
    program = make(cut("ups", "frozen downs"), cut("frozen ups", "downs"))
    assert find_leaf_types(program) == {Up: "ups"}
    assert {name: branch.fork.left for name, branch in find_branches(program).items()} == {
        "whole": "ups"
    }
    assert join_deltas(program, Both(1, 2), {"ups": 10}) == (11, 2)
    layout = choose_layout(program, 3)
    assert layout.reasons == ("in parallel, from zero: Up; at the root: Down and Mark",)
    check_layout(program, layout)


def test_the_planner_copies_a_state_that_only_markers_change_as_the_layout_does():
    program = Program(
        on(Up, output=lambda s, e: s),
        on(Mark, update=lambda s, e: e.time),
        depends(Mark, Up, Mark),
        init=0,
    )
    assert (choose_layout(program, 2).way, program.forks) == ("replicated", ())
    structure = explain(program, assume_rates(program)).structure
    assert structure.kind == "forked"
    assert structure.reasons[0] == "Mark synchronises the events between: markers run at the root"
