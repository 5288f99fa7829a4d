"""Who holds the program's watermark back, by how much, and why.

The program has come as far as the slowest of its channels. Here is what is known of each, as any
runtime can tell it, and the words for it.
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
"""How many of the channels that hold others back are named in a metric."""


class ChannelStatus(NamedTuple):
    """What is known of a channel's time.

    `rule` is what moves its watermark, in words, and `delay` how far that stays behind the largest time
    now. `waived` is how far the others have gone on without it, and `silence_ms` for how long it has
    been silent by the query's clock. `heard` is the batch in which it was heard last. `joined` is the
    watermark at which it joined a program that was under way, and `joined_in` the first batch with it.
    """

    watermark: int
    largest: int | None = None
    last: int | None = None
    rule: str = "in order"
    delay: int | None = None
    silence_ms: int = 0
    waived: int | None = None
    idle: bool = False
    heard: int | None = None
    joined: int | None = None
    joined_in: int | None = None

    def describe(self) -> dict[str, Any]:
        """Return all but the watermark, as JSON has it."""
        return {name: value for name, value in self._asdict().items() if name != "watermark"}


def describe_rule(channel: Channel) -> str:
    """Say what moves a channel's watermark.

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
        return "in turn"
    return "in order, no time twice" if channel.unique_times else "in order"


def name_share(share: float) -> str:
    """Return a share as a percentage, with all of its digits.

    >>> name_share(0.5), name_share(0.9999999)
    ('50%', '99.99999%')
    """
    text = format(Decimal(repr(share)) * 100, "f")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def name_time(time: int, *, moments: bool = False) -> int | str:
    """Return a watermark as a person would call it; with `moments`, times are microseconds UTC.

    >>> name_time(1_000_000), name_time(1_000_000, moments=True), name_time(FOREVER)
    (1000000, '1970-01-01T00:00:01+00:00', 'ended')
    """
    shown = to_moment(time).isoformat() if moments else time
    return {FOREVER: "ended", NEVER: "nothing promised"}.get(time, shown)


def name_span(span: int | None, *, moments: bool = False) -> str:
    """Return a span of time as a person would call it; with `moments`, it is microseconds.

    >>> name_span(90_000_000), name_span(90_000_000, moments=True)
    ('90000000', '1 min 30 s')
    """
    return str(Duration(span) if moments and span is not None else span)


def find_holders(program: int, statuses: Mapping[str, ChannelStatus]) -> list[str]:
    """Return the channels that are not ahead of the program's watermark.

    One that the others have gone on without holds nobody back, unless there is nobody else.
    """
    slow = [name for name, status in sorted(statuses.items()) if status.watermark <= program]
    return [name for name in slow if not statuses[name].idle] or slow


def name_holders(program: int, statuses: Mapping[str, ChannelStatus]) -> str:
    """Return the names of the channels that hold others back, a few of them; empty if none is ahead.

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
    """Return how far the next channel is ahead of those that hold it back; None if nobody can tell."""
    held = [s.watermark for name, s in statuses.items() if name not in holders and not s.idle]
    least = min((statuses[name].watermark for name in holders), default=NEVER)
    ahead = min((watermark for watermark in held if watermark < FOREVER), default=None)
    return None if ahead is None or least == NEVER else ahead - least


def explain_hold(status: ChannelStatus, batch: int | None = None) -> str:
    """Say why a channel is not further.

    >>> explain_hold(ChannelStatus(4, 9, 7, "lateness 4", 4)), explain_hold(ChannelStatus(4, 5, heard=2), batch=7)
    ('lateness 4', 'silent since batch 2')
    """
    if status.watermark == NEVER and status.largest is None:
        return "has brought nothing yet"
    if status.largest is None and status.watermark == status.joined:
        return "has brought nothing since it joined"
    if status.idle:
        return "idle"
    if batch is not None and status.heard is not None and status.heard < batch:
        return f"silent since batch {status.heard}"
    if status.rule.startswith("estimated"):
        now = "too few events yet" if status.delay is None else f"{status.delay} now"
        return f"{status.rule}: {now}"
    return status.rule


def describe_joining(status: ChannelStatus) -> str:
    """Return since when a channel takes part, if that is not from the beginning; else nothing.

    >>> describe_joining(ChannelStatus(9, joined=4, joined_in=7)), describe_joining(ChannelStatus(9, joined=NEVER))
    ('joined at 4 in batch 7', 'joined with nothing promised')
    """
    if status.joined is None:
        return ""
    at = "with nothing promised" if status.joined == NEVER else f"at {name_time(status.joined)}"
    return f"joined {at}" + ("" if status.joined_in is None else f" in batch {status.joined_in}")
