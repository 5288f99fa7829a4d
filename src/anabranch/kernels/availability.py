"""A check whether Numba can compile on this machine, in this process."""

from __future__ import annotations

import importlib.util
import os
import threading

MISSING_NUMBA = "numba is not installed"

LOADING = threading.RLock()
"""Held by a thread that imports or compiles with Numba: its modules register types when they are first used, and two
threads that load them at once may see them half done."""


def find_obstacle() -> str | None:
    """Return why nothing can be compiled, or None. With a reason, every kernel is interpreted.

    With `NUMBA_DISABLE_JIT=1`, Numba does not compile functions, and loops that were written for it
    can't run as Python; the interpreted kernel replaces them.
    """
    if importlib.util.find_spec("numba") is None:
        return MISSING_NUMBA
    if os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0"):
        return "NUMBA_DISABLE_JIT is set"
    return None
