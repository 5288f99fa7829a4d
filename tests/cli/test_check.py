import json
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.cli.main import run_command
from anabranch.errors import MissingExtraError

MAX = "examples/max_temperature.py"
FEW = ["--cases", "50"]

NO_FORK = """
from typing import NamedTuple
from anabranch import Program, depends, on

class Inc(NamedTuple):
    time: int

count = Program(on(Inc, update=lambda n, inc: n + 1), init=0)
"""


@pytest.fixture
def broken(tmp_path):
    file = tmp_path / "forgetful.py"
    file.write_text(Path(MAX).read_text().replace("(top, top)", "(0, 0)"))
    return str(file)


def test_a_program_that_keeps_its_laws_is_told_so(capsys):
    assert run_command(["check", MAX, *FEW, "--no-proof"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert out.count("✓ kept") == 6
    assert "join_undoes_fork" in out
    assert out.endswith("max_temperature keeps its laws; seed 0\n")


def test_laws_are_proved_where_they_can_be(capsys):
    assert run_command(["check", MAX, *FEW, "--law", "join_undoes_fork"]) == 0
    assert "✓ proved" in capsys.readouterr().out


def test_without_a_prover_the_cases_still_count(capsys, monkeypatch):
    def prove(program):
        raise MissingExtraError("proofs need z3", cure="pip install 'anabranch[proof]'")

    monkeypatch.setattr("anabranch.laws.proving.proof.prove", prove)
    assert run_command(["check", MAX, *FEW, "--law", "C2"]) == 0
    out, _ = capsys.readouterr()
    assert "✓ kept" in out
    assert "no proof: proofs need z3; pip install 'anabranch[proof]'" in out


def test_a_broken_law_comes_with_its_smallest_case_and_the_seed(broken, capsys):
    assert run_command(["check", broken, *FEW, "--no-proof", "--seed", "5"]) == 1
    out, _ = capsys.readouterr()
    assert "✗ broken: join_undoes_fork" in out
    assert "1 forked and joined again is 0" in out
    assert f"reproduce: anabranch check {broken} --seed 5 --cases 50" in out


def test_the_printed_case_runs_and_fails(broken, tmp_path, capsys):
    assert run_command(["check", broken, *FEW, "--no-proof"]) == 1
    printed = capsys.readouterr().out.split("The smallest case, to run:\n")[1]
    code = "\n".join(
        line.removeprefix("    ") for line in printed.split("\nreproduce")[0].splitlines()
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "AssertionError: 0 is not 1" in ran.stderr


def test_json_is_one_document(broken, capsys):
    assert run_command(["check", broken, *FEW, "--no-proof", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    verdicts = {result["law"]: result["verdict"] for result in document["results"]}
    assert verdicts.pop("join_undoes_fork") == "broken"
    assert set(verdicts.values()) == {"kept"}


def test_only_the_laws_that_were_asked_for_are_checked(capsys):
    arguments = ["--law", "C3", "--law", "join-is-associative", "--no-proof", "--json"]
    assert run_command(["check", MAX, *FEW, *arguments]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [r["law"] for r in results] == ["independent_updates_commute", "join_is_associative"]


def test_a_module_can_say_which_events_come(tmp_path, capsys):
    file = tmp_path / "any.py"
    text = Path("examples/inc_dec.py").read_text().replace("def strategies", "def other")
    file.write_text(text)
    assert run_command(["check", str(file), *FEW, "--no-proof", "--law", "C3"]) == 1
    file = tmp_path / "positive.py"
    file.write_text(
        text + "\n\ndef strategies():\n"
        "    from hypothesis.strategies import builds, integers\n"
        "    return {kind: builds(kind, integers(1, 9), integers(0, 9)) for kind in (Inc, Dec)}\n"
    )
    assert run_command(["check", str(file), *FEW, "--no-proof", "--law", "C3"]) == 0


def test_a_program_without_a_fork_is_pointed_to_synthesis(tmp_path, capsys):
    file = tmp_path / "count.py"
    file.write_text(NO_FORK)
    assert run_command(["check", str(file), *FEW, "--no-proof"]) == 0
    out, _ = capsys.readouterr()
    assert f"anabranch check {file} --synthesise" in out
    assert "– skipped" in out


def test_a_fork_and_join_that_were_found_keep_the_laws_when_pasted(tmp_path, capsys):
    file = tmp_path / "count.py"
    file.write_text(NO_FORK)
    assert run_command(["check", str(file), *FEW, "--synthesise"]) == 0
    assert "found a fork and a join for count" in capsys.readouterr().out
    assert run_command(["check", str(file), *FEW, "--synthesise", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["found"] is True
    pasted = tmp_path / "pasted.py"
    pasted.write_text(NO_FORK.replace("init=0)", f"init=0, {document['code']})"))
    assert run_command(["check", str(pasted), *FEW, "--no-proof"]) == 0
    assert capsys.readouterr().out.count("✓ kept") == 6


def test_where_no_fork_and_join_is_found_the_reason_is_given(capsys):
    assert run_command(["check", MAX, "--synthesise"]) == 1
    assert "the program has a fork and join already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([MAX, "--law", "gravity"], "there is no law 'gravity'"),
        ([MAX, "--cases", "0"], "--cases is not a number of cases"),
        ([MAX, "--cases", "many"], "many"),
        (["gone.py"], "there is no file 'gone.py'"),
        ([f"{MAX}:events"], "got:      a list"),
    ],
)
def test_a_wrong_call_says_why_and_ends_with_2(arguments, message, capsys):
    assert run_command(["check", *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
