"""Memory allocation: let a process keep freed memory, and make many objects without looking for garbage."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_BYTES = 1 << 30


@cache
def keep_freed() -> bool:
    """Configure the C library's allocator, once in a process; return whether it is supported.

    A batch frees arrays of many megabytes and allocates them again. By default each of them is mapped anew
    from the system, and the page faults of the first access cost more than the computation on
    the arrays.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MOST_BYTES) and mallopt(_TRIM_THRESHOLD, _MOST_BYTES))


@contextmanager
def pause_collection() -> Iterator[None]:
    """Make objects without looking for cycles among them.

    Python's collector visits all objects again and again while a block of events is made, which costs as much as
    making them. Events have no cycles; what a user's class leaves behind is collected after the block.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
