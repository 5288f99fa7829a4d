"""The barrier: holds back what was said until it can't be taken back any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.errors import InputError
from anabranch.model.events import Event
from anabranch.model.order import bound_after
from anabranch.speculation.output_changes import OutputChange, is_alike

Key = tuple[Any, ...]
"""What rows are ordered by: an output's id, or an item's place."""


class Barrier:
    """A sorted buffer, from which a retraction removes what it takes back.

    Whatever lies before a bound is released in order, and exactly once: a row at or before the last
    one released is a replay, and is dropped.
    """

    def __init__(self, last: Key | None = None, held: Iterable[tuple[Key, Any]] = ()) -> None:
        self.last = last
        self._held: dict[Key, list[Any]] = {}
        for key, value in held:
            self._held.setdefault(key, []).append(value)

    def take(self, op: int, key: Key, value: Any) -> None:
        """Hold a row back, or drop the one that it takes back."""
        if self.last is not None and key <= self.last:
            return
        if op > 0:
            self._held.setdefault(key, []).append(value)
            return
        waiting = self._held.get(key, [])
        place = next((n for n, other in enumerate(waiting) if is_alike(other, value)), None)
        if place is None:
            raise InputError(
                "a retraction takes back what was never said",
                expected=f"{value!r} of {key!r} to have been said before",
                got=", ".join(map(repr, waiting)) or "nothing",
                cure="give the barrier every row of the run, in the order in which they were said",
            )
        del waiting[place]
        if not waiting:
            del self._held[key]

    def release(self, bound: Key) -> list[tuple[Key, Any]]:
        """Return what lies before a bound, in order, and forget it."""
        found = sorted(key for key in self._held if key < bound)
        released = [(key, value) for key in found for value in self._held.pop(key)]
        if found:
            self.last = found[-1]
        return released

    def dump(self) -> tuple[Key | None, list[tuple[Key, Any]]]:
        """Return what makes this barrier again."""
        return self.last, [(key, value) for key, values in self._held.items() for value in values]


def hold_back(barrier: Barrier, rows: Iterable[OutputChange], watermark: int) -> list[OutputChange]:
    """Give rows to a barrier; return the outputs that settle with a watermark, in order."""
    for row in rows:
        barrier.take(row.op, row.id, (row.value, tuple(row.event)))
    released = barrier.release((bound_after(watermark),))
    return [
        OutputChange(1, (key[0], key[1]), value, Event(*event)) for key, (value, event) in released
    ]
