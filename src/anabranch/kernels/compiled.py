"""The compiled kernel: one loop of machine code over columns, and plain Python where it stops.

The loop leaves an event alone that it can't do exactly: an overflow, an exception, a type that was
not translated. Up to there everything is done, and nothing of that event is; Python steps over it
(that is where an exception is found, and the event set aside), and the loop goes on behind it.
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
"""So many steps in Python are free; then they may be one event in twenty, or Python does the rest."""


@dataclass(frozen=True)
class CompiledKernel:
    """Folds by a compiled loop, and gives the same answer as the interpreted kernel."""

    handlers: tuple[Handler, ...]
    blueprint: Blueprint

    @property
    def event_types(self) -> tuple[EventType, ...]:
        """Return the event types, in the order that a batch numbers them."""
        return tuple(handler.event_type for handler in self.handlers)

    @property
    def layout(self) -> ColumnLayout:
        """Return how states lie in columns."""
        return self.blueprint.state

    @property
    def reasons(self) -> tuple[str | None, ...]:
        """Return, for each event type, why it is interpreted all the same, or None."""
        failure = code_cache.find_failure(self.blueprint.source)
        return tuple(reason or failure for reason in self.blueprint.reasons)

    def prepare(self) -> None:
        """Compile now, or load what was compiled before; otherwise the first fold does."""
        code_cache.load(self.blueprint.source)

    def fold(self, states: Columns, batch: EventBatch) -> Folded:
        """Fold each event into the state of its slot, in order."""
        states, inputs = self._fit_states(states), self._inputs(batch, states.strings)
        # What the driver compiles, a machine of its own settings may not.
        module = None if find_obstacle() else code_cache.try_load(self.blueprint.source)
        if module is None or inputs is None or states.layout != self.layout:
            return InterpretedKernel(self.handlers, self.layout).fold(states, batch)
        return _Run(self, module.fold, states.copy(), batch, inputs).run()

    def _fit_states(self, states: Columns) -> Columns:
        """Return states in the kernel's own columns, or as they are where they have outgrown it."""
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
            return None  # A field holds what its column can't, such as an int of 70 bits.
        return [np.ascontiguousarray(found[wanted]) for wanted in self.blueprint.inputs]


@dataclass
class _Run:
    """One fold on its way."""

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
            strings.code("")  # Stands where there is no text.
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
        """Make room for all that could be said; pages that are never written cost nothing."""
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
        """Take back what the event said before the loop left it."""
        while counts[0] and self.places[counts[0] - 1] == place:
            counts[0] -= 1
            counts[1 + int(self.forms[counts[0]])] -= 1

    def _step(self, place: int) -> list[Any] | None:
        """Let Python do one event; return all states as objects if one has outgrown its columns."""
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
        """Put what Python's events said behind what the loop has said."""
        import numpy as np

        emitted, notes = len(self.notes.places), self.notes
        if not emitted:
            return
        start, end = counts[0], counts[0] + emitted
        # Machine code checks no bounds: what the loop may still say must have its room behind this.
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
        emitted = np.fromiter(self.notes.values, dtype=object, count=len(self.notes.values))
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
            (*values, Columns(ANYTHING, (emitted,), len(emitted))),
            tuple(self.notes.failures),
            stepped=self.stepped,
        )


def _cut(array: Array, count: int) -> Array:
    # A small piece must not hold on to a large array.
    return array[:count] if 2 * count >= len(array) else array[:count].copy()
