"""Foldable leaves: the events that may be folded from zero and joined to the state later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from anabranch.model.events import EventType
from anabranch.model.handlers import reads_state
from anabranch.model.markers import is_marker, orders_itself
from anabranch.model.program import ForkJoin, Program
from anabranch.model.shapes import MISSING
from anabranch.model.slices import Slice, Slices
from anabranch.model.step import add_delta


class Branch(NamedTuple):
    """A fork from a state type to two smaller ones, and the event types of the left and right side."""

    fork: ForkJoin
    left: Slices
    right: Slices


def find_leaf_types(program: Program) -> dict[EventType, str]:
    """Return the event types that leaves may fold from zero, each with the state type of its leaf.

    Such an event type is free: the law of zero (`join(s, update(zero, e)) == update(s, e)`) is promised for
    event types that do not depend on themselves. Of two event types that depend on each other without being
    markers (inc and dec), the one that the program names first may be folded.
    """
    dependence = program.dependence
    types = _list_types(program, find_branches(program))
    found: dict[EventType, str] = {}
    for event_type in program.event_types:
        tied = any(dependence.restrictions(event_type, other) for other in found)
        if tied or orders_itself(dependence, event_type) or is_marker(dependence, event_type):
            continue
        name = next(
            (name for name in types if event_type in program.state_type(name).handlers), None
        )
        if name is not None:
            found[event_type] = name
    return found


def find_silent_leaves(program: Program) -> dict[EventType, str]:
    """Return the leaves whose outputs, if any, do not read the state; none where lanes keep an order."""
    if program.lanes is not None:
        return {}
    handlers = program.initial.handlers
    return {
        event_type: name
        for event_type, name in find_leaf_types(program).items()
        if handlers[event_type].output is None or not reads_state(handlers[event_type].output)
    }


def find_branches(program: Program) -> dict[str, Branch]:
    """Return the forks that lead from the initial state type to types that fold from zero.

    There is at most one for each state type: a state forked in two different ways could not be joined.
    """
    found: dict[str, Branch] = {}

    def reach(name: str) -> bool:
        if _folds_from_zero(program, name):
            return True
        for fork in program.forks:
            branch = _read_branch(program, fork) if fork.parent == name else None
            if branch is not None and any([reach(fork.left), reach(fork.right)]):
                found[name] = branch
                return True
        return False

    reach(program.initial.name)
    return found


def join_deltas(program: Program, state: Any, deltas: Mapping[str, Any]) -> Any:
    """Return a state of the initial type joined with the deltas of the leaves, by state type."""
    name = program.initial.name
    if name in deltas:
        return add_delta(program.initial.shape, state, deltas[name])
    return _join_below(program, name, state, deltas, find_branches(program))


def _folds_from_zero(program: Program, name: str) -> bool:
    zero = program.state_type(name).shape.zero
    return zero is not MISSING and program.find_fork(name, name, name) is not None


def _list_types(program: Program, branches: Mapping[str, Branch]) -> list[str]:
    """Return the state types that fold from zero and that branches lead to."""
    reached = [program.initial.name]
    for name in reached:
        if name in branches:
            fork = branches[name].fork
            reached += [fork.left, fork.right]
    return [name for name in dict.fromkeys(reached) if _folds_from_zero(program, name)]


def _read_branch(program: Program, fork: ForkJoin) -> Branch | None:
    """Return a fork into two smaller types as a branch, or None if its sides are not independent."""
    if fork.parent in (fork.left, fork.right):
        return None
    left, right = (set(program.state_type(name).handlers) for name in (fork.left, fork.right))
    if not left or not right or left & right:
        return None
    if any(program.dependence.restrictions(a, b) for a in left for b in right):
        return None
    return Branch(
        fork, *(Slices(Slice(event_type) for event_type in side) for side in (left, right))
    )


def _join_below(
    program: Program,
    name: str,
    state: Any,
    deltas: Mapping[str, Any],
    branches: Mapping[str, Branch],
) -> Any:
    if name in deltas:
        return add_delta(program.state_type(name).shape, state, deltas[name])
    if name not in branches:
        return state
    fork, *sides = branches[name]
    left, right = fork.fork(state, *sides)
    left = _join_below(program, fork.left, left, deltas, branches)
    right = _join_below(program, fork.right, right, deltas, branches)
    return fork.join(left, right)
