"""States of one number: count, sum, minimum, maximum, mean."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from math import isnan
from typing import Any, NamedTuple

from anabranch.model.slices import Slices


@dataclass(frozen=True)
class Sum:
    """A sum of integers, decimals or fractions.

    Float addition is not associative: for floats use `ExactSum`, or give the program `lanes=`.

    >>> Sum().add(3, 4)
    7
    """

    start: Any = 0
    _: KW_ONLY
    by: None = None

    @property
    def init(self) -> Any:
        """Return the start value."""
        return self.start

    @property
    def zero(self) -> Any:
        """Return 0, in the type of the start value."""
        return type(self.start)(0)

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        """Return the total for the left side, and zero for the right."""
        return state, self.zero

    def join(self, a: Any, b: Any) -> Any:
        """Return the sum of two totals."""
        return a + b

    def same(self, a: Any, b: Any) -> bool:
        """Return whether two states are equal."""
        return bool(a == b)

    def add(self, state: Any, amount: Any) -> Any:
        """Return the total with an amount added."""
        return state + amount

    def value(self, state: Any) -> Any:
        """Return the total."""
        return state


@dataclass(frozen=True)
class Count(Sum):
    """A count of events.

    >>> Count().add(3)
    4
    """

    start: int = 0

    def add(self, state: int, amount: int = 1) -> int:
        """Return the count increased by one, or by `amount`."""
        return state + amount


@dataclass(frozen=True)
class Max:
    """The largest value; None if there is none.

    With a `start` it is never less: deltas start there too. A marker that sets a value below the start breaks
    the law `join_has_identity`; leave out the start in such a program.

    >>> Max().add(None, 3), Max().join(3, 5)
    (3, 5)
    """

    start: Any = None
    _: KW_ONLY
    by: None = None

    @property
    def init(self) -> Any:
        """Return the start value."""
        return self.start

    @property
    def zero(self) -> Any:
        """Return the start value: it is the identity of the join, as no value is below it."""
        return self.start

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        """Return the value for both sides: the maximum of a value with itself is the value."""
        return state, state

    def join(self, a: Any, b: Any) -> Any:
        """Return the larger value, or NaN if either is NaN, so that the order does not matter."""
        if a is None or b is None:
            return b if a is None else a
        if _is_nan(a) or _is_nan(b):
            return a if _is_nan(a) else b
        return self._choose(a, b)

    def _choose(self, a: Any, b: Any) -> Any:
        return max(a, b)

    def same(self, a: Any, b: Any) -> bool:
        """Return whether two states are equal; NaN equals NaN."""
        return bool(a == b) or (_is_nan(a) and _is_nan(b))

    def add(self, state: Any, value: Any) -> Any:
        """Return the maximum after adding a value."""
        return self.join(state, value)

    def value(self, state: Any) -> Any:
        """Return the value."""
        return state


@dataclass(frozen=True)
class Min(Max):
    """The smallest value; None if there is none.

    >>> Min().join(3, 5)
    3
    """

    def _choose(self, a: Any, b: Any) -> Any:
        return min(a, b)


class Average(NamedTuple):
    """The count and the sum of some numbers."""

    size: int
    total: Any


_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation])
"""Decimal arithmetic without rounding: for sums only, as a quotient may have infinitely many digits."""

_QUOTIENT = Context(prec=28)
"""Python's default precision, independent of the context of the current thread."""


@dataclass(frozen=True)
class Mean:
    """The mean of integers, decimals or fractions; None if there are none.

    The sum is exact, and the mean is rounded once when it is read: the mean of integers is a float, that of
    decimals a Decimal of 28 digits, that of fractions a Fraction. For floats use `ExactMean`.

    >>> mean = Mean()
    >>> mean.value(mean.join(mean.add(mean.zero, 3), mean.add(mean.zero, 4)))
    3.5
    """

    by: None = None

    @property
    def init(self) -> Average:
        """Return the state without numbers."""
        return Average(0, 0)

    zero = init

    def fork(self, state: Average, left: Slices, right: Slices) -> tuple[Average, Average]:
        """Return the numbers for the left side, and zero for the right."""
        return state, self.zero

    def join(self, a: Average, b: Average) -> Average:
        """Return the sums of sizes and totals."""
        return Average(a.size + b.size, _add_exactly(a.total, b.total))

    def same(self, a: Average, b: Average) -> bool:
        """Return whether two states are equal."""
        return a == b

    def add(self, state: Average, number: Any) -> Average:
        """Return the state with a number added."""
        if isinstance(number, float):
            raise TypeError(
                f"a Mean of floats would depend on their order, got {number!r}; use ExactMean"
            )
        if isinstance(number, Decimal) and not number.is_finite():
            raise ValueError(f"a Mean takes finite numbers, got {number!r}")
        return Average(state.size + 1, _add_exactly(state.total, number))

    def value(self, state: Average) -> Any:
        """Return the mean, or None if there are no numbers."""
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
