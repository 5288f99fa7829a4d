"""Every story holds on every runtime, all of them told in one run."""

import json
import random

import pytest

from anabranch import take
from anabranch.model.values.fields import encode_value
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.reference.sequential import run
from anabranch.reference.verification import prepare
from tests.runtimes.inputs import cut_one_by_one, cut_rows, run_batches
from tests.runtimes.runtimes import Place, SparkStreaming, sum_up
from tests.transcripts.recorded import CHANNELS, read_answers, recorded, tell
from tests.transcripts.stories import StoryError, check_story, read_log, read_stories
from tests.vectors.flumina import Vector

# One that can't even be read has no log.
STORIES = [story for story in read_stories() if "window" in story and read_log(story)]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path) -> Place:
    return Place(lambda: request.getfixturevalue("spark"), tmp_path)


def check_all(rows):
    """Hold what a runtime said against all stories: the true ones, and those that must fail."""
    answers = read_answers(rows)
    assert set(answers) == {story["name"] for story in STORIES}
    for story in STORIES:
        emitted = answers[story["name"]]
        if "error" in story:
            with pytest.raises(StoryError, match=story["error"]):
                check_story(story, emitted)
        else:
            check_story(story, emitted)


def check_outcome(outcome):
    check_all(json.loads(value) for _, value in outcome.outputs)
    assert outcome.late == outcome.rejected == []


def test_the_reference_tells_every_story():
    answer = run(recorded, tell(STORIES), CHANNELS)
    assert answer.rejected == []
    check_all(encode_value(value) for value in answer.values)


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_every_plan_tells_every_story(optimizer):
    items = tell(STORIES)
    names = [story["name"] for story in STORIES]
    loads = [
        Load(take(event_type, story=name)) for event_type in recorded.event_types for name in names
    ]
    plan = OPTIMIZERS[optimizer](recorded, Rates(loads), ())
    trial = prepare(recorded, plan, items, CHANNELS)
    for seed in range(3):
        simulation, mismatch = trial.verify(seed)
        assert mismatch is None, mismatch
        check_all(encode_value(output.value) for output in simulation.outputs)


@pytest.mark.parametrize("shards", [1, 3, 16])
def test_shards_tell_every_story_however_batches_are_cut(shards):
    items = tell(STORIES)
    for seed, size in enumerate((2, 9, 1000)):
        batches = cut_rows(random.Random(seed), items, size)
        check_outcome(run_batches(recorded, CHANNELS, batches, shards))


def test_shards_tell_every_story_step_by_step():
    batches = cut_one_by_one(random.Random(7), tell(STORIES))
    check_outcome(run_batches(recorded, CHANNELS, batches, shards=2))


@pytest.mark.spark
def test_spark_tells_every_story(place):
    items = tell(STORIES)
    story = Vector(recorded, lambda: items, CHANNELS, [], {})
    # What a story keeps changes its type as the story goes on.
    (outcome,) = SparkStreaming("stories", shards=5, columns=False).run(story, place)
    check_outcome(outcome)
    assert outcome == sum_up(run(recorded, items, CHANNELS))
