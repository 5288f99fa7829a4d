"""Refutation: counterexamples on states that a run reaches within one event of its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from anabranch.laws.proving.invariants import InvariantKind
from anabranch.laws.proving.judgement import list_failures, miss_for_real
from anabranch.laws.proving.obligations import Obligation
from anabranch.laws.proving.scenes import Scene, SceneForms
from anabranch.laws.proving.solver import Solver, Values
from anabranch.laws.proving.state_functions import ForkView, StateFunctions
from anabranch.laws.proving.symbols import Stop
from anabranch.model.events import EventType

Producer = tuple[tuple[EventType, ...], Callable[[Scene, tuple[Any, ...]], Any]]
"""The event types that lead to a value, and the function that computes it."""


def refute(
    obligation: Obligation,
    views: Mapping[str, StateFunctions],
    forks: Sequence[ForkView],
    solver: Solver,
) -> str:
    """Return a case in which a law fails on states that a run reaches, or an empty text.

    The case is run in Python before it is returned.
    """
    if len(obligation.kinds) > 1:
        return ""  # Three states reached one by one need not be sides of one whole.
    if any(fork.name == obligation.subject and not fork.splits for fork in forks):
        return ""  # A fork that is never cut breaks nothing.
    for event_types, produce in _list_producers(obligation.kinds[0], views, forks):
        found = _refute_from(obligation, event_types, produce, solver)
        if found:
            return found
    return ""


def _list_producers(
    kind: InvariantKind, views: Mapping[str, StateFunctions], forks: Sequence[ForkView]
) -> Iterator[Producer]:
    first = next(iter(views.values()))
    starts: list[Producer] = [((), lambda scene, _: first.shape.init)]
    starts += [
        ((event_type,), lambda scene, events: scene.call(first.change, first.shape.init, events[0]))
        for event_type in first.handlers
    ]
    if kind.split is None:
        if kind.name == first.name:
            yield from starts
        return
    fork = next(fork for fork in forks if fork.name == kind.name)
    if fork.parent is not first:
        return
    for event_types, produce in starts:
        yield event_types, _pair_up(fork, produce, delta=kind.delta)


def _pair_up(fork: ForkView, produce: Callable[..., Any], *, delta: bool) -> Callable[..., Any]:
    def pair(scene: Scene, events: tuple[Any, ...]) -> Any:
        state = produce(scene, events)
        if delta:
            return state, fork.parent.shape.zero
        one, two = scene.call(fork.fork, state, scene.left, scene.right)
        return one, two

    return pair


def _refute_from(
    obligation: Obligation,
    event_types: tuple[EventType, ...],
    produce: Callable[..., Any],
    solver: Solver,
) -> str:
    own = len(obligation.event_types)

    def goal(scene: Scene) -> Any:
        state = produce(scene, scene.events[own:])
        return obligation.goal(replace(scene, states=(state,), events=scene.events[:own]))

    setting = SceneForms((), (*obligation.event_types, *event_types), obligation.keys, held=True)
    try:
        for condition, _ in list_failures(goal, setting):
            values = solver.find([obligation.assume(setting), condition])
            if not values or _depends_on_slices(values):
                continue
            if miss_for_real(goal, setting, values, Random(0)):
                return _describe(obligation, setting, values)
    except Stop:
        return ""
    return ""


def _depends_on_slices(values: Values) -> bool:
    # Such answers may not be possible together for real slices, so this is no counterexample.
    return any(name.startswith(("left ", "right ", "same ")) for name in values)


def _describe(obligation: Obligation, setting: SceneForms, values: Values) -> str:
    events = [repr(event) for event in setting.realise(values).events]
    own = len(obligation.event_types)
    before = f"after {', '.join(events[own:])}" if events[own:] else "at the start"
    handled = f", with {', '.join(events[:own])}" if own else ""
    return f"fails {before}{handled}"
