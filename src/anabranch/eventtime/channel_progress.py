"""Standings: how far each source has come, between two batches or two runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import NEVER, Source, Watch
from anabranch.eventtime.disorder import Kept
from anabranch.model.events import Heartbeat, Item


class Standing(NamedTuple):
    """How far a source has come: its frontier, the largest time seen, the number of the last event.

    `disorder` is what an estimated lateness goes by. `silence_ms` is for how long the source has been
    silent, and `waived` how far the others have gone on without it. `joined` is the frontier at which
    a source joined a program that was under way; None if it took part from the beginning.
    """

    frontier: int = NEVER
    largest: int | None = None
    last: int | None = None
    disorder: Kept = ()
    silence_ms: int = 0
    waived: int = NEVER
    joined: int | None = None


def take_up(source: Source, standing: Standing) -> Watch:
    """Return a watch that goes on where a source stands."""
    return Watch(source, standing.frontier, standing.largest, standing.disorder, standing.last)


def put_down(standing: Standing, watch: Watch) -> Standing:
    """Return where a source stands after a watch has followed it."""
    return standing._replace(
        frontier=watch.frontier,
        largest=watch.largest,
        last=watch.last,
        disorder=() if watch.disorder is None else watch.disorder.keep(),
    )


def check_goes_on(source: str, standing: Standing, items: Iterable[Item]) -> None:
    """Refuse items without a number, of a source whose items had one in an earlier run."""
    last = standing.last
    if last is None:
        return
    for item in items:
        if item.seq is None and not isinstance(item, Heartbeat):
            raise InputError(
                f"source {source!r} went on without its sequence: no number after {last}",
                expected=f"numbers that follow {last}, the last that was read before",
                got=repr(item)[:200],
                cure="go on counting where it ended; what was read before is rejected by its number",
            )
