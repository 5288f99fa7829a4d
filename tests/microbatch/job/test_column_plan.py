"""Every type of state says the same on the reference, on any plan, and on shards however cut."""

import random

import pytest

from anabranch import Event
from anabranch.errors import StateTooLargeError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.laws import check
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.store.column_entries import forget_tables
from anabranch.plan.layouts import choose_layout
from anabranch.plan.optimizers.enumeration import enumerate_plans
from anabranch.reference.sequential import run
from anabranch.reference.simulator import Faults
from anabranch.reference.verification import prepare
from anabranch.spark.run_explanation import explain_run
from anabranch.state import Limited, ListOf
from tests.microbatch.programs import Reading
from tests.microbatch.state_programs import REASONS, STATE_PROGRAMS, keyed, slice_program
from tests.microbatch.test_microbatches import (
    WAYS,
    Engine,
    cut,
    draw_items,
    emitted_rows,
    expected_rows,
    to_row,
)

CHANNELS = tuple(Channel(name) for name in "abc")
every_program = pytest.mark.parametrize("name", STATE_PROGRAMS)


def draw(program, seed, count=25):
    return end_channels(draw_items(random.Random(seed), program, count), channels=CHANNELS)


@WAYS
@pytest.mark.parametrize("shards", [1, 3])
@every_program
def test_differential_shards_say_what_the_fold_says(name, shards, columns):
    program = STATE_PROGRAMS[name]
    for seed in range(4):
        rng = random.Random(seed)
        items = draw(program, seed)
        answer = run(program, items, CHANNELS)
        hot_keys = [1, 2] if seed % 2 and not columns else ()
        engine = Engine(program, CHANNELS, shards, hot_keys, columns=columns)
        for batch in cut(rng, items):
            engine.batch(batch)
            if rng.random() < 0.3:
                forget_tables()
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger
        rejected = sorted(s.reason for s in engine.emitted if s.kind == "rejected")
        assert rejected == sorted(r.reason for r in answer.rejected)
        assert bool(rejected) == name.startswith("limited")
        assert answer.outputs


@every_program
def test_differential_every_plan_says_what_the_fold_says(name):
    program = STATE_PROGRAMS[name]
    if name == "value of free events":
        # On shards it is not cut; a plan that cuts it breaks the law, as anybody can see.
        law = check(program, cases=150, seed=1).result("update_passes_through_join")
        assert law.verdict == "broken"
        return
    plans = list(enumerate_plans(program, slice_program(program)))
    rng = random.Random(name)
    cut_apart = 0
    for plan in rng.sample(plans, min(6, len(plans))):
        trial = prepare(program, plan, draw(program, 1, count=12), CHANNELS)
        for seed in range(2):
            simulation, mismatch = trial.verify(seed, Faults(crashes=1, snapshots=2, repeat=0.1))
            assert mismatch is None, f"{plan.root}: {mismatch}"
            cut_apart += simulation.counts.joins
    assert cut_apart or len(plans) == 1


@every_program
def test_what_does_not_fit_columns_says_why(name):
    program = STATE_PROGRAMS[name]
    plan = plan_columns(
        program, choose_layout(program, 3), {s.name: s for s in CHANNELS}, numbered=True
    )
    assert (plan if isinstance(plan, str) else None) == REASONS.get(name)
    if name in REASONS:
        assert any(REASONS[name] in line for line in explain_run(program, CHANNELS))


@pytest.mark.parametrize(("name", "way"), [
    ("value", "keyed"), ("list", "keyed"), ("limited list", "keyed"), ("struct", "keyed"),
    ("value of free events", "sequential"), ("limited as a whole", "sequential"),
    ("sorted list", "forked"), ("latest", "forked"), ("bag", "forked"), ("split list", "forked"),
    ("union list", "forked"), ("per channel", "forked"), ("broadcast", "replicated"),
    ("offsets per meter", "keyed"), ("sorted list per meter", "keyed"),
])  # fmt: skip
def test_each_is_laid_out_as_far_apart_as_its_state_allows(name, way):
    assert choose_layout(STATE_PROGRAMS[name], 3).way == way


def test_only_states_that_fork_are_spread_for_a_hot_key():
    assert "not spread" in str(choose_layout(STATE_PROGRAMS["list"], 3, hot_keys=[1]).reasons)
    assert choose_layout(STATE_PROGRAMS["sorted list per meter"], 3, hot_keys=[1]).hot_keys == {1}


@pytest.mark.parametrize("shards", [1, 3])
def test_a_state_that_may_not_grow_stops_the_run_wherever_it_runs(shards):
    limited = Limited(ListOf(), items=2, on_overflow="stop")
    program = keyed(limited, lambda s, e: (*s, e.amount))
    items = [Event(Reading(n, 5, n), "a", n) for n in range(3)]
    with pytest.raises(StateTooLargeError) as told:
        run(program, end_channels(items))
    engine = Engine(program, (Channel("a", unique_times=True),), shards)
    engine.batch([[to_row(item) for item in items[:2]]])
    with pytest.raises(StateTooLargeError) as found:
        engine.batch([[to_row(items[2]), to_row(Event(Reading(9, 4, 1), "a", 9))]])
    assert (found.value.key, found.value.size) == (told.value.key, told.value.size) == ((5,), 3)
    _, mismatch = prepare(
        keyed(Limited(ListOf(), items=3, on_overflow="stop"), lambda s, e: (*s, e.amount)),
        next(enumerate_plans(program, slice_program(program))),
        end_channels(items),
    ).verify(0)
    assert mismatch is None
