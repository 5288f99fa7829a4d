import json
from xml.etree import ElementTree as ET

import pytest

from anabranch.cli.main import run_command

COUNTER = "examples/key_counter.py"
RATES = "docs/rates/key_counter.json"
BARRIER = "examples/value_barrier.py"
HOT = "docs/rates/value_barrier.json"


def test_declared_rates_are_explained(capsys):
    assert run_command(["explain", COUNTER, "--rates", RATES, "--optimizer", "greedy"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert out.startswith("key_counter: mixed, 5 workers on 4 machines\n")
    assert "  ├─ Read (key 2)                 10/s   10/s  <0.1%  E0\n" in out
    assert f"declared in {RATES}" in out
    assert "optimizers" not in out


def test_the_events_beside_a_program_are_sampled(capsys):
    assert run_command(["explain", BARRIER]) == 0
    out, _ = capsys.readouterr()
    assert "the 16 events beside the program" in out
    assert "why one worker?" in out


def test_a_file_of_events_is_sampled(tmp_path, capsys):
    file = tmp_path / "events.jsonl"
    rows = [{"tag": "Inc", "time": n, "key": n % 2, "source": "a"} for n in range(10)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_command(["explain", COUNTER, "--sample", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rates_from"] == f"10 events of {file}"
    leaves = [worker for worker in document["plan"]["workers"] if worker["slices"]]
    assert sum(worker["rate"] for worker in leaves) == 1.0


def test_a_program_alone_gets_assumed_rates(tmp_path, capsys):
    file = tmp_path / "alone.py"
    file.write_text(
        "from typing import NamedTuple\n"
        "from anabranch import Program, depends, on\n"
        "class Step(NamedTuple):\n    time: int\n"
        "steps = Program(on(Step, update=lambda n, step: n + 1), depends(Step, Step), init=0)\n"
    )
    assert run_command(["explain", str(file)]) == 0
    out, _ = capsys.readouterr()
    assert "assumed: markers 1/s, everything else 100/s" in out
    assert "every Step depends on every other (alone.py:5)" in out


def test_the_optimizers_are_compared(capsys):
    assert run_command(["explain", COUNTER, "--rates", RATES, "--compare", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(o["optimizer"], o["workers"]) for o in document["optimizers"]] == [
        ("best", 3), ("greedy", 5), ("hybrid", 5), ("keyed", 3), ("sequential", 1)
    ]  # fmt: skip
    assert run_command(["explain", COUNTER, "--rates", RATES, "--compare"]) == 0
    assert "greedy            5       3   3,040 B/s" in capsys.readouterr().out


def test_the_plan_is_drawn_into_a_file(tmp_path, capsys):
    file = tmp_path / "plan.svg"
    assert run_command(["explain", COUNTER, "--rates", RATES, "--svg", str(file)]) == 0
    assert f"written   {file}" in capsys.readouterr().out
    assert ET.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_plan_that_can_not_keep_up_ends_with_1(capsys):
    assert run_command(["explain", BARRIER, "--rates", HOT]) == 0
    assert run_command(["explain", BARRIER, "--rates", HOT, "--optimizer", "sequential"]) == 1
    assert "worker 0 can't keep up: it would need 240% of its time" in capsys.readouterr().out


def test_workers_may_stand_on_a_machine_that_is_named(capsys):
    arguments = ["explain", COUNTER, "--rates", RATES, "--optimizer", "hybrid"]
    assert run_command([*arguments, "--machine", "central", "--json"]) == 0
    workers = json.loads(capsys.readouterr().out)["plan"]["workers"]
    assert {worker["machine"] for worker in workers} == {"central"}


def test_a_terminal_gets_tables_and_a_tree(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    arguments = ["explain", "examples/smart_home.py", "--rates", "docs/rates/smart_home.json"]
    assert run_command([*arguments, "--compare"]) == 0
    out, _ = capsys.readouterr()
    assert "\x1b[" in out
    for word in ("Pressure", "│   ├── ", "rooms", "sequential", "reasons", "kitchen"):
        assert word in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rates", "gone.json"], "rates can't be read from gone.json"),
        (["--rates", RATES, "--sample", "x.jsonl"], "rates are given twice"),
        (["--sample", "gone.jsonl"], "there is no file 'gone.jsonl'"),
        (["--optimizer", "fastest"], "fastest"),
        (["--svg", "no/such/folder/x.svg"], "can't be written"),
        (["--wrong"], "Unknown option"),
    ],
)
def test_a_wrong_call_says_why_and_ends_with_2(flags, message, capsys):
    assert run_command(["explain", COUNTER, *flags]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err
    assert out == ""
