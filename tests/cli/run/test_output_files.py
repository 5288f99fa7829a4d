"""The files of a run without Spark: times of timestamped programs, and CSV with the columns of Spark's results."""

import csv
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.cli.main import run_command

PROGRAM = """
from datetime import datetime
from typing import NamedTuple
from anabranch import Program, depends, on
from anabranch.state import MapOf, Sum

class Txn(NamedTuple):
    time: datetime
    account: str
    cents: int

class Alert(NamedTuple):
    account: str | None
    total: int
    at: datetime

class Listed(NamedTuple):
    total: int
    words: list[str]

def warn(total: int, txn: Txn) -> Alert:
    return Alert(txn.account or None, total, txn.time)

def give(total: int, txn: Txn) -> Listed:
    return Listed(total, [])

def make(output):
    return Program(
        on(Txn, update=lambda total, txn: total + txn.cents, output=output),
        depends(Txn, Txn, same="account"),
        state=MapOf(Sum(), by="account"),
    )

alerts, nested = make(warn), make(give)
"""
LINES = [("10:00:00.5", 'a "b",\nc', 7), ("10:00:02", "", -1), ("10:00:01", 'a "b",\nc', 0)]
TIMES = [
    datetime(2026, 7, 1, 10, 0, 0, 500_000, tzinfo=UTC),
    datetime(2026, 7, 1, 10, 0, 1, tzinfo=UTC),
    datetime(2026, 7, 1, 10, 0, 2, tzinfo=UTC),
]


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return a function that runs a program on the lines."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(PROGRAM)
    rows = [{"time": f"2026-07-01T{time}Z", "account": who, "cents": n} for time, who, n in LINES]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def start(name, *arguments):
        return run_command(
            ["run", f"app.py:{name}", "--input", "in.jsonl", "--lateness", "1 s", *arguments]
        )

    return start


def test_csv_has_the_columns_that_outputs_have_on_spark(start, tmp_path):
    assert start("alerts", "--output", "out.csv") == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "time", "op", "account", "total", "at"]
    moments = [time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for time in TIMES]
    who = 'a "b",\nc'
    assert [row[1:] for row in rows] == [
        [moments[0], "1", who, "0", moments[0]],
        [moments[1], "1", who, "7", moments[1]],
        [moments[2], "1", "", "0", moments[2]],
    ]
    assert [json.loads(row[0].rpartition("#")[0])[2:] for row in rows] == [
        ["in", 0], ["in", 2], ["in", 1],
    ]  # fmt: skip


def test_csv_goes_to_standard_output(start, capfdbinary):
    assert start("alerts", "--output", "-", "--format", "csv") == 0
    assert capfdbinary.readouterr().out.startswith(b'"id","time","op","account","total","at"\n')


def test_nested_outputs_are_refused_before_the_run_by_name(start, tmp_path, capsys):
    assert start("nested", "--output", "out.csv") == 2
    shown = capsys.readouterr().err
    assert "field 'words' of the outputs can't be written as CSV" in shown
    assert "words: array<string>" in shown
    assert "--format jsonl or parquet" in shown
    assert not (tmp_path / "out.csv").exists()


def test_times_are_timestamps_in_every_format(start, tmp_path):
    assert start("alerts", "--output", "out.jsonl") == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["time"] for line in lines] == [time.isoformat() for time in TIMES]
    assert start("alerts", "--output", "out.parquet") == 0
    column = pq.read_table(tmp_path / "out.parquet").column("time")
    assert column.type == pa.timestamp("us", "UTC")
    assert column.to_pylist() == TIMES


def test_diff_takes_a_file_in_another_format_for_the_same(start, capsys):
    assert start("alerts", "--output", "out.jsonl") == 0
    assert start("alerts", "--output", "out.parquet") == 0
    capsys.readouterr()
    assert run_command(["diff", "out.jsonl", "out.parquet"]) == 0
    assert "equivalent: 3 outputs" in capsys.readouterr().out


def test_the_document_of_a_run_has_timestamps(start, capsys):
    assert start("alerts", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["time"] for row in document["outputs"]] == [time.isoformat() for time in TIMES]
