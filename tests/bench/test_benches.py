"""Every benchmark runs at a tiny size; each checks its own answers before it returns a rate."""

import json
import sys
import threading
import time

import pytest

from bench import empty_batches, hot_key, on_spark, planning, savepoints, scaling
from bench.latency.__main__ import FOLDER as LATENCY
from bench.latency.__main__ import compare
from bench.latency.producer import Schedule, listen, produce
from bench.lookups import __main__ as lookups
from bench.peers.trials import JOBS


def test_planning_checks_every_plan(monkeypatch):
    monkeypatch.setattr(planning, "ROUNDS", 1)
    loads = {name: (program, rates) for name, (program, rates) in planning.PROGRAMS.items()}
    for name, (program, rates) in loads.items():
        few = planning.Rates([*rates.loads[:2], *rates.loads[-6:]])
        monkeypatch.setitem(planning.PROGRAMS, name, (program, few))
    rates = planning.measure()
    assert len(rates) == 12
    assert min(rates.values()) > 0


def test_scaling_times_every_program_with_both_plans(monkeypatch):
    monkeypatch.setattr(scaling, "WORKERS", (1, 2))
    monkeypatch.setattr(scaling, "PER_MARKER", 500)
    rates = scaling.measure()
    assert len(rates) == 12
    # One rule for all accounts: a key-by plan has one node to use, however many there are.
    assert rates["fraud, anabranch, 2 nodes"] > 1.5 * rates["fraud, key-by, 2 nodes"]


@pytest.mark.spark
def test_on_spark_gives_the_sums_at_each_barrier(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(on_spark, "VALUES", 400)
    monkeypatch.setattr(on_spark, "PER_BARRIER", 20)
    monkeypatch.setattr(on_spark, "FILES", 1)
    expected = on_spark.write_input(spark, tmp_path)
    assert on_spark.run_anabranch(spark, tmp_path) == expected[:-1]


@pytest.mark.spark
@pytest.mark.parametrize("work", hot_key.WORKLOADS, ids=lambda work: work.name)
def test_a_hot_key_has_the_answer_of_a_loop(spark, tmp_path, monkeypatch, work):
    monkeypatch.setattr(hot_key, "EVENTS", 60)
    monkeypatch.setattr(hot_key, "PER_MARKER", 10)
    monkeypatch.setattr(hot_key, "FILES", 1)
    monkeypatch.setattr(hot_key, "SHARDS", 2)
    hot_key.write_input(tmp_path, work)
    frame = hot_key.run_anabranch(spark, tmp_path, work)
    answer, tasks = hot_key.finish(spark, frame, tmp_path / "checkpoint")
    state, expected = 0, []
    for when in range(1, 60):  # Events at the last time stay pending.
        if when % 10 == 0:
            expected.append((when, state))
            state = state if work.name == "value_barrier" else when
        if work.name == "value_barrier":
            state += when
        else:
            expected.append((when, state))
    assert answer == expected
    assert 0 < hot_key.share_of_busiest(tasks) <= 1
    assert sum(hot_key.share_by_core(tasks)) == pytest.approx(1)


@pytest.mark.spark
def test_empty_batches_have_one_event_of_each_channel(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(empty_batches, "BATCHES", 2)
    monkeypatch.setattr(empty_batches, "WARM_UP", 0)
    empty_batches.write_input(tmp_path)
    assert empty_batches.run_anabranch(spark, tmp_path) > 0


@pytest.mark.spark
def test_a_savepoint_has_every_key(spark, monkeypatch):
    monkeypatch.setattr(savepoints, "KEYS", 60)
    monkeypatch.setattr(savepoints, "SLICES", 1)
    monkeypatch.setattr(savepoints, "SHARDS", 2)
    rates, shares = savepoints.measure_details()
    assert list(rates)[1:3] == ["create a savepoint", "verify it"]
    assert min(rates.values()) > 0
    assert set(shares) <= set(rates)


@pytest.mark.spark
def test_lookups_are_checked_at_the_end(spark, monkeypatch):
    monkeypatch.setattr(lookups, "CHANGES", 20)
    found = lookups.measure(50, 1, 2, columns=True)
    assert (found["keys"], found["state"]) == (50, "columns")
    assert found["per_s"] > 0


@pytest.mark.spark
def test_the_job_of_latency_emits_the_sum_at_each_barrier(spark, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(JOBS))
    monkeypatch.syspath_prepend(str(LATENCY / "jobs"))
    import answers
    import spark_job

    servers, ended = listen(), tmp_path / "ended.json"
    ports = [server.getsockname()[1] for server in servers]
    task = answers.Task("anabranch", ports, ended, tmp_path / "answer.json", tmp_path)
    schedule = Schedule(per_second=2_000, seconds=2, warm_s=0)
    producer = threading.Thread(target=produce, args=(servers, schedule, ended))
    producer.start()
    emitted: list[tuple[int, int, float]] = []
    query = spark_job.start_anabranch(spark, task, emitted)
    end = time.monotonic() + 120
    while len(emitted) < 3 and time.monotonic() < end:
        query.awaitTermination(0.1)
    query.stop()
    producer.join()
    for server in servers:
        server.close()
    for name in ("answers", "spark_job", "merging"):
        sys.modules.pop(name, None)
    latencies = compare(json.loads(ended.read_text()), [list(row) for row in emitted])
    assert [latency > 0 for latency in latencies] == [True] * 3
