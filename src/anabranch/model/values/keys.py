"""Keys: the canonical form of float keys. NaN is one key, equal to itself, and -0.0 is the key 0.0.

Spark's `groupBy` does the same. A Python dict finds a NaN only if it is the same object.
"""

from __future__ import annotations

import math
from typing import Any


def plain_key(key: Any) -> Any:
    """Return a key in its canonical form.

    >>> plain_key(-0.0), plain_key(float("nan")) is plain_key(-math.nan), plain_key((1, math.nan))[1] is math.nan
    (0.0, True, True)
    """
    kind = type(key)
    if kind is float:
        if key != key:  # noqa: PLR0124 - only NaN differs from itself
            return math.nan
        return key or 0.0
    if kind is tuple:
        parts = tuple(map(plain_key, key))
        return key if all(a is b for a, b in zip(parts, key, strict=True)) else parts
    return key


def is_same_key(a: Any, b: Any) -> bool:
    """Return whether two values are the same key."""
    a, b = plain_key(a), plain_key(b)
    return a is b or bool(a == b)


def plain_keys(entries: dict[Any, Any]) -> dict[Any, Any]:
    """Return entries with canonical keys; the same dict if all keys are canonical."""
    if all(plain_key(key) is key for key in entries):
        return entries
    return {plain_key(key): entry for key, entry in entries.items()}
