"""States of one number: count, sum, minimum, maximum."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

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
    def zero(self) -> None:
        """Return the maximum of nothing."""
        return

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


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)
