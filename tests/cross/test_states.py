"""Every ready-made state, in every layout, on the reference and on shards, against plain Python.

Shards run as Spark runs them, without Spark: from bytes in a store, with a restart after any batch, and with
a change to another number of shards in the middle. What a layout can't do is in `GAPS`: a refusal with its
reason, or another layout with the reason for it. A gap that has closed fails.
"""

import random
import re
from dataclasses import replace

import pytest
from pyspark import cloudpickle

import anabranch.state
from anabranch.errors import AnabranchError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.microbatch.exchange.result_rows import encode_json
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.store.column_entries import forget_tables
from anabranch.plan.layouts import choose_layout
from anabranch.reference.sequential import run
from anabranch.reference.speculative import run as emit
from tests.cross.programs import (
    APART,
    CASES,
    CHANNELS,
    LAYOUTS,
    draw_rows,
    expect,
    make_program,
    read_output,
    sort_outputs,
    to_event,
)
from tests.microbatch.restore.test_shard_restore import take_up
from tests.microbatch.speculative.test_keyed_shard import Engine as SpeculativeEngine
from tests.microbatch.test_microbatches import Engine, cut

SEEDS = range(2)
WINDOWS = ("tumbling", "sliding", "sessions")
OTHERS = [layout for layout in LAYOUTS if layout not in WINDOWS]

NO_ZERO = "forked: the state has no fork, join and zero to fold deltas from"
NO_START = "windows start empty, and a fold has its own start"
NOTHING = "windows start empty, and a fold has no zero"
NO_JOIN = "windows that merge need a fold with a join"
ONE_VALUE = "does not take one value"
IN_ORDER = ("ListOf", "Value", "Limited")
GAPS: dict[tuple[str, str], str] = {
    **{(case, layout): NO_ZERO for case in IN_ORDER for layout in ("forked", "forked keys")},
    **{(case, layout): NOTHING for case in IN_ORDER for layout in ("tumbling", "sliding")},
    **{(case, "sessions"): NO_JOIN for case in IN_ORDER},
    **{
        (case, layout): NO_START
        for case in ("Count from a start", "Sum from a start")
        for layout in WINDOWS
    },
    **{(case, layout): ONE_VALUE for case in ("Struct", "UnionList") for layout in WINDOWS},
    **{("Fold", layout): "(none|None|no state)" for layout in OTHERS},
}
"""What a layout refuses, or runs in order instead, and why."""

SCALARS = (
    "Count", "Count from a start", "Sum", "Sum from a start", "Max", "Max from a start", "Min",
    "Min from a start", "Mean", "Value", "Struct",
)  # fmt: skip
EXACT = ("ExactSum", "ExactMean", "ExactVariance")
COLUMN_GAPS: dict[tuple[str, str], str] = {
    **{(case, "shared"): "keys share a part of the state" for case in CASES},
    **{
        (case, "keyed"): "the state of an entry can't be stored in columns"
        for case in CASES
        if case not in SCALARS
    },
    **{(case, "keyed"): "an entry contains an exact sum of floats" for case in EXACT},
    **{
        (case, layout): "out is not a count, sum, minimum or maximum of integers"
        for case in CASES
        if case not in ("Count", "Sum", "Max", "Min", "Mean")
        for layout in WINDOWS
    },
    **{(case, "forked keys"): "Peek sees all entries at once" for case in IN_ORDER},
    **{("Limited", layout): "the state has a limit" for layout in OTHERS if layout != "shared"},
}
"""What is run event by event, and why."""

CROSS = [(case, layout) for case in CASES for layout in LAYOUTS]
RUNS = [pair for pair in CROSS if pair not in GAPS or GAPS[pair] == NO_ZERO]
each = pytest.mark.parametrize(("case", "layout"), RUNS, ids=[f"{c}, {w}" for c, w in RUNS])


def prepare(case, layout, seed):
    """Return a program, its input, and what the oracle says of it."""
    rng = random.Random(f"{seed} {layout}")
    rows = draw_rows(rng, layout, 10)
    channels = tuple(Channel(name) for name in CHANNELS)
    items = end_channels([to_event(row, layout) for row in rows], channels=channels)
    return make_program(case, layout), channels, items, expect(case, layout, rows), rng


def read_answer(case, layout, answer):
    outputs = answer.outputs
    return sort_outputs(
        [
            read_output(
                case, layout, o.event.time, o.event.channel, o.event.seq, encode_json(o.value)
            )
            for o in outputs
        ]
    )


def read_rows(case, layout, rows):
    return sort_outputs(
        [
            read_output(case, layout, row.time, row.channel, row.seq, row.value)
            for row in rows
            if row.kind == "output"
        ]
    )


def restart(engine):
    """Go on as a new process does: with a job that has travelled, and nothing remembered."""
    forget_tables()
    engine.job = replace(cloudpickle.loads(cloudpickle.dumps(engine.job)))


def test_every_ready_made_state_is_crossed():
    kinds = {
        name for name in anabranch.state.__all__ if hasattr(getattr(anabranch.state, name), "init")
    }
    missing = kinds - {case.split()[0] for case in CASES} - APART.keys()
    assert not missing


@pytest.mark.parametrize(("case", "layout"), GAPS, ids=[f"{c}, {w}" for c, w in GAPS])
def test_a_gap_is_a_refusal_with_its_reason_or_another_layout(case, layout):
    reason = GAPS[case, layout]
    if reason == NO_ZERO:
        shard_layout = choose_layout(make_program(case, layout), 3)
        assert shard_layout.way == "sequential"
        assert reason in shard_layout.reasons
        return
    with pytest.raises(AnabranchError) as refused:
        make_program(case, layout)
    assert re.search(reason, str(refused.value))


@pytest.mark.parametrize(("case", "layout"), RUNS, ids=[f"{c}, {w}" for c, w in RUNS])
def test_a_program_has_its_layout_and_goes_by_columns_unless_there_is_a_gap(case, layout):
    program = make_program(case, layout)
    shard_layout = choose_layout(program, 3)
    expected = "keyed" if layout in WINDOWS else LAYOUTS[layout].way
    assert shard_layout.way == ("sequential" if (case, layout) in GAPS else expected)
    plan = plan_columns(program, shard_layout, {n: Channel(n) for n in CHANNELS}, numbered=True)
    reason = plan if isinstance(plan, str) else None
    assert reason == COLUMN_GAPS.get((case, layout))


@each
def test_the_reference_says_what_the_oracle_says(case, layout):
    for seed in SEEDS:
        program, channels, items, expected, _ = prepare(case, layout, seed)
        answer = run(program, items, channels)
        assert read_answer(case, layout, answer) == expected, f"seed {seed}"
        assert not answer.rejected
        changes = emit(program, items, channels, sizes=iter(lambda: 4, None)).answer
        assert read_answer(case, layout, changes) == expected, f"speculative, seed {seed}"


@pytest.mark.parametrize(
    ("case", "layout", "columns"),
    [(*pair, False) for pair in RUNS] + [(*pair, True) for pair in RUNS if pair not in COLUMN_GAPS],
)
def test_shards_say_what_the_oracle_says_also_restored_with_others(case, layout, columns):
    for seed in SEEDS:
        program, channels, items, expected, rng = prepare(case, layout, seed)
        engine = Engine(program, channels, rng.choice((1, 3)), columns=columns)
        batches = cut(rng, items)
        change = rng.randint(1, len(batches)) if seed else None
        for number, batch in enumerate(batches):
            if number == change:
                other = Engine(program, channels, rng.choice((2, 5)), columns=columns)
                take_up(engine, other)
                engine = other
            engine.batch(batch)
            restart(engine)
        assert read_rows(case, layout, engine.emitted) == expected, f"seed {seed}"
        assert not [row for row in engine.emitted if row.kind == "rejected"]
        assert engine.ledger.processed == sum(hasattr(item, "data") for item in items)


@each
def test_speculative_shards_say_what_the_oracle_says(case, layout):
    for seed in SEEDS:
        program, channels, items, expected, rng = prepare(case, layout, seed)
        engine = SpeculativeEngine(program, channels, rng.choice((1, 3)))
        for batch in cut(rng, items):
            engine.batch(batch)
        assert read_rows(case, layout, engine.standing.values()) == expected, f"seed {seed}"
        assert read_rows(case, layout, engine.settled) == expected, f"settled, seed {seed}"
        assert not [row for row in engine.rest if row.kind == "rejected"]
