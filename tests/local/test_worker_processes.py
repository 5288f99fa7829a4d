"""Worker processes give the answer of threads, whatever happens to them."""

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import NamedTuple

import pytest

from anabranch import Program, depends, on, run
from anabranch.local import read_outputs
from anabranch.local import worker_processes as workers
from anabranch.local.batch_fold import Groups
from anabranch.microbatch.store.state_store import DamagedStateError
from anabranch.sources import Files
from anabranch.state import MapOf, Sum
from tests.local.random_runs import draw
from tests.local.whole_runs import read_batches, read_state

SEEDS = range(10)


class Paid(NamedTuple):
    time: int
    card: str
    amount: int


def make_program(find=lambda total, paid: total) -> Program:
    return Program(
        on(Paid, update=lambda total, paid: total + paid.amount, output=find),
        depends(Paid, Paid, same="card"),
        state=MapOf(Sum(), by="card"),
    )


def write_files(folder, count=4):
    folder.mkdir()
    for number in range(count):
        rows = [
            f'{{"time": {number * 10 + k}, "card": "c{k % 3}", "amount": {k}}}\n' for k in range(10)
        ]
        (folder / f"{number}.jsonl").write_text("".join(rows))


def run_cards(tmp_path, program, name, **options):
    source = Files(tmp_path / "in", format="json", files_per_batch=1)
    handle = run(
        program, source, output=tmp_path / name, available_now=True, cores=2, columnar="never",
        sync="system", **options,
    )  # fmt: skip
    with handle:
        handle.wait()
    table = read_outputs(tmp_path / name)
    return sorted(map(str, table.select(["id", "value"]).to_pylist()))


def find_trial(seed):
    """Return a trial on the row path."""
    trials = map(draw, range(seed * 1000, seed * 1000 + 999))
    return next(trial for trial in trials if trial.run.options["columnar"] == "never")


@pytest.mark.parametrize("part", range(2))
def test_processes_publish_and_keep_the_bytes_that_threads_do(part, tmp_path):
    for seed in SEEDS[part::2]:
        trial = find_trial(seed)
        home = tmp_path / str(seed)
        trial.run.write(home / "in")
        for name, processes in (("threads", False), ("processes", True)):
            trial.run.start(home / "in", home / name, cores=2, processes=processes).wait()
        assert read_batches(home / "processes") == read_batches(home / "threads"), trial
        assert read_state(home / "processes") == read_state(home / "threads"), trial


def test_a_worker_that_is_killed_costs_one_warning(tmp_path, monkeypatch, caplog):
    write_files(tmp_path / "in")
    expected = run_cards(tmp_path, make_program(), "threads", processes=False)
    calls = []
    real = workers._Worker.call

    def call(worker, request):
        calls.append(request[0])
        if len(calls) == 6:  # In the second batch.
            worker._process.kill()
        return real(worker, request)

    monkeypatch.setattr(workers._Worker, "call", call)
    with caplog.at_level(logging.WARNING, "anabranch"):
        assert run_cards(tmp_path, make_program(), "processes", processes=True) == expected
    assert len(expected) == 39
    warnings = [r.message for r in caplog.records if "continues in threads" in r.message]
    assert warnings == ["The run continues in threads, on one core: a worker process has ended"]


def test_a_program_that_cannot_be_sent_runs_in_threads(tmp_path, caplog):
    write_files(tmp_path / "in")
    lock = threading.Lock()

    def find(total, paid):
        with lock:
            return total

    with caplog.at_level(logging.WARNING, "anabranch"):
        found = run_cards(tmp_path, make_program(find), "processes", processes=True)
    assert len(found) == 39
    assert "can't be sent to another process: cannot pickle '_thread.lock'" in caplog.text


def fail_in_worker(worker, request):
    raise workers.WorkerError("it has failed")


def test_an_error_is_that_of_the_run_and_not_of_a_worker(tmp_path, monkeypatch):
    write_files(tmp_path / "in")
    monkeypatch.setattr(workers._Worker, "call", fail_in_worker)

    def fail(self, *_):
        raise DamagedStateError("the state is damaged")

    monkeypatch.setattr(Groups, "work", fail)
    with pytest.raises(DamagedStateError):
        run_cards(tmp_path, make_program(), "out", processes=True)


def test_short_batches_start_no_process(tmp_path, monkeypatch):
    write_files(tmp_path / "in")
    monkeypatch.setattr(workers, "WorkerProcesses", None)
    assert len(run_cards(tmp_path, make_program(), "out")) == 39


SCRIPT = """
    import sys
    from typing import NamedTuple
    from anabranch import Program, depends, on, run
    from anabranch.sources import Files
    from anabranch.state import MapOf, Sum

    Paid = NamedTuple("Paid", [("time", int), ("card", str), ("amount", int)])

    def find(total, paid):
        print("found", total)
        return total

    program = Program(
        on(Paid, update=lambda total, paid: total + paid.amount, output=find),
        depends(Paid, Paid, same="card"), state=MapOf(Sum(), by="card"),
    )
    handle = run(
        program, Files("in", format="json", files_per_batch=1), output="out", cores=2,
        columnar="never", processes=True,
    )
    for batch in handle.watch():
        print(batch.number, batch.ledger, flush=True)
        if batch.number == 3:
            print("all", flush=True)
"""


def list_children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        found = [int(word) for word in file.read().split()]
    threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    for thread in threads:
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            found += [int(word) for word in file.read().split()]
    return set(found)


def test_a_script_without_a_main_guard_runs_and_its_workers_end_with_it(tmp_path):
    write_files(tmp_path / "in")
    (tmp_path / "job.py").write_text(textwrap.dedent(SCRIPT))
    process = subprocess.Popen(
        [sys.executable, "job.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    lines = []
    while not lines or lines[-1] != "all\n":
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    assert lines[-2] == "3 40 input, 39 processed, 1 pending\n"
    children = list_children(process.pid)
    assert len(children) == 2
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert errors.count("found") == 39  # What functions print does not disturb the answers.
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{child}") for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
