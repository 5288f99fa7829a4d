"""Sketches: approximate results from a state of bounded size.

All laws hold exactly: the state is a function of the set, or the counts, of the added values. So a sketch
is the same to the bit in any order and on any plan; only its result is approximate. The error bounds are
in the docstrings.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from anabranch.errors import ProgramError
from anabranch.model.slices import Slices
from anabranch.model.values.hashing import hash_widely
from anabranch.state.holistic import Counted, Runs, find_ranked, rank_share, read_share

_HASHES = 1 << 63

Smallest = tuple[int, ...]


@dataclass(frozen=True)
class ApproxDistinct:
    """The approximate number of distinct values, from the `k` smallest of their hashes.

    Below `k` distinct values the number is exact. Above, its relative standard error is 1 / sqrt(k - 2):
    about 3.1 % for k=1024; 99.7 % of all results are within three times that. The state is at most `k`
    numbers of 63 bits. Equal values (1 and 1.0) count once.

    >>> about = ApproxDistinct(k=3)
    >>> state = about.zero
    >>> for name in ("ann", "bob", "ann"):
    ...     state = about.add(state, name)
    >>> about.value(state)
    2
    """

    k: int = 1024
    _: KW_ONLY
    by: None = None

    def __post_init__(self) -> None:
        if type(self.k) is not int or self.k < 3:
            raise ProgramError(
                "the k of ApproxDistinct is too small",
                expected="k of 3 or more; 1024 has an error of 3 %",
                got=repr(self.k),
            )

    @property
    def init(self) -> Smallest:
        """Return the empty tuple."""
        return ()

    zero = init

    def fork(self, state: Smallest, left: Slices, right: Slices) -> tuple[Smallest, Smallest]:
        """Return the hashes for the left side, and none for the right."""
        return state, ()

    def join(self, a: Smallest, b: Smallest) -> Smallest:
        """Return the `k` smallest hashes of both."""
        return tuple(sorted({*a, *b})[: self.k])

    def same(self, a: Smallest, b: Smallest) -> bool:
        """Return whether two states are equal."""
        return a == b

    def add(self, state: Smallest, value: Any) -> Smallest:
        """Return the hashes with that of a value added, if it is among the smallest."""
        hashed = hash_widely(value)
        if len(state) == self.k and hashed >= state[-1]:
            return state
        place = bisect_left(state, hashed)
        if place < len(state) and state[place] == hashed:
            return state
        return (*state[:place], hashed, *state[place:])[: self.k]

    def value(self, state: Smallest) -> int:
        """Return the number of distinct values, exact below `k`, else estimated."""
        if len(state) < self.k:
            return len(state)
        # The share of the range that k hashes fill gives the number that fills the whole range.
        return round(Fraction((self.k - 1) * _HASHES, state[-1] + 1))


@dataclass(frozen=True)
class ApproxQuantile(Counted):
    """The approximate value below which a share `q` of all values are; None if there are none.

    The result differs from that of `Quantile(q, interpolate=False)` by at most `accuracy` times its
    absolute value: with 0.01, 99 to 101 for 100. This bound always holds, except for numbers below 1e-300.
    Values are counted in buckets, a fixed number for each power of two (50 for 0.01), so numbers from a
    thousandth to a billion need at most 2,000 buckets. Negative numbers have their own buckets; zero and
    the infinities are exact.

    >>> nearly = ApproxQuantile(0.5)
    >>> state = nearly.zero
    >>> for x in (90, 100, 1000):
    ...     state = nearly.add(state, x)
    >>> round(nearly.value(state))
    100
    """

    q: float | Fraction | Decimal
    accuracy: float = 0.01

    def __post_init__(self) -> None:
        read_share("ApproxQuantile", self.q)
        if not isinstance(self.accuracy, float | Fraction) or not 1e-6 <= self.accuracy < 1:
            raise ProgramError(
                "the accuracy of ApproxQuantile is not valid",
                expected="accuracy of 0.000001 or more, and below 1, such as 0.01",
                got=repr(self.accuracy),
                cure="for the exact value use Quantile(q)",
            )

    @cached_property
    def buckets(self) -> int:
        """Return the number of buckets for each power of two.

        They are equally wide, so the first has the largest relative width: from 1 to 1 + 1/n. Its
        harmonic mean differs from either end by a share of 1 / (2 n + 1).
        """
        return max(1, math.ceil((1 / Fraction(str(self.accuracy)) - 1) / 2))

    def add(self, state: Runs, value: Any) -> Runs:
        """Return the counts with a number added."""
        return super().add(state, self.find_bucket(float(value)))

    def value(self, state: Runs) -> float | None:
        """Return the middle of the bucket of the quantile."""
        size = sum(count for _, count in state)
        if not size:
            return None
        rank = rank_share(read_share("ApproxQuantile", self.q), size)
        return self.read_bucket(find_ranked(state, rank))

    def find_bucket(self, x: float) -> int:
        """Return the number of the bucket of `x`: larger for larger numbers, 0 for zero."""
        if math.isnan(x):
            raise ValueError("ApproxQuantile needs numbers that have an order, got nan")
        if x == 0:
            return 0
        # Only exact operations: a logarithm may round differently on another machine.
        mantissa, exponent = math.frexp(abs(x)) if math.isfinite(x) else (0.5, _BEYOND)
        part = int((2 * mantissa - 1) * self.buckets)
        bucket = (exponent + _BEYOND) * self.buckets + part + 1
        return bucket if x > 0 else -bucket

    def read_bucket(self, bucket: int) -> float:
        """Return the middle of a bucket."""
        if bucket == 0:
            return 0.0
        exponent, part = divmod(abs(bucket) - 1, self.buckets)
        exponent -= _BEYOND
        low, high = 1 + part / self.buckets, 1 + (part + 1) / self.buckets
        middle = 2 * low * high / (low + high)
        size = math.inf if exponent == _BEYOND else math.ldexp(middle, exponent - 1)
        return math.copysign(size, bucket)


_BEYOND = 1100
"""More than the exponent of any float: frexp returns -1073 to 1024."""
