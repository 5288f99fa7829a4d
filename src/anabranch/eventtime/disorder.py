"""Disorder: how far a channel's events are behind its largest time, and the estimated lateness.

The lateness of a channel may be estimated: the user gives a confidence, and the delay is that percentile
of the disorder seen so far. It is computed in integers from the channel's own sequence, so which events
are late does not depend on how the channel is split into batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Never

from anabranch.errors import InputError
from anabranch.model.values.durations import SpanField, parse_duration

WITHIN = 10_000
"""The default number of events over which disorder is measured."""

_FINE = 16
"""The number of buckets between a power of two and the next: a delay is at most 1/16 too large."""

_SHIFT = _FINE.bit_length()
_BUCKETS = (64 - _SHIFT) * _FINE + 2 * _FINE


@dataclass(frozen=True)
class Estimated:
    """An estimated lateness: `Channel("a", lateness=Estimated(0.99))`.

    The delay is the least that would have covered the share `confidence` of the last events: at least
    the last `within`, at most twice as many, or with None all events. It is never below `least` nor above
    `most`. The estimate needs 1 / (1 - confidence) events; until then the delay is `most`, and without
    `most` the channel has no watermark.
    """

    confidence: float
    _: KW_ONLY
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
                cure="for a lateness that always holds, give lateness=n instead of an estimate",
            )
        if self.most is not None and self.most < self.least:
            raise InputError(
                "the least of an estimated lateness is above its most",
                expected="least <= most",
                got=f"least={self.least}, most={self.most}",
            )
        if self.within is not None and (type(self.within) is not int or self.within < self.fewest):
            raise InputError(
                f"{self.within!r} events are too few for a confidence of {self.confidence}",
                expected=f"within={self.fewest} or more, so that one of them may be late; "
                "or None, for all events",
                got=f"within={self.within!r}",
            )

    @property
    def share(self) -> Fraction:
        """Return the confidence as an exact fraction of its decimal digits: 0.99 is 99/100."""
        return Fraction(repr(self.confidence))

    @property
    def fewest(self) -> int:
        """Return the number of events that an estimate needs, of which one may be late."""
        rest = 1 - self.share
        return -(-rest.denominator // rest.numerator)


def read_lateness(text: str) -> int | Estimated:
    """Return the lateness in a text: a span of time, or a share of events to estimate it from.

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
"""A stored disorder: for each bucket in use, its number, and its events in the previous page and in
the current one."""


class Disorder:
    """A histogram of how far events were behind, and the delay that covers a share of them.

    Events are counted in pages of `within`. The delay is computed from the previous and the current page,
    so that old events are forgotten; the size does not depend on the number of events.
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
        """Compute the totals of the buckets, and the percentile."""
        self._total = sum(self._counts)
        self._here = sum(self._page)
        self._at = -1
        self._covered = 0
        self._find_percentile()

    def note(self, distance: int) -> None:
        """Count an event at this distance behind the largest time before it."""
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
        """Return the number of events that the delay is computed from."""
        return self._total

    @property
    def delay(self) -> int | None:
        """Return how far behind an event may be; None until there are enough events."""
        rule = self.rule
        if self._total < self._fewest:
            return rule.most
        found = max(rule.least, find_top(self._at))
        return found if rule.most is None else min(found, rule.most)

    def keep(self) -> Kept:
        """Return the disorder in its stored form."""
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
    """Return the largest distance of a bucket, so that a delay covers all events in it.

    >>> [find_top(b) for b in (0, 31, 32, 33, 48)]
    [0, 31, 33, 35, 67]
    """
    if bucket < 2 * _FINE:
        return bucket
    shift = bucket // _FINE - 1
    return ((bucket % _FINE + _FINE + 1) << shift) - 1


def list_distances(times: Iterable[int]) -> list[int]:
    """Return for each time how far it is behind the largest before it.

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
