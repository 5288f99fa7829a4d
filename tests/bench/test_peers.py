import doctest
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import bench.latency.__main__
import bench.peers.reports
from bench.peers.__main__ import main
from bench.peers.answers import compute_answer, find_answer, find_difference
from bench.peers.environments import BYTEWAX, OWN, make_variables
from bench.peers.inputs import prepare_input
from bench.peers.processes import watch
from bench.peers.reports import compare_all, compare_windows, find_ours
from bench.peers.roster import CONTENDERS, choose_contenders
from bench.peers.trials import JOBS, Trial, find_cause, read_figures, run_trial, take_best
from bench.peers.workloads import draw_input, list_workloads

SMALL = list_workloads(400, 4, growth=(100,))


@pytest.mark.parametrize("name", SMALL)
def test_events_are_in_order_within_each_channel(name):
    for channel in draw_input(SMALL[name]).channels:
        assert (np.diff(channel.columns["time"]) >= 0).all()
        assert (np.diff(channel.columns["seq"]) == 1).all()


@pytest.mark.parametrize("name", [name for name in SMALL if SMALL[name].kind != "windows"])
def test_times_are_unique_but_for_bids(name):
    channels = draw_input(SMALL[name]).channels
    counted = np.concatenate([s.columns["time"] for s in channels if s.name != "asks"])
    assert len(np.unique(counted)) == len(counted)


@pytest.mark.parametrize("name", SMALL)
def test_the_same_input_is_drawn_each_time(name):
    first, second = draw_input(SMALL[name]), draw_input(SMALL[name])
    for one, other in zip(first.channels, second.channels, strict=True):
        assert one.name == other.name
        for column, values in one.columns.items():
            assert np.array_equal(values, other.columns[column])


@pytest.mark.parametrize("name", [name for name in SMALL if SMALL[name].kind != "windows"])
def test_every_channel_goes_past_the_last_event_that_has_an_answer(name):
    channels = draw_input(SMALL[name]).channels
    marks = [s for s in channels if s.name in ("asks", "barriers", "updates")]
    others = [s for s in channels if s not in marks]
    assert len(marks) == 1
    for channel in others:
        assert channel.columns["time"][-1] > marks[0].columns["time"][-1]


@pytest.mark.parametrize("name", ["w4", "w4-tumbling"])
def test_every_channel_of_bids_goes_past_the_end_of_the_last_window(name):
    last = compute_answer(SMALL[name])["end"].max()
    for channel in draw_input(SMALL[name]).channels:
        assert channel.columns["time"][-1] > last


def test_ten_bids_share_a_millisecond():
    many = list_workloads(4_000_000, 8)["w4"]
    times = [channel.columns["time"][:-1] for channel in draw_input(many).channels]
    assert many.keys == 1_000
    assert [len(np.unique(time)) for time in times] == [400_000, 400_000]


@pytest.mark.parametrize(("name", "every"), [("w4", 1_000), ("w4-tumbling", 100_000)])
def test_the_answer_to_windows_sums_the_bids_that_each_of_them_holds(name, every):
    held: dict[tuple[int, int], list[int]] = {}
    for channel in draw_input(SMALL[name]).channels:
        columns = (channel.columns[field].tolist() for field in ("time", "auction", "price"))
        for time, auction, price in zip(*columns, strict=True):
            for end in range(time // every * every + every, time + 100_000 + 1, every):
                held.setdefault((auction, end), []).append(price)
    expected = {row: (sum(prices), len(prices)) for row, prices in held.items() if row[0] < 2}
    answer = compute_answer(SMALL[name])
    rows = zip(answer["auction"].tolist(), answer["end"].tolist(), strict=True)
    emitted = zip(answer["total"].tolist(), answer["seen"].tolist(), strict=True)
    assert dict(zip(rows, emitted, strict=True)) == expected


def test_the_answer_to_barriers_is_the_sum_of_the_values_between_them():
    workload = SMALL["w2"]
    *values, barriers = draw_input(workload).channels
    events = sorted(
        (int(t), int(v))
        for channel in values
        for t, v in zip(channel.columns["time"], channel.columns["value"], strict=True)
    )
    expected, before = [], 0
    for until in barriers.columns["time"].tolist():
        expected.append(sum(value for time, value in events if before < time < until))
        before = until
    answer = compute_answer(workload)
    assert answer["total"].tolist() == expected
    assert answer["time"].tolist() == barriers.columns["time"].tolist()


def test_the_answer_to_page_views_counts_every_view_once():
    answer = compute_answer(SMALL["w3"])
    assert answer["seen"].sum() == SMALL["w3"].n


def test_the_answer_to_ewma_depends_on_the_order_of_the_channels():
    workload = SMALL["w5"]
    state: dict[int, float] = {}
    for channel in draw_input(workload).channels[:2]:
        columns = channel.columns
        for key, value in zip(columns["key"].tolist(), columns["value"].tolist(), strict=True):
            state[key] = 0.1 * value + 0.9 * state[key] if key in state else value
    arrived = {"key": list(state), "average": list(state.values())}
    assert find_difference("ewma", compute_answer(workload), arrived) is not None


def test_a_loaded_state_has_every_key_before_the_first_batch_that_is_timed(tmp_path):
    workload = SMALL["w6-100"]
    folder = prepare_input(tmp_path, workload, set())
    manifest = json.loads((folder / "manifest.json").read_text())
    # The closing readings are in the last slice.
    assert manifest["slices"] == [100, 100, 100, 100, 102]


def test_a_batch_touches_as_many_keys_of_a_large_state_as_of_a_small_one():
    sizes = 2_000, 50_000
    for size in sizes:
        workload = list_workloads(20_000, 4, sizes)[f"w6-{size}"]
        readings = [channel.columns["key"] for channel in draw_input(workload).channels[:2]]
        after = np.concatenate([keys[size // 2 : -1] for keys in readings])
        assert len(np.unique(after)) == 1_000, "after one reading of each key"
        assert after.min() == 0
        assert after.max() > size * 0.99


def test_what_is_missing_wrong_or_said_twice_is_found():
    right = {"time": [1, 2], "total": [10, 20]}
    assert find_difference("barrier", right, {"time": [2, 1, 3], "total": [20, 10, 7]}) is None
    assert find_difference("barrier", right, {"time": [1], "total": [10]}) == (
        "1 of 2 rows are missing, the first is (2,)"
    )
    assert find_difference("barrier", right, {"time": [1, 2], "total": [10, 21]}) == (
        "1 of 2 rows are wrong, the first is (2,): (21,) instead of (20,)"
    )
    twice = {"time": [1, 2, 2], "total": [10, 20, 20]}
    assert find_difference("barrier", right, twice) == "1 rows are repeated"


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("contender", choose_contenders(("python", "limit")), ids=lambda c: c.name)
def test_loops_without_an_engine_give_the_right_answer(tmp_path, name, contender):
    trial = run_trial(tmp_path, SMALL[name], contender, cap_s=150)
    assert (trial.verdict, trial.word) == ("right", "")
    assert trial.steady is not None


def test_a_wrong_answer_has_no_rank(tmp_path):
    workload = SMALL["w2"]
    answer = find_answer(tmp_path, workload)
    file = tmp_path / "inputs" / workload.label / "answer.npz"
    np.savez(file, time=answer["time"], total=answer["total"] + 1)
    (contender,) = choose_contenders(("python",))
    trial = run_trial(tmp_path, workload, contender, cap_s=150)
    assert trial.verdict == "wrong"
    assert not trial.has_rank


def test_what_an_engine_cannot_say_is_skipped_with_the_reason(tmp_path):
    (native,) = choose_contenders(("spark-native",))
    trial = run_trial(tmp_path, SMALL["w5"], native, cap_s=1)
    assert (trial.verdict, trial.word) == ("skipped", "no fold that depends on order")


def test_a_job_that_takes_too_long_is_ended_with_its_children(tmp_path):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    watched = watch([sys.executable, "-c", code], dict(os.environ), 1.0, tmp_path / "log")
    assert watched.is_cut_off
    assert watched.wall_s < 30


def test_the_cause_of_a_failure_is_the_error_and_not_what_wraps_it():
    log = """
anabranch.model.values.fields.Unfit: expected a Struct
 SQLSTATE: 38000
\tat org.apache.spark.Exception(Some.java:1)
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the worker:
"""
    assert find_cause(log) == "anabranch.model.values.fields.Unfit: expected a Struct"
    assert find_cause("") == "its log is empty"


def test_the_last_figures_of_a_run_that_was_cut_off_are_kept():
    line = "partial " + json.dumps(
        {"events": 90, "total_s": 9, "steady_s": 2, "steady_events": 60, "ready_s": 1, "first_s": 2}
    )
    trial = read_figures(Trial("w1", "a", "cut off"), line)
    assert (trial.steady, trial.total) == (30.0, None)


def test_the_best_of_several_runs_counts_and_a_wrong_one_outweighs_it():
    slow, fast = (Trial("w1", "a", "right", steady=rate) for rate in (1.0, 2.0))
    wrong = Trial("w1", "a", "wrong", "1 row", steady=9.0)
    assert take_best([slow, fast]) == fast
    assert take_best([slow, wrong, fast]) == wrong


def test_ratios_are_to_the_fused_channel_where_there_is_one():
    frame = Trial("w1", "anabranch", "right", steady=10.0, total=5.0)
    fused = Trial("w1", "anabranch-fused", "right", steady=100.0, total=50.0)
    limit = Trial("w1", "limit", "right", steady=1000.0, total=1000.0)
    late = Trial("w1", "pyflink", "cut off", steady=1.0)
    row = {trial.contender: trial for trial in (frame, fused, limit, late)}
    assert find_ours(row) == fused
    assert find_ours({"anabranch": frame}) == frame
    ratios = compare_all({"w1": row})["w1"]
    assert ratios["anabranch"] == {"ours_steady": 10.0, "ours_total": 10.0, "of_limit": 0.01}
    assert "pyflink" not in ratios


def test_what_hopping_costs_is_shown_of_those_who_were_right_both_times():
    hop = {"a": Trial("w4", "a", "right", steady=50.0), "b": Trial("w4", "b", "cut off")}
    tumbling = {name: Trial("w4-tumbling", name, "right", steady=75.0) for name in ("a", "b")}
    assert compare_windows({"w4": hop, "w4-tumbling": tumbling}) == {"a": 1.5}
    assert compare_windows({"w4": hop}) == {}


@pytest.mark.parametrize("module", [bench.peers.reports, bench.latency.__main__])
def test_the_examples_in_docstrings_hold(module):
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


def test_every_contender_has_a_script_and_a_name_of_its_own():
    assert len({contender.name for contender in CONTENDERS}) == len(CONTENDERS)
    assert all((JOBS / contender.script).is_file() for contender in CONTENDERS)


def test_jobs_of_other_engines_do_not_see_the_project():
    assert make_variables(BYTEWAX, JOBS, Path("root"), {})["PYTHONPATH"] == str(JOBS)
    assert make_variables(OWN, JOBS, Path("root"), {})["PYTHONPATH"].endswith(f"{os.pathsep}root")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "storm"], "There is no contender 'storm'. Existing: anabranch-local, "),
        (["--workload", "w9"], "There is no workload 'w9'. Existing: w1, "),
    ],
)
def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str], arguments, message):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)
