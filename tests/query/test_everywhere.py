"""Windows of every kind on every runtime but Spark: the same panes, whatever the plan or the cut.

Two implementations against each other: the fold, which is small, and what makes programs parallel.
Spark itself is told one such program in `tests/runtimes`, and all stories in `tests/transcripts`.
"""

import random
from collections import Counter

import pytest
from pyspark import cloudpickle

from anabranch import take
from anabranch.eventtime.channels import end_channels
from anabranch.eventtime.windows.panes import ACCUMULATIONS, OUTPUT_TIMES
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.plan.layouts import choose_layout
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.query import Missed, aggregate
from anabranch.reference.sequential import run
from anabranch.reference.verification import prepare
from anabranch.windows import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    Global,
    Never,
    OrFinally,
    Repeatedly,
    Windowing,
)
from tests.microbatch.test_microbatches import Engine
from tests.query.bids import BIDDERS, CHANNELS, CUTS, FOLDS, Bid, draw_bids
from tests.runtimes.inputs import cut_rows
from tests.runtimes.runtimes import read_emitted, sum_up

TRIGGERS = [
    DefaultTrigger(), DefaultTrigger(), Always(), Never(), AfterWatermark(), AfterCount(2),
    AfterWatermark(early=AfterCount(2), late=Always()), AfterWatermark(early=AfterProcessingTime(3)),
    AfterWatermark(early=Repeatedly(AfterCount(3)), late=AfterProcessingTime(2)),
    Repeatedly(AfterCount(3)), Repeatedly(AfterProcessingTime(4)),
    Repeatedly(AfterAny(AfterCount(4), AfterProcessingTime(6))),
    Repeatedly(AfterAll(AfterCount(2), AfterProcessingTime(2))),
    AfterEach(AfterCount(2), AfterWatermark(late=Always())), OrFinally(Always(), AfterCount(4)),
]  # fmt: skip


def draw_windowing(rng):
    window = CUTS[rng.choice(list(CUTS))].window
    return Windowing(
        window,
        rng.choice(TRIGGERS),
        accumulation=rng.choice(ACCUMULATIONS),
        allowed_lateness=0 if window.counted else rng.choice((0, 0, 4, 30)),
        output_time=rng.choice(OUTPUT_TIMES),
        closing=rng.choice(("if_new", "if_new", "always", "never")),
        may_lose=True,
    )


def draw_program(seed):
    """Return a program of windows of some kind; the same one for the same seed."""
    rng = random.Random(seed)
    options = {"per": rng.choice((None, "bidder", "bidder"))}
    if rng.random() < 0.6:
        options |= {"at": "when", "delay": rng.choice((0, 2, 9))}
    if rng.random() < 0.7:
        options |= FOLDS
    return aggregate(Bid, draw_windowing(rng), **options)


def draw_input(seed, count):
    items = draw_bids(random.Random(seed), count)
    # Some inputs have not ended: then windows are left open.
    return items if seed % 4 == 0 else end_channels(items, channels=CHANNELS)


def keyed(program):
    return program.initial.shape.by is not None


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_differential_every_plan_says_what_the_fold_says(optimizer):
    crashes = 0
    for seed in range(40):
        program, items = draw_program(seed), draw_input(seed, 12)
        slices = [{"bidder": bidder} for bidder in BIDDERS] if keyed(program) else [{}]
        loads = [
            Load(take(event_type, **entry))
            for event_type in program.event_types
            for entry in slices
        ]
        plan = OPTIMIZERS[optimizer](program, Rates(loads), ())
        simulation, mismatch = prepare(program, plan, items, CHANNELS).verify(seed)
        assert mismatch is None, f"replay with seed {seed}: {mismatch}"
        crashes += simulation.counts.crashes
    assert crashes > 10


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_differential_any_cut_into_batches_says_what_the_fold_says(shards):
    emitted = Counter()
    for seed in range(shards * 1000, shards * 1000 + 40):
        rng = random.Random(seed)
        program, items = draw_program(seed), draw_input(seed, 20)
        expected = run(program, items, CHANNELS)
        engine = Engine(program, CHANNELS, shards)
        for tasks in cut_rows(rng, items, rng.choice((1, 3, 50))):
            engine.batch(tasks)
            restart(rng, engine, seed, shards)
        assert read_emitted(engine.emitted, engine.ledger) == sum_up(expected), f"seed {seed}"
        emitted += Counter(
            value.reason if isinstance(value, Missed) else value.timing for value in expected.values
        )
    assert {"early", "on_time", "late", "expired", "finished", "not emitted"} <= set(emitted)


def restart(rng, engine, seed, shards):
    """Let a worker be shipped the program again, or the driver build it anew, now and then."""
    chance = rng.random()
    if chance < 0.2:
        engine.job = cloudpickle.loads(cloudpickle.dumps(engine.job))
    elif chance < 0.4:
        engine.job = Engine(draw_program(seed), CHANNELS, shards).job


def test_a_shard_forgets_keys_whose_windows_are_closed():
    tried = 0
    for seed in range(40):
        program, items = draw_program(seed), end_channels(draw_bids(random.Random(seed), 15))
        shape = program.initial.shape
        if shape.by is None or shape.inner.windowing.window.counted:
            continue
        engine = Engine(program, CHANNELS, 3)
        for tasks in cut_rows(random.Random(seed), items, 10):
            engine.batch(tasks)
        assert [page for store in engine.stores for page in store.pages] == [], f"seed {seed}"
        tried += 1
    assert tried > 15


def test_windows_per_key_run_apart_and_windows_over_all_do_not():
    per_key, over_all = (aggregate(Bid, Global(), per=per) for per in ("bidder", None))
    assert (choose_layout(per_key, 4).way, choose_layout(over_all, 4).way) == (
        "keyed",
        "sequential",
    )


def test_windows_do_not_fit_columns_and_say_why():
    program = aggregate(Bid, Global(), per="bidder", **FOLDS)
    channels = {channel.name: channel for channel in CHANNELS}
    reason = plan_columns(program, choose_layout(program, 4), channels, numbered=True)
    assert reason == "Global windows do not lie on a grid"
