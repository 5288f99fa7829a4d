"""Batches: the input and the result of a kernel."""

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
    """Events in the order in which they are folded.

    `events` holds the fields, one `Columns` for each event type of the kernel. The event at position `i`
    is row `rows[i]` of event type `event_types[i]`, and is folded into state `slots[i]`.
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
    """Return a batch of (slot, event) pairs, in their order."""
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
    """The result of a batch: the states after it, the outputs, and the events that failed.

    Output `k` is an output of the event at position `places[k]`, with number `indexes[k]` among the
    event's outputs. Its value is the next row of `values[forms[k]]`: values of one form share their
    columns, in the order of the outputs. An event that failed leaves its state unchanged and has no
    outputs. `stepped` counts the events that plain Python handled.
    """

    states: Columns
    places: Array
    indexes: Array
    forms: Array
    values: tuple[Columns, ...]
    failures: tuple[tuple[int, Failed], ...]
    stepped: int = 0

    def find_handled(self, entered: Array, count: int) -> Array | None:
        """Return which of `count` entries some event entered; None if no event has failed.

        An event on which a function raised leaves the state unchanged: it creates no entry.
        """
        import numpy as np

        if not self.failures:
            return None
        handled = np.zeros(count, np.bool_)
        handled[np.delete(entered, [place for place, _ in self.failures])] = True
        return handled

    def outputs(self) -> list[Any]:
        """Return the outputs, in order, as Python objects."""
        waiting = [iter(columns.unpack()) for columns in self.values]
        return [next(waiting[form]) for form in self.forms.tolist()]
