"""The compiled kernel: one loop of machine code over columns, and plain Python where it stops.

The loop stops at an event that it can't handle exactly: an overflow, an exception, a type that was
not translated. All earlier events are folded then, and no part of that event is. Python handles the
event (an exception is found there, and the event rejected), and the loop continues behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.kernels import code_cache
from anabranch.kernels.availability import find_obstacle
from anabranch.kernels.batches import EventBatch, Folded
from anabranch.kernels.column_layouts import ANYTHING, STR, ColumnLayout, list_columns
from anabranch.kernels.interpreted import InterpretedKernel, Notes, pack_states, step_through
from anabranch.kernels.numpy_columns import DTYPES, Columns, Strings, pack
from anabranch.kernels.translate.loop_source import Blueprint
from anabranch.model.events import EventType
from anabranch.model.failures import Failed, attempt
from anabranch.model.handlers import Handler
from anabranch.model.step import run
from anabranch.model.values.fields import Unfit

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_PATIENCE = 256
"""Steps in Python without a limit; beyond them, at most one event in twenty, or Python does the rest."""


@dataclass(frozen=True)
class CompiledKernel:
    """Fold by a compiled loop, with the same results as the interpreted kernel."""

    handlers: tuple[Handler, ...]
    blueprint: Blueprint

    @property
    def event_types(self) -> tuple[EventType, ...]:
        """Return the event types, in the order of their numbers in a batch."""
        return tuple(handler.event_type for handler in self.handlers)

    @property
    def layout(self) -> ColumnLayout:
        """Return the layout of states in columns."""
        return self.blueprint.state

    @property
    def reasons(self) -> tuple[str | None, ...]:
        """Return, for each event type, why it is interpreted, or None if it is compiled."""
        failure = code_cache.find_failure(self.blueprint.source)
        return tuple(reason or failure for reason in self.blueprint.reasons)

    def prepare(self) -> None:
        """Compile the kernel now, or load it from the cache; otherwise the first fold does."""
        code_cache.load(self.blueprint.source)

    def fold(self, states: Columns, batch: EventBatch) -> Folded:
        """Fold each event into the state of its slot, in order."""
        states, inputs = self._fit_states(states), self._inputs(batch, states.strings)
        # The driver may have Numba where an executor has not, or has it disabled.
        module = None if find_obstacle() else code_cache.try_load(self.blueprint.source)
        if module is None or inputs is None or states.layout != self.layout:
            return InterpretedKernel(self.handlers, self.layout).fold(states, batch)
        return _Run(self, module.fold, states.copy(), batch, inputs).run()

    def _fit_states(self, states: Columns) -> Columns:
        """Return states in the kernel's own columns, or unchanged if they do not fit them any more."""
        if states.layout == self.layout:
            return states
        try:
            return pack(self.layout, states.unpack(), states.strings)
        except Unfit:
            return states

    def _inputs(self, batch: EventBatch, strings: Strings) -> list[Array] | None:
        import numpy as np

        found: dict[tuple[int, str, str], Array] = {}
        for number, events in enumerate(batch.events):
            recoded = events.recode(strings)
            for column, array in zip(recoded.columns, recoded.arrays, strict=True):
                found[number, column.path, column.kind] = array
        if any(wanted not in found for wanted in self.blueprint.inputs):
            return (
                None  # A field has a value that its column can't hold, such as an int of 70 bits.
            )
        return [np.ascontiguousarray(found[wanted]) for wanted in self.blueprint.inputs]


@dataclass
class _Run:
    """One fold in progress."""

    kernel: CompiledKernel
    loop: Any
    states: Columns
    batch: EventBatch
    inputs: list[Any]
    notes: Notes = field(default_factory=Notes)
    stepped: int = 0

    def run(self) -> Folded:
        import numpy as np

        blueprint, batch = self.kernel.blueprint, self.batch
        strings = self.states.strings
        if any(column.kind == STR for column in list_columns(blueprint.state)):
            strings.code("")  # The placeholder where there is no text.
        words = strings.codes(blueprint.words)
        self._reserve()
        order = [np.ascontiguousarray(a) for a in (batch.event_types, batch.rows, batch.slots)]
        counts = [0] * (1 + len(blueprint.forms))
        place, end, held = 0, len(batch), None
        while True:
            place, *counts = self.loop(
                place, end, self.states.length, *counts, *order, words, self.places, self.indexes,
                self.forms, *self.states.arrays, *self.inputs,
                *(array for form in self.values for array in form),
            )  # fmt: skip
            if place == end:
                break
            self._forget(place, counts)
            held = self._step(place)
            place += 1
            self._keep_notes(counts)
            if held is None and self.stepped > _PATIENCE + place // 20:
                held = self.states.unpack()
            if held is not None:
                held = step_through(self.kernel.handlers, held, batch, place, self.notes)
                self.stepped += end - place
                self._keep_notes(counts)
                break
        return self._finish(counts, held)

    def _reserve(self) -> None:
        """Allocate arrays for the largest possible number of outputs; unwritten pages cost nothing."""
        import numpy as np

        event_types = self.batch.event_types
        forms = self.kernel.blueprint.forms
        counts = {
            form.event_type: int(np.count_nonzero(event_types == form.event_type)) for form in forms
        }
        self.most = sum(form.sites * counts[form.event_type] for form in forms)
        self.places = np.empty(self.most, np.int64)
        self.indexes = np.empty(self.most, np.int32)
        self.forms = np.empty(self.most, np.uint8)
        self.values = [
            [
                np.empty(form.sites * counts[form.event_type], DTYPES[column.kind])
                for column in list_columns(form.layout)
            ]
            for form in forms
        ]

    def _forget(self, place: int, counts: list[int]) -> None:
        """Discard the outputs that the loop wrote for an event before it stopped there."""
        while counts[0] and self.places[counts[0] - 1] == place:
            counts[0] -= 1
            counts[1 + int(self.forms[counts[0]])] -= 1

    def _step(self, place: int) -> list[Any] | None:
        """Handle one event in Python; return all states as objects if one does not fit its columns."""
        batch = self.batch
        event_type, row, slot = (
            int(column[place]) for column in (batch.event_types, batch.rows, batch.slots)
        )
        if row < 0 or slot < 0:
            raise IndexError(f"position {place} of a batch: row {row}, slot {slot}")
        self.stepped += 1
        state, data = self.states.value(slot), batch.events[event_type].value(row)
        stepped = attempt(run, self.kernel.handlers[event_type], state, data)
        if isinstance(stepped, Failed):
            self.notes.failures.append((place, stepped))
            return None
        state, outputs = stepped
        self.notes.note(place, outputs)
        try:
            self.states.replace(slot, state)
        except Unfit:
            held = self.states.unpack()
            held[slot] = state
            return held
        return None

    def _keep_notes(self, counts: list[int]) -> None:
        """Append the outputs of events handled in Python to those of the loop."""
        import numpy as np

        added, notes = len(self.notes.places), self.notes
        if not added:
            return
        start, end = counts[0], counts[0] + added
        # Machine code checks no bounds: there must be room for all further outputs of the loop.
        lacking = end + self.most - sum(counts[1:]) - len(self.places)
        if lacking > 0:
            more = max(lacking, len(self.places))
            self.places, self.indexes, self.forms = (
                np.concatenate([array, np.empty(more, array.dtype)])
                for array in (self.places, self.indexes, self.forms)
            )
        self.places[start:end] = notes.places
        self.indexes[start:end] = notes.indexes
        self.forms[start:end] = len(self.values)
        counts[0] = end
        notes.places.clear()
        notes.indexes.clear()

    def _finish(self, counts: list[int], held: list[Any] | None) -> Folded:
        import numpy as np

        states = self.states if held is None else pack_states(self.states.layout, held, self.states)
        outputs = np.fromiter(self.notes.values, dtype=object, count=len(self.notes.values))
        forms = zip(self.kernel.blueprint.forms, self.values, counts[1:], strict=True)
        values = [
            Columns(form.layout, tuple(_cut(a, count) for a in arrays), count, states.strings)
            for form, arrays, count in forms
        ]
        return Folded(
            states,
            _cut(self.places, counts[0]),
            _cut(self.indexes, counts[0]),
            _cut(self.forms, counts[0]),
            (*values, Columns(ANYTHING, (outputs,), len(outputs))),
            tuple(self.notes.failures),
            stepped=self.stepped,
        )


def _cut(array: Array, count: int) -> Array:
    # A small slice must not keep a large array in memory.
    return array[:count] if 2 * count >= len(array) else array[:count].copy()
