"""Event rules: how the events of a program are processed, in order or as leaves."""

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
    """The event types that are leaves, the state type that folds each, and the join of deltas to a state."""

    types: Mapping[EventType, str]
    join: Callable[[AnyState, Mapping[str, AnyState]], AnyState]


NO_LEAVES = Leaves({}, lambda state, deltas: state)
"""No leaves, for programs whose laws are unchecked: all events after one out of order are folded again."""


@dataclass(slots=True)
class SegmentStep:
    """An event in the order, with its current outputs, and `emitted`, those emitted so far.

    `failed` is the exception of a function on it. It is counted, or stops the run, when the event settles.
    """

    key: OrderKey
    event: Event
    outputs: Outputs = ()
    failed: Failed | None = None
    emitted: Outputs = ()


class EventRules:
    """The processing of the events of one program: in order, or as leaves."""

    def __init__(self, program: Program, leaves: Leaves = NO_LEAVES) -> None:
        self.program = program
        self.join = leaves.join
        # Within a lane the order matters to the bit, so later events must be folded again.
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
        """Process an event on a state; return the next state. If a function raises, the event fails."""
        initial = self.program.initial
        stepped = attempt_ahead(initial.step, state, one.event)
        if isinstance(stepped, Failed):
            one.outputs, one.failed = (), stepped
            return initial.set_aside(state, one.event)
        state, one.outputs = stepped
        one.failed = None
        return state

    def emit(self, state: AnyState, leaf: SegmentStep) -> None:
        """Compute the outputs of a leaf on the state of its segment."""
        handler = self._emit[type(leaf.event.data)]
        stepped = attempt_ahead(step, self.program.initial.shape, handler, state, leaf.event)
        if isinstance(stepped, Failed):
            leaf.outputs, leaf.failed = (), stepped
        else:
            leaf.outputs, leaf.failed = stepped[1], None

    def fold(self, deltas: Deltas, leaf: SegmentStep) -> Deltas:
        """Return a segment's deltas with a leaf added, whose outputs are known."""
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
    """Call a function on a state that may still change: a state too large is an outcome, even if it stops runs."""
    try:
        return attempt(function, *args, **kwargs)
    except StateTooLargeError as error:
        return Failed(error.with_traceback(None), explain(error))


def reject(event: Event, failed: Failed) -> Rejected:
    """Return a settled event as rejected; raise the error if it must stop the run."""
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
