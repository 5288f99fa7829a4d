"""Frontiers on shards: estimated lateness and idle sources, whatever the batches; no Spark is needed."""

import copy
import dataclasses
import random

import pytest

from anabranch import Event, load
from anabranch.eventtime.channels import NEVER, Source, end_sources
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.idleness import record
from anabranch.microbatch.ingest.channel_verdicts import Standing, describe_standings
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import can_foresee
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.fingerprint import fingerprint
from anabranch.model.targets import load_module
from anabranch.reference.sequential import run
from anabranch.reference.simulator import simulate
from anabranch.sources.files import Files
from tests.microbatch.test_microbatches import (
    WAYS,
    Engine,
    cut,
    expected_rows,
    said_rows,
    to_row,
)

PROGRAM = load("examples/value_barrier.py")
VALUE, BARRIER = PROGRAM.tag("Value"), PROGRAM.tag("Barrier")
PLANS = load_module("examples/value_barrier.py").plans
ESTIMATES = [
    Estimated(0.9, within=20),
    Estimated(0.5, within=2, most=9),
    Estimated(0.95, within=None, least=2),
]


def draw_values(rng, name, count, spread):
    times = [max(1, 2 * n - int(rng.expovariate(1 / spread))) for n in range(count)]
    return [Event(VALUE(time, 1 + n % 7), name, n) for n, time in enumerate(times)]


@pytest.mark.parametrize("rule", ESTIMATES)
def test_differential_an_estimate_is_the_same_on_every_runtime_and_cut(rule):
    late = 0
    for seed in range(12):
        rng = random.Random(seed)
        items = draw_values(rng, "a1", 120, 6) + draw_values(rng, "a2", 90, 3)
        items += [Event(BARRIER(t), "b", t) for t in range(5, 240, 9)]
        sources = (Source("a1", lateness=rule), Source("a2", lateness=2), Source("b"))
        unended = run(PROGRAM, items, sources)
        ended = run(PROGRAM, end_sources(items, sources), sources)
        late += len(ended.late)
        engine = Engine(PROGRAM, sources, 1 + seed % 3)
        for batch in cut(rng, items):
            engine.batch(batch)
        assert {n: s.frontier for n, s in engine.standings.items()} == unended.frontiers
        assert said_rows(engine) == expected_rows(unended)
        assert engine.ledger == unended.ledger
        whole = simulate(
            PROGRAM, PLANS["four lanes"], end_sources(items, sources), sources, seed=seed
        )
        assert sorted(o.id for o in whole.outputs) == sorted(o.id for o in ended.outputs)
        assert whole.ledger == ended.ledger
    assert late > 50


def test_a_shard_says_what_delay_an_estimate_costs_now():
    rng = random.Random(5)
    items = draw_values(rng, "a1", 300, 6)
    sources = (Source("a1", lateness=Estimated(0.9, within=50)),)
    engine = Engine(PROGRAM, sources, 2)
    for batch in cut(rng, items):
        engine.batch(batch)
    about = describe_standings({"a1": sources[0]}, engine.standings)["a1"]
    assert (about["rule"], about["delay"], about["last"]) == ("estimated for 90%", 13, 299)


def test_an_estimated_lateness_goes_event_by_event_and_says_so():
    wiring = Engine(PROGRAM, (Source("a1"),), 2).job.wiring
    sources = {"a1": Source("a1", lateness=Estimated(0.9))}
    reason = plan_columns(PROGRAM, wiring, sources, numbered=True)
    assert reason == "the lateness of source 'a1' is estimated"


IDLING = (Source("a1", lateness=3, idle_after_s=10), Source("a2"), Source("b", idle_after_s=4))
LEARNING = (
    Source("a1", lateness=Estimated(0.75, within=12, most=8), ahead=60, idle_after_s=10),
    *IDLING[1:],
)


class Recorder:
    """Runs batches at recorded times, and writes down what was decided by the clock."""

    def __init__(self, sources, shards, *, columns=False):
        self.engine = Engine(PROGRAM, sources, shards, columns=columns)
        self.decided = []
        self.waived = {}
        self.clock_ms = 1_000_000

    def batch(self, tasks, passed_s, *, repeat=False):
        self.clock_ms += round(passed_s * 1000)
        if repeat:
            # The batch was done once, and lost before anybody heard of it.
            lost = copy.deepcopy(self.engine)
            lost.batch(tasks, self.clock_ms)
        self.engine.batch(tasks, self.clock_ms)
        if repeat:
            assert lost.said == self.engine.said
            assert lost.standings == self.engine.standings
        for name, standing in self.engine.standings.items():
            if standing.waived != self.waived.get(name, NEVER):
                self.waived[name] = standing.waived
                self.decided.append((name, standing.waived, standing.last))


def deal(rng, items):
    """Deal items out to batches; a source that may be idle is now and then silent for some."""
    queues = {name: [i for i in items if i.source == name] for name in ("a1", "a2", "b")}
    silent = {"a1": 0, "b": 0}
    while any(queues.values()):
        silent = {n: left - 1 if left else rng.choice((0, 0, 0, 9)) for n, left in silent.items()}
        talking = [name for name in queues if not silent.get(name)]
        taken = [item for name in talking for item in queues[name][: rng.randint(1, 4)]]
        for item in taken:
            queues[item.source].remove(item)
        if taken:
            yield taken


@WAYS
@pytest.mark.parametrize(
    ("sources", "shards"), [(IDLING, 1), (IDLING, 3), (LEARNING, 2)], ids=["1", "3", "estimated"]
)
def test_differential_the_reference_with_the_record_says_what_the_query_said(
    sources, shards, columns
):
    late = idle = 0
    for seed in range(15):
        rng = random.Random(seed)
        items = draw_values(rng, "a1", 60, 2) + draw_values(rng, "a2", 60, 0.01)
        items += [Event(BARRIER(t), "b", t) for t in range(5, 120, 4)]
        recorder = Recorder(sources, shards, columns=columns)
        shown = []
        for taken in deal(rng, items):
            shown += taken
            recorder.batch([list(map(to_row, taken))], rng.uniform(0, 6), repeat=seed % 3 == 0)
        answer = run(PROGRAM, shown + record(recorder.decided), sources)
        engine = recorder.engine
        assert said_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger
        assert engine.frontier == answer.frontier
        found = sorted((s.source, s.seq) for s in engine.said if s.kind == "late")
        assert found == sorted((x.event.source, x.event.seq) for x in answer.late)
        bounded = end_sources(shown + record(recorder.decided), sources)
        whole = simulate(PROGRAM, PLANS["four lanes"], bounded, sources, seed=seed)
        assert whole.ledger == run(PROGRAM, bounded, sources).ledger
        late += sum("was silent" in s.reason for s in engine.said if s.kind == "late")
        idle += len(recorder.decided)
    assert (late > 100, idle > 20) == (True, True), (late, idle)


def values(name, *pairs):
    return [to_row(Event(VALUE(time, 1), name, seq)) for seq, time in pairs]


@WAYS
def test_a_silent_source_is_left_behind_and_late_when_it_wakes_up(columns):
    sources = (Source("a1", idle_after_s=10), Source("a2"))
    recorder = Recorder(sources, 2, columns=columns)
    engine = recorder.engine
    recorder.batch([values("a1", (0, 5)) + values("a2", (0, 5))], 0)
    recorder.batch([values("a2", (1, 20))], 4)
    assert engine.frontier == 4
    recorder.batch([values("a2", (2, 30))], 4)
    assert (engine.frontier, engine.ledger.pending) == (4, 4)
    recorder.batch([values("a2", (3, 40))], 4)
    assert (engine.frontier, engine.ledger.pending) == (39, 1)
    assert recorder.decided == [("a1", 39, 0)]
    assert engine.standings["a1"] == Standing(39, 5, 0, (), 12_000, 39)
    recorder.batch([values("a1", (1, 12), (2, 39), (3, 41)), values("a2", (4, 50))], 1)
    late = [(s.seq, s.reason) for s in engine.said if s.kind == "late"]
    assert late == [
        (1, "27 behind the frontier, which went on while its source was silent"),
        (2, "0 behind the frontier, which went on while its source was silent"),
    ]
    assert engine.frontier == 40
    assert engine.standings["a1"].silence_ms == 0
    recorder.batch([values("a1", (4, 2))], 1)
    assert engine.said[-1].reason == "38 behind its source's frontier"
    assert engine.ledger.late == 3


@WAYS
def test_a_query_that_was_down_for_long_does_not_give_its_sources_up(columns):
    sources = (Source("a1", idle_after_s=10), Source("a2"))
    recorder = Recorder(sources, 1, columns=columns)
    recorder.batch([values("a1", (0, 5)) + values("a2", (0, 5))], 0)
    recorder.batch([values("a2", (1, 20))], 86_400)
    assert recorder.engine.frontier == 4
    recorder.batch([values("a1", (1, 20))], 1)
    recorder.batch([values("a2", (2, 30))], 86_400)
    assert recorder.engine.ledger.late == 0
    assert recorder.decided == []


@WAYS
def test_a_source_that_never_brought_anything_can_be_idle_too(columns):
    sources = (Source("a1", idle_after_s=2), Source("a2"))
    recorder = Recorder(sources, 2, columns=columns)
    for n in range(4):
        recorder.batch([values("a2", (n, 10 * n + 1))], 1)
    assert recorder.decided == [("a1", 20, None), ("a1", 30, None)]
    assert recorder.engine.frontier == 30


def test_without_a_recorded_time_nobody_is_idle():
    engine = Engine(PROGRAM, (Source("a1", idle_after_s=0.001), Source("a2")), 1)
    for n in range(5):
        engine.batch([values("a2", (n, n + 1))])
    assert engine.frontier == NEVER


def test_when_a_source_is_idle_may_change_from_one_start_to_the_next():
    wiring = Engine(PROGRAM, (Source("a1"),), 2).job.wiring
    plain, idling = ({"a1": Source("a1", idle_after_s=s)} for s in (None, 5))
    assert fingerprint(PROGRAM, wiring, plain) == fingerprint(PROGRAM, wiring, idling)
    assert fingerprint(PROGRAM, wiring, plain)["source 'a1'"] == (
        "Source(name='a1', lateness=0, strict=False, ahead=None)"
    )


def test_a_batch_is_not_foreseen_if_its_time_decides_who_is_idle(tmp_path):
    def read(source):
        engine = Engine(load("examples/key_counter.py"), [source], 1, columns=True)
        folder = Folder(Files(tmp_path), Reading(tag="Inc", source="a"))
        return dataclasses.replace(engine.job, folders=(folder,))

    assert can_foresee(read(Source("a")))
    idling = read(Source("a", idle_after_s=5))
    assert idling.columns is not None
    assert not can_foresee(idling)


@pytest.mark.parametrize("rule", ESTIMATES)
def test_differential_an_estimate_over_files_packed_out_of_order_changes_nothing(rule):
    rng = random.Random(2)
    items = draw_values(rng, "a1", 200, 6)
    sources = (Source("a1", lateness=rule),)
    answer = run(PROGRAM, items, sources)
    rows = [to_row(item) for item in items]
    files = [rows[n : n + 20] for n in range(0, 200, 20)]
    engine = Engine(PROGRAM, sources, 3)
    engine.batch([files[0] + files[3] + files[5], files[4] + files[1], files[2]])
    engine.batch([files[8] + files[6], files[9] + files[7]])
    assert engine.ledger == answer.ledger
    assert answer.ledger.late > 5
    late = {(s.seq, s.reason.split()[0]) for s in engine.said if s.kind == "late"}
    assert late == {(x.event.seq, str(x.distance)) for x in answer.late}
