"""The barrier: holds back outputs until they can't be retracted any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.errors import InputError
from anabranch.model.events import Event
from anabranch.model.order import bound_after
from anabranch.speculation.output_changes import OutputChange, is_alike

Key = tuple[Any, ...]
"""The sort key of rows: an output's id, or an item's place."""


class Barrier:
    """A sorted buffer of rows, from which a retraction removes the retracted row.

    Rows before a bound are released in order, and exactly once: a row at or before the last one released
    is a replay, and is dropped.
    """

    def __init__(self, last: Key | None = None, held: Iterable[tuple[Key, Any]] = ()) -> None:
        self.last = last
        self._held: dict[Key, list[Any]] = {}
        for key, value in held:
            self._held.setdefault(key, []).append(value)

    def take(self, op: int, key: Key, value: Any) -> None:
        """Add a row, or remove the row that it retracts."""
        if self.last is not None and key <= self.last:
            return
        if op > 0:
            self._held.setdefault(key, []).append(value)
            return
        waiting = self._held.get(key, [])
        place = next((n for n, other in enumerate(waiting) if is_alike(other, value)), None)
        if place is None:
            raise InputError(
                "a retraction has no output to retract",
                expected=f"an earlier output {value!r} of {key!r}",
                got=", ".join(map(repr, waiting)) or "nothing",
                cure="pass all rows of the run to the barrier, in the order in which they were emitted",
            )
        del waiting[place]
        if not waiting:
            del self._held[key]

    def release(self, bound: Key) -> list[tuple[Key, Any]]:
        """Remove and return the rows before a bound, in order."""
        found = sorted(key for key in self._held if key < bound)
        released = [(key, value) for key in found for value in self._held.pop(key)]
        if found:
            self.last = found[-1]
        return released

    def dump(self) -> tuple[Key | None, list[tuple[Key, Any]]]:
        """Return the arguments that recreate this barrier."""
        return self.last, [(key, value) for key, values in self._held.items() for value in values]


def hold_back(barrier: Barrier, rows: Iterable[OutputChange], watermark: int) -> list[OutputChange]:
    """Add rows to a barrier; return the outputs that settle with a watermark, in order."""
    for row in rows:
        barrier.take(row.op, row.id, (row.value, tuple(row.event)))
    released = barrier.release((bound_after(watermark),))
    return [
        OutputChange(1, (key[0], key[1]), value, Event(*event)) for key, (value, event) in released
    ]
