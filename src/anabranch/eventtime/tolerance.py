"""Tolerance: how many events may be rejected before a run stops, and what it says then.

It is judged by the ledger, which counts everything since a query's first start. So whether it is
exceeded in the end depends on the input alone; batches only decide after which of them it shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from anabranch.errors import InputError, RejectionError
from anabranch.eventtime.ledger import Ledger

ENOUGH = 1000
"""A share is taken of so many events at least, or the first bad one of a stream would stop it."""

MOST_REASONS = 3
_EXAMPLE = 120

_VALUES = re.compile(r"\"(?:[^\"\\]|\\.)*\"|(?<=got )\S+|(?<![\w.])-?\d[\d.,_]*")


@dataclass(frozen=True)
class Tolerance:
    """How many events may be rejected: a count, or a share of all that came in."""

    count: int | None = None
    share: Fraction | None = None

    def is_exceeded(self, ledger: Ledger, *, ended: bool = False) -> bool:
        """Say whether more were rejected; of an input that has `ended` the share is exact.

        >>> Tolerance(count=2).is_exceeded(Ledger(5, 3, 0, 2))
        False
        >>> share = Tolerance(share=Fraction(1, 100))
        >>> share.is_exceeded(Ledger(5, 3, 0, 2)), share.is_exceeded(Ledger(5, 3, 0, 2), ended=True)
        (False, True)
        """
        if self.count is not None:
            return ledger.rejected > self.count
        assert self.share is not None
        base = ledger.input if ended else max(ledger.input, ENOUGH)
        return ledger.rejected > self.share * base

    def __str__(self) -> str:
        if self.count is not None:
            return f"{self.count:,}"
        assert self.share is not None
        return f"{float(self.share * 100):g}%"


class Sample(NamedTuple):
    """A rejected event: why, and what it was."""

    reason: str
    raw: str


def read_tolerance(value: float | str | Tolerance) -> Tolerance:
    """Read a count, 100 or "100", or a share, 0.01 or "1%".

    >>> str(read_tolerance("1%")), str(read_tolerance(0.001)), str(read_tolerance(20))
    ('1%', '0.1%', '20')
    """
    if isinstance(value, Tolerance):
        return value
    text = str(value).strip().replace("_", "")
    if isinstance(value, bool) or not re.fullmatch(r"\d+|\d*\.?\d+%|0?\.\d+|0\.|1\.0+", text):
        return _refuse(value)
    if text.isdecimal():
        return Tolerance(count=int(text))
    share = Fraction(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    return Tolerance(share=share) if share <= 1 else _refuse(value)


def _refuse(value: object) -> Tolerance:
    raise InputError(
        "most_rejected is neither a number of events nor a share of them",
        expected="a count such as 100, or a share such as 1% or 0.01",
        got=repr(value),
    )


def explain_excess(
    ledger: Ledger, tolerance: Tolerance, samples: Iterable[Sample], where: str, place: str
) -> RejectionError:
    """Return the error that stops a run: how many, why, an example of each, and where they are."""
    cure = (
        f"look at {place}; then mend the source and start anew, or go on without these events: "
        f"a most_rejected of more than {tolerance}"
    )
    return RejectionError(
        f"too many events are rejected: {ledger.rejected:,} of {ledger.input:,}",
        where=where,
        expected=f"at most {tolerance} (most_rejected)",
        got="\n".join(describe_reasons(samples)) or None,
        cure=cure,
    )


def describe_reasons(samples: Iterable[Sample]) -> list[str]:
    """Return the most frequent reasons, each with an example; values in them do not count.

    >>> describe_reasons([Sample("got 1 of 2", "a"), Sample("got 3 of 4", "b"), Sample("no", "c")])
    ['2 times: got 1 of 2', '            for example a', '            once: no', '            for example c']
    """
    counts: Counter[str] = Counter()
    first: dict[str, Sample] = {}
    for sample in samples:
        kind = _VALUES.sub("…", sample.reason)
        counts[kind] += 1
        first.setdefault(kind, sample)
    lines = []
    for kind, count in counts.most_common(MOST_REASONS):
        often = "once" if count == 1 else f"{count:,} times"
        lines += [f"{often}: {_cut(first[kind].reason)}", f"for example {_cut(first[kind].raw)}"]
    rest = len(counts) - MOST_REASONS
    if rest > 0:
        lines.append(f"and {rest:,} more reason{'' if rest == 1 else 's'}")
    return [line if place == 0 else f"{'':12}{line}" for place, line in enumerate(lines)]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXAMPLE else f"{line[:_EXAMPLE]}…"
