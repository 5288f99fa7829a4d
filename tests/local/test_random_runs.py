"""A thousand random runs: programs, inputs, batches, crashes and cores, against the reference and plain Python.

`make soak` runs a hundred thousand others.
"""

import logging
from collections import Counter

import pytest

from tests.local.random_runs import COMPILED, PAIRS, draw, judge, try_in_scratch

SEEDS = 1000
STEP = 100


@pytest.mark.parametrize("first", range(0, SEEDS, STEP))
def test_no_seed_shows_batches_crashes_or_cores(first, caplog):
    caplog.set_level(logging.ERROR)
    tried = Counter()
    for seed in range(first, first + STEP):
        tried += try_in_scratch(seed)
    assert tried["seeds"] == STEP
    assert tried["crashes"] > STEP // 5, "hardly any run has crashed"


def test_the_seeds_are_of_every_kind():
    trials = [draw(seed) for seed in range(SEEDS)]
    assert len(PAIRS) > 150
    assert len({(trial.case, trial.layout) for trial in trials}) > 150
    compiled = {t.case + t.layout for t in trials if t.run.options["columnar"] == "require"}
    assert len(compiled) == len(COMPILED) > 20
    assert sum("mode" in trial.run.options for trial in trials) > 100
    verdicts = [judge(trial.rows, trial.run.channels[0].lateness or 0) for trial in trials]
    assert sum(bool(late) for _, late in verdicts) > 200
    assert sum(bool(t.run.options["cores"] > 1 and t.crashes) for t in trials) > 100
