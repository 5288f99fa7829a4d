"""Segments: what lies between two markers, and how it is folded.

A *leaf* is an event that may be folded from zero, beside the state, and joined later. All other
events are run in order; each of them opens a segment. A leaf that comes late is added to its
segment's delta, and only what opens later segments is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.model.events import Event, Tag
from anabranch.model.failures import Failed, attempt
from anabranch.model.handlers import reads_state
from anabranch.model.order import OrderKey
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING, AnyState
from anabranch.model.step import Outputs, begin_delta, step

Deltas = dict[str, AnyState]
"""What leaves folded from zero, by state type."""


@dataclass(frozen=True)
class Leaves:
    """Which tags are leaves, by which state type each is folded, and how deltas join a state."""

    types: Mapping[Tag, str]
    join: Callable[[AnyState, Mapping[str, AnyState]], AnyState]


NO_LEAVES = Leaves({}, lambda state, deltas: state)
"""Nothing is known of the laws: whatever follows an event out of order is folded again."""


@dataclass(slots=True)
class SegmentStep:
    """An event in its place: what it says as things stand, and what was said of it so far."""

    key: OrderKey
    event: Event
    outputs: Outputs = ()
    reason: str | None = None
    said: Outputs = ()


@dataclass(slots=True)
class Segment:
    """The state after an event that opened it, and the leaves that follow, folded from zero.

    `base` is the delta of the leaves that have settled; the first segment is opened by none. It is
    `new` until its opening has been run, and `torn` if leaves were taken away from it.
    """

    opening: SegmentStep | None
    state: AnyState = None
    leaves: list[SegmentStep] = field(default_factory=list)
    base: Deltas = field(default_factory=dict)
    deltas: Deltas = field(default_factory=dict)
    fresh: list[SegmentStep] = field(default_factory=list)
    new: bool = False
    torn: bool = False

    @property
    def is_stale(self) -> bool:
        """Say whether something came that has not been looked at."""
        return self.new or self.torn or bool(self.fresh)


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
        stepped = attempt(initial.step, state, one.event)
        if isinstance(stepped, Failed):
            one.outputs, one.reason = (), stepped.describe(one.event)
            return initial.set_aside(state, one.event)
        state, one.outputs = stepped
        one.reason = None
        return state

    def speak(self, state: AnyState, leaf: SegmentStep) -> None:
        """Let a leaf say what it has to say of the state of its segment."""
        handler = self._speak[type(leaf.event.data)]
        stepped = attempt(step, self.program.initial.shape, handler, state, leaf.event)
        if isinstance(stepped, Failed):
            leaf.outputs, leaf.reason = (), stepped.describe(leaf.event)
        else:
            leaf.outputs, leaf.reason = stepped[1], None

    def fold(self, deltas: Deltas, leaf: SegmentStep) -> Deltas:
        """Add a leaf that has spoken to its segment's deltas."""
        if leaf.reason is not None:
            return deltas
        tag = type(leaf.event.data)
        name = self.leaves[tag]
        shape = self.program.state_type(name).shape
        delta = deltas.get(name, MISSING)
        delta = begin_delta(shape) if delta is MISSING else delta
        stepped = attempt(step, shape, self._fold[tag], delta, leaf.event, delta=True)
        if isinstance(stepped, Failed):
            leaf.outputs, leaf.reason = (), stepped.describe(leaf.event)
            return deltas
        return {**deltas, name: stepped[0]}

    def close(self, segment: Segment) -> AnyState:
        """Return the state at the end of a segment."""
        return self.join(segment.state, segment.deltas) if segment.deltas else segment.state

    def refold(self, segment: Segment, *, entered: bool) -> list[SegmentStep]:
        """Look at what is new in a segment, or at all of it; return the leaves that spoke.

        `entered` says that it starts from another state than before.
        """
        fresh, segment.fresh = segment.fresh, []
        again: list[SegmentStep] = []
        if entered and not segment.torn:
            again = [leaf for leaf in segment.leaves if type(leaf.event.data) in self.speaking]
            segment.torn = self._changes_its_mind(segment, again)
        if segment.torn:
            segment.torn = False
            segment.deltas = segment.base
            fresh = again = segment.leaves
        for leaf in fresh:
            self.speak(segment.state, leaf)
            segment.deltas = self.fold(segment.deltas, leaf)
        return [*fresh, *again]

    def _changes_its_mind(self, segment: Segment, leaves: list[SegmentStep]) -> bool:
        """Let leaves speak again; say whether one that failed did not, or the other way round."""
        changed = False
        for leaf in leaves:
            failed = leaf.reason is not None
            self.speak(segment.state, leaf)
            changed |= failed != (leaf.reason is not None)
        return changed


def _has_zero(program: Program, name: str) -> bool:
    shape: Any = program.state_type(name).shape
    while shape is not None:
        if shape.zero is MISSING:
            return False
        shape = getattr(shape, "inner", None)
    return True
