"""States that need all values: median, quantile, mode, number of distinct values.

No summary of bounded size gives these exactly, so the state grows with the number of distinct
values. For a state of bounded size use a sketch (`anabranch.state.sketches`).
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
"""Distinct values in order, each with its count."""

NAN = ("@nan",)
"""The representation of NaN in a set: NaN is not equal to itself, and would be counted each time."""

_DIGITS = Context(prec=28)


class Counted:
    """The count of each value, in the order of the values."""

    by = None

    @property
    def init(self) -> Runs:
        """Return the empty tuple."""
        return ()

    @property
    def zero(self) -> Runs:
        """Return the empty tuple."""
        return ()

    def fork(self, state: Runs, left: Slices, right: Slices) -> tuple[Runs, Runs]:
        """Return the values for the left side, and none for the right."""
        return state, ()

    def join(self, a: Runs, b: Runs) -> Runs:
        """Return the values of both in order, with the sums of their counts."""
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
        """Return whether two states are equal."""
        return a == b

    def add(self, state: Runs, value: Any) -> Runs:
        """Return the values with one added."""
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
    """The value below which a share `q` of all values are; None if there are none.

    With `interpolate=True`, as SQL's `quantile_cont`: the value at position (n - 1) * q, counted from 0,
    interpolated linearly and rounded once. For integers and floats it is a float, for decimals a Decimal,
    for fractions a Fraction. With `interpolate=False`, as `quantile_disc`: the first value with a share of
    at least `q` at or below it; then values need only have an order. `q` is read by its decimal digits:
    0.1 is exactly a tenth.

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
    """The middle value, or the mean of the two middle values; None if there are none.

    >>> Median().value(((1, 1), (2, 2), (9, 1)))
    2.0
    """

    q: float = field(default=0.5, init=False, repr=False)


@dataclass(frozen=True)
class Mode(Counted):
    """The most frequent value, the smallest of several such; None if there are none.

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
        """Return the values with one added."""
        if isinstance(value, float):
            # One representation for equal values, so that the bytes do not depend on the order.
            value = NAN if math.isnan(value) else int(value) if value.is_integer() else value
        elif isinstance(value, bool):
            value = int(value)
        return super().add(state, value)

    def value(self, state: frozenset[Any]) -> int:  # type: ignore[override]
        """Return the number of distinct values."""
        return len(state)


def read_share(name: str, q: object) -> Fraction:
    """Return a share as the exact fraction of its digits; raise if it is not from 0 to 1."""
    if isinstance(q, int | float | Decimal | Fraction) and not isinstance(q, bool) and 0 <= q <= 1:
        return Fraction(str(q))
    raise ProgramError(
        f"the share of {name} is not valid",
        expected="a number from 0 to 1, such as 0.95",
        got=repr(q),
    )


def rank_share(share: Fraction, size: int) -> int:
    """Return the index of the first value with that share at or below it."""
    return max(1, math.ceil(share * size)) - 1


def find_ranked(runs: Iterable[tuple[Any, int]], rank: int) -> Any:
    """Return the value at an index in the order of all values."""
    for value, count in runs:
        rank -= count
        if rank < 0:
            return value
    raise IndexError("there are fewer values than that")


def _choose(a: Any, b: Any) -> Any:
    """Return one of two equal values (1 and 1.0), independent of their order."""
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
            f"values such as {value!r} can't be interpolated; "
            "give interpolate=False to get one of the values"
        ) from None
