"""Keys: one form for floats that are one key. NaN is one key, equal to itself, and -0.0 is the key 0.0.

So it is in Spark's `groupBy`. In Python a NaN is only found again if it is the same object.
"""

from __future__ import annotations

import math
from typing import Any


def plain_key(key: Any) -> Any:
    """Return a key in the one form in which maps hold it.

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
    """Return whether two values are one key."""
    a, b = plain_key(a), plain_key(b)
    return a is b or bool(a == b)


def plain_keys(entries: dict[Any, Any]) -> dict[Any, Any]:
    """Return entries by their keys in the one form; the same dict if they have it already."""
    if all(plain_key(key) is key for key in entries):
        return entries
    return {plain_key(key): entry for key, entry in entries.items()}
