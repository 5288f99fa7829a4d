"""Event rules: how the events of a program are run, in order or as leaves beside the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from anabranch.errors import StateTooLargeError
from anabranch.eventtime.channels import Rejected
from anabranch.model.events import Event, EventType
from anabranch.model.failures import Failed, attempt, explain
from anabranch.model.handlers import reads_state
from anabranch.model.order import OrderKey
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING, AnyState
from anabranch.model.step import Outputs, begin_delta, step
from anabranch.speculation.segments import Deltas

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Leaves:
    """Which event types are leaves, by which state type each is folded, and how deltas join a state."""

    types: Mapping[EventType, str]
    join: Callable[[AnyState, Mapping[str, AnyState]], AnyState]


NO_LEAVES = Leaves({}, lambda state, deltas: state)
"""Nothing is known of the laws: whatever follows an event out of order is folded again."""


@dataclass(slots=True)
class SegmentStep:
    """An event in its place: what it says as things stand, and what was said of it so far.

    `failed` is what a function raised on it. It counts, and stops a run that it is to stop, when it settles.
    """

    key: OrderKey
    event: Event
    outputs: Outputs = ()
    failed: Failed | None = None
    emitted: Outputs = ()


class EventRules:
    """How the events of one program are run: in order, or as leaves."""

    def __init__(self, program: Program, leaves: Leaves = NO_LEAVES) -> None:
        self.program = program
        self.join = leaves.join
        # Within a lane order shows, to the bit; so what follows there must be folded again.
        types = {} if program.lanes is not None else leaves.types
        self.leaves = {
            event_type: name for event_type, name in types.items() if _has_zero(program, name)
        }
        handlers = program.initial.handlers
        self._emit = {
            event_type: replace(handlers[event_type], update=None) for event_type in self.leaves
        }
        self._fold = {
            event_type: replace(program.state_type(name).handlers[event_type], output=None)
            for event_type, name in self.leaves.items()
        }
        self.deferring = frozenset(
            event_type
            for event_type in self.leaves
            if handlers[event_type].output is not None and reads_state(handlers[event_type].output)
        )

    def run(self, state: AnyState, one: SegmentStep) -> AnyState:
        """Run an event on a state; return the next one. A function that raises sets it aside."""
        initial = self.program.initial
        stepped = attempt_ahead(initial.step, state, one.event)
        if isinstance(stepped, Failed):
            one.outputs, one.failed = (), stepped
            return initial.set_aside(state, one.event)
        state, one.outputs = stepped
        one.failed = None
        return state

    def emit(self, state: AnyState, leaf: SegmentStep) -> None:
        """Let a leaf say what it has to say of the state of its segment."""
        handler = self._emit[type(leaf.event.data)]
        stepped = attempt_ahead(step, self.program.initial.shape, handler, state, leaf.event)
        if isinstance(stepped, Failed):
            leaf.outputs, leaf.failed = (), stepped
        else:
            leaf.outputs, leaf.failed = stepped[1], None

    def fold(self, deltas: Deltas, leaf: SegmentStep) -> Deltas:
        """Add a leaf that has spoken to its segment's deltas."""
        if leaf.failed is not None:
            return deltas
        event_type = type(leaf.event.data)
        name = self.leaves[event_type]
        shape = self.program.state_type(name).shape
        delta = deltas.get(name, MISSING)
        delta = begin_delta(shape) if delta is MISSING else delta
        stepped = attempt_ahead(step, shape, self._fold[event_type], delta, leaf.event, delta=True)
        if isinstance(stepped, Failed):
            leaf.outputs, leaf.failed = (), stepped
            return deltas
        return {**deltas, name: stepped[0]}


def attempt_ahead(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Failed:
    """Call a function on what may still change: a state too large is an outcome, even if it is to stop the run."""
    try:
        return attempt(function, *args, **kwargs)
    except StateTooLargeError as error:
        return Failed(error.with_traceback(None), explain(error))


def reject(event: Event, failed: Failed) -> Rejected:
    """Return an event that has settled as rejected; raise the error if it is to stop the run."""
    if getattr(failed.error, "stops", False):
        raise failed.error
    return Rejected(event, failed.describe(event))


def _has_zero(program: Program, name: str) -> bool:
    shape: Any = program.state_type(name).shape
    while shape is not None:
        if shape.zero is MISSING:
            return False
        shape = getattr(shape, "inner", None)
    return True
