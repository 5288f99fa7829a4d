import json
from pathlib import Path

import pytest

from anabranch.cli.main import run_command

NAMES = sorted(file.stem for file in Path("examples").glob("*.py"))


@pytest.mark.parametrize("arguments", [["examples"], ["examples", "list"]])
def test_every_example_is_listed_with_its_first_sentence(arguments, capsys):
    assert run_command(arguments) == 0
    out, _ = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()[2 : 2 + len(NAMES)]] == NAMES
    assert "Report the highest temperature since the last report." in out
    assert run_command([*arguments, "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == NAMES


def test_an_example_is_shown_as_it_is(capsys):
    assert run_command(["examples", "show", "fraud"]) == 0
    assert capsys.readouterr().out.rstrip() == Path("examples/fraud.py").read_text().rstrip()


def test_a_copy_runs_and_is_not_overwritten(tmp_path, capsys):
    assert run_command(["examples", "copy", "fraud", str(tmp_path)]) == 0
    copied = tmp_path / "fraud.py"
    assert copied.read_text() == Path("examples/fraud.py").read_text()
    assert f"anabranch check {copied}" in capsys.readouterr().out
    assert run_command(["run", str(copied)]) == 0
    copied.write_text("mine")
    assert run_command(["examples", "copy", "fraud", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert copied.read_text() == "mine"
    assert run_command(["examples", "copy", "fraud", str(tmp_path), "--force"]) == 0
    assert copied.read_text() == Path("examples/fraud.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nope"], "there is no example 'nope'"),
        (["copy", "fraud", "no/such/folder/x.py"], "no folder no/such/folder"),
        (["copy", "fraud", "nowhere"], "an example can't be copied to"),
        (["shw", "fraud"], "shw"),
    ],
)
def test_a_wrong_call_says_why_and_ends_with_2(arguments, message, capsys):
    assert run_command(["examples", *arguments]) == 2
    assert message in capsys.readouterr().err
