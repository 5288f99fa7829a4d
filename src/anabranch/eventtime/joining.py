"""Joining: channels that are declared when a program is under way, and where they begin.

A channel joins at the watermark that the program has reached: it has promised everything up to there. The
promise is *recorded*, as a heartbeat on behalf of the channel before all that it brings. From then on it is
data like any other, and the reference that is given the recorded heartbeats gives the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.channels import NEVER


class Taking(NamedTuple):
    """The standings of the channels that take part in a batch, and the channels that are to join with the next."""

    standings: dict[str, Standing]
    announced: tuple[str, ...]


def join_channels(
    standings: Mapping[str, Standing],
    added: Collection[str],
    announced: Collection[str],
    heard: Collection[str],
) -> Taking:
    """Return the channels that take part in a batch, before anything of it is judged.

    `added` are declared and were not before, `announced` those that an earlier batch has met so. A batch may
    be the repetition of one that was planned, and published, before they were declared: it has nothing of
    them, and must have the same results. So an added channel joins with the first batch that brings something
    of it, and with the second batch in any case.

    >>> known = {"a": Standing(7), "b": Standing(4)}
    >>> join_channels(known, ["c", "d"], [], {"a", "c"}).announced
    ('d',)
    >>> join_channels(known, [], ["d"], {"a"}).standings["d"]
    Standing(watermark=4, largest=None, last=None, disorder=(), silence_ms=0, waived=-9223372036854775808, joined=4)
    """
    reached = min((standing.watermark for standing in standings.values()), default=NEVER)
    joining = {name for name in {*added, *announced} if name in announced or name in heard}
    begun = {name: Standing(watermark=reached, joined=reached) for name in sorted(joining)}
    waiting = tuple(sorted({*added} - joining))
    return Taking({**standings, **begun}, waiting)
