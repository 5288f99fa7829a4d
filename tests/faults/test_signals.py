"""Ctrl-C and SIGTERM on Spark, at several moments: one word, nobody left, and the next run goes on.

ANABRANCH_SIGNALS=all tries more moments, each of which is a JVM of its own.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.cli.main import run_command

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PATIENCE_S = 300
FILES = 3
everything = pytest.mark.skipif(
    os.environ.get("ANABRANCH_SIGNALS") != "all", reason="ANABRANCH_SIGNALS=all"
)

PROGRAM = """
import time
from pathlib import Path
from typing import NamedTuple
from anabranch import Program, depends, on

HOME = Path({home!r})
(HOME / "loaded").touch()

class Step(NamedTuple):
    time: int

def count(steps, step):
    (HOME / f"reached-{{step.time}}").touch()
    while (HOME / f"hold-{{step.time}}").exists():
        time.sleep(0.05)
    return steps + 1

steps = Program(
    on(Step, update=count, output=lambda steps, step: steps), depends(Step, Step), init=0
)
"""

FOLLOW = """
import sys
sys.path.insert(0, {home!r})
from anabranch.eventtime.channels import Channel
from anabranch.spark import Files, follow, run, start_session, write_directory
from steps import steps

session = start_session(ui=False)
source = Files.of(steps, {home!r} + "/in", format="json", files_per_batch=1, channels=[Channel("s")])
query = write_directory(
    run(steps, source, shards=1), output={home!r} + "/out", checkpoint={home!r} + "/checkpoint", available_now=True
)
try:
    follow(query, lambda line: None)
except KeyboardInterrupt:
    print(query.isActive, query.exception(), session.range(7).count())
    session.stop()
"""


class Run:
    """A run of `anabranch run` on three files, of which it can be told to stay in one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.channel, self.checkpoint = home / "in", home / "checkpoint"
        self.program = home / "steps.py"
        self.program.write_text(PROGRAM.format(home=str(home)))
        self.channel.mkdir()
        for number in range(FILES):
            self.add_file(number)
        self.command = ["run", str(self.program), "--master", "local[2]", "--shards", "1"]
        self.stream = ["--input", str(self.channel), "--output", str(home / "out")]
        self.stream += ["--checkpoint", str(self.checkpoint)]

    def add_file(self, number: int) -> None:
        file = self.channel / f"{number}.jsonl"
        rows = [
            json.dumps({"type": "Step", "time": time, "channel": "s", "seq": time})
            for time in (2 * number, 2 * number + 1)
        ]
        file.write_text("\n".join(rows) + "\n")
        os.utime(file, (1_700_000_000 + number,) * 2)

    def start(self, *arguments: str) -> None:
        """Start a command of Python's in a session of its own, of which all are who it starts."""
        (self.home / "loaded").unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(self.home)},
        )

    def start_command(self, *flags: str) -> None:
        self.start("-m", "anabranch.cli.main", *self.command, *flags)

    def list_drafts(self) -> list[Path]:
        """Return the folders in which something is being made aside: they are hidden."""
        return [path for path in self.home.rglob(".*") if path.is_dir()]

    def wait_for(self, path: Path) -> None:
        self.wait_until(path.exists)

    def wait_until(self, reached: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def interrupt(self, number: int, *, all_of_them: bool) -> tuple[int, str, str]:
        """Send a signal, as a terminal does or as `kill` does; return what came of it, when all are gone."""
        (os.killpg if all_of_them else os.kill)(self.process.pid, number)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while left := list_session(self.process.pid):
            assert time.monotonic() < deadline, f"still there: {left}"
            time.sleep(0.05)
        return self.process.returncode, out, err

    def finish(self, capsys: pytest.CaptureFixture[str]) -> list[object]:
        """Run it to its end in this process; return what it said in all its lives."""
        for hold in self.home.glob("hold-*"):
            hold.unlink()
        assert run_command([*self.command, *self.stream, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        files = len(list(self.channel.iterdir()))
        assert (document["ledger"]["input"], document["ledger"]["pending"]) == (2 * files, 1)
        return [output["value"] for output in document["outputs"]]


def list_session(leader: int) -> list[int]:
    """Return the processes of a session; who is dead and not buried is none."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,sess=,stat="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pid, session, stat in rows if session == str(leader) and stat[0] != "Z"]


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path)
    yield run
    if run.process.poll() is None:
        os.killpg(run.process.pid, signal.SIGKILL)
        run.process.communicate()


def test_it_stops_with_one_word_wherever_it_is_and_goes_on_where_it_was(run, spark, capsys):
    run.start_command(*run.stream)
    run.wait_for(run.home / "loaded")  # From here on it starts Spark.
    time.sleep(1)
    assert run.interrupt(signal.SIGTERM, all_of_them=False) == (143, "", "stopped\n")

    (run.home / "hold-0").touch()
    run.start_command(*run.stream)
    run.wait_for(run.home / "reached-0")
    assert run.interrupt(signal.SIGINT, all_of_them=True) == (130, "", "stopped\n")
    assert not (run.checkpoint / "commits" / "0").exists()

    assert run.finish(capsys) == list(range(2 * FILES - 1))


@everything
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("all_of_them", [True, False])
@pytest.mark.parametrize("moment", ["jvm", "first", "between", "later"])
def test_every_moment_is_as_good(run, spark, capsys, moment, all_of_them, number):
    if moment in ("first", "later"):
        (run.home / ("hold-0" if moment == "first" else "hold-4")).touch()
    run.start_command(*run.stream)
    run.wait_for(
        {
            "jvm": run.home / "loaded",
            "first": run.home / "reached-0",
            "between": run.checkpoint / "commits" / "1",
            "later": run.home / "reached-4",
        }[moment]
    )
    time.sleep(1.5 if moment == "jvm" else 0)
    result = run.interrupt(number, all_of_them=all_of_them)
    assert result == (128 + number, "", "stopped\n")
    assert run.finish(capsys) == list(range(2 * FILES - 1))


@everything
def test_a_run_of_files_stops_too_and_leaves_nothing(run):
    (run.home / "hold-1").touch()
    run.start_command(*(f"--input={file}" for file in sorted(run.channel.iterdir())))
    run.wait_for(run.home / "reached-1")
    before = {"in", "steps.py", "loaded", "hold-1", "reached-0", "reached-1"}
    assert run.interrupt(signal.SIGINT, all_of_them=True) == (130, "", "stopped\n")
    assert {path.name for path in run.home.iterdir()} - {"__pycache__"} == before


@everything
def test_a_second_signal_kills(run, spark, capsys):
    (run.home / "hold-0").touch()
    run.start_command(*run.stream)
    run.wait_for(run.home / "reached-0")
    os.kill(run.process.pid, signal.SIGINT)
    assert run.interrupt(signal.SIGTERM, all_of_them=False) == (-signal.SIGTERM, "", "")
    assert run.finish(capsys) == list(range(2 * FILES - 1))


@everything
def test_who_follows_a_query_gets_a_keyboard_interrupt_and_may_go_on(run, spark, capsys):
    (run.home / "hold-1").touch()
    script = run.home / "follow.py"
    script.write_text(FOLLOW.format(home=str(run.home)))
    run.start(str(script))
    run.wait_for(run.home / "reached-1")
    assert run.interrupt(signal.SIGINT, all_of_them=True) == (0, "False None 7\n", "")
    assert run.finish(capsys) == list(range(2 * FILES - 1))


@everything
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["create", "restore", "rescale"])
@pytest.mark.parametrize("delay_s", [0, 0.2, 1])
def test_a_command_on_a_checkpoint_stops_too_and_can_be_given_again(
    run, spark, capsys, command, number, delay_s
):
    first = run.finish(capsys)
    stream = ["--input", str(run.channel), "--shards", "1"]
    saved, made = run.home / "saved", run.home / "made"
    words = {
        "create": ["savepoint", "create", str(run.checkpoint), str(saved)],
        "restore": ["savepoint", "restore", str(saved), str(run.program), "--spark", *stream],
        "rescale": ["rescale", str(run.program), *stream, *run.stream[2:]],
    }
    words["restore"] += ["--output", str(made), "--checkpoint", str(made / "_checkpoint")]
    if command == "restore":
        assert run_command(words["create"]) == 0
    run.start("-m", "anabranch.cli.main", *words[command])
    run.wait_until(run.list_drafts)
    time.sleep(delay_s)
    code, out, err = run.interrupt(number, all_of_them=True)
    if code:
        assert (code, out, err) == (128 + number, "", "stopped\n")
    # It may have come too late, when what was made was in its place.
    place = {"create": saved, "restore": made / "_checkpoint" / "commits"}.get(command)
    done = place is not None and place.exists()
    assert run_command(words[command]) == (2 if done else 0)
    assert run.list_drafts() == []
    run.add_file(FILES)
    if command == "restore":
        run.stream[3], run.stream[5] = str(made), str(made / "_checkpoint")
        first = []
    capsys.readouterr()
    assert run.finish(capsys) == [*first, 2 * FILES - 1, 2 * FILES]
