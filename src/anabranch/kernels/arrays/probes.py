"""Probes: the compiled look-up of keys, small ones in an array, others in an open hash table.

Import this module only where Numba is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

_INT64S = types.Array(types.int64, 1, "C")
_INT32S = types.Array(types.int32, 1, "C")
_GIVEN = types.Array(types.int64, 1, "C", readonly=True)
_FOUND = types.Tuple((_INT64S, types.int64))
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@njit(_FOUND(_GIVEN, _INT64S, _INT64S, _INT32S, types.int64), cache=True)
def probe(keys: Any, held: Any, slots: Any, direct: Any, count: int) -> Any:
    """Return the slot of each key and the number of slots; new keys are added to `held`."""
    found = np.empty(len(keys), np.int64)
    mask = len(slots) - 1
    for i in range(len(keys)):
        key = keys[i]
        if 0 <= key < len(direct):
            slot = np.int64(direct[key]) - np.int64(1)
            if slot < 0:
                slot = np.int64(count)
                direct[key] = slot + 1
                held[slot] = key
                count += 1
            found[i] = slot
            continue
        mixed = np.uint64(key) * _SPREAD
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _SPREAD
        place = np.int64(mixed >> np.uint64(32)) & mask
        slot = slots[place]
        while slot >= 0 and held[slot] != key:
            place = (place + 1) & mask
            slot = slots[place]
        if slot < 0:
            slot = np.int64(count)
            slots[place] = slot
            held[slot] = key
            count += 1
        found[i] = slot
    return found, count
