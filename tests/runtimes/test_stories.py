"""One suite, every runtime: all published vectors, all examples, and cases of our own.

What a runtime does not do is marked in `gaps.py`: `notyet` or `never`, with the reason and with
what happens instead, which is tested too.
"""

import os
from collections.abc import Iterator

import pytest

from anabranch.model.shapes import MISSING
from anabranch.plan.layouts import choose_layout
from tests.runtimes.gaps import GAPS
from tests.runtimes.inputs import Shards
from tests.runtimes.runtimes import (
    Local,
    Reference,
    Runtime,
    Simulated,
    SparkBatch,
    SparkStreaming,
    Speculative,
    expect,
    fold,
)
from tests.runtimes.stories import EXAMPLES, STORIES
from tests.vectors.flumina import Vector, example

EVERYTHING = os.environ.get("ANABRANCH_SCHEDULES") == "all"
SCHEDULES = 1000 if EVERYTHING else 250
"""How many schedules each plan of a story is tried under."""
STEPS = 50_000
"""About how many items all schedules of a plan may take: long stories get fewer schedules."""
LONG = 500
ON_SPARK = os.environ.get("ANABRANCH_STORIES") == "spark"
"""Whether every story runs on Spark, and not only the choice below."""
BATCH_STORIES = {
    "key counter",
    "value-barrier, two thousand",
    "fraud, modulo",
    "page view",
    "exchange",
    "progress, nothing without a heartbeat",
    "late and far ahead",
    "functions that raise",
    "outputs of other types",
}
STREAMING_STORIES = {
    "key counter, read first",
    "value-barrier, two thousand",
    "page view",
    "smart home",
    "exchange",
    "taxi tips",
    "progress, a heartbeat lets it out",
    "derivatives of derivatives",
    "late and far ahead",
    "functions that raise",
    "several outputs of one event",
    "glances at the highest value",
    "fields of every type",
}
"""A cross-section: every layout, and every kind of output, rejected row and field."""


def list_runtimes(name: str, story: Vector) -> Iterator[tuple[str, Runtime]]:
    yield "reference", Reference()
    yield "speculative", Speculative(range(3 if len((story.cut or story).items) > LONG else 20))
    for plan, seeds in list_schedules(story.cut or story):
        yield f"simulated-{plan}", Simulated(plan, seeds)
    yield "shards", Shards(name)
    # What the answer must not depend on differs from story to story, always in the same way.
    place = list(STORIES).index(name)
    yield (
        "local",
        Local(
            name,
            shards=(3, 1, 6)[place % 3],
            cores=(1, 2)[place % 2],
            columns=place % 4 > 0,
        ),
    )
    if ON_SPARK or name in BATCH_STORIES:
        yield "spark batch", SparkBatch(shards=(1, 3, 16)[place % 3])
    if ON_SPARK or name in STREAMING_STORIES:
        yield (
            "spark streaming",
            SparkStreaming(name, shards=(4, 1, 7)[place % 3], partitions=(2, 1)[place % 2]),
        )


def list_schedules(story: Vector) -> Iterator[tuple[str, range]]:
    """Give every plan its schedules; ANABRANCH_SCHEDULES=all tries long stories as often as others."""
    schedules = SCHEDULES if EVERYTHING else min(SCHEDULES, STEPS // len(story.items))
    for plan in story.plans:
        yield plan, range(schedules)


def list_cases() -> Iterator:
    for name, story in STORIES.items():
        for label, runtime in list_runtimes(name, story):
            marks = [pytest.mark.spark] if runtime.name.startswith("spark") else []
            gap = GAPS.get((name, runtime.name))
            marks += [] if gap is None else [gap.mark()]
            yield pytest.param(story, runtime, gap, id=f"{name}-{label}", marks=marks)


@pytest.mark.parametrize(("story", "runtime", "gap"), list(list_cases()))
def test_every_runtime_gives_the_published_answer(story, runtime, gap, place):
    told = story if gap is None else gap.instead(story)
    tried = 0
    for outcome in runtime.run(told, place):
        assert outcome == expect(told)
        assert outcome.ledger.balanced
        tried += 1
    assert tried
    if gap is not None:
        assert gap.really_differs(expect(told), story), "this gap is closed: take its mark away"


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_the_state_in_the_end_is_the_published_one(story):
    if story.state is not MISSING:
        assert fold(story).state == story.state


def test_the_gaps_are_of_stories_that_there_are():
    runtimes = {
        "reference", "speculative", "simulated", "shards", "local", "spark batch", "spark streaming"
    }  # fmt: skip
    assert {story for story, _ in GAPS} <= set(STORIES)
    assert {runtime for _, runtime in GAPS} <= runtimes


@pytest.mark.parametrize("chosen", [BATCH_STORIES, STREAMING_STORIES], ids=["batch", "streaming"])
def test_the_stories_that_run_on_spark_have_every_layout(chosen):
    def list_layouts(names):
        return {choose_layout(STORIES[name].program, 4).way for name in names}

    assert list_layouts(chosen) == list_layouts(STORIES)


def test_every_example_is_among_the_stories():
    told = [story.program for story in STORIES.values()]
    missing = [name for name in EXAMPLES if getattr(example(name), name) not in told]
    assert missing == []
