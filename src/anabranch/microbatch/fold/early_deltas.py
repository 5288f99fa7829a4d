"""Deltas of early folds, as a shard takes them: of a fork by cut, of keys in columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.kernels.numpy_columns import Columns, Strings

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class EarlyDelta(NamedTuple):
    """A delta of an early fold: before a cut, or after a place."""

    time: int
    rank: int
    after: bool
    name: str
    delta: Any

    def find_place(self, cuts: Sequence[tuple[int, int]]) -> int:
        """Return the number of cuts before the delta."""
        find = bisect_right if self.after else bisect_left
        return find(cuts, (self.time, self.rank))


class Gathered(NamedTuple):
    """The deltas of keys from early folds; keys that are codes refer to `texts`.

    A delta of segment n is before the n-th of the cuts, or after all of them; and before `until`.
    """

    keys: Array
    texts: Strings | None
    states: Columns
    segments: Array
    cuts: list[tuple[int, int]]
    until: int
