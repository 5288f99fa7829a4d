"""Sliding windows: the slices of each window, and their sums and maxima.

Rows are slices, sorted by key and then by start. A window is a range of rows. Sums are differences of
running sums, and maxima come from a monotonic queue: either way the cost of a window does not depend
on the number of its slices.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.windows.window_types import find_first_start
from anabranch.kernels.availability import LOADING, find_obstacle

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class Ranges(NamedTuple):
    """Windows, each as its start and the rows from `lows` up to, not including, `highs`."""

    starts: Array
    lows: Array
    highs: Array


@cache
def _passes() -> Any:
    if find_obstacle() is None:
        try:
            with LOADING:
                from anabranch.kernels.arrays import sliding_passes
        except Exception as error:  # noqa: BLE001 - whatever fails, Python computes the result
            warnings.warn(f"windows are computed in Python: Numba failed: {error}", stacklevel=2)
        else:
            return sliding_passes.list_windows, sliding_passes.slide_largest
    return list_windows, slide_largest


def find_windows(
    keys: Array, starts: Array, grid: tuple[int, int, int], after: int, upto: int
) -> Ranges:
    """Return the windows that contain a slice and whose last time lies after `after`, up to `upto`.

    `grid` is the size of windows, the distance between their starts, and the start of one of them.
    """
    import numpy as np

    walk = _passes()[0]
    none = np.empty(0, np.int64)
    if len(starts):
        # No window ends before the first slice starts; so no number exceeds 64 bits.
        after = max(after, int(starts.min()) - 1)
    count = walk(keys, starts, *grid, after, upto, none, none, none)
    found = Ranges(*(np.empty(count, np.int64) for _ in range(3)))
    if count:
        walk(keys, starts, *grid, after, upto, *found)
    return found


def add_up(values: Array, ranges: Ranges) -> Array:
    """Return the sum of each window's rows."""
    import numpy as np

    # A running sum may exceed 64 bits; its differences are right as long as they do not.
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    return running[ranges.highs] - running[ranges.lows]  # type: ignore[no-any-return]


def find_largest(values: Array, ranges: Ranges) -> Array:
    """Return the largest value of each window's rows."""
    import numpy as np

    found = np.empty(len(ranges.starts), np.int64)
    _passes()[1](values, ranges.lows, ranges.highs, found, np.empty(len(values), np.int64))
    return found


def list_windows(  # noqa: PLR0913, PLR0917 - Numba takes no record of Python's
    keys: Any, starts: Any, size: int, every: int, offset: int, after: int, upto: int,
    places: Any, lows: Any, highs: Any,
) -> int:  # fmt: skip
    """Return the number of windows; write them if `places` has room for them."""
    count = end = high = 0
    while end < len(keys):
        low, key = end, keys[end]
        while end < len(keys) and keys[end] == key:
            end += 1
        high = max(high, low)
        place = find_first_start(after + 1, size, every, offset)
        while True:
            while low < end and starts[low] < place:
                low += 1
            if low == end:
                break
            place = max(place, find_first_start(starts[low], size, every, offset))
            if place > starts[low]:
                continue  # The slice lies between two windows.
            if place + size - 1 > upto:
                break
            high = max(high, low)
            while high < end and starts[high] < place + size:
                high += 1
            if len(places):
                places[count], lows[count], highs[count] = place, low, high
            count += 1
            place += every
    return count


def slide_largest(values: Any, lows: Any, highs: Any, found: Any, queue: Any) -> None:
    """Write the largest value of each range into `found`; starts and ends of ranges never fall."""
    head = tail = 0
    seen = 0
    for number in range(len(lows)):
        seen = max(seen, lows[number])
        while seen < highs[number]:
            while tail > head and values[queue[tail - 1]] <= values[seen]:
                tail -= 1
            queue[tail] = seen
            tail += 1
            seen += 1
        while queue[head] < lows[number]:
            head += 1
        found[number] = values[queue[head]]
