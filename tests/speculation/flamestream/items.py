"""Items: what flows through a graph of operations, and the order that it belongs in."""

from __future__ import annotations

from typing import Any, NamedTuple


class GlobalTime(NamedTuple):
    """When an item entered, and on which front: no two items of one front share a time."""

    time: int
    front: str = ""


class Meta(NamedTuple):
    """An item's place. Each operation that makes several of one appends the number of each.

    So what was made of an item comes after it, and before the next item that enters.

    >>> x1, x2 = Meta(GlobalTime(1)), Meta(GlobalTime(2))
    >>> x1 < x1.child(0) < x1.child(0).child(3) < x1.child(1) < x2
    True
    """

    time: GlobalTime
    children: tuple[int, ...] = ()

    def child(self, number: int) -> Meta:
        """Return the place of an item that was made of this one."""
        return Meta(self.time, (*self.children, number))


class DataItem(NamedTuple):
    """A payload in its place, or a tombstone, which takes back the equal item that came before it."""

    payload: Any
    meta: Meta
    tombstone: bool = False

    @property
    def op(self) -> int:
        """Return 1, or -1 for a tombstone."""
        return -1 if self.tombstone else 1


def enter(payload: Any, time: int, front: str = "") -> DataItem:
    """Return an item as it comes from outside."""
    return DataItem(payload, Meta(GlobalTime(time, front)))
