"""Disorder: how far a channel's events lie behind its largest time, and the delay that follows.

A channel that does not know its lateness may have it estimated: the user states a confidence, and the
delay is that percentile of the disorder seen so far. It is a function of the channel's own sequence,
in integers, so what is late is the same however the channel is cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Never

from anabranch.errors import InputError
from anabranch.model.values.durations import SpanField, parse_duration

WITHIN = 10_000
"""Over how many events disorder is looked at, unless a channel says otherwise."""

_FINE = 16
"""How many buckets lie between a power of two and the next: a delay is at most 1/16 too large."""

_SHIFT = _FINE.bit_length()
_BUCKETS = (64 - _SHIFT) * _FINE + 2 * _FINE


@dataclass(frozen=True)
class Estimated:
    """A lateness that is learnt: `Channel("a", lateness=Estimated(0.99))`.

    The delay is the least that would have covered the share `confidence` of the events looked at: at
    least the last `within`, at most twice as many, or with None all of them. It is never below
    `least` nor above `most`. Until 1 / (1 - confidence) events have come there is nothing to go by;
    so long the delay is `most`, and without one the channel promises nothing.
    """

    confidence: float
    within: int | None = WITHIN
    least: SpanField[Never] = SpanField(
        "`least` of an estimated lateness", least=0, default=0, error=InputError
    )
    most: SpanField[None] = SpanField(
        "`most` of an estimated lateness",
        least=0,
        default=None,
        also=(type(None),),
        error=InputError,
    )

    def __post_init__(self) -> None:
        if type(self.confidence) is not float or not 0 < self.confidence < 1:
            raise InputError(
                "a confidence is not a share of events",
                expected="a float above 0 and below 1, such as 0.99",
                got=repr(self.confidence),
                cure="a lateness that always holds is declared, not estimated: lateness=n",
            )
        if self.most is not None and self.most < self.least:
            raise InputError(
                "the least of an estimated lateness is above its most",
                expected="least <= most",
                got=f"least={self.least}, most={self.most}",
            )
        if self.within is not None and (type(self.within) is not int or self.within < self.fewest):
            raise InputError(
                f"{self.within!r} events can't tell a confidence of {self.confidence}",
                expected=f"within={self.fewest} or more, so that one of them may be late; "
                "or None, for all that came",
                got=f"within={self.within!r}",
            )

    @property
    def share(self) -> Fraction:
        """Return the confidence as it was written: 0.99 is 99/100, not the float beside it."""
        return Fraction(repr(self.confidence))

    @property
    def fewest(self) -> int:
        """Return from how many events on there is an estimate: so many that one may be late."""
        rest = 1 - self.share
        return -(-rest.denominator // rest.numerator)


def read_lateness(text: str) -> int | Estimated:
    """Read a lateness as a user types it: a distance in time, or a share of events to wait for.

    >>> read_lateness("5"), read_lateness("99.9%")
    (5, Estimated(confidence=0.999, within=10000, least=0, most=None))
    >>> read_lateness("5 s")
    '5 s'
    """
    duration = parse_duration(text)
    if duration is not None and duration >= 0:
        return duration
    share = text.endswith("%")
    try:
        number = Fraction(text.removesuffix("%"))
    except (ValueError, ZeroDivisionError):
        number = Fraction(-1)
    if number < 0 or not (share or number.denominator == 1):
        raise InputError(
            "--lateness is not a distance in time, nor a share of events",
            expected='"5 s", or 5 in the unit of your times; or 99%, to have it estimated',
            got=repr(text),
        )
    return Estimated(float(number / 100)) if share else int(number)


Kept = tuple[tuple[int, int, int], ...]
"""A disorder as it is kept in a state: of each bucket in use, its number, and how many events lie in
it of the page before this one and of this one."""


class Disorder:
    """Counts how far events lay behind, and knows the delay that covers a share of them.

    Events are counted in pages of `within`. The delay looks at the page before this one and at this
    one, so that what is long past is forgotten; both are small, however many events there are.
    """

    def __init__(self, rule: Estimated, kept: Iterable[Iterable[int]] = ()) -> None:
        self.rule = rule
        self._share = rule.share.as_integer_ratio()
        self._fewest = rule.fewest
        self._counts = [0] * _BUCKETS
        self._page = [0] * _BUCKETS
        for bucket, before, here in kept:
            self._counts[bucket] = before + here
            self._page[bucket] = here
        self._weigh()

    def _weigh(self) -> None:
        """Count what lies in the buckets, and find the percentile from below."""
        self._total = sum(self._counts)
        self._here = sum(self._page)
        self._at = -1
        self._covered = 0
        self._find_percentile()

    def note(self, distance: int) -> None:
        """Count an event that lay so far behind the largest time before it."""
        bucket = find_bucket(distance)
        self._counts[bucket] += 1
        self._page[bucket] += 1
        self._total += 1
        self._here += 1
        if bucket <= self._at:
            self._covered += 1
        if self._here == self.rule.within:
            self._counts, self._page = self._page, [0] * _BUCKETS
            self._weigh()
        else:
            self._find_percentile()

    def _find_percentile(self) -> None:
        numerator, denominator = self._share
        wanted = -(-self._total * numerator // denominator)
        counts = self._counts
        while self._covered < wanted:
            self._at += 1
            self._covered += counts[self._at]
        while self._at > 0 and self._covered - counts[self._at] >= wanted:
            self._covered -= counts[self._at]
            self._at -= 1

    @property
    def events(self) -> int:
        """Return how many events the delay looks at."""
        return self._total

    @property
    def delay(self) -> int | None:
        """Return how far behind an event may lie; None as long as nobody can tell."""
        rule = self.rule
        if self._total < self._fewest:
            return rule.most
        found = max(rule.least, find_top(self._at))
        return found if rule.most is None else min(found, rule.most)

    def keep(self) -> Kept:
        """Return what a state has to keep of it."""
        return tuple(
            (bucket, count - self._page[bucket], self._page[bucket])
            for bucket, count in enumerate(self._counts)
            if count
        )


def find_bucket(distance: int) -> int:
    """Return the bucket of a distance: one for each up to 31, then 16 for each power of two.

    >>> [find_bucket(d) for d in (0, 31, 32, 33, 34, 64)]
    [0, 31, 32, 32, 33, 48]
    """
    if distance < 2 * _FINE:
        return distance
    shift = distance.bit_length() - _SHIFT
    return shift * _FINE + (distance >> shift)


def find_top(bucket: int) -> int:
    """Return the largest distance of a bucket, so that a delay covers all that lie in it.

    >>> [find_top(b) for b in (0, 31, 32, 33, 48)]
    [0, 31, 33, 35, 67]
    """
    if bucket < 2 * _FINE:
        return bucket
    shift = bucket // _FINE - 1
    return ((bucket % _FINE + _FINE + 1) << shift) - 1


def list_distances(times: Iterable[int]) -> list[int]:
    """Return of each time how far it lies behind the largest before it.

    >>> list_distances([5, 9, 7, 9, 3])
    [0, 0, 2, 0, 6]
    """
    distances: list[int] = []
    largest: int | None = None
    for time in times:
        largest = time if largest is None else max(largest, time)
        distances.append(largest - time)
    return distances


def find_percentile(distances: Iterable[int], share: Fraction) -> int:
    """Return the least delay that covers a share of some events, exactly.

    >>> find_percentile([0, 0, 2, 0, 6], Fraction(4, 5)), find_percentile([0, 6], Fraction(1))
    (2, 6)
    """
    ordered = sorted(distances)
    wanted = -(-len(ordered) * share.numerator // share.denominator)
    return ordered[max(wanted, 1) - 1] if ordered else 0
