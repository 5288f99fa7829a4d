"""The interpreted kernel: plain Python, always available, and the definition of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.kernels.batches import EventBatch, Folded
from anabranch.kernels.column_layouts import ANYTHING, ColumnLayout
from anabranch.kernels.numpy_columns import Columns, pack
from anabranch.model.events import EventType
from anabranch.model.failures import Failed, attempt
from anabranch.model.handlers import Handler
from anabranch.model.step import Outputs, run
from anabranch.model.values.fields import Unfit


@dataclass
class Notes:
    """The outputs and failures of events handled one by one."""

    places: list[int] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    failures: list[tuple[int, Failed]] = field(default_factory=list)

    def note(self, place: int, outputs: Outputs) -> None:
        """Record the outputs of one event."""
        for index, value in enumerate(outputs):
            self.places.append(place)
            self.indexes.append(index)
            self.values.append(value)


@dataclass(frozen=True)
class InterpretedKernel:
    """Fold with the user's own functions. `reasons` holds why each event type is not compiled."""

    handlers: tuple[Handler, ...]
    layout: ColumnLayout = ANYTHING
    reasons: tuple[str | None, ...] = ()

    @property
    def event_types(self) -> tuple[EventType, ...]:
        """Return the event types, in the order of their numbers in a batch."""
        return tuple(handler.event_type for handler in self.handlers)

    def fold(self, states: Columns, batch: EventBatch) -> Folded:
        """Fold each event into the state of its slot, in order."""
        import numpy as np

        notes = Notes()
        held = step_through(self.handlers, states.unpack(), batch, 0, notes)
        outputs = np.fromiter(notes.values, dtype=object, count=len(notes.values))
        return Folded(
            pack_states(states.layout if self.layout == ANYTHING else self.layout, held, states),
            np.array(notes.places, dtype=np.int64),
            np.array(notes.indexes, dtype=np.int32),
            np.zeros(len(notes.places), dtype=np.uint8),
            (Columns(ANYTHING, (outputs,), len(outputs)),),
            tuple(notes.failures),
            stepped=len(batch),
        )


def step_through(
    handlers: Sequence[Handler], held: list[Any], batch: EventBatch, start: int, notes: Notes
) -> list[Any]:
    """Fold the events from `start` on into states held as objects, which change in place."""
    events = [columns.unpack() for columns in batch.events]
    columns = (batch.event_types[start:], batch.rows[start:], batch.slots[start:])
    order = zip(*(column.tolist() for column in columns), strict=True)
    for place, (event_type, row, slot) in enumerate(order, start):
        if row < 0 or slot < 0:
            raise IndexError(f"position {place} of a batch: row {row}, slot {slot}")
        handler, state, data = handlers[event_type], held[slot], events[event_type][row]
        stepped = attempt(run, handler, state, data)
        if isinstance(stepped, Failed):
            notes.failures.append((place, stepped))
            continue
        held[slot], outputs = stepped
        notes.note(place, outputs)
    return held


def pack_states(layout: ColumnLayout, held: list[Any], like: Columns) -> Columns:
    """Return states in their layout, or as objects if one does not fit it any more."""
    try:
        return pack(layout, held, like.strings)
    except Unfit:
        return pack(ANYTHING, held, like.strings)
