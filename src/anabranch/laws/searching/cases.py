"""Cases: for each law, the states and events to try it on, or the reason why there are none."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from anabranch.laws.laws import (
    FUNCTIONS_ARE_PURE,
    INDEPENDENT_UPDATES_COMMUTE,
    JOIN_HAS_IDENTITY,
    JOIN_IS_ASSOCIATIVE,
    JOIN_UNDOES_FORK,
    UPDATE_PASSES_THROUGH_JOIN,
)
from anabranch.laws.searching.case_sources import Draw, EventClock, Ground
from anabranch.laws.searching.cuts import SIDES, ForkPath
from anabranch.laws.searching.generators import Strategy
from anabranch.laws.searching.reachable import Case
from anabranch.model.events import LANE, EventType
from anabranch.model.program import ForkJoin, Program, StateType
from anabranch.model.shapes import MISSING
from anabranch.model.slices import Slices

Subject = StateType | ForkJoin
CaseSource = Strategy | str
"""A strategy for cases, or the reason why there are none."""

_SIDE = st.sampled_from(SIDES)
_YES_FIRST = st.sampled_from((True, False))

NO_FORK = "the program has no fork and join"
NOTHING_APART = "no two parts of the events are independent, so nothing can run in parallel"
NEVER_REACHED = "no fork leads to this state type"


def name_subject(subject: Subject) -> str:
    """Return the name of a state type or a fork in a report."""
    if isinstance(subject, StateType):
        return subject.name
    return f"{subject.parent} -> {subject.left}, {subject.right}"


def list_subjects(law: str, program: Program) -> tuple[Subject, ...]:
    """Return the subjects of a law: the state types of a program, or its forks."""
    if law in (UPDATE_PASSES_THROUGH_JOIN.name, JOIN_UNDOES_FORK.name):
        return program.forks
    if law == JOIN_IS_ASSOCIATIVE.name:
        return tuple(f for f in program.forks if f.parent == f.left == f.right)
    if law == JOIN_HAS_IDENTITY.name:
        return tuple(t for t in program.state_types if t.shape.zero is not MISSING)
    return program.state_types


def explain_absence(law: str, program: Program) -> str:
    """Return why a law has no subject in a program."""
    if not program.forks:
        return NO_FORK
    if law == JOIN_HAS_IDENTITY.name:
        return "no zero is declared, so no leaf folds from zero"
    return "no fork gives two states of its own type"


def _build(make: Callable[[Draw], Case]) -> Strategy:
    @st.composite
    def cases(draw: Draw) -> Any:
        return make(draw)

    return cases()


def make_fork_cases(ground: Ground, fork: ForkJoin, law: str) -> CaseSource:
    """Return cases with two sides, for C1 and C2; those of C1 have an event of one side."""
    paths = ground.cuts.paths(fork.parent, fork)
    if not paths:
        return NOTHING_APART

    def make(draw: Draw) -> Case:
        clock = EventClock(ground.program)
        case, _, within = ground.draw_course(draw, clock, paths, fork)
        cut = ground.draw_cut(draw, fork, within)
        if law == JOIN_UNDOES_FORK.name:
            return replace(case, cut=cut)
        lefts = ground.draw_events(draw, clock, *cut.side("left"), most=3)
        rights = ground.draw_events(draw, clock, *cut.side("right"), most=3)
        side = draw(_SIDE)
        event = ground.draw_event(draw, clock, *cut.side(side))
        return replace(case, cut=cut, lefts=lefts, rights=rights, side=side, events=(event,))

    return _build(make)


def make_pair_cases(ground: Ground, state_type: StateType) -> CaseSource:
    """Return cases with a state and two independent events, for C3."""
    program = ground.program
    handled = [
        event_type for event_type in program.event_types if event_type in state_type.handlers
    ]
    if not any(
        () not in program.dependence.restrictions(a, b)
        for a, b in itertools.combinations_with_replacement(handled, 2)
    ):
        return "every two events depend on each other"
    paths = ground.cuts.paths(state_type.name)
    if not paths:
        return NEVER_REACHED

    def make(draw: Draw) -> Case:
        clock = EventClock(program)
        case, name, within = ground.draw_course(draw, clock, paths)
        first = ground.draw_event(draw, clock, name, within)
        second = ground.draw_event(draw, clock, name, within)
        assume(program.dependence.independent(first, second))
        return replace(case, events=(first, second))

    return _build(make)


def make_identity_cases(ground: Ground, state_type: StateType) -> CaseSource:
    """Return cases with a state, and events that a leaf could fold from zero."""
    program = ground.program
    name = state_type.name
    if program.find_fork(name, name, name) is None or state_type.shape.join is None:
        return "no join takes two states of this type"
    paths = ground.cuts.paths(name)
    if not paths:
        return NEVER_REACHED
    folded = [
        event_type for event_type in state_type.handlers if _folds_from_zero(program, event_type)
    ]

    def make(draw: Draw) -> Case:
        clock = EventClock(program)
        case, _, within = ground.draw_course(draw, clock, paths)
        parts = [part for part in within if part.event_type in folded]
        if not parts:
            return case
        part = Slices([ground.choose(draw, ("folded", within), lambda: parts)])
        # With lanes, joining a longer delta may round floats; lanes fold in order instead.
        most = 2 if program.lanes is None else 0
        delta = ground.draw_events(draw, clock, name, part, most=most)
        return replace(case, rights=delta, events=(ground.draw_event(draw, clock, name, part),))

    return _build(make)


def _folds_from_zero(program: Program, event_type: EventType) -> bool:
    # An event type that depends on itself, even per key, is folded in order, never from zero.
    return all(LANE in same for same in program.dependence.restrictions(event_type, event_type))


def make_triple_cases(ground: Ground, fork: ForkJoin) -> CaseSource:
    """Return cases with three sides, for associativity."""
    tail: ForkPath = ((fork, "right"),)
    cuts, start = ground.cuts, ground.program.initial.name
    paths = tuple(
        path
        for path in cuts.paths(fork.parent, fork)
        if cuts.can(start, cuts.everything, (*path, *tail), fork)
    )
    if not paths:
        return "no three parts of the events are independent of each other"

    def make(draw: Draw) -> Case:
        clock = EventClock(ground.program)
        case, name, within = ground.draw_course(draw, clock, paths, fork, tail)
        cut = ground.draw_descent(draw, name, within, tail, fork)
        lefts = ground.draw_events(draw, clock, *cut.side("left"), most=2)
        rights = ground.draw_events(draw, clock, *cut.side("right"), most=1)
        inner = ground.draw_cut(draw, fork, cut.right)
        seconds = ground.draw_events(draw, clock, *inner.side("left"), most=2)
        thirds = ground.draw_events(draw, clock, *inner.side("right"), most=2)
        case = replace(case, cut=cut, lefts=lefts, rights=rights)
        return replace(case, inner=inner, seconds=seconds, thirds=thirds)

    return _build(make)


def make_call_cases(ground: Ground, state_type: StateType) -> CaseSource:
    """Return cases that call every function of a state type, for purity."""
    paths = ground.cuts.paths(state_type.name)
    if not paths:
        return NEVER_REACHED
    own = [fork for fork in ground.program.forks if fork.parent == state_type.name]

    def make(draw: Draw) -> Case:
        clock = EventClock(ground.program)
        case, name, within = ground.draw_course(draw, clock, paths)
        forks = [fork for fork in own if ground.cuts.seeds(fork, within)]
        if not forks or draw(_YES_FIRST):
            return replace(case, events=(ground.draw_event(draw, clock, name, within),))
        fork = ground.choose(draw, ("called", name, within), lambda: forks)
        cut = ground.draw_cut(draw, fork, within)
        lefts = ground.draw_events(draw, clock, *cut.side("left"), most=2)
        rights = ground.draw_events(draw, clock, *cut.side("right"), most=2)
        return replace(case, cut=cut, lefts=lefts, rights=rights)

    return _build(make)


def make_cases(ground: Ground, law: str, subject: Subject) -> CaseSource:
    """Return the cases of a law for one of its subjects, or the reason why there are none."""
    if isinstance(subject, ForkJoin):
        if law == JOIN_IS_ASSOCIATIVE.name:
            return make_triple_cases(ground, subject)
        return make_fork_cases(ground, subject, law)
    if law == FUNCTIONS_ARE_PURE.name:
        return make_call_cases(ground, subject)
    if law == INDEPENDENT_UPDATES_COMMUTE.name:
        return make_pair_cases(ground, subject)
    return make_identity_cases(ground, subject)
