"""Ordering: sort a batch into the total order, number its keys, and cut it at markers.

Each function has a fast version with Numba and a plain one with NumPy, with the same results.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from anabranch.kernels.availability import LOADING, find_obstacle

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_FEW_RUNS = 64
"""Up to this number of sorted runs, NumPy's merge of runs is faster than a radix sort."""

_MOST_SOURCES = 1 << 16


@cache
def _passes() -> Any:
    if find_obstacle() is not None:
        return None
    try:
        with LOADING:
            from anabranch.kernels.arrays import passes
    except Exception as error:  # noqa: BLE001 - whatever fails, NumPy computes the result
        warnings.warn(f"batches are sorted by NumPy: Numba failed: {error}", stacklevel=2)
        return None
    return passes


def is_ordered(time: Array, rank: Array, channel: Array, seq: Array) -> bool:
    """Return whether events are already in the total order."""
    return _count_descents(*_as_int64(time, rank, channel, seq)) == 0


def sort_order(time: Array, rank: Array, channel: Array, seq: Array) -> Array:
    """Return the permutation into the total order (time, rank, channel, sequence).

    `channel` holds codes whose order is that of the channels' names. Equal events stay in order.
    """
    import numpy as np

    columns = _as_int64(time, rank, channel, seq)
    descents = _count_descents(*columns)
    if descents == 0:
        return np.arange(len(time))
    if _rises_within(columns[2], columns[3]):
        columns = columns[:3]  # The sort is stable, so sequences that are in order stay in order.
    packed = _pack_keys(columns)
    if packed is None:
        return np.lexsort(columns[::-1])
    keys, bits = packed
    passes, places = _passes(), len(keys).bit_length()
    if passes is None or descents < _FEW_RUNS or bits + places > 64:
        return np.argsort(keys, kind="stable")
    # The position is packed into the low bits, so that only one array has to be moved.
    keys <<= np.uint64(places)
    keys |= np.arange(len(keys), dtype=np.uint64)
    order: Array = passes.radix_sort(keys, places, places + bits)
    order &= np.uint64((1 << places) - 1)
    return order.view(np.int64)


def group(keys: Array, codes: int | None = None) -> tuple[Array, Array]:
    """Assign numbers to keys in order of first occurrence; return the number of each, and the distinct keys.

    With `codes`, keys are codes below that number, as of a dictionary, which is faster.
    """
    import numpy as np

    (keys,) = _as_int64(keys)
    passes = _passes()
    if codes is None and len(keys) and keys.min() >= 0 and keys.max() < 2 * len(keys):
        codes = int(keys.max()) + 1  # The keys are as dense as codes.
    elif codes is not None and len(keys) and (keys.min() < 0 or keys.max() >= codes):
        raise IndexError(f"a code is not between 0 and {codes - 1}")
    if passes is None:
        distinct, firsts, slots = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(firsts)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        return numbers[slots], distinct[order]
    slots, firsts = passes.group_keys(keys) if codes is None else passes.group_codes(keys, codes)
    return slots, keys[firsts]


def running_max(times: Array) -> Array:
    """Return the largest time so far, at each event."""
    import numpy as np

    return np.maximum.accumulate(times)


def cut(times: Array, markers: Array, *, markers_first: bool = True) -> Array:
    """Return the position of each marker among events in order: segment n is `[cut[n-1], cut[n])`.

    Both are sorted. At equal times a marker precedes the events, unless its rank is higher.
    """
    import numpy as np

    return np.searchsorted(times, markers, side="left" if markers_first else "right")


def _as_int64(*columns: Array) -> tuple[Array, ...]:
    import numpy as np

    return tuple(np.ascontiguousarray(column, dtype=np.int64) for column in columns)


def _count_descents(time: Array, rank: Array, channel: Array, seq: Array) -> int:
    passes = _passes()
    if passes is not None:
        return int(passes.count_descents(time, rank, channel, seq))
    less = seq[1:] < seq[:-1]
    for column in (channel, rank, time):
        less = (column[1:] < column[:-1]) | ((column[1:] == column[:-1]) & less)
    return int(less.sum())


def _rises_within(channel: Array, seq: Array) -> bool:
    passes = _passes()
    low = int(channel.min())
    count = int(channel.max()) - low + 1
    if passes is None or count > _MOST_SOURCES:
        return False
    return bool(passes.rises_within(channel, seq, low, count))


def _pack_keys(columns: tuple[Array, ...]) -> tuple[Array, int] | None:
    """Return the columns packed into one number per row, in the same order, if 64 bits hold them."""
    import numpy as np

    keys = np.zeros(len(columns[0]), np.uint64)
    total = 0
    for column in columns[::-1]:
        low, high = int(column.min()), int(column.max())
        bits = (high - low).bit_length()
        if total + bits > 64:
            return None
        # Differences of unsigned numbers wrap around correctly.
        if bits:
            keys |= (column.view(np.uint64) - np.uint64(low % 2**64)) << np.uint64(total)
        total += bits
    return keys, total
