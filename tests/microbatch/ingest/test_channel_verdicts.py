"""Watermarks on shards: estimated lateness and idle channels, whatever the batches; no Spark is needed."""

import copy
import dataclasses
import random

import pytest

from anabranch import Event, load
from anabranch.eventtime.channels import NEVER, Channel, end_channels
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.idleness import record
from anabranch.microbatch.ingest.channel_verdicts import Standing, describe_standings
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import can_look_ahead
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
    emitted_rows,
    expected_rows,
    to_row,
)

PROGRAM = load("examples/value_barrier.py")
VALUE, BARRIER = PROGRAM.event_type("Value"), PROGRAM.event_type("Barrier")
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
        channels = (Channel("a1", lateness=rule), Channel("a2", lateness=2), Channel("b"))
        unended = run(PROGRAM, items, channels)
        ended = run(PROGRAM, end_channels(items, channels=channels), channels)
        late += len(ended.late)
        engine = Engine(PROGRAM, channels, 1 + seed % 3)
        for batch in cut(rng, items):
            engine.batch(batch)
        assert {n: s.watermark for n, s in engine.standings.items()} == unended.watermarks
        assert emitted_rows(engine) == expected_rows(unended)
        assert engine.ledger == unended.ledger
        whole = simulate(
            PROGRAM,
            PLANS["four lanes"],
            end_channels(items, channels=channels),
            channels,
            seed=seed,
        )
        assert sorted(o.id for o in whole.outputs) == sorted(o.id for o in ended.outputs)
        assert whole.ledger == ended.ledger
    assert late > 50


def test_a_shard_says_what_delay_an_estimate_costs_now():
    rng = random.Random(5)
    items = draw_values(rng, "a1", 300, 6)
    channels = (Channel("a1", lateness=Estimated(0.9, within=50)),)
    engine = Engine(PROGRAM, channels, 2)
    for batch in cut(rng, items):
        engine.batch(batch)
    about = describe_standings({"a1": channels[0]}, engine.standings)["a1"]
    assert (about["rule"], about["delay"], about["last"]) == ("estimated for 90%", 13, 299)


def test_an_estimated_lateness_goes_event_by_event_and_says_so():
    layout = Engine(PROGRAM, (Channel("a1"),), 2).job.layout
    channels = {"a1": Channel("a1", lateness=Estimated(0.9))}
    reason = plan_columns(PROGRAM, layout, channels, numbered=True)
    assert reason == "the lateness of channel 'a1' is estimated"


IDLING = (Channel("a1", lateness=3, idle_after_s=10), Channel("a2"), Channel("b", idle_after_s=4))
LEARNING = (
    Channel("a1", lateness=Estimated(0.75, within=12, most=8), max_ahead=60, idle_after_s=10),
    *IDLING[1:],
)


class Recorder:
    """Runs batches at recorded times, and writes down what was decided by the clock."""

    def __init__(self, channels, shards, *, columns=False):
        self.engine = Engine(PROGRAM, channels, shards, columns=columns)
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
            assert lost.emitted == self.engine.emitted
            assert lost.standings == self.engine.standings
        for name, standing in self.engine.standings.items():
            if standing.waived != self.waived.get(name, NEVER):
                self.waived[name] = standing.waived
                self.decided.append((name, standing.waived, standing.last))


def deal(rng, items):
    """Deal items out to batches; a channel that may be idle is now and then silent for some."""
    queues = {name: [i for i in items if i.channel == name] for name in ("a1", "a2", "b")}
    silent = {"a1": 0, "b": 0}
    while any(queues.values()):
        silent = {n: left - 1 if left else rng.choice((0, 0, 0, 9)) for n, left in silent.items()}
        talking = [name for name in queues if not silent.get(name)]
        taken = [item for name in talking for item in queues[name][: rng.randint(1, 4)]]
        for item in taken:
            queues[item.channel].remove(item)
        if taken:
            yield taken


@WAYS
@pytest.mark.parametrize(
    ("channels", "shards"), [(IDLING, 1), (IDLING, 3), (LEARNING, 2)], ids=["1", "3", "estimated"]
)
def test_differential_the_reference_with_the_record_says_what_the_query_said(
    channels, shards, columns
):
    late = idle = 0
    for seed in range(15):
        rng = random.Random(seed)
        items = draw_values(rng, "a1", 60, 2) + draw_values(rng, "a2", 60, 0.01)
        items += [Event(BARRIER(t), "b", t) for t in range(5, 120, 4)]
        recorder = Recorder(channels, shards, columns=columns)
        shown = []
        for taken in deal(rng, items):
            shown += taken
            recorder.batch([list(map(to_row, taken))], rng.uniform(0, 6), repeat=seed % 3 == 0)
        answer = run(PROGRAM, shown + record(recorder.decided), channels)
        engine = recorder.engine
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger
        assert engine.watermark == answer.watermark
        found = sorted((s.channel, s.seq) for s in engine.emitted if s.kind == "late")
        assert found == sorted((x.event.channel, x.event.seq) for x in answer.late)
        bounded = end_channels(shown + record(recorder.decided), channels=channels)
        whole = simulate(PROGRAM, PLANS["four lanes"], bounded, channels, seed=seed)
        assert whole.ledger == run(PROGRAM, bounded, channels).ledger
        late += sum("was silent" in s.reason for s in engine.emitted if s.kind == "late")
        idle += len(recorder.decided)
    assert (late > 100, idle > 20) == (True, True), (late, idle)


def values(name, *pairs):
    return [to_row(Event(VALUE(time, 1), name, seq)) for seq, time in pairs]


@WAYS
def test_a_silent_channel_is_left_behind_and_late_when_it_wakes_up(columns):
    channels = (Channel("a1", idle_after_s=10), Channel("a2"))
    recorder = Recorder(channels, 2, columns=columns)
    engine = recorder.engine
    recorder.batch([values("a1", (0, 5)) + values("a2", (0, 5))], 0)
    recorder.batch([values("a2", (1, 20))], 4)
    assert engine.watermark == 4
    recorder.batch([values("a2", (2, 30))], 4)
    assert (engine.watermark, engine.ledger.pending) == (4, 4)
    recorder.batch([values("a2", (3, 40))], 4)
    assert (engine.watermark, engine.ledger.pending) == (39, 1)
    assert recorder.decided == [("a1", 39, 0)]
    assert engine.standings["a1"] == Standing(39, 5, 0, (), 12_000, 39)
    recorder.batch([values("a1", (1, 12), (2, 39), (3, 41)), values("a2", (4, 50))], 1)
    late = [(s.seq, s.reason) for s in engine.emitted if s.kind == "late"]
    assert late == [
        (1, "27 behind the watermark, which advanced while its channel was silent"),
        (2, "0 behind the watermark, which advanced while its channel was silent"),
    ]
    assert engine.watermark == 40
    assert engine.standings["a1"].silence_ms == 0
    recorder.batch([values("a1", (4, 2))], 1)
    assert engine.emitted[-1].reason == "38 behind its channel's watermark"
    assert engine.ledger.late == 3


@WAYS
def test_a_query_that_was_down_for_long_does_not_give_its_channels_up(columns):
    channels = (Channel("a1", idle_after_s=10), Channel("a2"))
    recorder = Recorder(channels, 1, columns=columns)
    recorder.batch([values("a1", (0, 5)) + values("a2", (0, 5))], 0)
    recorder.batch([values("a2", (1, 20))], 86_400)
    assert recorder.engine.watermark == 4
    recorder.batch([values("a1", (1, 20))], 1)
    recorder.batch([values("a2", (2, 30))], 86_400)
    assert recorder.engine.ledger.late == 0
    assert recorder.decided == []


@WAYS
def test_a_channel_that_never_brought_anything_can_be_idle_too(columns):
    channels = (Channel("a1", idle_after_s=2), Channel("a2"))
    recorder = Recorder(channels, 2, columns=columns)
    for n in range(4):
        recorder.batch([values("a2", (n, 10 * n + 1))], 1)
    assert recorder.decided == [("a1", 20, None), ("a1", 30, None)]
    assert recorder.engine.watermark == 30


def test_without_a_recorded_time_nobody_is_idle():
    engine = Engine(PROGRAM, (Channel("a1", idle_after_s=0.001), Channel("a2")), 1)
    for n in range(5):
        engine.batch([values("a2", (n, n + 1))])
    assert engine.watermark == NEVER


def test_when_a_channel_is_idle_may_change_from_one_start_to_the_next():
    layout = Engine(PROGRAM, (Channel("a1"),), 2).job.layout
    plain, idling = ({"a1": Channel("a1", idle_after_s=s)} for s in (None, 5))
    assert fingerprint(PROGRAM, layout, plain) == fingerprint(PROGRAM, layout, idling)
    assert fingerprint(PROGRAM, layout, plain)["channel 'a1'"] == (
        "Channel(name='a1', lateness=0, unique_times=False, max_ahead=None)"
    )


def test_a_batch_is_not_foreseen_if_its_time_decides_who_is_idle(tmp_path):
    def read(channel):
        engine = Engine(load("examples/key_counter.py"), [channel], 1, columns=True)
        folder = Folder(Files(tmp_path), Reading(event_type="Inc", channel="a"))
        return dataclasses.replace(engine.job, folders=(folder,))

    assert can_look_ahead(read(Channel("a")))
    idling = read(Channel("a", idle_after_s=5))
    assert idling.columns is not None
    assert not can_look_ahead(idling)


@pytest.mark.parametrize("rule", ESTIMATES)
def test_differential_an_estimate_over_files_packed_out_of_order_changes_nothing(rule):
    rng = random.Random(2)
    items = draw_values(rng, "a1", 200, 6)
    channels = (Channel("a1", lateness=rule),)
    answer = run(PROGRAM, items, channels)
    rows = [to_row(item) for item in items]
    files = [rows[n : n + 20] for n in range(0, 200, 20)]
    engine = Engine(PROGRAM, channels, 3)
    engine.batch([files[0] + files[3] + files[5], files[4] + files[1], files[2]])
    engine.batch([files[8] + files[6], files[9] + files[7]])
    assert engine.ledger == answer.ledger
    assert answer.ledger.late > 5
    late = {(s.seq, s.reason.split()[0]) for s in engine.emitted if s.kind == "late"}
    assert late == {(x.event.seq, str(x.distance)) for x in answer.late}
