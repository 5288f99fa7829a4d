"""Exact sums, means and variances of floats, the same to the bit in any order.

Float addition rounds, so it is not associative, and a float sum breaks the fork/join laws in its
last bit. These states do not round until they are read. Every finite float is an integer multiple of
2**-1074, and its square of 2**-2148, so a Python int in those units represents a sum without error.
NaN and the infinities are counted separately. A state is thus a vector of integers, joining adds
two vectors, and the laws of `join` are those of integer addition.

`value` returns the exact result, rounded once, to the nearest float, ties to even:

- A result beyond the largest float reads as an infinity. An intermediate one does no harm:
  1e308 + 1e308 - 1e308 is 1e308.
- NaN and infinities follow IEEE 754: any NaN gives NaN, as do infinities of both signs; the
  variance of anything infinite is NaN.
- An exact zero reads as 0.0. The sign of a negative zero is not kept, so a sum of nothing but
  -0.0 reads as 0.0.
- A mean of nothing, and a variance of no more than `ddof` numbers, is None.
"""

import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

UNIT_BITS: Final = 1074
"""The smallest positive float is 2**-1074; all other floats are multiples of it."""


class SumState(NamedTuple):
    """A sum in units of 2**-1074, and the counts of non-finite numbers."""

    total: int
    nans: int
    infinities: int
    minus_infinities: int


class MeanState(NamedTuple):
    """The count and the sum of some numbers, and the counts of non-finite ones."""

    size: int
    total: int
    nans: int
    infinities: int
    minus_infinities: int


class VarianceState(NamedTuple):
    """The count, the sum, and the sum of squares in units of 2**-2148, of some numbers."""

    size: int
    total: int
    squares: int
    nans: int
    infinities: int
    minus_infinities: int


S = TypeVar("S", SumState, MeanState, VarianceState)


class _Additive(ABC, Generic[S]):
    """The fork, join and equality of shapes whose states are vectors of integers."""

    __slots__ = ()

    @property
    @abstractmethod
    def zero(self) -> S:
        """Return the state of no numbers, the identity of `join`."""

    @property
    def init(self) -> S:
        """Return the state a program starts from."""
        return self.zero

    @property
    def by(self) -> None:
        """Return None: the state has no entries by a field."""
        return None

    def fork(self, state: S, left: object, right: object) -> tuple[S, S]:
        """Return the state for the left side, and zero for the right."""
        return state, self.zero

    def join(self, a: S, b: S) -> S:
        """Return the sum of two states, component by component."""
        return type(self.zero)(*map(operator.add, a, b))

    def same(self, a: S, b: S) -> bool:
        """Return whether two states are equal."""
        return a == b


@dataclass(frozen=True, slots=True)
class ExactSum(_Additive[SumState]):
    """The sum of floats, without intermediate rounding.

    >>> total = ExactSum()
    >>> state = total.init
    >>> for x in (1e16, 1.0, -1e16):
    ...     state = total.add(state, x)
    >>> total.value(state)
    1.0
    """

    @property
    def zero(self) -> SumState:
        """Return the sum of no numbers."""
        return SumState(0, 0, 0, 0)

    def add(self, state: SumState, x: float) -> SumState:
        """Return the state with one more number, a float or an int."""
        scaled = _scale(_require_number(x))
        if scaled is None:
            return self.join(state, SumState(0, *_count_special(x)))
        total, *special = state
        return SumState(total + scaled, *special)

    def value(self, state: SumState) -> float:
        """Return the sum, correctly rounded."""
        special = _read_special(*state[1:])
        return _divide(state.total, 1, UNIT_BITS) if special is None else special


@dataclass(frozen=True, slots=True)
class ExactMean(_Additive[MeanState]):
    """The mean of floats, rounded once, when it is read."""

    @property
    def zero(self) -> MeanState:
        """Return the mean of no numbers."""
        return MeanState(0, 0, 0, 0, 0)

    def add(self, state: MeanState, x: float) -> MeanState:
        """Return the state with one more number, a float or an int."""
        scaled = _scale(_require_number(x))
        if scaled is None:
            return self.join(state, MeanState(1, 0, *_count_special(x)))
        size, total, *special = state
        return MeanState(size + 1, total + scaled, *special)

    def value(self, state: MeanState) -> float | None:
        """Return the mean, correctly rounded, or None if there are no numbers."""
        if state.size == 0:
            return None
        special = _read_special(*state[2:])
        return _divide(state.total, state.size, UNIT_BITS) if special is None else special


@dataclass(frozen=True, slots=True)
class ExactVariance(_Additive[VarianceState]):
    """The variance of floats, rounded once, when it is read.

    `ddof` is subtracted from the count in the divisor: 0 for a population, 1 for a sample.
    """

    ddof: int = 0

    def __post_init__(self) -> None:
        if type(self.ddof) is not int or self.ddof < 0:
            raise ValueError(f"ExactVariance: ddof must be an int of 0 or more, got {self.ddof!r}")

    @property
    def zero(self) -> VarianceState:
        """Return the variance of no numbers."""
        return VarianceState(0, 0, 0, 0, 0, 0)

    def add(self, state: VarianceState, x: float) -> VarianceState:
        """Return the state with one more number, a float or an int."""
        scaled = _scale(_require_number(x))
        if scaled is None:
            return self.join(state, VarianceState(1, 0, 0, *_count_special(x)))
        size, total, squares, *special = state
        return VarianceState(size + 1, total + scaled, squares + scaled * scaled, *special)

    def value(self, state: VarianceState) -> float | None:
        """Return the variance, correctly rounded, or None for `ddof` numbers or fewer."""
        size, total, squares, *special = state
        freedom = size - self.ddof
        if freedom <= 0:
            return None
        if any(special):
            return math.nan
        return _divide(size * squares - total * total, size * freedom, 2 * UNIT_BITS)


def _require_number(x: float) -> float:
    """Return a float or int unchanged; raise on any other type, including bool."""
    if type(x) is float or type(x) is int:
        return x
    if isinstance(x, bool) or not isinstance(x, float | int):
        raise TypeError(
            f"an exact accumulator takes floats and ints, got {type(x).__name__} {x!r}; "
            "convert it with float() or int()"
        )
    return x


def _scale(x: float) -> int | None:
    """Return a number in units of 2**-1074, or None if it is NaN or infinite."""
    # frexp is about a tenth faster here, but needs a case for subnormals and cannot read large
    # ints; reading the bits with struct is slower.
    try:
        numerator, denominator = x.as_integer_ratio()
    except (OverflowError, ValueError):
        return None
    return numerator << (UNIT_BITS + 1 - denominator.bit_length())


def _count_special(x: float) -> tuple[int, int, int]:
    """Return the counts (NaN, infinity, minus infinity) of one non-finite number."""
    return int(math.isnan(x)), int(x == math.inf), int(x == -math.inf)


def _read_special(nans: int, infinities: int, minus_infinities: int) -> float | None:
    """Return the sum of non-finite numbers, or None if there are none."""
    if nans or (infinities and minus_infinities):
        return math.nan
    if infinities:
        return math.inf
    return -math.inf if minus_infinities else None


def _divide(numerator: int, denominator: int, unit_bits: int) -> float:
    """Return numerator / (denominator * 2**unit_bits), rounded once; infinity on overflow."""
    try:
        return numerator / (denominator << unit_bits)
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
