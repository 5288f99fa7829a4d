"""Event rules: how the events of a program are run, in order or as leaves beside the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.eventtime.channels import Rejected
from anabranch.model.events import Event, Tag
from anabranch.model.handlers import reads_state
from anabranch.model.order import OrderKey
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING, AnyState
from anabranch.model.step import Outputs, describe_failure, step
from anabranch.speculation.segments import Deltas


@dataclass(frozen=True)
class Leaves:
    """Which tags are leaves, by which state type each is folded, and how deltas join a state."""

    types: Mapping[Tag, str]
    join: Callable[[AnyState, Mapping[str, AnyState]], AnyState]


NO_LEAVES = Leaves({}, lambda state, deltas: state)
"""Nothing is known of the laws: whatever follows an event out of order is folded again."""


@dataclass(slots=True)
class SegmentStep:
    """An event in its place: what it says as things stand, and what was said of it so far.

    `error` is what a function raised on it. It counts, and stops a run that it is to stop, when it settles.
    """

    key: OrderKey
    event: Event
    outputs: Outputs = ()
    error: Exception | None = None
    said: Outputs = ()


class EventRules:
    """How the events of one program are run: in order, or as leaves."""

    def __init__(self, program: Program, leaves: Leaves = NO_LEAVES) -> None:
        self.program = program
        self.join = leaves.join
        # Within a lane order shows, to the bit; so what follows there must be folded again.
        types = {} if program.lanes is not None else leaves.types
        self.leaves = {tag: name for tag, name in types.items() if _has_zero(program, name)}
        handlers = program.initial.handlers
        self._speak = {tag: replace(handlers[tag], update=None) for tag in self.leaves}
        self._fold = {
            tag: replace(program.state_type(name).handlers[tag], output=None)
            for tag, name in self.leaves.items()
        }
        self.speaking = frozenset(
            tag
            for tag in self.leaves
            if handlers[tag].output is not None and reads_state(handlers[tag].output)
        )

    def run(self, state: AnyState, one: SegmentStep) -> AnyState:
        """Run an event on a state; return the next one. A function that raises sets it aside."""
        initial = self.program.initial
        try:
            state, one.outputs = initial.step(state, one.event)
            one.error = None
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            one.outputs, one.error = (), error.with_traceback(None)
            state = initial.set_aside(state, one.event)
        return state

    def speak(self, state: AnyState, leaf: SegmentStep) -> None:
        """Let a leaf say what it has to say of the state of its segment."""
        handler = self._speak[type(leaf.event.data)]
        try:
            _, leaf.outputs = step(self.program.initial.shape, handler, state, leaf.event)
            leaf.error = None
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            leaf.outputs, leaf.error = (), error.with_traceback(None)

    def fold(self, deltas: Deltas, leaf: SegmentStep) -> Deltas:
        """Add a leaf that has spoken to its segment's deltas."""
        if leaf.error is not None:
            return deltas
        tag = type(leaf.event.data)
        name = self.leaves[tag]
        shape = self.program.state_type(name).shape
        delta = deltas.get(name, MISSING)
        delta = shape.zero if delta is MISSING else delta
        try:
            delta, _ = step(shape, self._fold[tag], delta, leaf.event, delta=True)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            leaf.outputs, leaf.error = (), error.with_traceback(None)
            return deltas
        return {**deltas, name: delta}


def describe_fault(event: Event, error: Exception) -> Rejected:
    """Return an event that is set aside for good; an error that is to stop a run is raised."""
    return Rejected(event, describe_failure(event, error))


def _has_zero(program: Program, name: str) -> bool:
    shape: Any = program.state_type(name).shape
    while shape is not None:
        if shape.zero is MISSING:
            return False
        shape = getattr(shape, "inner", None)
    return True
