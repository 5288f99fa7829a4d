"""Memory: let a worker keep what it has freed, instead of asking the system for it again and again."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_BYTES = 1 << 30


@cache
def keep_freed() -> bool:
    """Tell the C library so, once in a process; say whether it listened.

    A batch frees arrays of many megabytes and allocates them anew. By default each of them comes from
    the system as pages that are not there yet, and touching those for the first time costs more than
    what is then done with them.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MOST_BYTES) and mallopt(_TRIM_THRESHOLD, _MOST_BYTES))
