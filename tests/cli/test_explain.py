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
    assert out.startswith("key_counter: mixed, 5 nodes on 4 machines\n")
    assert "  ├─ Read (key 2)                 10/s   10/s  <0.1%  E0\n" in out
    assert f"declared in {RATES}" in out
    assert "optimizers" not in out


def test_the_events_beside_a_program_are_sampled(capsys):
    assert run_command(["explain", BARRIER]) == 0
    out, _ = capsys.readouterr()
    assert "the 16 events beside the program" in out
    assert "why one node?" in out


def test_a_file_of_events_is_sampled(tmp_path, capsys):
    file = tmp_path / "events.jsonl"
    rows = [{"type": "Inc", "time": n, "key": n % 2, "channel": "a"} for n in range(10)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_command(["explain", COUNTER, "--sample", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rates_from"] == f"10 events of {file}"
    leaves = [node for node in document["plan"]["nodes"] if node["slices"]]
    assert sum(node["rate"] for node in leaves) == 1.0


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
    assert [(o["optimizer"], o["nodes"]) for o in document["optimizers"]] == [
        ("best", 3), ("greedy", 5), ("hybrid", 5), ("keyed", 3), ("sequential", 1)
    ]  # fmt: skip
    assert run_command(["explain", COUNTER, "--rates", RATES, "--compare"]) == 0
    assert "greedy          5       3   3,040 B/s" in capsys.readouterr().out


def test_the_plan_is_drawn_into_a_file(tmp_path, capsys):
    file = tmp_path / "plan.svg"
    assert run_command(["explain", COUNTER, "--rates", RATES, "--svg", str(file)]) == 0
    assert f"written   {file}" in capsys.readouterr().out
    assert ET.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_plan_that_can_not_keep_up_ends_with_1(capsys):
    assert run_command(["explain", BARRIER, "--rates", HOT]) == 0
    assert run_command(["explain", BARRIER, "--rates", HOT, "--optimizer", "sequential"]) == 1
    assert "node 0 can't keep up: it would need 240% of its time" in capsys.readouterr().out


def test_workers_may_stand_on_a_machine_that_is_named(capsys):
    arguments = ["explain", COUNTER, "--rates", RATES, "--optimizer", "hybrid"]
    assert run_command([*arguments, "--machine", "central", "--json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["plan"]["nodes"]
    assert {node["machine"] for node in nodes} == {"central"}


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


def test_the_layout_on_spark_is_drawn_with_its_shards_and_reasons(capsys):
    assert run_command(["explain", COUNTER, "--shards", "2"]) == 0
    out, _ = capsys.readouterr()
    assert out.endswith("""
on Spark, 2 shards
  no root: shards are independent
  ├─ shard 0  Inc (key shard 0 of 2); Read (key shard 0 of 2)
  └─ shard 1  Inc (key shard 1 of 2); Read (key shard 1 of 2)

where event types run
  Inc   in the shard of its key  free within one key: hot keys can be spread
  Read  in the shard of its key  marker per key: waits for the events it depends on

fields
  key separates: different values are independent

layout and path
  keyed: different values of key are independent
  columnar path: events are never looked at one by one
  early fold: Inc from files are folded where they are read, to deltas
  Inc: compiled
  Read: compiled
""")


def test_many_shards_are_counted_and_not_listed(capsys):
    assert run_command(["explain", BARRIER]) == 0
    out, _ = capsys.readouterr()
    assert (
        """
on Spark, 16 shards
  root  Barrier
  ├─ shard 0  Value (lane 0 of 16)
  ├─ shard 1  Value (lane 1 of 16)
  ├─ shard 2  Value (lane 2 of 16)
  ├─ … 12 more like these
  └─ shard 15  Value (lane 15 of 16)
"""
        in out
    )
    assert "of Parquet or Arrow files alone, `run` takes 1 shard by default" in out


def test_the_document_holds_the_layout_and_what_keeps_it_on_the_row_path(capsys):
    assert run_command(["explain", "examples/fraud.py", "--shards", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["on_spark"]
    assert (found["layout"], found["shards"], found["path"]) == ("forked", 3, "row")
    assert [(w["slices"], w["machine"]) for w in found["nodes"] if w["slices"]] == [
        (["Rule"], "root"),
        (["Txn[lane in 0/3]"], "shard 0"),
        (["Txn[lane in 1/3]"], "shard 1"),
        (["Txn[lane in 2/3]"], "shard 2"),
    ]
    assert [(t["event_type"], t["apart"]) for t in found["event_types"]] == [
        ("Txn", True), ("Rule", False),
    ]  # fmt: skip
    assert [gap["feature"] for gap in found["row_path_only"]] == ["deferred outputs"]


def test_the_picture_is_of_spark_unless_an_optimizer_is_named(tmp_path, capsys):
    file = tmp_path / "plan.svg"
    flags = ["explain", COUNTER, "--rates", RATES, "--shards", "3", "--svg", str(file)]
    assert run_command(flags) == 0
    assert "Spark plan: 5 nodes" in file.read_text()
    assert "key shard 2 of 3" in file.read_text()
    assert run_command([*flags, "--optimizer", "greedy"]) == 0
    assert "greedy plan: 5 nodes" in file.read_text()


def test_shards_are_at_least_one(capsys):
    assert run_command(["explain", COUNTER, "--shards", "0"]) == 2
    assert "--shards is not a number of shards" in capsys.readouterr().err
