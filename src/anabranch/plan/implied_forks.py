"""Implied forks: the fork by copying that a program need not declare.

Where only markers change the state, each part of a plan below them may hold a copy of it. Such a program
forks by copying and joins by keeping either copy, for any type of state.
"""

from __future__ import annotations

from typing import Any

from anabranch.model.events import EventType
from anabranch.model.program import ForkJoin, Program
from anabranch.model.slices import Slices


def find_writers(program: Program) -> tuple[EventType, ...]:
    """Return the event types that change the state."""
    handlers = program.initial.handlers
    return tuple(
        event_type for event_type in program.event_types if handlers[event_type].update is not None
    )


def only_markers_write(program: Program) -> bool:
    """Return whether the state changes at markers only, and at least one marker changes it."""
    writers = find_writers(program)
    return bool(writers) and set(writers) <= set(program.markers)


def add_copies(program: Program) -> Program:
    """Return the program with a fork that copies its state, if it has no fork and copies suffice."""
    name = program.initial.name
    if program.find_fork(name, name, name) is not None or not only_markers_write(program):
        return program
    return program.changed(ForkJoin(name, name, name, _copy, _keep, program.where))


def _copy(state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
    del left, right
    return state, state


def _keep(left: Any, right: Any) -> Any:
    del right
    return left
