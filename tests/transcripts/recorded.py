"""All stories as one program: its events are the steps of recorded logs, and each story is a key.

So a story is told not only to the machine but to every runtime, through all that lies between: the
order of events, batches, shards, stored states.
"""

import json
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from anabranch import Event, Program, depends, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.windows.panes import (
    RECORDS,
    Dropped,
    Pane,
    StepOutcome,
    WindowEntry,
    Windowing,
    WindowState,
)
from anabranch.eventtime.windows.window_types import Window
from anabranch.model.events import Item
from anabranch.model.shapes import WrittenShape
from anabranch.state import MapOf
from tests.eventtime.windows.recorded_log import Step, take
from tests.transcripts.stories import read_log, read_step, read_stories, read_windowing

CHANNELS = tuple(Channel(name) for name in ("north", "south", "west"))


class Told(NamedTuple):
    """A step of a story; `time` is its number, and what it tells is JSON."""

    time: int
    story: str
    kind: str
    told: str


class LogShape(WrittenShape):
    """The state of one story."""

    records = RECORDS


@cache
def find_stories() -> dict[str, dict[str, Any]]:
    return {story["name"]: story for story in read_stories() if "window" in story}


@cache
def find_windowing(story: str) -> Windowing:
    return read_windowing(find_stories()[story])


def take_told(state: WindowState, told: Told) -> StepOutcome:
    step: Step = read_step(told.kind, json.loads(told.told))
    return take(find_windowing(told.story), state, step)


def say_told(state: WindowState, told: Told) -> dict[str, Any]:
    """Say all that a story may ask after: panes, what was dropped, and what is kept."""
    emitted = take_told(state, told)
    return {
        "story": told.story,
        "step": told.time,
        "panes": emitted.panes,
        "dropped": emitted.dropped,
        "kept": [(held.window, held.finished) for held in emitted.state.windows],
    }


recorded = Program(
    on(Told, update=lambda state, told: take_told(state, told).state, output=say_told),
    depends(Told, Told, same="story"),
    state=MapOf(LogShape(WindowState()), by="story"),
    name="recorded",
)


def tell(stories: Iterable[dict[str, Any]]) -> list[Item]:
    """Return the logs of stories as what three channels bring, side by side, ended."""
    told = [
        (number, Told(step, story["name"], kind, json.dumps(what)))
        for number, story in enumerate(stories)
        for step, (kind, what) in enumerate(read_log(story))
    ]
    items: list[Item] = []
    for place, channel in enumerate(CHANNELS):
        mine = sorted(one for number, one in told if number % len(CHANNELS) == place)
        items += [Event(one, channel.name, seq) for seq, one in enumerate(mine)]
    return end_channels(items, channels=CHANNELS)


def read_answers(rows: Iterable[Any]) -> dict[str, list[StepOutcome]]:
    """Return what each step of each story came to, from outputs as JSON holds them."""
    found: dict[str, dict[int, StepOutcome]] = {}
    for row in rows:
        panes = tuple(_read_record(Pane, pane) for pane in row["panes"])
        dropped = tuple(_read_record(Dropped, lost) for lost in row["dropped"])
        kept = tuple(
            WindowEntry(Window(**window), None, (), finished=finished)
            for window, finished in row["kept"]
        )
        emitted = StepOutcome(WindowState(windows=kept), panes, dropped)
        found.setdefault(row["story"], {})[row["step"]] = emitted
    return {story: [steps[n] for n in sorted(steps)] for story, steps in found.items()}


def _read_record(record: Any, fields: dict[str, Any]) -> Any:
    value, window = fields["value"], fields["window"]
    return record(**fields | {
        "value": tuple(value) if isinstance(value, list) else value,
        "window": None if window is None else Window(**window),
    })  # fmt: skip
