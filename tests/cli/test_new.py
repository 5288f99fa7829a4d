"""`anabranch new`: the project that it writes works, command by command, as its README has them."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anabranch.cli.main import run_command
from anabranch.cli.new import COMMANDS, FILES

PATIENCE_S = 300


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(["new", "shop"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "written to shop:"
    return tmp_path / "shop"


def read_commands(project):
    blocks = re.findall(r"```console\n(.*?)```", (project / "README.md").read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def start(project, command):
    words = shlex.split(command)
    python = {"python": [], "anabranch": ["-m", "anabranch.cli.main"]}[words[0]]
    return subprocess.Popen(
        [sys.executable, *python, *words[1:]],
        cwd=project, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def test_a_project_has_its_files_and_its_name(project):
    found = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert found == {*FILES}
    assert (project / "README.md").read_text().startswith("# shop\n")


def test_the_commands_that_need_no_spark_do_what_the_readme_says(project):
    commands = [line for line in read_commands(project) if not re.search("--(master|follow)", line)]
    assert tuple(commands[:-1]) == COMMANDS
    emitted = []
    for command in commands:
        with start(project, command) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out + err
        emitted.append(out)
    assert emitted[0].splitlines()[-1] == "balances keeps its laws; seed 0"
    assert emitted[1].splitlines()[-1].strip("= ").startswith("3 passed")
    assert re.findall(r"Alert\(.*?\)", emitted[2]) == [
        "Alert(account='ada', balance=-600)", "Alert(account='ben', balance=-300)",
    ]  # fmt: skip
    assert "ledger    8 in = 6 processed + 1 late + 1 rejected" in emitted[2]
    assert "ledger    8 in = 5 processed + 1 late + 1 rejected + 1 pending" in emitted[3]
    assert sorted(path.name for path in (project / "out").glob("batch=*")) == ["batch=0", "batch=1"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("flag", "more", "folder"),
    [
        ("--follow", "", "out"),
        pytest.param("--master", " --follow", "out-spark", marks=pytest.mark.spark),
    ],
)
def test_a_followed_folder_takes_new_files_until_it_is_stopped(project, flag, more, folder):
    command = next(line for line in read_commands(project) if flag in line)
    lines = []
    with start(project, f"{command}{more} --trigger '200 ms'") as process:
        timer = threading.Timer(PATIENCE_S, process.kill)
        timer.start()
        for line in process.stderr:
            lines.append(line.rstrip())
            if line.startswith("batch 1 "):
                hidden = project / "payments" / ".3.jsonl"
                hidden.write_text('{"time": 60, "account": "ben", "amount": 900}\n')
                hidden.rename(project / "payments" / "3.jsonl")
            if line.startswith("batch 2 "):
                os.kill(process.pid, signal.SIGINT)
        timer.cancel()
    assert process.returncode == 130, lines
    assert lines[0] == "following payments, every 200 ms"
    assert re.fullmatch(r"Ctrl-C stops it(; Spark shows it at http://\S+)?", lines[1])
    assert [re.sub(r"(rows), [\d.,]+/s.*?  (.*?)  .*", r"\1  \2", line) for line in lines[2:]] == [
        "batch 0  4 rows  0 processed, 0 late, 1 rejected, 3 pending",
        "batch 1  4 rows  5 processed, 1 late, 1 rejected, 1 pending",
        "batch 2  1 rows  6 processed, 1 late, 1 rejected, 1 pending",
        "stopped",
    ]
    published = sorted(path.name for path in (project / folder).glob("batch=*"))
    assert published == ["batch=0", "batch=1", "batch=2"]


@pytest.mark.parametrize("name", ["", ".", "..", "9lives", "a b", "shöp", "a.py", "/"])
def test_what_is_no_name_is_refused(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(["new", name]) == 2
    assert "is not a valid project name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path, monkeypatch, capsys, message):
    monkeypatch.chdir(tmp_path)
    Path("shop").mkdir()
    Path("cafe").touch()
    for name in ("shop", "cafe", "nowhere/bar"):
        assert run_command(["new", name]) == 2
        message(f"new_project_{name.replace('/', '_')}", capsys.readouterr().err)
    assert not list(Path("shop").iterdir())
