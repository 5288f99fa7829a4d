"""Held back: which channels hold back the program's watermark, by how much, and why.

The program's watermark is the least of its channels'. This module has the status of a channel, which
every runtime can provide, and its descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from anabranch.eventtime.channels import NEVER, Channel
from anabranch.eventtime.disorder import Estimated
from anabranch.model.events import FOREVER
from anabranch.model.values.durations import Duration
from anabranch.model.values.event_times import to_moment

MOST_NAMES = 5
"""The maximum number of channels that a metric names."""


class ChannelStatus(NamedTuple):
    """The status of a channel.

    `rule` describes how its watermark moves, and `delay` is the current distance from its largest time.
    `waived` is the watermark up to which the others have continued without it, and `silence_ms` the time
    without items by the query's clock. `active_in` is the last batch with items of it. `joined` is the
    watermark at which it joined a running program, and `joined_in` the first batch with it.
    """

    watermark: int
    largest: int | None = None
    last: int | None = None
    rule: str = "in order"
    delay: int | None = None
    silence_ms: int = 0
    waived: int | None = None
    idle: bool = False
    active_in: int | None = None
    joined: int | None = None
    joined_in: int | None = None

    def describe(self) -> dict[str, Any]:
        """Return all fields except the watermark, as JSON values."""
        return {name: value for name, value in self._asdict().items() if name != "watermark"}


def describe_rule(channel: Channel) -> str:
    """Return the description of how a channel's watermark moves.

    >>> describe_rule(Channel("a", lateness=5)), describe_rule(Channel("a", lateness=Estimated(0.999)))
    ('lateness 5', 'estimated for 99.9%')
    """
    lateness = channel.lateness
    if isinstance(lateness, Estimated):
        return f"estimated for {name_share(lateness.confidence)}"
    if lateness is None:
        return "only heartbeats"
    if lateness:
        return f"lateness {lateness}"
    if channel.in_arrival_order:
        return "arrival order"
    return "in order, unique times" if channel.unique_times else "in order"


def name_share(share: float) -> str:
    """Return a share as a percentage, with all of its digits.

    >>> name_share(0.5), name_share(0.9999999)
    ('50%', '99.99999%')
    """
    text = format(Decimal(repr(share)) * 100, "f")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def name_time(time: int, *, moments: bool = False) -> int | str:
    """Return a watermark for display; with `moments`, times are microseconds UTC.

    >>> name_time(1_000_000), name_time(1_000_000, moments=True), name_time(FOREVER)
    (1000000, '1970-01-01T00:00:01+00:00', 'ended')
    """
    shown = to_moment(time).isoformat() if moments else time
    return {FOREVER: "ended", NEVER: "none yet"}.get(time, shown)


def name_span(span: int | None, *, moments: bool = False) -> str:
    """Return a span of time as a person would call it; with `moments`, it is microseconds.

    >>> name_span(90_000_000), name_span(90_000_000, moments=True)
    ('90000000', '1 min 30 s')
    """
    return str(Duration(span) if moments and span is not None else span)


def find_holders(program: int, statuses: Mapping[str, ChannelStatus]) -> list[str]:
    """Return the channels that are not ahead of the program's watermark.

    An idle channel does not hold back others, so idle channels are returned only if there are no others.
    """
    slow = [name for name, status in sorted(statuses.items()) if status.watermark <= program]
    return [name for name in slow if not statuses[name].idle] or slow


def name_holders(program: int, statuses: Mapping[str, ChannelStatus]) -> str:
    """Return the names of the first channels that hold back others; empty if no channel is ahead.

    >>> name_holders(4, {"a": ChannelStatus(4), "b": ChannelStatus(4), "c": ChannelStatus(5)})
    'a, b'
    >>> name_holders(4, {"a": ChannelStatus(4)})
    ''
    """
    holders = find_holders(program, statuses)
    if program == FOREVER or not statuses.keys() - set(holders):
        return ""
    more = len(holders) - MOST_NAMES
    return ", ".join(holders[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def measure_hold(statuses: Mapping[str, ChannelStatus], holders: list[str]) -> int | None:
    """Return how far the next channel is ahead of those that hold it back; None if that is unknown."""
    held = [s.watermark for name, s in statuses.items() if name not in holders and not s.idle]
    least = min((statuses[name].watermark for name in holders), default=NEVER)
    ahead = min((watermark for watermark in held if watermark < FOREVER), default=None)
    return None if ahead is None or least == NEVER else ahead - least


def explain_hold(status: ChannelStatus, batch: int | None = None) -> str:
    """Return why a channel's watermark is where it is.

    >>> explain_hold(ChannelStatus(4, 9, 7, "lateness 4", 4)), explain_hold(ChannelStatus(4, 5, active_in=2), batch=7)
    ('lateness 4', 'silent since batch 2')
    """
    if status.watermark == NEVER and status.largest is None:
        return "no events yet"
    if status.largest is None and status.watermark == status.joined:
        return "no events since it joined"
    if status.idle:
        return "idle"
    if batch is not None and status.active_in is not None and status.active_in < batch:
        return f"silent since batch {status.active_in}"
    if status.rule.startswith("estimated"):
        now = "too few events yet" if status.delay is None else f"{status.delay} now"
        return f"{status.rule}: {now}"
    return status.rule


def describe_joining(status: ChannelStatus) -> str:
    """Return when a channel joined a running program; empty if it took part from the start.

    >>> describe_joining(ChannelStatus(9, joined=4, joined_in=7)), describe_joining(ChannelStatus(9, joined=NEVER))
    ('joined at 4 in batch 7', 'joined before any watermark')
    """
    if status.joined is None:
        return ""
    at = "before any watermark" if status.joined == NEVER else f"at {name_time(status.joined)}"
    return f"joined {at}" + ("" if status.joined_in is None else f" in batch {status.joined_in}")
