"""The command as users start it: a process with streams, signals and an exit code."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import anabranch
from anabranch.cli.main import run_command

SLOW = """
import os, pathlib, time
from typing import NamedTuple
from anabranch import Event, Program, on

class Tick(NamedTuple):
    time: int

def wait(state, tick):
    time.sleep(0.05)
    return state

slow = Program(on(Tick, update=wait), init=0)
events = [Event(Tick(n), "s", n) for n in range(EVENTS)]
(pathlib.Path(__file__).parent / f"ready-{os.getpid()}").touch()
"""


def start(*arguments, **options):
    command = [sys.executable, "-m", "anabranch.cli.main", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def finish(*arguments):
    process = start(*arguments)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_the_version_is_the_package_s():
    assert finish("--version") == (0, f"anabranch {anabranch.__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_verb(arguments, capsys):
    assert run_command(arguments) == 0
    out, _ = capsys.readouterr()
    for verb in ("check", "run", "simulate", "diff", "state", "examples", "--install-completion"):
        assert verb in out
    assert "\x1b" not in out


@pytest.mark.parametrize("verb", ["check", "run", "simulate", "diff", "state", "examples"])
def test_every_verb_has_help(verb, capsys):
    assert run_command([verb, "--help"]) == 0
    assert f"Usage: anabranch {verb}" in capsys.readouterr().out


def test_help_and_version_load_nothing_heavy():
    probe = (
        "import sys, json\n"
        "from anabranch.cli.main import run_command\n"
        "run_command(['--help']); run_command(['--version'])\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    ).stdout
    loaded = {name.partition(".")[0] for name in json.loads(out.splitlines()[-1])}
    assert loaded & {"hypothesis", "pyarrow", "numpy", "pandas", "z3", "pyspark"} == set()


def test_a_pipe_gets_plain_text_and_a_bad_target_code_2():
    code, out, err = finish("run", "examples/value_barrier.py")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert out.splitlines()[-3].split() == ["16", "Barrier", "b", "51"]
    code, out, err = finish("run", "gone.py")
    assert (code, out) == (2, "")
    assert err.startswith("there is no file 'gone.py'\n  expected:")


@pytest.mark.parametrize(
    ("arguments", "events", "processes", "number"),
    [
        (["run"], 1000, 1, signal.SIGINT),
        (["run"], 1000, 1, signal.SIGTERM),
        (["simulate", "--seeds", "900"], 20, 1, signal.SIGINT),
        (["simulate", "--seeds", "2000"], 20, 3, signal.SIGINT),
    ],
)
def test_a_signal_ends_with_one_line_and_its_code(tmp_path, arguments, events, processes, number):
    target = tmp_path / "slow.py"
    target.write_text(SLOW.replace("EVENTS", str(events)))
    verb, *flags = arguments
    process = start(verb, str(target), *flags, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("ready-*"))) < processes:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", "stopped\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_code_that_is_made_of_text_has_its_code_too(tmp_path, number):
    target = tmp_path / "slow.py"
    target.write_text("exec('import time; print(flush=True); time.sleep(600)')\n")
    process = start("run", str(target))
    process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", "stopped\n")


def test_a_reader_that_leaves_early_does_no_harm():
    process = start("examples", "show", "smart_home")
    process.stdout.close()
    err = process.stderr.read()
    process.wait(timeout=60)
    process.stderr.close()
    assert "Traceback" not in err
