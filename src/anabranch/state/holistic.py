"""States that need every value: median, quantile, mode, number of distinct values.

No summary of bounded size gives these exactly, so the state grows with the number of distinct
values. Where that is too much, ask for a sketch by name (`anabranch.state.sketches`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from anabranch.errors import ProgramError
from anabranch.model.slices import Slices
from anabranch.state.collections import SetOf

Runs = tuple[tuple[Any, int], ...]
"""Distinct values in their order, each with how often it came."""

NAN = ("@nan",)
"""What stands for NaN in a set: NaN is not equal to itself, and would be counted each time."""

_DIGITS = Context(prec=28)


class Counted:
    """Keep how often each value came, in the order of the values."""

    by = None

    @property
    def init(self) -> Runs:
        """Return no values."""
        return ()

    @property
    def zero(self) -> Runs:
        """Return no values."""
        return ()

    def fork(self, state: Runs, left: Slices, right: Slices) -> tuple[Runs, Runs]:
        """Leave the values on the left."""
        return state, ()

    def join(self, a: Runs, b: Runs) -> Runs:
        """Merge two orders, and add up what is in both."""
        if not a or not b:
            return a or b
        merged: list[tuple[Any, int]] = []
        for value, count in sorted((*a, *b), key=lambda run: run[0]):
            if merged and merged[-1][0] == value:
                merged[-1] = (_choose(merged[-1][0], value), merged[-1][1] + count)
            else:
                merged.append((value, count))
        return tuple(merged)

    def same(self, a: Runs, b: Runs) -> bool:
        """Compare exactly."""
        return a == b

    def add(self, state: Runs, value: Any) -> Runs:
        """Return the values with one more."""
        if value != value:  # noqa: PLR0124 - NaN, of whatever type
            raise ValueError(
                f"{type(self).__name__} needs values that have an order, got {value!r}"
            )
        place = bisect_left(state, value, key=lambda run: run[0])
        if place < len(state) and state[place][0] == value:
            known, count = state[place]
            return (*state[:place], (_choose(known, value), count + 1), *state[place + 1 :])
        return (*state[:place], (value, 1), *state[place:])


@dataclass(frozen=True)
class Quantile(Counted):
    """The value below which a share `q` of all values lie; None of nothing.

    With `interpolate`, as SQL's `quantile_cont`: the value at position (n - 1) * q, counted from 0,
    on the straight line between its neighbours, rounded once. That of integers and floats is a float,
    that of decimals a Decimal, that of fractions a Fraction. Without, as `quantile_disc`: the first
    value that has a share of at least `q` at or below it; then values need only have an order.
    `q` means what it spells: 0.1 is a tenth, not the float beside it.

    >>> quarter = Quantile(0.25)
    >>> quarter.value(((10, 1), (20, 1), (30, 1)))
    15.0
    >>> Quantile(0.25, interpolate=False).value(((10, 1), (20, 1), (30, 1)))
    10
    """

    q: float | Fraction | Decimal
    interpolate: bool = True

    def __post_init__(self) -> None:
        read_share(type(self).__name__, self.q)

    def value(self, state: Runs) -> Any:
        """Return the quantile."""
        size = sum(count for _, count in state)
        if not size:
            return None
        share = read_share(type(self).__name__, self.q)
        if not self.interpolate:
            return find_ranked(state, rank_share(share, size))
        place = (size - 1) * share
        low = find_ranked(state, math.floor(place))
        high = find_ranked(state, math.ceil(place))
        return _interpolate(low, high, place - math.floor(place))


@dataclass(frozen=True)
class Median(Quantile):
    """The value in the middle, or halfway between the two in the middle; None of nothing.

    >>> Median().value(((1, 1), (2, 2), (9, 1)))
    2.0
    """

    q: float = field(default=0.5, init=False, repr=False)


@dataclass(frozen=True)
class Mode(Counted):
    """The most frequent value, and of several such the smallest; None of nothing.

    >>> Mode().value(((1, 1), (2, 2), (9, 2)))
    2
    """

    def value(self, state: Runs) -> Any:
        """Return the mode."""
        return max(state, key=lambda run: run[1], default=(None, 0))[0]


@dataclass(frozen=True)
class Distinct(SetOf):
    """The number of distinct values; equal ones (1 and 1.0, NaN and NaN) count once.

    >>> shape = Distinct()
    >>> shape.value(shape.add(shape.add(shape.zero, "a"), "a"))
    1
    """

    def add(self, state: frozenset[Any], value: Any) -> frozenset[Any]:
        """Return the values with one more."""
        if isinstance(value, float):
            # One spelling for equal values, so that the bytes do not tell who came first.
            value = NAN if math.isnan(value) else int(value) if value.is_integer() else value
        elif isinstance(value, bool):
            value = int(value)
        return super().add(state, value)

    def value(self, state: frozenset[Any]) -> int:  # type: ignore[override]
        """Return how many there are."""
        return len(state)


def read_share(name: str, q: object) -> Fraction:
    """Return a share as the fraction that it spells, or refuse it."""
    if isinstance(q, int | float | Decimal | Fraction) and not isinstance(q, bool) and 0 <= q <= 1:
        return Fraction(str(q))
    raise ProgramError(
        f"{name} can't take this share of the values",
        expected="a number from 0 to 1, such as 0.95",
        got=repr(q),
    )


def rank_share(share: Fraction, size: int) -> int:
    """Return the place, from 0, of the first value with that share at or below it."""
    return max(1, math.ceil(share * size)) - 1


def find_ranked(runs: Iterable[tuple[Any, int]], rank: int) -> Any:
    """Return the value at a place, counted from 0, in the order of all values."""
    for value, count in runs:
        rank -= count
        if rank < 0:
            return value
    raise IndexError("there are fewer values than that")


def _choose(a: Any, b: Any) -> Any:
    """Return one of two equal values (1 and 1.0), the same whichever came first."""
    return a if type(a) is type(b) is int else min(a, b, key=repr)


def _interpolate(low: Any, high: Any, share: Fraction) -> Any:
    if any(isinstance(end, float) and math.isinf(end) for end in (low, high)):
        return float(low if share == 0 else low + high)
    exact = _to_fraction(low) + (_to_fraction(high) - _to_fraction(low)) * share
    if isinstance(low, Decimal):
        return _DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return exact if isinstance(low, Fraction) else float(exact)


def _to_fraction(value: Any) -> Fraction:
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"there is nothing halfway between values such as {value!r}; "
            "give interpolate=False for one of the values themselves"
        ) from None
