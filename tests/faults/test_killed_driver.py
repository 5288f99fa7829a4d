"""A driver that is killed with its JVM, again and again, and restarted until it is done.

ANABRANCH_KILLS says how often (2), ANABRANCH_SEED with which seed. The seed fixes the input, and
how long after the beginning of a batch a kill comes; where exactly it lands is up to the machine.
One run has many lives: each begins where the last one was cut off, and is a JVM of its own.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.inputs import LongStory, check_answer, published

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("ANABRANCH_KILLS", "2"))
SEED = int(os.environ.get("ANABRANCH_SEED", "0"))
# A life publishes two batches at most before it ends. After the last kill something must be left.
FILES = 2 * KILLS + 2
LONGEST_DELAY_S = 0.8
DRIVER = Path(__file__).with_name("driver.py")
PATIENCE = 150


def launch(home: Path, length: int) -> subprocess.Popen:
    """Start the driver in a group of processes of its own, to which its JVM belongs too."""
    with (home / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, DRIVER, "value_barrier", str(length), str(SEED), home],
            cwd=DRIVER.parents[2],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def unfinished(checkpoint: Path) -> set[str]:
    """Return the batches that were begun and are not committed."""
    begun, done = (
        {path.name for path in (checkpoint / log).glob("[0-9]*")} for log in ("offsets", "commits")
    )
    return begun - done


def wait_for(condition, process: subprocess.Popen, home: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, f"the driver ended before it was killed:\n{tail(home)}"
        assert time.monotonic() < deadline, f"nothing happens:\n{tail(home)}"
        time.sleep(0.01)


def live_until(wanted: int, delay: float, process: subprocess.Popen, home: Path) -> None:
    """Let a driver publish a batch and begin another, and then live on for a moment."""
    out, checkpoint = home / "out", home / "checkpoint"
    wait_for(lambda: len(published(out)) >= wanted, process, home)
    wait_for(
        lambda: unfinished(checkpoint) - {str(wanted - 1)} or len(published(out)) > wanted,
        process,
        home,
    )
    moment = time.monotonic() + delay
    wait_for(
        lambda: time.monotonic() > moment or len(published(out)) > wanted,
        process,
        home,
    )


def tail(home: Path) -> str:
    return (home / "log").read_text(errors="replace")[-3000:]


def kill(process: subprocess.Popen) -> int:
    """Kill the driver and its JVM at once; return the driver's exit code when both are gone."""
    # Whoever died by himself is told by his code, not by an error here.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    while is_alive(process.pid):
        time.sleep(0.01)
    return code


def is_alive(group: int) -> bool:
    """Say whether a process of a group still runs; one that only waits to be buried does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, owner, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(owner) == group and state not in "ZX":
            return True
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.timeout(PATIENCE * (KILLS + 1))
def test_a_driver_killed_at_random_moments_gives_the_same_answer(spark, tmp_path):
    print(f"ANABRANCH_SEED={SEED} ANABRANCH_KILLS={KILLS}")  # noqa: T201 - shown on failure
    rng = random.Random(SEED)
    story = LongStory("value_barrier", 10 * FILES, SEED)
    story.write(tmp_path / "in", story.slices(FILES))
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    cut_off = []
    for number in range(KILLS):
        wanted = len(published(out)) + 1
        delay = rng.uniform(0, LONGEST_DELAY_S)
        process = launch(tmp_path, 10 * FILES)
        try:
            live_until(wanted, delay, process, tmp_path)
        finally:
            code = kill(process)
        assert code == -signal.SIGKILL
        seen = published(out)
        assert seen == list(range(len(seen)))
        assert 0 < len(seen) < FILES, "the kill came before the first batch or after the last"
        cut_off.append(unfinished(checkpoint))
        print(f"kill {number + 1}: {len(seen)} published, cut off {cut_off[-1]}")  # noqa: T201
    hits = sum(map(bool, cut_off))
    print(f"{hits} of {KILLS} kills came in the middle of a batch")  # noqa: T201
    assert hits >= KILLS // 2, "most kills came between two batches"

    process = launch(tmp_path, 10 * FILES)
    try:
        assert process.wait(PATIENCE) == 0, tail(tmp_path)
    finally:
        if process.returncode is None:
            kill(process)
    assert not unfinished(checkpoint)
    assert published(out) == list(range(FILES))
    check_answer(spark, story, out)
