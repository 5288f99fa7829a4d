"""Standings: the progress of each channel between two batches or two runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import NEVER, Channel, Watch
from anabranch.eventtime.disorder import Kept
from anabranch.model.events import Heartbeat, Item


class Standing(NamedTuple):
    """The progress of a channel: its watermark, its largest time, the sequence number of its last event.

    `disorder` is the data of an estimated lateness. `silence_ms` is the time without items, and `waived` the
    watermark up to which the others have continued without the channel. `joined` is the watermark at which
    the channel joined a running program; None if it took part from the start.
    """

    watermark: int = NEVER
    largest: int | None = None
    last: int | None = None
    disorder: Kept = ()
    silence_ms: int = 0
    waived: int = NEVER
    joined: int | None = None


def take_up(channel: Channel, standing: Standing) -> Watch:
    """Return a watch that continues from a channel's standing."""
    return Watch(channel, standing.watermark, standing.largest, standing.disorder, standing.last)


def put_down(standing: Standing, watch: Watch) -> Standing:
    """Return a channel's standing after a watch has processed its items."""
    return standing._replace(
        watermark=watch.watermark,
        largest=watch.largest,
        last=watch.last,
        disorder=() if watch.disorder is None else watch.disorder.keep(),
    )


def check_goes_on(channel: str, standing: Standing, items: Iterable[Item]) -> None:
    """Raise if items have no sequence number, in a channel whose items had numbers in an earlier run."""
    last = standing.last
    if last is None:
        return
    for item in items:
        if item.seq is None and not isinstance(item, Heartbeat):
            raise InputError(
                f"channel {channel!r} has items without sequence numbers after number {last}",
                expected=f"numbers that follow {last}, the last number read before",
                got=repr(item)[:200],
                cure="continue the numbers; items that were read before are rejected by their number",
            )
