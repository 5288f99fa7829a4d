"""Hints: suggestions derived from rejected events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from anabranch.eventtime.channels import Rejected

STRANGER = "unknown channel "
"""The start of the reason for rejecting an event of an undeclared channel."""

_MOST = 3


def count_strangers(rejected: Iterable[Rejected]) -> dict[str, int]:
    """Return the number of rejected events of each undeclared channel."""
    return dict(Counter(one.item.channel for one in rejected if one.reason.startswith(STRANGER)))


def explain_strangers(counts: Mapping[str, int], declared: Iterable[str]) -> str | None:
    """Return a hint about events of undeclared channels, or None if there are none.

    >>> explain_strangers({"phone": 2}, ["phones"])
    "2 events rejected, of 1 undeclared channel: 'phone' (2). Declared: 'phones'. Add Channel('phone'), or correct the name"
    """
    if not counts:
        return None
    named = sorted(counts, key=lambda name: (-counts[name], name))
    shown = [f"{name!r} ({counts[name]:,})" for name in named[:_MOST]]
    shown += [f"{len(named) - _MOST:,} more"] if len(named) > _MOST else []
    total = sum(counts.values())
    return (
        f"{total:,} {'event' if total == 1 else 'events'} rejected, of {len(named):,} undeclared "
        f"{'channel' if len(named) == 1 else 'channels'}: {', '.join(shown)}. "
        f"Declared: {', '.join(map(repr, declared))}. "
        f"Add Channel({named[0]!r}), or correct the name"
    )
