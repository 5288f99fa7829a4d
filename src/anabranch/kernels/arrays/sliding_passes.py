"""The passes of `sliding`, compiled. Only `sliding` imports this module, where Numba is installed."""

from __future__ import annotations

from numba import njit, types
from numba.extending import register_jitable

from anabranch.eventtime.windows.window_types import find_first_start
from anabranch.kernels.arrays import sliding

_GIVEN = types.Array(types.int64, 1, "C", readonly=True)
_INT64S = types.Array(types.int64, 1, "C")
_WHOLE = types.int64

# The compiled passes call it.
register_jitable(find_first_start)

list_windows = njit(
    _WHOLE(_GIVEN, _GIVEN, _WHOLE, _WHOLE, _WHOLE, _WHOLE, _WHOLE, _INT64S, _INT64S, _INT64S),
    cache=True,
)(sliding.list_windows)
slide_largest = njit(types.void(_GIVEN, _GIVEN, _GIVEN, _INT64S, _INT64S), cache=True)(
    sliding.slide_largest
)
