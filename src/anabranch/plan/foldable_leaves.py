"""Leaves: which events may be folded from zero, beside the state they belong to, and joined later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.model.events import LANE, Tag
from anabranch.model.handlers import reads_state
from anabranch.model.markers import is_marker
from anabranch.model.program import ForkJoin, Program
from anabranch.model.shapes import MISSING
from anabranch.model.slices import Slice, Slices
from anabranch.model.step import add_delta


def find_leaf_types(program: Program) -> dict[Tag, str]:
    """Return the tags that leaves may fold from zero, each with the state type that does.

    Such a tag is free: the law of zero (`join(s, update(zero, e)) == update(s, e)`) is promised of
    tags that do not depend on themselves. Of two tags that depend on each other without being
    markers (inc and dec), the one that the program names first is free of the other.
    """
    restrictions = program.dependence.restrictions
    found: dict[Tag, str] = {}
    for tag in program.tags:
        ordered = any(LANE not in same for same in restrictions(tag, tag))
        tied = any(restrictions(tag, other) for other in found)
        if ordered or tied or is_marker(program.dependence, tag):
            continue
        name = _find_type(program, tag)
        if name is not None:
            found[tag] = name
    return found


def find_silent_leaves(program: Program) -> dict[Tag, str]:
    """Return the leaves whose outputs, if any, do not read the state; none where lanes keep an order."""
    if program.lanes is not None:
        return {}
    handlers = program.initial.handlers
    return {
        tag: name
        for tag, name in find_leaf_types(program).items()
        if handlers[tag].output is None or not reads_state(handlers[tag].output)
    }


def join_deltas(program: Program, state: Any, deltas: Mapping[str, Any]) -> Any:
    """Return a state of the initial type with what leaves folded from zero, by state type."""
    return _join_below(program, program.initial.name, state, deltas)


def _find_type(program: Program, tag: Tag) -> str | None:
    """Return the largest state type that folds a tag from zero, and that forks lead to."""
    for state_type in program.state_types:
        name = state_type.name
        can = tag in state_type.handlers and state_type.shape.zero is not MISSING
        can = can and state_type.shape.join is not None
        if can and program.find_fork(name, name, name) and _leads_to(program, name):
            return name
    return None


def _leads_to(program: Program, name: str) -> bool:
    if name == program.initial.name:
        return True
    return any(
        _sides(program, fork) is not None and _leads_to(program, fork.parent)
        for fork in _forks_down(program)
        if name in (fork.left, fork.right)
    )


def _forks_down(program: Program) -> list[ForkJoin]:
    """Return the forks that lead from a type to two smaller ones."""
    return [fork for fork in program.forks if fork.parent not in (fork.left, fork.right)]


def _sides(program: Program, fork: ForkJoin) -> tuple[Slices, Slices] | None:
    """Return what to tell a fork of its two sides, or None if they are not independent."""
    left, right = (set(program.state_type(name).handlers) for name in (fork.left, fork.right))
    if not left or not right or left & right:
        return None
    if any(program.dependence.restrictions(a, b) for a in left for b in right):
        return None
    return Slices(Slice(tag, ()) for tag in left), Slices(Slice(tag, ()) for tag in right)


def _join_below(program: Program, name: str, state: Any, deltas: Mapping[str, Any]) -> Any:
    if name in deltas:
        state = add_delta(program.state_type(name).shape, state, deltas[name])
    for fork in _forks_down(program):
        below = _types_below(program, fork)
        sides = _sides(program, fork)
        if fork.parent != name or sides is None or not below & set(deltas):
            continue
        left, right = fork.fork(state, *sides)
        left = _join_below(program, fork.left, left, deltas)
        right = _join_below(program, fork.right, right, deltas)
        return fork.join(left, right)
    return state


def _types_below(program: Program, fork: ForkJoin) -> set[str]:
    found = {fork.left, fork.right}
    for other in _forks_down(program):
        if other.parent in (fork.left, fork.right):
            found |= _types_below(program, other)
    return found
