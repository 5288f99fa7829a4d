"""Every story of a join holds, and every one that tells an untruth is rejected."""

from functools import partial
from typing import Any, NamedTuple

import pytest

from anabranch import FOREVER, Event, Heartbeat, Program
from anabranch.eventtime.channels import Channel
from anabranch.query import asof_join, band_join, interval_join, window_join
from anabranch.reference.sequential import run
from tests.transcripts.stories import NAMES, StoryError, read_expression, read_stories


class Show(NamedTuple):
    time: int
    ad: str | int


class Click(NamedTuple):
    time: int
    ad: str | int


JOINS = {
    join.__name__: partial(join, Show, Click)
    for join in (asof_join, band_join, interval_join, window_join)
}
STORIES = [story for story in read_stories() if "join" in story]
TRUE = [story for story in STORIES if "error" not in story]
UNTRUE = [story for story in STORIES if "error" in story]


def check_join(story: dict[str, Any]) -> None:
    """Run a story; raise a StoryError where it does not say what happened."""
    program: Program = read_expression(story["join"], NAMES | JOINS)
    items: list[Any] = []
    answer = run(program, items)
    told_of = 0
    for step in story["steps"]:
        ((kind, told),) = step.items()
        if kind in ("show", "click"):
            items.append(Event((Show if kind == "show" else Click)(*told), "s", len(items)))
        elif kind in ("watermark", "end"):
            items.append(Heartbeat(FOREVER if kind == "end" else told, "s", len(items)))
            answer = run(program, items, [Channel("s", lateness=None)])
        elif kind == "expect":
            emitted = list(map(describe, answer.outputs[told_of:]))
            if emitted != told:
                raise StoryError(f"said {emitted}, not {told}")
            told_of += len(emitted)
        elif kind == "kept":
            kept = sorted(event.time for event in list_events(answer.state))
            if kept != told:
                raise StoryError(f"kept {kept}, not {told}")
        else:
            raise StoryError(f"{kind!r} is no step of a story")
    if answer.outputs[told_of:]:
        raise StoryError(f"unsaid: {list(map(describe, answer.outputs[told_of:]))}")


def describe(output: Any) -> list[Any]:
    left, right = output.value
    return [output.event.time, left and left.time, right and right.time]


def list_events(state: Any) -> list[Any]:
    """Return the events that a state holds, wherever they are in it."""
    if isinstance(state, Show | Click):
        return [state]
    if hasattr(state, "values"):
        return [event for entry in state.values() for event in list_events(entry)]
    if isinstance(state, tuple):
        return [event for part in state for event in list_events(part)]
    return []


@pytest.mark.parametrize("story", TRUE, ids=[story["name"] for story in TRUE])
def test_a_story_says_what_happened(story):
    check_join(story)


@pytest.mark.parametrize("story", UNTRUE, ids=[story["name"] for story in UNTRUE])
def test_an_untrue_story_is_rejected(story):
    with pytest.raises(StoryError, match=story["error"]):
        check_join(story)
