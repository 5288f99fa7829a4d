"""Obligations: the statements to prove for each law, and the transitions of a program.

C1 is proved for both sides of a join: the published equation has the event on the left, and a plan
may have it on either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

from anabranch.laws.proving import terms
from anabranch.laws.proving.forms import list_terms, read_form
from anabranch.laws.proving.invariants import InvariantKind, StateMove
from anabranch.laws.proving.scenes import Scene, SceneForms, equal_fields
from anabranch.laws.proving.state_functions import ForkView, StateFunctions, may_be_apart
from anabranch.laws.proving.terms import TRUE, Term
from anabranch.laws.searching.generators import find_constants
from anabranch.model.events import EventType
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING

MAX_CONSTANTS = 8


@dataclass(frozen=True)
class Obligation:
    """A statement about all values of some kinds and all events of some event types."""

    law: str
    subject: str
    about: str
    kinds: tuple[InvariantKind, ...]
    goal: Callable[[Scene], Sequence[Any]]
    event_types: tuple[EventType, ...] = ()
    keys: tuple[str, ...] = ()
    held: bool | None = None
    assume: Callable[[SceneForms], Term] = lambda _: TRUE


def list_obligations(
    program: Program, views: Mapping[str, StateFunctions], forks: Sequence[ForkView]
) -> Iterator[Obligation]:
    """Yield all statements to prove, law by law."""
    for fork in forks:
        yield from _pass_through_join(fork)
        yield _undo_fork(fork)
    for view in views.values():
        yield from _commute(program, view)
    for fork in forks:
        if fork.uniform:
            if fork.parent.shape.zero is not MISSING and fork.parent.shape.join is not None:
                yield from _have_identity(fork)
            yield _associate(fork)


def _pass_through_join(fork: ForkView) -> Iterator[Obligation]:
    for place, (lefts, rights) in enumerate(fork.splits):
        for side, event_types in (("left", lefts), ("right", rights)):
            for event_type in sorted(event_types, key=_name):
                yield Obligation(
                    "update_passes_through_join",
                    fork.name,
                    f"{event_type.__name__} on the {side}",
                    (InvariantKind(fork.name, place),),
                    _update_side(fork, on_left=side == "left"),
                    (event_type,),
                    fork.parent.keys,
                )


def _update_side(fork: ForkView, *, on_left: bool) -> Callable[[Scene], Sequence[Any]]:
    side = fork.left if on_left else fork.right

    def goal(scene: Scene) -> Sequence[Any]:
        call, event = scene.call, scene.events[0]
        one, two = scene.states[0]
        changed, outputs = call(side.step, one if on_left else two, event)
        rejoined = call(fork.join, changed, two) if on_left else call(fork.join, one, changed)
        whole, expected = call(fork.parent.step, call(fork.join, one, two), event)
        return call(fork.parent.shape.same, rejoined, whole), call(_identical, outputs, expected)

    return goal


def _identical(a: Any, b: Any) -> bool:
    # True == 1 in Python, but they are different outputs.
    return read_form(a) == read_form(b) and bool(a == b)


def _undo_fork(fork: ForkView) -> Obligation:
    def goal(scene: Scene) -> Sequence[Any]:
        (whole,) = scene.states
        one, two = scene.call(fork.fork, whole, scene.left, scene.right)
        joined = scene.call(fork.join, one, two)
        return (scene.call(fork.parent.shape.same, joined, whole),)

    kinds = (InvariantKind(fork.parent.name),)
    return Obligation("join_undoes_fork", fork.name, "any state", kinds, goal)


def _commute(program: Program, view: StateFunctions) -> Iterator[Obligation]:
    def goal(scene: Scene) -> Sequence[Any]:
        call, (first, second) = scene.call, scene.events
        (start,) = scene.states
        after_first, first_outputs = call(view.step, start, first)
        after_second, second_outputs = call(view.step, start, second)
        one, then_second = call(view.step, after_first, second)
        two, then_first = call(view.step, after_second, first)
        # Each event must have the same outputs; that their outputs agree as one list is weaker.
        return (
            call(view.shape.same, one, two),
            call(_identical, first_outputs, then_first),
            call(_identical, second_outputs, then_second),
        )

    event_types = [event_type for event_type in program.event_types if event_type in view.handlers]
    for a, b in combinations_with_replacement(event_types, 2):
        if may_be_apart(program, view, a, b):
            yield Obligation(
                "independent_updates_commute",
                view.name,
                f"{a.__name__} and {b.__name__}",
                (InvariantKind(view.name),),
                goal,
                (a, b),
                view.keys,
                assume=_independent(program, a, b),
            )


def _independent(program: Program, a: EventType, b: EventType) -> Callable[[SceneForms], Term]:
    def assume(setting: SceneForms) -> Term:
        restrictions = sorted(program.dependence.restrictions(a, b))
        return terms.conjoin(terms.negate(equal_fields(setting, same)) for same in restrictions)

    return assume


def _have_identity(fork: ForkView) -> Iterator[Obligation]:
    shape = fork.parent.shape

    def goal(scene: Scene) -> Sequence[Any]:
        (state,) = scene.states
        return (scene.call(shape.same, scene.call(fork.join, state, shape.zero), state),)

    law, kinds = "join_has_identity", (InvariantKind(fork.parent.name),)
    subject = fork.parent.name
    yield Obligation(law, subject, "zero", kinds, goal)
    # A leaf continues to fold from zero, so a delta must pass through the join event by event.
    for place, (_, rights) in enumerate(fork.splits):
        for event_type in sorted(rights & fork.folded, key=_name):
            yield Obligation(
                law,
                subject,
                f"{event_type.__name__} folded from zero",
                (InvariantKind(fork.name, place, delta=True),),
                _fold_delta(fork),
                (event_type,),
                fork.parent.keys,
            )


def _fold_delta(fork: ForkView) -> Callable[[Scene], Sequence[Any]]:
    view = fork.parent

    def goal(scene: Scene) -> Sequence[Any]:
        call, event = scene.call, scene.events[0]
        whole, delta = scene.states[0]
        later = call(view.add_delta, whole, call(view.change_delta, delta, event))
        sooner = call(view.change, call(view.add_delta, whole, delta), event)
        return (call(view.shape.same, later, sooner),)

    return goal


def _associate(fork: ForkView) -> Obligation:
    def goal(scene: Scene) -> Sequence[Any]:
        join, (a, b, c) = fork.join, scene.states
        left = scene.call(join, scene.call(join, a, b), c)
        right = scene.call(join, a, scene.call(join, b, c))
        return (scene.call(fork.parent.shape.same, left, right),)

    kinds = (InvariantKind(fork.parent.name),) * 3
    return Obligation("join_is_associative", fork.name, "any states", kinds, goal)


def list_transitions(
    views: Sequence[StateFunctions], forks: Sequence[ForkView]
) -> Iterator[StateMove]:
    """Yield the transitions by which a run reaches its states, including states folded from zero.

    Joins are taken between any two reachable states of the right types, not only siblings: more
    than a run can do, so what holds for all these states holds for a run.
    """
    yield _start(views[0], views[0].shape.init)
    for view in views:
        if view.shape.zero is not MISSING and any(fork.parent is view for fork in forks):
            yield _start(view, view.shape.zero)
        for event_type in view.handlers:
            yield StateMove(
                f"the update of {event_type.__name__}",
                (InvariantKind(view.name),),
                InvariantKind(view.name),
                _update(view),
                (event_type,),
                view.keys,
            )
    for fork in forks:
        yield from _fork_transitions(fork)


def _update(view: StateFunctions) -> Callable[[Scene], Any]:
    return lambda scene: scene.call(view.change, scene.states[0], scene.events[0])


def _start_delta(zero: Any) -> Callable[[Scene], Any]:
    return lambda scene: (scene.states[0], zero)


def _start(view: StateFunctions, value: Any) -> StateMove:
    return StateMove("the start", (), InvariantKind(view.name), lambda _: value)


def _fork_transitions(fork: ForkView) -> Iterator[StateMove]:
    origin = (InvariantKind(fork.parent.name),)

    def cut(scene: Scene) -> Any:
        one, two = scene.call(fork.fork, scene.states[0], scene.left, scene.right)
        return one, two

    yield StateMove("the fork", origin, InvariantKind(fork.left.name), lambda scene: cut(scene)[0])
    yield StateMove("the fork", origin, InvariantKind(fork.right.name), lambda scene: cut(scene)[1])
    yield StateMove(
        "the join",
        (InvariantKind(fork.left.name), InvariantKind(fork.right.name)),
        InvariantKind(fork.parent.name),
        lambda scene: scene.call(fork.join, *scene.states),
    )


def list_pair_transitions(forks: Sequence[ForkView]) -> Iterator[StateMove]:
    """Yield the transitions by which a run reaches siblings: a fork, then updates of either side."""
    for fork in forks:
        origin = (InvariantKind(fork.parent.name),)
        for place, (lefts, rights) in enumerate(fork.splits):
            pair = InvariantKind(fork.name, place)
            yield StateMove("the fork", origin, pair, _cut_pair(fork), held=True)
            yield from _side_transitions(fork, pair, lefts, 0)
            yield from _side_transitions(fork, pair, rights, 1)
            if fork.uniform and fork.parent.shape.zero is not MISSING:
                delta = InvariantKind(fork.name, place, delta=True)
                yield StateMove("zero", origin, delta, _start_delta(fork.parent.shape.zero))
                yield from _side_transitions(fork, delta, rights & fork.folded, 1)


def _cut_pair(fork: ForkView) -> Callable[[Scene], Any]:
    def run(scene: Scene) -> Any:
        one, two = scene.call(fork.fork, scene.states[0], scene.left, scene.right)
        return (one, two)

    return run


def _side_transitions(
    fork: ForkView, pair: InvariantKind, event_types: frozenset[EventType], side: int
) -> Iterator[StateMove]:
    view = (fork.left, fork.right)[side]
    change = view.change_delta if pair.delta else view.change

    def run(scene: Scene) -> Any:
        one, two = scene.states[0]
        changed = scene.call(change, (one, two)[side], scene.events[0])
        return (one, changed) if side else (changed, two)

    for event_type in sorted(event_types, key=_name):
        yield StateMove(
            f"the update of {event_type.__name__}", (pair,), pair, run, (event_type,), view.keys
        )


def list_constants(program: Program, views: Sequence[StateFunctions]) -> list[int]:
    """Return the numbers that candidates compare with.

    They are 0, those of the initial state and of zero, and those that the program's functions contain,
    with their neighbours.
    """
    found = [0]
    for view in views:
        for value in (view.shape.init, view.shape.zero):
            found += [term.args[0] for term in list_terms(value) if term.sort == "int"]
    return list(dict.fromkeys([*found, *find_constants(program)[int]]))[:MAX_CONSTANTS]


def _name(event_type: EventType) -> str:
    return event_type.__name__
