"""Indexes: the slot of each key, for keys that are 64-bit numbers. A key never changes its slot."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from anabranch.kernels.availability import LOADING, find_obstacle

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_SMALLEST = 1 << 10

_DIRECT = 1 << 17
"""Keys from 0 up to this are looked up in an array; it is small enough for one per block of events."""


class Index:
    """Assign numbers to keys in the order of their first occurrence; look up many keys at once.

    >>> import numpy as np
    >>> index = Index(); index.find(np.array([7, 9, 7])).tolist(), index.keys.tolist()
    ([0, 1, 0], [7, 9])
    """

    def __init__(self) -> None:
        import numpy as np

        self.count = 0
        self._keys = np.empty(_SMALLEST, np.int64)
        self._slots = np.full(2 * _SMALLEST, -1, np.int64)
        self._direct = np.zeros(_DIRECT, np.int32)  # The slot plus 1.

    @property
    def keys(self) -> Array:
        """Return the keys, by slot."""
        return self._keys[: self.count]

    def find(self, keys: Array) -> Array:
        """Return the slot of each key; a new key gets the next one."""
        import numpy as np

        keys = np.ascontiguousarray(keys, np.int64)
        self._reserve(self.count + len(keys))
        slots, self.count = _probe()(keys, self._keys, self._slots, self._direct, self.count)
        return slots  # type: ignore[no-any-return]

    def _reserve(self, most: int) -> None:
        import numpy as np

        if most <= len(self._keys):
            return
        size = len(self._keys)
        while size < most:
            size *= 2
        held = self.keys
        self._keys = np.empty(size, np.int64)
        self._keys[: self.count] = held
        self._slots = np.full(2 * size, -1, np.int64)
        if self.count:
            self._direct[:] = 0
        _probe()(held.copy(), self._keys, self._slots, self._direct, 0)


@cache
def _probe() -> Any:
    if find_obstacle() is not None:
        return probe_plainly
    try:
        with LOADING:
            from anabranch.kernels.arrays import probes
    except Exception as error:  # noqa: BLE001 - whatever fails, Python computes the result
        warnings.warn(f"keys are looked up in Python: Numba failed: {error}", stacklevel=2)
        return probe_plainly
    return probes.probe


def probe_plainly(
    keys: Array, held: Array, slots: Array, direct: Array, count: int
) -> tuple[Array, int]:
    """Return the slot of each key and the number of slots, as `probes.probe` does, without Numba."""
    import numpy as np

    known = {key: slot for slot, key in enumerate(held[:count].tolist())}
    found = np.empty(len(keys), np.int64)
    for place, key in enumerate(keys.tolist()):
        slot = known.setdefault(key, count)
        if slot == count:
            held[slot] = key
            count += 1
        found[place] = slot
    return found, count
