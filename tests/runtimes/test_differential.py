"""Random inputs in micro-batches against the fold: the same bytes, whatever the cut.

Two implementations against each other. The fold is small enough to be trusted; shards, roots and
all that makes them fast are not. Spark is left out: it would only make the cuts slower, and the
runtimes of `test_stories.py` show that it adds nothing to the answer. What a batch boundary, a
task, a shard or an arrival order could change is tried here, thousands of times.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.eventtime.channels import end_channels
from anabranch.plan.layouts import choose_layout
from anabranch.reference.sequential import run
from tests.runtimes.inputs import cut_one_by_one, cut_rows, draw_channels, draw_items, run_batches
from tests.runtimes.runtimes import sum_up
from tests.runtimes.stories import EXAMPLES
from tests.simulation.test_random_programs import Fact, inputs, relations
from tests.vectors.flumina import example

SHARDS = st.sampled_from([1, 2, 3, 7, 1, 2, 3, 7, 64])
FEW_SHARDS = st.sampled_from([1, 2, 5])
SIZES = st.sampled_from([1, 2, 5, 1000])
CUTS = 3


@pytest.mark.parametrize("name", EXAMPLES)
@settings(max_examples=20)
@given(data=st.data())
def test_differential_no_cut_shows_in_the_answer_to_a_random_input(name, data):
    module = example(name)
    program = getattr(module, name)
    channels = data.draw(draw_channels([channel.name for channel in module.channels]))
    items = data.draw(draw_items(program, channels))
    expected = sum_up(run(program, items, channels))
    rng = random.Random(data.draw(st.integers(0, 10**6)))
    for _ in range(CUTS):
        batches = cut_rows(rng, items, data.draw(SIZES))
        if batches:
            assert run_batches(program, channels, batches, data.draw(SHARDS)) == expected
    batches = cut_one_by_one(rng, items)
    if batches:
        assert run_batches(program, channels, batches, data.draw(FEW_SHARDS)) == expected


@settings(max_examples=60)
@given(data=st.data())
def test_differential_a_random_program_says_the_same_in_micro_batches(data):
    program = data.draw(relations())
    events = data.draw(inputs(program.event_types))
    items = end_channels(events)
    names = dict.fromkeys(item.channel for item in items)
    channels = data.draw(draw_channels(list(names)))
    expected = sum_up(run(program, items, channels))
    rng = random.Random(data.draw(st.integers(0, 10**6)))
    for _ in range(CUTS):
        batches = cut_rows(rng, items, data.draw(SIZES))
        outcome = run_batches(program, channels, batches, data.draw(SHARDS), [Fact])
        assert outcome == expected


def test_the_examples_are_wired_in_every_way_there_is():
    """Else the tests above would leave a way out."""
    ways = {choose_layout(getattr(example(name), name), 4).way for name in EXAMPLES}
    assert {"keyed", "replicated", "forked"} <= ways
