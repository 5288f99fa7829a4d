"""What a runtime does not do, and what it does instead.

`notyet`: it will. `never`: it can't, for the reason given. A gap is no excuse to test nothing: the
suite tells the runtime the story that it *can* be told, and a gap that has closed fails.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import pytest

from anabranch.eventtime.channels import end_channels
from anabranch.model.events import Heartbeat
from tests.runtimes.runtimes import Outcome, expect
from tests.runtimes.stories import STORIES
from tests.vectors.flumina import Vector


class Gap(NamedTuple):
    """Why a runtime is not told a story as it is, and what it is told instead."""

    kind: Literal["notyet", "never"]
    reason: str
    instead: Callable[[Vector], Vector]
    told: str

    def mark(self) -> pytest.MarkDecorator:
        return getattr(pytest.mark, self.kind)(reason=self.reason, instead=self.told)

    def really_differs(self, outcome: Outcome, story: Vector) -> bool:
        """Say whether there is a gap: a cut is one by its size, anything else by its outcome."""
        return story.cut is not None or outcome != expect(story)


def take_cut(story: Vector) -> Vector:
    assert story.cut is not None
    return story.cut


def end(story: Vector) -> Vector:
    """Return a story whose channels have ended."""
    items = end_channels(story.items, channels=story.channels)
    return Vector(story.program, lambda: items, story.channels, story.expected, story.plans)


def number(story: Vector) -> Vector:
    """Return a story whose channels number their items, in the order of arrival."""
    counts: dict[str, int] = {}
    items = []
    for item in story.items:
        counts[item.channel] = counts.get(item.channel, -1) + 1
        items.append(item._replace(seq=counts[item.channel]))
    return Vector(story.program, lambda: items, story.channels, story.expected, story.plans)


LONG = [name for name, story in STORIES.items() if story.cut is not None]
SLOW = Gap(
    "never",
    "a thousand schedules of a million events take days: every message is a step of Python",
    take_cut,
    "the same case with a few thousand events",
)
UNHURRIED = Gap(
    "notyet",
    "a million rows of a test's own take too long to write and to read, run for run",
    take_cut,
    "the same case with a few thousand events",
)
ONE_BY_ONE = Gap(
    "notyet",
    "a million events in Python, one by one, take a minute for each order of arrival",
    take_cut,
    "the same case with a few thousand events",
)
ENDED = Gap(
    "never",
    "a frame that is no stream has an end, and so have its channels: nothing can be pending",
    end,
    "the same input, ended: everything settles",
)

NUMBERED = Gap(
    "never",
    "rows of files have a number, their place, if no column has one: no tie is broken by contents",
    number,
    "the same input, numbered in the order of arrival",
)
UNNUMBERED = [
    name
    for name, story in STORIES.items()
    if story.cut is None
    and any(item.seq is None for item in story.items if not isinstance(item, Heartbeat))
]

GAPS: dict[tuple[str, str], Gap] = {
    **{(name, "simulated"): SLOW for name in LONG},
    **{(name, "speculative"): ONE_BY_ONE for name in LONG},
    **{(name, "shards"): ONE_BY_ONE for name in LONG},
    **{(name, "local"): UNHURRIED for name in LONG},
    **{(name, "local"): NUMBERED for name in UNNUMBERED},
    **{(name, "spark batch"): UNHURRIED for name in LONG},
    **{(name, "spark streaming"): UNHURRIED for name in LONG},
    ("progress, nothing without a heartbeat", "spark batch"): ENDED,
    ("progress, nothing where only heartbeats count", "spark batch"): ENDED,
}
