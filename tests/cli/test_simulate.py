import json
from pathlib import Path

import pytest

from anabranch.cli.main import run_command

BARRIER = "examples/value_barrier.py"


@pytest.fixture
def broken(tmp_path):
    """Copy an example whose fork forgets the state."""
    text = Path("examples/max_temperature.py").read_text()
    assert "(top, top)" in text
    file = tmp_path / "forgetful.py"
    file.write_text(text.replace("(top, top)", "(0, 0)"))
    return str(file)


def test_every_plan_is_tried_under_every_seed(capsys):
    assert run_command(["simulate", BARRIER, "--seeds", "20"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert "120 of 120 schedules give the sequential answer" in out
    assert run_command(["simulate", BARRIER, "--seeds", "20", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["agree"] is True
    assert [plan["name"] for plan in document["plans"]] == [
        "sequential", "by stream", "lopsided", "root works too", "four lanes",
        "on Spark, 4 shards",
    ]  # fmt: skip
    assert all(plan["seeds"] == 20 and plan["crashes"] > 0 for plan in document["plans"])


def test_the_seeds_give_the_same_counts_in_other_processes(capsys, monkeypatch):
    from anabranch.cli import simulate

    arguments = ["simulate", BARRIER, "--plan", "by stream", "--seeds", "150", "--json"]
    here, there = [], []
    for counts, threshold in ((here, 1000), (there, 100)):
        monkeypatch.setattr(simulate, "POOL_FROM", threshold)
        assert run_command(arguments) == 0
        plan = json.loads(capsys.readouterr().out)["plans"][0]
        plan.pop("seconds")
        counts.append(plan)
    assert here == there


def test_a_seed_that_disagrees_is_named_and_can_be_seen_again(broken, capsys):
    assert run_command(["simulate", broken, "--seeds", "50", "--json"]) == 1
    plans = json.loads(capsys.readouterr().out)["plans"]
    bad = {plan["name"]: plan["mismatch"] for plan in plans if plan["mismatch"]}
    assert "sequential" not in bad
    seed = bad["by thermometer"]["seed"]
    assert bad["by thermometer"]["replay"] == (
        f"anabranch simulate {broken} --plan 'by thermometer' --seed {seed}"
    )
    assert run_command(["simulate", broken, "--seeds", "50"]) == 1
    out, _ = capsys.readouterr()
    assert f"by thermometer disagrees at seed {seed}" in out
    assert bad["by thermometer"]["replay"] in out
    replay = ["simulate", broken, "--plan", "by thermometer", "--seed", str(seed)]
    assert run_command(replay) == 1
    assert "disagrees with the sequential answer" in capsys.readouterr().out


def test_a_join_that_raises_is_a_disagreement(tmp_path, capsys):
    text = Path("examples/max_temperature.py").read_text()
    file = tmp_path / "raising.py"
    file.write_text(text.replace("join=max", "join=lambda a, b: a / 0"))
    assert run_command(["simulate", str(file), "--seeds", "5", "--plan", "deep"]) == 1
    out, _ = capsys.readouterr()
    assert "ZeroDivisionError: division by zero" in out
    assert "raising.py:" in out


def test_one_seed_tells_its_story(capsys):
    assert run_command(["simulate", BARRIER, "--seed", "7", "--plan", "by stream"]) == 0
    out, _ = capsys.readouterr()
    assert "node 0 emits 51 on Barrier(time=16)" in out
    assert "agrees with the sequential answer" in out
    assert run_command(["simulate", BARRIER, "--seed", "7", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seed"] == 7
    assert any("emits 51" in line for line in document["plans"][1]["trace"])


def test_a_program_without_plans_gets_some_from_its_events(tmp_path, capsys):
    text = Path(BARRIER).read_text()
    file = tmp_path / "planless.py"
    file.write_text(text.replace("plans = {", "others = {"))
    assert run_command(["simulate", str(file), "--seeds", "20", "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert [plan["name"] for plan in plans] == [
        "sequential", "greedy", "on Spark, 4 shards",
    ]  # fmt: skip
    assert plans[1]["joins"] > 0
    assert run_command(["simulate", str(file), "--seeds", "20"]) == 0
    assert "derived from the program's events" in capsys.readouterr().out


def test_events_of_a_file_can_be_simulated(tmp_path, capsys):
    file = tmp_path / "a1.jsonl"
    rows = [{"type": "Value", "time": n, "value": n} for n in range(1, 6)]
    rows.append({"type": "Barrier", "time": 9, "channel": "b"})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "oops\n")
    assert run_command(["simulate", BARRIER, "--input", str(file), "--seeds", "5"]) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--plan", "nope"], "has no plan 'nope'"),
        (["--seeds", "0"], "--seeds is not a number of schedules"),
        (["--seed", "x"], "x"),
        (["--input", "gone.jsonl"], "there is no file 'gone.jsonl'"),
    ],
)
def test_a_wrong_call_says_why_and_ends_with_2(flags, message, capsys):
    assert run_command(["simulate", BARRIER, *flags]) == 2
    assert message in capsys.readouterr().err


def test_the_layout_on_spark_is_simulated_with_the_shards_that_are_asked_for(capsys):
    arguments = ["simulate", BARRIER, "--plan", "on Spark", "--shards", "3", "--seeds", "5"]
    assert run_command([*arguments, "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert [(plan["name"], plan["seeds"]) for plan in plans] == [("on Spark, 3 shards", 5)]
    assert run_command(["simulate", BARRIER, "--shards", "0"]) == 2
    assert "--shards is not a number of shards" in capsys.readouterr().err


def test_a_layout_that_disagrees_names_the_command_that_shows_it(broken, capsys):
    arguments = ["simulate", broken, "--shards", "2", "--plan", "on Spark", "--json"]
    assert run_command([*arguments, "--seeds", "50"]) == 1
    (plan,) = json.loads(capsys.readouterr().out)["plans"]
    seed = plan["mismatch"]["seed"]
    assert plan["mismatch"]["replay"] == (
        f"anabranch simulate {broken} --plan 'on Spark' --shards 2 --seed {seed}"
    )
