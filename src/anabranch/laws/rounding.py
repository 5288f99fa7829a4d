"""Rounding: comparisons of values that ignore the last bits of their floats."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from anabranch.model.events import Event
from anabranch.model.values.event_times import time_field

TOLERANCE = 1e-9


def is_equal(a: Any, b: Any) -> bool:
    """Return whether two values are equal; values whose comparison raises are not."""
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001 - whatever a user's class raises when it is compared
        return False


def is_close(a: Any, b: Any, scale: float = 0.0) -> bool:
    """Return whether two values are equal up to float rounding, at any depth of nesting.

    `scale` is the size of the numbers that were added up: 0.1 + 0.2 - 0.3 counts as zero.

    >>> is_close((0.1 + 0.2, "a"), (0.3, "a")), is_close((0.3, "a"), (0.3, "b"))
    (True, False)
    """
    if isinstance(a, float | complex) or isinstance(b, float | complex):
        return _is_close_number(a, b, scale)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(is_close(a[key], b[key], scale) for key in a)
    if isinstance(a, str | bytes) or type(a) is not type(b):
        return is_equal(a, b)
    if isinstance(a, Sequence):
        return len(a) == len(b) and all(is_close(x, y, scale) for x, y in zip(a, b, strict=True))
    if isinstance(a, AbstractSet):
        return _is_close_set(a, b, scale)
    if dataclasses.is_dataclass(a):
        return all(
            is_close(getattr(a, field.name), getattr(b, field.name), scale)
            for field in dataclasses.fields(a)
        )
    return is_equal(a, b)


def is_identical(a: Any, b: Any) -> bool:
    """Return whether two values are equal where a NaN is equal to a NaN.

    >>> is_identical((1, float("nan")), (1, float("nan"))), is_identical(0.1 + 0.2, 0.3)
    (True, False)
    """
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(is_identical(a[key], b[key]) for key in a)
    if type(a) is type(b) and isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(is_identical, a, b))
    return is_equal(a, b)


def _is_close_number(a: Any, b: Any, scale: float) -> bool:
    numbers = int | float | complex
    if not (isinstance(a, numbers) and isinstance(b, numbers)):
        return is_equal(a, b)
    if a == b or (a != a and b != b):  # noqa: PLR0124 - only NaN differs from itself
        return True
    return bool(abs(a - b) <= TOLERANCE * max(abs(a), abs(b), scale)) and math.isfinite(abs(a - b))


def _is_close_set(a: AbstractSet[Any], b: AbstractSet[Any], scale: float) -> bool:
    # Exact matches first, then each unmatched one with a close unmatched one of the other side.
    rest = [y for y in b if y not in a]
    for x in (x for x in a if x not in b):
        near = next((y for y in rest if is_close(x, y, scale)), None)
        if near is None:
            return False
        rest.remove(near)
    return not rest


def measure_scale(events: Iterable[Event]) -> float:
    """Return the largest number among the fields of some events, or 1."""
    sizes = (abs(x) for event in events for x in _numbers_in(tuple_of(event.data)))
    return max((size for size in sizes if math.isfinite(size)), default=1.0)


def tuple_of(data: Any) -> tuple[Any, ...]:
    """Return the fields of an event except its time."""
    if dataclasses.is_dataclass(data):
        names = [field.name for field in dataclasses.fields(data)]
    else:
        names = list(data._fields)
    kind: Any = type(data)
    return tuple(getattr(data, name) for name in names if name != time_field(kind))


def _numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _numbers_in(part)
