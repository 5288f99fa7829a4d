"""Tolerance: how many events may be rejected before a run stops, and the error that stops it.

The check uses the ledger, which counts all events since a query's first start. So whether the tolerance is
exceeded in the end depends on the input alone; batches determine only when the run stops.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from anabranch.errors import InputError, RejectionError
from anabranch.eventtime.ledger import Ledger
from anabranch.model.failures import was_raised

ENOUGH = 1000
"""The minimum number of events that a share refers to, or the first rejected event would stop a stream."""

MOST_REASONS = 3
_EXAMPLE = 120

VALUES = (
    r"\"(?:[^\"\\]|\\.)*\"|(?<=: )'(?:[^'\\]|\\.)*'|"
    r"(?<=got )\S+|(?<![\w.])(?<!\.py:)-?\d[\d.,_]*"
)
"""A pattern of the values in a reason: texts and numbers, except line numbers. Java uses it too."""

_VALUES = re.compile(VALUES)


@dataclass(frozen=True)
class Tolerance:
    """The number of events that may be rejected: a count, or a share of all input events."""

    count: int | None = None
    share: Fraction | None = None

    def is_exceeded(self, ledger: Ledger, *, ended: bool = False) -> bool:
        """Return whether more events were rejected; for an input that has `ended` the share is exact.

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
    """A rejected event: the reason, the raw input, and the number of events with the same kind of reason."""

    reason: str
    raw: str
    times: int = 1
    event_type: str | None = None


def read_tolerance(value: float | str | Tolerance) -> Tolerance:
    """Return the tolerance for a count, 100 or "100", or a share, 0.01 or "1%".

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
    """Return the error that stops a run: the counts, the reasons with examples, and the place of the rejected rows."""
    cure = (
        f"look at {place}; then correct the input and start again, or continue without these events: "
        f"set most_rejected to more than {tolerance}"
    )
    return RejectionError(
        f"too many events are rejected: {ledger.rejected:,} of {ledger.input:,}",
        where=where,
        expected=f"at most {tolerance} (most_rejected)",
        got="\n".join(describe_reasons(samples)) or None,
        cure=cure,
    )


def explain_raising(
    counts: Mapping[str, int], samples: Iterable[Sample], where: str, cure: str
) -> RejectionError:
    """Return the error that ends a run in which the program's functions raised on all events of a type.

    `counts` has these event types, each with the number of events on which a function raised.
    """
    names = " and ".join(f"every {event_type}" for event_type in counts)
    many = " and ".join(f"{count:,} {event_type}" for event_type, count in counts.items())
    mine = [s for s in samples if s.event_type in counts and was_raised(s.reason, s.event_type)]
    return RejectionError(
        f"{names} is rejected, because a function of the program raises: {many}",
        where=where,
        expected="update and output functions that return on at least one event",
        got="\n".join(describe_reasons(mine)) or None,
        cure=cure,
    )


def find_raising(raised: Mapping[str, int], processed: Mapping[str, int]) -> dict[str, int]:
    """Return the event types without processed events because functions raised, with counts.

    >>> find_raising({"Txn": 3, "Read": 1}, {"Read": 5})
    {'Txn': 3}
    """
    return {
        event_type: n
        for event_type, n in raised.items()
        if n > 0 and processed.get(event_type, 0) <= 0
    }


def count_reasons(samples: Iterable[Sample]) -> list[Sample]:
    """Return the first sample of each kind of reason with its count, most frequent first.

    Reasons are of the same kind if they differ only in values.

    >>> found = count_reasons([Sample("no", "a"), Sample("got 1", "b"), Sample("got 2", "c")])
    >>> [(one.reason, one.times) for one in found]
    [('got 1', 2), ('no', 1)]
    """
    counts: Counter[str] = Counter()
    first: dict[str, Sample] = {}
    for sample in samples:
        kind = abstract(sample.reason)
        counts[kind] += sample.times
        first.setdefault(kind, sample)
    return [first[kind]._replace(times=count) for kind, count in counts.most_common()]


def abstract(reason: str) -> str:
    """Return a reason without its values; the user's file and line are kept.

    >>> abstract("on Txn: KeyError: 'a-17' (app.py:12)")
    'on Txn: KeyError: … (app.py:12)'
    """
    return _VALUES.sub("…", reason)


def describe_reasons(samples: Iterable[Sample]) -> list[str]:
    """Return lines with the most frequent kinds of reasons, each with an example.

    >>> describe_reasons([Sample("got 1 of 2", "a"), Sample("got 3 of 4", "b"), Sample("no", "c")])
    ['2 times: got 1 of 2', '            for example a', '            once: no', '            for example c']
    """
    counted = count_reasons(samples)
    lines = []
    for one in counted[:MOST_REASONS]:
        often = "once" if one.times == 1 else f"{one.times:,} times"
        lines += [f"{often}: {_cut(one.reason)}", f"for example {_cut(one.raw)}"]
    rest = len(counted) - MOST_REASONS
    if rest > 0:
        lines.append(f"and {rest:,} more reason{'' if rest == 1 else 's'}")
    return [line if place == 0 else f"{'':12}{line}" for place, line in enumerate(lines)]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXAMPLE else f"{line[:_EXAMPLE]}…"
