"""Standings: how far each source has come, between two batches or two runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import NEVER, Source, Watch
from anabranch.eventtime.disorder import Kept
from anabranch.model.events import Heartbeat, Item


class Standing(NamedTuple):
    """How far a source has come: its frontier, the largest time seen, the last sequence read.

    `disorder` is what an estimated lateness goes by. `silence_ms` is for how long the source has been
    silent, and `waived` how far the others have gone on without it.
    """

    frontier: int = NEVER
    largest: int | None = None
    last: int | None = None
    disorder: Kept = ()
    silence_ms: int = 0
    waived: int = NEVER


def take_up(source: Source, standing: Standing) -> Watch:
    """Return a watch that goes on where a source stands."""
    return Watch(source, standing.frontier, standing.largest, standing.disorder)


def put_down(standing: Standing, watch: Watch, items: Iterable[Item]) -> Standing:
    """Return where a source stands after a watch has seen these items of it."""
    numbers = [item.seq for item in items if item.seq is not None]
    return standing._replace(
        frontier=watch.frontier,
        largest=watch.largest,
        last=max(numbers, default=standing.last),
        disorder=() if watch.disorder is None else watch.disorder.keep(),
    )


def check_goes_on(source: str, standing: Standing, items: Iterable[Item]) -> None:
    """Refuse items that do not lie after all that was read of their source before."""
    last = standing.last
    if last is None:
        return
    for item in items:
        beats = isinstance(item, Heartbeat)
        # A heartbeat may share the number of an event: it then speaks of what follows it.
        if item.seq is None and beats:
            continue
        if item.seq is None or item.seq < last + (not beats):
            raise InputError(
                f"source {source!r} went back in its sequence: "
                f"{'no number' if item.seq is None else item.seq} after {last}",
                expected=f"only what follows number {last}, the last that was read before",
                got=repr(item)[:200],
                cure="leave out what was read before, and go on counting where it ended",
            )
