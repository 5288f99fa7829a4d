"""Timers by a recorded clock: shards that heard it live, and the reference that reads the record."""

import random
from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, on
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.clocks import Tick
from anabranch.eventtime.idleness import record
from anabranch.reference.sequential import run
from anabranch.state import MapOf, Replicated, Shared, Sum
from tests.microbatch.ingest.test_channel_verdicts import Recorder
from tests.microbatch.streams import read_published
from tests.microbatch.test_microbatches import Engine, emitted_rows, expected_rows, to_row


class Call(NamedTuple):
    time: int
    user: int


class Reminder(NamedTuple):
    time: int
    user: int


calling = Program(
    on(Tick, update=lambda now, tick: tick.time),
    on(Call, update=lambda state, call: call.time),
    on(
        Reminder,
        due=lambda last: last + 5 if last else None,
        output=lambda state, timer: (timer.user, timer.time, state.common),
        update=lambda state, timer: 0,
    ),
    depends(Call, Call, same="user"),
    state=Shared(Replicated(0), MapOf(Sum(), by="user")),
)
CHANNELS = (Channel("clock", unique_times=True), Channel("calls", idle_after_s=2))


@pytest.mark.parametrize("shards", [1, 3])
def test_timers_come_while_nobody_calls_and_a_replay_of_the_record_says_the_same(shards):
    for seed in range(10):
        rng = random.Random(seed)
        recorder = Recorder(CHANNELS, shards)
        recorder.engine = Engine(calling, CHANNELS, shards)
        told, said_at, calls = [], {}, 0
        for now in range(1, 60):
            came = [Event(Tick(now), "clock", now)]
            if now < 20 and rng.random() < 0.4:
                came.append(Event(Call(now, rng.randint(0, 3)), "calls", calls))
                calls += 1
            told += came
            recorder.batch([list(map(to_row, came))], 1, repeat=rng.random() < 0.2)
            for row in recorder.engine.emitted:
                said_at.setdefault(row.id, (now, row.time))
        engine = recorder.engine
        answer = run(calling, told + record(recorder.decided), CHANNELS)
        assert answer.values
        assert emitted_rows(engine) == expected_rows(answer), seed
        assert engine.ledger == answer.ledger
        assert (answer.ledger.late, answer.ledger.pending) == (0, 0)
        assert {output.value[1] - output.value[2] for output in answer.outputs} == {0}
        # Two batches without calls, and the clock goes on alone.
        assert all(now - due <= 3 for now, due in said_at.values())


@pytest.mark.spark
def test_a_clock_on_spark_ticks_by_the_second_and_a_restart_reads_it_on(spark, tmp_path):
    from anabranch.spark import Clock, run, write_directory

    ticking = Program(
        on(Tick, update=lambda last, tick: tick.time, output=lambda last, tick: tick.time - last),
        depends(Tick, Tick),
        init=0,
    )
    for _ in range(2):
        result = run(ticking, Clock(every_s=1, unit_us=1_000_000, spark=spark), shards=1)
        query = write_directory(
            result,
            output=tmp_path / "out",
            checkpoint=tmp_path / "state",
            trigger={"processingTime": "1 second"},
        )
        before = len(read_emitted(tmp_path, ticking))
        while len(read_emitted(tmp_path, ticking)) < before + 2:
            query.awaitTermination(1)
        query.stop()
    rows = read_emitted(tmp_path, ticking)
    assert [seq for seq, _ in rows] == list(range(len(rows)))
    assert {value for _, value in rows[1:]} == {"1"}


def read_emitted(home, ticking):
    rows = read_published(home / "out", ticking)
    return sorted((row.seq, row.value) for row in rows if row.kind == "output")
