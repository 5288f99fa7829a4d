"""A process that is killed, again and again, and started again until it is done; and one that gets Ctrl-C.

ANABRANCH_KILLS says how often (3), ANABRANCH_SEED with which seed. The seed fixes the input, and how long after the
first batch of a life a kill comes; where exactly it lands is up to the machine.
"""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.local.test_crashes import cross, tell
from tests.local.whole_runs import Case, read_batches, read_state

KILLS = int(os.environ.get("ANABRANCH_KILLS", "3"))
SEED = int(os.environ.get("ANABRANCH_SEED", "0"))
# A life publishes some batches before it ends. After the last kill something must be left.
FILES = 40 * KILLS
LONGEST_DELAY_S = 0.1
PATIENCE_S = 150
DRIVER = Path(__file__).with_name("driver.py")


def lengthen(case: Case) -> Case:
    return replace(case, files=FILES, seed=str(SEED))


CASES = {
    "markers": lengthen(tell("value-barrier with reset", shards=2, columnar="never")),
    "keyed": lengthen(cross("ListOf", "keyed", shards=2, columnar="never")),
}


def write(case: Case, folder: Path) -> int:
    """Write the input in many small files; return how many."""
    stream = case.stream
    stream.write(folder, [[item] for part in stream.cut(random.Random(SEED), 3) for item in part])
    files = sorted(folder.iterdir())
    size = -(-len(files) // FILES)
    for first in range(0, len(files), size):
        text = "".join(file.read_text() for file in files[first : first + size])
        files[first].write_text(text)
        for file in files[first + 1 : first + size]:
            file.unlink()
    return len(list(folder.iterdir()))


def launch(name: str, home: Path, how: str = "all") -> subprocess.Popen:
    with (home / "log").open("ab") as log:
        command = [sys.executable, DRIVER, name, home, how]
        return subprocess.Popen(command, cwd=DRIVER.parents[2], stdout=log, stderr=log)


def tail(home: Path) -> str:
    return (home / "log").read_text(errors="replace")[-3000:]


def wait_for(condition, process: subprocess.Popen, home: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, f"the process ended too soon:\n{tail(home)}"
        assert time.monotonic() < deadline, f"nothing happens:\n{tail(home)}"
        time.sleep(0.002)


def count(home: Path) -> int:
    return len(list((home / "out").glob("batch=*")))


@pytest.mark.timeout(PATIENCE_S * (KILLS + 1))
def test_a_process_killed_at_random_moments_gives_the_same_answer(tmp_path):
    case, rng = CASES["markers"], random.Random(SEED)
    print(f"ANABRANCH_SEED={SEED} ANABRANCH_KILLS={KILLS}")  # noqa: T201 - shown on failure
    files = write(case, tmp_path / "in")
    for _ in range(KILLS):
        before, delay = count(tmp_path), rng.uniform(0, LONGEST_DELAY_S)
        process = launch("markers", tmp_path)
        try:
            wait_for(lambda seen=before: count(tmp_path) > seen, process, tmp_path)
            time.sleep(delay)
        finally:
            process.kill()
        assert process.wait() == -signal.SIGKILL
        assert before < count(tmp_path) < files, "the kill came after the last batch"
    assert launch("markers", tmp_path).wait(PATIENCE_S) == 0, tail(tmp_path)
    assert count(tmp_path) == files
    assert case.read(tmp_path) == case.expect()

    whole = tmp_path / "whole"
    case.start(tmp_path / "in", whole).wait()
    assert read_batches(tmp_path) == read_batches(whole)
    assert read_state(tmp_path) == read_state(whole)


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_ctrl_c_ends_a_run_after_its_batch_and_the_next_one_goes_on(number, tmp_path):
    case = CASES["keyed"]
    files = write(case, tmp_path / "in")
    process = launch("keyed", tmp_path, "on")
    try:
        wait_for(lambda: count(tmp_path) > 0, process, tmp_path)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 130
    finally:
        process.kill()
        process.wait()
    assert tail(tmp_path).endswith("stopped\n")
    assert read_state(tmp_path)[1] is None, "the last batch was not committed"
    assert read_state(tmp_path)[0].batch == count(tmp_path) - 1
    case.start(tmp_path / "in", tmp_path).wait()
    assert count(tmp_path) == files
    assert case.read(tmp_path) == case.expect()
