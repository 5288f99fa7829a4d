"""States of one number: count, sum, minimum, maximum, mean."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from math import isnan
from typing import Any, NamedTuple

from anabranch.model.slices import Slices


@dataclass(frozen=True)
class Sum:
    """A running total of integers, decimals or fractions.

    Float addition is not associative: for floats use `ExactSum`, or give the program `lanes=`.

    >>> Sum().add(3, 4)
    7
    """

    start: Any = 0
    by: None = None

    @property
    def init(self) -> Any:
        """Return what the total starts from."""
        return self.start

    @property
    def zero(self) -> Any:
        """Return the empty total, of the same type as the start."""
        return type(self.start)(0)

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        """Leave the total on the left; the right starts a total of its own."""
        return state, self.zero

    def join(self, a: Any, b: Any) -> Any:
        """Add two totals."""
        return a + b

    def same(self, a: Any, b: Any) -> bool:
        """Compare exactly."""
        return bool(a == b)

    def add(self, state: Any, amount: Any) -> Any:
        """Return the total with one amount more."""
        return state + amount

    def value(self, state: Any) -> Any:
        """Return the total."""
        return state


@dataclass(frozen=True)
class Count(Sum):
    """A number of events.

    >>> Count().add(3)
    4
    """

    start: int = 0

    def add(self, state: int, amount: int = 1) -> int:
        """Return the count with one more."""
        return state + amount


@dataclass(frozen=True)
class Max:
    """The largest value so far; None before there is one.

    With a `start` it is never less: what leaves fold apart begins there too. A marker that sets a value on
    the wrong side of the start breaks `join_has_identity`; leave the start out for such a program.

    >>> Max().add(None, 3), Max().join(3, 5)
    (3, 5)
    """

    start: Any = None
    by: None = None

    @property
    def init(self) -> Any:
        """Return the value to begin with."""
        return self.start

    @property
    def zero(self) -> Any:
        """Return the start: no value is on its wrong side, so to join it changes none."""
        return self.start

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        """Give both sides the value: the maximum of a value with itself is the value."""
        return state, state

    def join(self, a: Any, b: Any) -> Any:
        """Return the larger; a NaN wins, on whichever side it is, or order would show."""
        if a is None or b is None:
            return b if a is None else a
        if _is_nan(a) or _is_nan(b):
            return a if _is_nan(a) else b
        return self._choose(a, b)

    def _choose(self, a: Any, b: Any) -> Any:
        return max(a, b)

    def same(self, a: Any, b: Any) -> bool:
        """Compare exactly; NaN is the same as NaN."""
        return bool(a == b) or (_is_nan(a) and _is_nan(b))

    def add(self, state: Any, value: Any) -> Any:
        """Return the maximum with one value more."""
        return self.join(state, value)

    def value(self, state: Any) -> Any:
        """Return the value."""
        return state


@dataclass(frozen=True)
class Min(Max):
    """The smallest value so far; None before there is one.

    >>> Min().join(3, 5)
    3
    """

    def _choose(self, a: Any, b: Any) -> Any:
        return min(a, b)


class Average(NamedTuple):
    """How many numbers there were, and their sum."""

    size: int
    total: Any


_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation])
"""Decimal arithmetic that does not round: sums only, for a quotient could go on for ever."""

_QUOTIENT = Context(prec=28)
"""Python's own precision, but not the one that somebody may have set in this thread."""


@dataclass(frozen=True)
class Mean:
    """The mean of integers, decimals or fractions; None of nothing.

    The sum is exact, and rounded once when it is read: the mean of integers is a float, that of
    decimals a Decimal of 28 digits, that of fractions a Fraction. For floats there is `ExactMean`.

    >>> mean = Mean()
    >>> mean.value(mean.join(mean.add(mean.zero, 3), mean.add(mean.zero, 4)))
    3.5
    """

    by: None = None

    @property
    def init(self) -> Average:
        """Return the mean of nothing."""
        return Average(0, 0)

    zero = init

    def fork(self, state: Average, left: Slices, right: Slices) -> tuple[Average, Average]:
        """Leave the numbers on the left."""
        return state, self.zero

    def join(self, a: Average, b: Average) -> Average:
        """Add sizes and totals."""
        return Average(a.size + b.size, _add_exactly(a.total, b.total))

    def same(self, a: Average, b: Average) -> bool:
        """Compare exactly."""
        return a == b

    def add(self, state: Average, number: Any) -> Average:
        """Return the mean with one number more."""
        if isinstance(number, float):
            raise TypeError(
                f"a Mean would round floats as they come, got {number!r}; use ExactMean"
            )
        if isinstance(number, Decimal) and not number.is_finite():
            raise ValueError(f"a Mean takes finite numbers, got {number!r}")
        return Average(state.size + 1, _add_exactly(state.total, number))

    def value(self, state: Average) -> Any:
        """Return the mean, in the kind of its numbers."""
        if not state.size:
            return None
        if isinstance(state.total, Decimal):
            return _QUOTIENT.divide(state.total, state.size)
        return state.total / state.size


def _add_exactly(a: Any, b: Any) -> Any:
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return _EXACT.add(a, b)
    return a + b


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)
