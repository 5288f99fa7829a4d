"""Joining: channels that are added to a running program, and their first watermark.

A channel joins at the watermark that the program has reached. This watermark is *recorded*, as a heartbeat
of the channel before all its items. From then on it is data like any other, and the reference gives the
same result from an input with the recorded heartbeats.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.channels import NEVER


class Taking(NamedTuple):
    """The standings of the channels in a batch, and the channels that join in the next batch."""

    standings: dict[str, Standing]
    announced: tuple[str, ...]


def join_channels(
    standings: Mapping[str, Standing],
    added: Collection[str],
    announced: Collection[str],
    active: Collection[str],
) -> Taking:
    """Return the channels that take part in a batch, before its items are processed.

    `added` are newly declared channels, `announced` those that were new in an earlier batch, and `active` those
    with items in this batch. A batch may be the repetition of one that was planned, and published, before they
    were declared: it has no items of them, and must have the same results. So an added channel joins with the
    first batch that has items of it, and with the second batch at the latest.

    >>> known = {"a": Standing(7), "b": Standing(4)}
    >>> join_channels(known, ["c", "d"], [], {"a", "c"}).announced
    ('d',)
    >>> join_channels(known, [], ["d"], {"a"}).standings["d"]
    Standing(watermark=4, largest=None, last=None, disorder=(), silence_ms=0, waived=-9223372036854775808, joined=4)
    """
    reached = min((standing.watermark for standing in standings.values()), default=NEVER)
    joining = {name for name in {*added, *announced} if name in announced or name in active}
    begun = {name: Standing(watermark=reached, joined=reached) for name in sorted(joining)}
    waiting = tuple(sorted({*added} - joining))
    return Taking({**standings, **begun}, waiting)
