"""Standings: how far each channel has come, between two batches or two runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import NEVER, Channel, Watch
from anabranch.eventtime.disorder import Kept
from anabranch.model.events import Heartbeat, Item


class Standing(NamedTuple):
    """How far a channel has come: its watermark, the largest time seen, the number of the last event.

    `disorder` is what an estimated lateness goes by. `silence_ms` is for how long the channel has been
    silent, and `waived` how far the others have gone on without it. `joined` is the watermark at which
    a channel joined a program that was under way; None if it took part from the beginning.
    """

    watermark: int = NEVER
    largest: int | None = None
    last: int | None = None
    disorder: Kept = ()
    silence_ms: int = 0
    waived: int = NEVER
    joined: int | None = None


def take_up(channel: Channel, standing: Standing) -> Watch:
    """Return a watch that goes on where a channel stands."""
    return Watch(channel, standing.watermark, standing.largest, standing.disorder, standing.last)


def put_down(standing: Standing, watch: Watch) -> Standing:
    """Return where a channel stands after a watch has followed it."""
    return standing._replace(
        watermark=watch.watermark,
        largest=watch.largest,
        last=watch.last,
        disorder=() if watch.disorder is None else watch.disorder.keep(),
    )


def check_goes_on(channel: str, standing: Standing, items: Iterable[Item]) -> None:
    """Refuse items without a number, of a channel whose items had one in an earlier run."""
    last = standing.last
    if last is None:
        return
    for item in items:
        if item.seq is None and not isinstance(item, Heartbeat):
            raise InputError(
                f"channel {channel!r} went on without its sequence: no number after {last}",
                expected=f"numbers that follow {last}, the last that was read before",
                got=repr(item)[:200],
                cure="go on counting where it ended; what was read before is rejected by its number",
            )
