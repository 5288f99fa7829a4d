"""Every story holds, and every story that tells an untruth is rejected."""

import pytest

from tests.transcripts.stories import StoryError, check_story, read_stories

ALL = list(read_stories())
STORIES = [story for story in ALL if "window" in story]
TRUE = [story for story in STORIES if "error" not in story]
UNTRUE = [story for story in STORIES if "error" in story]


@pytest.mark.parametrize("story", TRUE, ids=[story["name"] for story in TRUE])
def test_a_story_says_what_happened(story):
    check_story(story)


@pytest.mark.parametrize("story", UNTRUE, ids=[story["name"] for story in UNTRUE])
def test_an_untrue_story_is_rejected(story):
    with pytest.raises(StoryError, match=story["error"]):
        check_story(story)


def test_no_two_stories_share_a_name():
    names = [story["name"] for story in ALL]
    assert len(set(names)) == len(names)
