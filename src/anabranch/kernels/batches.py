"""Batches: what a kernel is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.kernels.column_layouts import read_record
from anabranch.kernels.numpy_columns import Columns, Strings, pack_or_keep
from anabranch.model.events import EventType
from anabranch.model.failures import Failed

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class EventBatch:
    """Events in the order in which they are to be folded.

    `events` holds the fields, one `Columns` for each event type of the kernel. The event at position `i`
    is row `rows[i]` of event type `event types[i]`, and folds into state `slots[i]`.
    """

    events: tuple[Columns, ...]
    event_types: Array
    rows: Array
    slots: Array

    def __len__(self) -> int:
        return len(self.event_types)


def gather(
    event_types: Sequence[EventType],
    events: Iterable[tuple[int, Any]],
    strings: Strings | None = None,
) -> EventBatch:
    """Make a batch of (slot, event) pairs, in their order."""
    import numpy as np

    strings = Strings() if strings is None else strings
    numbers = {event_type: number for number, event_type in enumerate(event_types)}
    held: list[list[Any]] = [[] for _ in event_types]
    order: list[tuple[int, int, int]] = []
    for slot, event in events:
        event_type = numbers[type(event)]
        order.append((event_type, len(held[event_type]), slot))
        held[event_type].append(event)
    columns = [
        pack_or_keep(read_record(event_type), values, strings)
        for event_type, values in zip(event_types, held, strict=True)
    ]
    table = np.array(order, dtype=np.int64).reshape(-1, 3)
    return EventBatch(
        tuple(columns),
        table[:, 0].astype(np.uint8),
        np.ascontiguousarray(table[:, 1]),
        np.ascontiguousarray(table[:, 2]),
    )


@dataclass(frozen=True, eq=False)
class Folded:
    """What came of a batch: the states after it, what was said, and which events failed.

    Output `k` was said by the event at position `places[k]`, as number `indexes[k]` among its
    outputs. Its value is the next row of `values[forms[k]]`: values of one form lie in the same
    columns, in the order of the outputs. An event that failed left its state as it was and said
    nothing. `stepped` counts the events that plain Python had to handle.
    """

    states: Columns
    places: Array
    indexes: Array
    forms: Array
    values: tuple[Columns, ...]
    failures: tuple[tuple[int, Failed], ...]
    stepped: int = 0

    def find_handled(self, entered: Array, count: int) -> Array | None:
        """Say which of so many entries some event did enter; None if no event has failed.

        An event on which a function raised leaves the state as it was: it begins no entry.
        """
        import numpy as np

        if not self.failures:
            return None
        handled = np.zeros(count, np.bool_)
        handled[np.delete(entered, [place for place, _ in self.failures])] = True
        return handled

    def outputs(self) -> list[Any]:
        """Return what was said, in order, as Python objects."""
        waiting = [iter(columns.unpack()) for columns in self.values]
        return [next(waiting[form]) for form in self.forms.tolist()]
