"""Savepoints, rescale, move, verify and state of embedded runs on the command line, without Java."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anabranch.cli.main import run_command
from anabranch.local.checkpoints import read_begun, read_made_by
from anabranch.local.page_log import list_logs
from anabranch.microbatch.runs.checkpoint_locks import Lock
from anabranch.savepoints.folders import open_savepoint
from tests.cli.savepoint.test_savepoint import PROGRAM, call, read
from tests.cli.savepoint.test_savepoint_spark import emitted_by, make_checkpoint, write_files

STREAM = ["heat.py", "--input", "in"]
WHOLE = [
    (3, {"attic": 5, "hall": 10}), (6, {"attic": 5, "hall": 17}), (10, {"attic": 6, "hall": 19}),
]  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    """A program, and an embedded run of it that has read two of three files."""

    def start(*arguments):
        raise AssertionError("an embedded run needs no Spark")

    monkeypatch.setattr("anabranch.spark.session.startup.start_session", start)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heat.py").write_text(PROGRAM)
    write_files(tmp_path / "in", last=2)
    first = read(capsys, "run", *STREAM, "--output", "out", "--shards", "3")
    assert emitted_by(first) == WHOLE[:1]
    return tmp_path


def go_on(capsys, folder, *flags):
    """Add the last file, run to the end, and return the outputs of a folder."""
    write_files(Path("in"))
    return emitted_by(read(capsys, "run", *STREAM, "--output", folder, *flags))


def test_a_savepoint_of_a_run_is_restored_with_other_shards(place, capsys):
    made = read(capsys, "savepoint", "create", "out/_checkpoint", "savepoints/one")
    assert (made["batch"], made["watermark"]) == (1, 5)
    printed = call(
        capsys,
        "savepoint",
        "restore",
        "savepoints/one",
        *STREAM,
        "--output",
        "new",
        "--shards",
        "2",
    )
    assert printed == (
        "restored  savepoints/one into new/_checkpoint, 2 shards\n"
        "to do     anabranch run heat.py --input in --output new\n"
    )
    assert go_on(capsys, "new") == WHOLE[1:]
    assert read_begun(place / "new/_checkpoint").savepoint == made["id"]


def test_run_from_restores_once_and_then_goes_on(place, capsys):
    call(capsys, "savepoint", "create", "out/_checkpoint", "savepoints/one")
    for _ in range(2):
        assert go_on(capsys, "new", "--from", "savepoints/one") == WHOLE[1:]
    call(capsys, "savepoint", "create", "new/_checkpoint", "savepoints/two")
    told = call(capsys, "run", *STREAM, "--output", "new", "--from", "savepoints/two", code=2)
    assert "new/_checkpoint began with another savepoint" in told
    told = call(capsys, "run", *STREAM, "--output", "out", "--from", "savepoints/two", code=2)
    assert "out/_checkpoint did not begin with a savepoint" in told


def test_a_run_is_rescaled_in_place(place, capsys):
    printed = call(capsys, "rescale", *STREAM, "--output", "out", "--shards", "5")
    assert printed == "rescaled  out/_checkpoint: 5 shards\n"
    assert go_on(capsys, "out") == WHOLE
    assert read_made_by(place / "out/_checkpoint")["shards"] == "5"
    flags = ["--output", "out", "--partitions", "2"]
    assert "--partitions are Spark's" in call(capsys, "rescale", *STREAM, *flags, code=2)


def test_a_speculative_run_moves_in_its_mode(place, capsys):
    speculative = ["--mode", "speculative"]
    read(capsys, "run", *STREAM, "--output", "early", *speculative)
    printed = call(capsys, "move", "early", *STREAM, "--output", "later", "--shards", "2")
    assert printed.splitlines()[-1] == (
        "to do     anabranch run heat.py --input in --output later --mode speculative"
    )
    # The output of the pending report at 6 was emitted in the other folder, and is not emitted again.
    assert go_on(capsys, "later", *speculative) == [
        WHOLE[2],
        (13, {"attic": 6, "cellar": 4, "hall": 19}),
    ]


def test_a_run_moves_and_is_compared(place, capsys):
    moved = read(capsys, "move", "out", *STREAM, "--output", "new", "--shards", "2")
    assert (moved["from"], moved["checkpoint"]) == ("out/_checkpoint", "new/_checkpoint")
    assert (moved["shards"], moved["batch"], moved["ledger"]["pending"]) == (2, 1, 3)
    assert [path.name for path in place.iterdir() if path.name.startswith(".")] == []
    assert go_on(capsys, "new") == WHOLE[1:]


def test_what_can_not_be_moved_is_refused(place, capsys):
    flags = [*STREAM, "--output", "new"]
    assert "in is not a checkpoint" in call(capsys, "move", "in", *flags, code=2)
    lock = Lock(place / "out/_checkpoint")
    try:
        assert "a query is running on" in call(capsys, "move", "out", *flags, code=2)
    finally:
        lock.release()
    there = [*STREAM, "--output", "out"]
    assert "a folder that is not empty" in call(capsys, "move", "out", *there, code=2)
    assert not (place / "new").exists()
    # In the folder of the run, with a new checkpoint, the numbers of its batches continue.
    call(capsys, "move", "out", *there, "--checkpoint", "again")
    told = call(capsys, "run", *there, code=2)
    assert "do not belong together" in told
    assert go_on(capsys, "out", "--checkpoint", "again") == WHOLE


def test_only_the_last_batch_can_be_saved(place, capsys):
    create = ["savepoint", "create", "out/_checkpoint", "sp"]
    for flags in (["--batch", "0"], ["--at", "3"]):
        assert "has only its last batch" in call(capsys, *create, *flags, code=2)
    assert not (place / "sp").exists()
    call(capsys, *create, "--batch", "1")
    assert open_savepoint(place / "sp").manifest.runtime == "local"


def test_damage_of_a_checkpoint_is_found(place, capsys):
    assert "1 file of out/_checkpoint unchanged since batch 1" in call(
        capsys, "checkpoint", "verify", "out"
    )
    (log,) = list_logs(place / "out/_checkpoint").values()
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)
    report = json.loads(call(capsys, "checkpoint", "verify", "out", "--json", code=1))
    assert report["damaged"]
    assert [found["file"] for found in report["findings"]] == [log.name]
    assert "is damaged" in call(capsys, "savepoint", "create", "out/_checkpoint", "sp", code=2)


def test_the_state_is_queried_and_exported(place, capsys, monkeypatch):
    whole = read(capsys, "state", "query", "out/_checkpoint")
    assert (whole["batch"], whole["watermark"]) == (1, 5)
    rows = sorted((row["key"], row["value"]) for row in whole["rows"])
    assert rows == [("attic", 5), ("hall", 10)]
    for sql, expected in (
        ("select sum(value) as n from state", [{"n": 15}]),
        ("select name, watermark from channels order by name",
         [{"name": "report", "watermark": 5}, {"name": "temp", "watermark": 8}]),
        ("select pending from ledger", [{"pending": 3}]),
        ("select count(*) as n from pending", [{"n": 3}]),
    ):  # fmt: skip
        assert read(capsys, "state", "query", "out/_checkpoint", sql)["rows"] == expected
    bad = ["state", "query", "out/_checkpoint", "select * from nothing"]
    assert "state(key, value)" in call(capsys, *bad, code=2)
    call(capsys, "state", "export", "out/_checkpoint", "exported")
    table = pq.read_table(place / "exported/latest/part-00000.parquet")
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == rows
    told = call(capsys, "state", "history", "out/_checkpoint", "hall", code=2)
    assert "has only its last batch" in told
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    assert "pip install duckdb" in call(capsys, *bad, code=2)
    assert run_command(["state", "query", "out/_checkpoint"]) == 0


def test_a_checkpoint_of_spark_is_not_taken_for_an_embedded_one(place, capsys):
    make_checkpoint("spark")
    assert "is the checkpoint of a query on Spark" in call(
        capsys, "run", *STREAM, "--output", "spark", code=2
    )
