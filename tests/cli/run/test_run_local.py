"""`anabranch run`: the reference's answer from the embedded runtime, on files and on a folder as a stream."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anabranch.cli.main import run_command
from anabranch.local import read_outputs, read_rejected
from tests.cli.run.test_run_spark import KEYS, PROGRAM, ROWS, STREAM, write_events, write_stream


def run_json(capsys, *words: str, code: int = 0) -> dict:
    assert run_command(["run", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("columnar", ["auto", "never"])
@pytest.mark.parametrize("unbounded", [[], ["--unbounded"]])
def test_differential_files_give_the_answer_of_the_reference(tmp_path, capsys, columnar, unbounded):
    program, events = tmp_path / "top.py", tmp_path / "events.jsonl"
    program.write_text(PROGRAM)
    events.write_text("\n" + ROWS)
    command = [str(program), "--input", str(events), *unbounded]
    expected = run_json(capsys, *command, "--reference")
    found = run_json(capsys, *command, "--columnar", columnar)
    for output in expected["outputs"]:
        del output["event"]  # What is published has the outputs' own columns.
    for name in ("outputs", "ledger", "late", "watermarks", "program", "files"):
        assert found[name] == expected[name], name
    for document in (found, expected):
        document["rejected"].sort(key=lambda entry: entry["reason"])
    reasons = [[entry["reason"] for entry in one["rejected"]] for one in (found, expected)]
    assert reasons[0] == reasons[1], "with the file and the line, blank lines counted"


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_differential_a_file_of_any_format(tmp_path, capsys, form):
    place = tmp_path / f"events.{form}"
    write_events(place, form)
    command = [KEYS, "--input", str(place)]
    expected = run_json(capsys, *command, "--reference")
    found = run_json(capsys, *command, "--columnar", "require", "--shards", "3", "--cores", "2")
    assert found["layout"]["shards"] == 3
    assert [(row["time"], row["value"]) for row in found["outputs"]] == [(5, [1, 2]), (9, [2, 1])]
    for name in ("ledger", "late", "watermarks"):
        assert found[name] == expected[name], name


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_rejected_row_is_named_by_its_file_and_line(tmp_path, monkeypatch, capsys, form):
    program = str(Path(KEYS).resolve())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name in "ab":
        write_events(tmp_path / "in" / f"{name}.{form}", form)
    place, line = tmp_path / "in" / f"b.{form}", 6
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.table({"time": [1, 10], "key": [1, None], "type": ["Inc", "Inc"]})
        pyarrow.parquet.write_table(table, place)
        line = 2
    elif form == "csv":
        place.write_text('type,time,key\n\n"Inc",10,1\n"Inc",11,x\n')
        line = 4
    else:
        place.write_text(place.read_text() + "nonsense\n")
    document = run_json(capsys, program, "--input", "in", "--lateness", "99")
    (bad,), (sample,) = document["rejected"], document["reasons"]
    assert bad["reason"].startswith(f"in/b.{form}:{line}: ")
    assert sample["reason"] == bad["reason"]


def test_standard_input_and_several_inputs_are_one_bounded_input(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "in"
    write_stream(folder, STREAM)
    (tmp_path / "more.csv").write_text("type,time,key\nInc,30,1\nRead,31,1\n")
    given = b'{"type": "Inc", "time": 40, "key": 1}\n{broken\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    inputs = ["--input", str(folder), "--input", str(tmp_path / "more.csv"), "--input", "-"]
    document = run_json(capsys, KEYS, *inputs, "--lateness", "5")
    assert [output["value"] for output in document["outputs"]] == [[1, 3], [1, 0], [1, 2]]
    assert document["ledger"]["pending"] == 0
    assert document["rejected"][0]["reason"].startswith("standard input:2: not JSON")
    assert set(document["watermarks"]) == {"a", "reads", "more", "input"}


def test_a_folder_with_an_output_folder_is_a_stream_that_goes_on(tmp_path, capsys):
    channel, folder = tmp_path / "in", tmp_path / "emitted"
    command = [KEYS, "--input", str(channel), "--output", str(folder), "--lateness", "5"]
    write_stream(channel, STREAM[:1])
    assert run_command(["run", *command, "--shards", "2"]) == 0
    first = capsys.readouterr().out
    assert "The program emitted nothing." in first
    assert "ledger    3 in = 3 pending" in first
    assert "  a          -2   holds back 3 pending" in first
    assert first.endswith(f"written   {folder}\n")
    write_stream(channel, [*STREAM, [("Inc", 30, 1, "a", 4), ("Read", 30, 1, "reads", 2)]])
    document = run_json(capsys, *command)
    # Inc 2 came after Inc 4, within the lateness, and is counted where it belongs.
    assert [output["value"] for output in document["outputs"]] == [[1, 3], [1, 0]]
    assert document["ledger"] == {
        "input": 8, "processed": 6, "late": 0, "rejected": 0, "shed": 0, "pending": 2,
    }  # fmt: skip
    assert document["watermarks"] == {"a": 24, "reads": 24}
    assert document["layout"]["shards"] == 2, "as the checkpoint has it"
    assert sorted(path.name for path in folder.glob("batch=*")) == ["batch=0", "batch=1", "batch=2"]
    assert run_command(["run", *command, "--shards", "3"]) == 2
    assert capsys.readouterr().err.startswith("this checkpoint was made with other shards")
    # Without an output folder there is no checkpoint, and the files are the whole input.
    whole = run_json(capsys, KEYS, "--input", str(channel), "--lateness", "5")
    assert whole["ledger"]["pending"] == 0
    assert [output["value"] for output in whole["outputs"]] == [[1, 3], [1, 0], [1, 1]]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_files_are_published_into_a_folder_once(tmp_path, capsys, form):
    events, folder = tmp_path / "events.jsonl", tmp_path / "emitted"
    write_events(events, "jsonl")
    command = ["run", KEYS, "--input", str(events), "--output", str(folder), "--format", form]
    assert run_command(command) == 0
    assert f"written   {folder}\n" in capsys.readouterr().out
    emitted = read_outputs(folder).sort_by("time").column("value").to_pylist()
    assert [json.loads(text) for text in emitted] == [[1, 2], [2, 1]]
    assert run_command(command) == 2
    assert "already has the batches of a run" in capsys.readouterr().err


def test_a_speculative_stream_shows_what_it_took_back_and_how_much(tmp_path, capsys):
    channel = tmp_path / "in"
    write_stream(channel, STREAM)
    command = [KEYS, "--input", str(channel), "--lateness", "5", "--mode", "speculative"]
    document = run_json(capsys, *command, "--output", str(tmp_path / "out"), "--format", "jsonl")
    assert [(row["op"], row["value"]) for row in document["outputs"]] == [
        (1, [1, 2]), (-1, [1, 2]), (1, [1, 3]), (1, [1, 0]),
    ]  # fmt: skip
    assert document["amount"] == {"emitted": 4, "valid": 2, "ratio": 2.0}


def test_a_stream_with_too_many_bad_lines_stops_there(tmp_path, capsys):
    channel, folder = tmp_path / "in", tmp_path / "emitted"
    write_stream(channel, [*STREAM, [("Inc", 30, 1, "a", 4)]])
    file = channel / "1.jsonl"
    file.write_text(file.read_text() + "{ broken\nmore\n")
    command = ["run", KEYS, "--input", str(channel), "--lateness", "5", "--output", str(folder)]
    assert run_command([*command, "--most-rejected", "1"]) == 1
    assert f"look at {folder}/batch=*/rejected" in capsys.readouterr().err
    assert sorted(path.name for path in folder.glob("batch=*")) == ["batch=0", "batch=1"]
    assert read_rejected(folder).column("raw").to_pylist() == ["{ broken", "more"]
    assert run_command([*command, "--most-rejected", "2"]) == 0
    assert "ledger    9 in = " in capsys.readouterr().out


def test_records_as_outputs_are_shown_as_their_class_shows_them(tmp_path, capsys):
    assert run_command(["new", str(tmp_path / "shop")]) == 0
    capsys.readouterr()
    project = tmp_path / "shop"
    command = ["run", str(project / "balances.py"), "--input", str(project / "payments")]
    shown = []
    for more in ([], ["--reference"]):
        assert run_command([*command, *more]) == 0
        shown.append(capsys.readouterr())
    assert "Alert(account='ada', balance=-600)" in shown[0].out
    assert shown[0] == shown[1], "the same report, word for word"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input", "MIXED"], "the files of an input have different formats"),
        (["--input", "IN", "--input", "IN/0.jsonl", "--output", "OUT"], "must be the only input"),
        (["--input", "IN", "--checkpoint", "x"], "no output folder, so that the files are read"),
        (["--input", "IN", "--shards", "0"], "--shards is not a number of shards"),
        (["--input", "IN", "--output", "OLD"], "the batches of a run with another checkpoint"),
        (["--input", "IN", "--output", "OUT", "--trigger", "1 s"], "--trigger needs --follow"),
    ],
)
def test_what_can_not_be_run_is_refused_and_never_left_to_the_reference(
    tmp_path, capsys, flags, message
):
    write_stream(tmp_path / "in", STREAM)
    (tmp_path / "mixed").mkdir()
    for name in ("a.csv", "b.jsonl"):
        (tmp_path / "mixed" / name).write_text("")
    (tmp_path / "old" / "batch=0").mkdir(parents=True)
    names = {"IN": "in", "MIXED": "mixed", "OUT": "out", "OLD": "old", "IN/0.jsonl": "in/0.jsonl"}
    words = [str(tmp_path / names[word]) if word in names else word for word in flags]
    assert run_command(["run", KEYS, *words]) == 2
    assert message in capsys.readouterr().err


def test_without_pyarrow_the_command_names_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run_command(["run", KEYS]) == 2
    err = capsys.readouterr().err
    assert "the embedded runtime needs pyarrow and numpy" in err
    assert "pip install 'anabranch[local]'" in err
    assert run_command(["run", KEYS, "--reference"]) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_followed_folder_is_read_until_a_signal_and_the_next_run_goes_on(tmp_path, number):
    channel, folder = tmp_path / "in", tmp_path / "out"
    write_stream(channel, STREAM[:1])
    command = [sys.executable, "-m", "anabranch.cli.main", "run", KEYS, "--input", str(channel)]
    command += ["--output", str(folder), "--lateness", "5", "--follow", "--trigger", "50 ms"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not (folder / "batch=0").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    write_stream(tmp_path / "later", STREAM)
    os.rename(tmp_path / "later" / "1.jsonl", channel / "1.jsonl")
    lines = [process.stderr.readline() for _ in range(4)]
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", "stopped\n")
    assert lines[:2] == [f"following {channel}, every 50 ms\n", "Ctrl-C stops it\n"]
    assert lines[2].startswith("batch 0  3 rows")
    assert lines[2].endswith("watermark -2, held back by a (lateness 5); reads -1\n")
    assert lines[3].startswith("batch 1  3 rows")
    again = subprocess.run(
        [*command[:-3], "--json"], capture_output=True, text=True, check=True
    )  # Without --follow.
    assert json.loads(again.stdout)["ledger"]["input"] == 6
