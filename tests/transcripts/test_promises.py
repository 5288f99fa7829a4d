"""Every story of channels holds, on every runtime; and a story that tells an untruth is rejected."""

import copy

import pytest

from tests.transcripts.promises import (
    STORIES,
    check_story,
    tell_by_reference,
    tell_by_shards,
    tell_by_simulator,
)
from tests.transcripts.stories import StoryError

EVERY = pytest.mark.parametrize("story", STORIES, ids=[story["name"] for story in STORIES])


@EVERY
def test_the_reference_says_what_happened(story):
    check_story(story, tell_by_reference(story))


@EVERY
def test_the_simulator_says_what_happened(story):
    for seed in range(5):
        check_story(story, tell_by_simulator(story, seed))


@EVERY
@pytest.mark.parametrize("columns", [False, True], ids=["events", "columns"])
def test_a_shard_says_what_happened(story, columns):
    check_story(story, tell_by_shards(story, columns=columns))


def test_an_untrue_story_is_rejected():
    story = copy.deepcopy(STORIES[0])
    place = next(step["expect"] for step in story["steps"] if "expect" in step)
    place["watermark"] += 1
    with pytest.raises(StoryError, match="At place 1, watermark is"):
        check_story(story, tell_by_reference(story))


def test_a_story_that_is_silent_on_an_idle_channel_is_rejected():
    story = next(s for s in STORIES if s["name"] == "a_silent_source_is_no_longer_waited_for")
    untold = {**story, "steps": [step for step in story["steps"] if "idle" not in step]}
    with pytest.raises(StoryError, match="Nobody tells that idle are"):
        tell_by_shards(untold, columns=False)
