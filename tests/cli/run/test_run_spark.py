"""`anabranch run --master`: the reference's answer, from Spark."""

import json
import os
import re
import sys

import pytest

from anabranch.cli.main import run_command

BARRIER = "examples/value_barrier.py"
KEYS = "examples/key_counter.py"
MASTER = ["--master", "local[2]", "--shards", "2"]

PROGRAM = """
from typing import NamedTuple
from anabranch import Program, depends, on

class Temp(NamedTuple):
    time: int
    degrees: int

class Report(NamedTuple):
    time: int

top = Program(
    on(Temp, update=lambda top, temp: max(top, 100 // temp.degrees)),
    on(Report, output=lambda top, report: top),
    depends(Report, Temp, Report),
    init=0, zero=0, fork=lambda top, left, right: (top, top), join=max,
)
"""

ROWS = """\
{"type": "Temp", "time": 5, "degrees": 10, "channel": "t"}
{"type": "Temp", "time": 9, "degrees": 50, "channel": "t"}
{"type": "Temp", "time": 2, "degrees": 20, "channel": "t"}
{"type": "Temp", "time": 9, "degrees": 0, "channel": "t"}
{"type": "Temp", "time": 9, "degrees": "hot", "channel": "t"}
{"type": "Report", "time": 7, "channel": "r"}
nonsense
"""

STREAM = [
    [("Inc", 1, 1, "a", 0), ("Inc", 4, 1, "a", 1), ("Read", 5, 1, "reads", 0)],
    [("Inc", 2, 1, "a", 2), ("Inc", 9, 1, "a", 3), ("Read", 8, 1, "reads", 1)],
]


def write_stream(folder, parts):
    folder.mkdir(exist_ok=True)
    names = ("type", "time", "key", "channel", "seq")
    for number, part in enumerate(parts):
        file = folder / f"{number}.jsonl"
        rows = [json.dumps(dict(zip(names, row, strict=True))) for row in part]
        file.write_text("\n".join(rows) + "\n")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


@pytest.mark.spark
def test_differential_files_give_the_answer_of_the_reference(spark, tmp_path, capsys):
    program, events = tmp_path / "top.py", tmp_path / "events.jsonl"
    program.write_text(PROGRAM)
    events.write_text(ROWS)
    command = ["run", str(program), "--input", str(events)]
    assert run_command([*command, "--json", "--reference"]) == 0
    expected = json.loads(capsys.readouterr().out)
    folder = str(tmp_path / "emitted")
    assert run_command([*command, *MASTER, "--output", folder, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for output in expected["outputs"]:
        del output["event"]  # What is published has the outputs' own columns.
    for name in ("outputs", "ledger", "late", "watermarks"):
        assert document[name] == expected[name], name
    # The reference attributes rows without a channel, and so names their place, in its own way.
    reasons = [
        sorted(re.sub(r"^\S+:\d+: ", "", entry["reason"]) for entry in answer["rejected"])
        for answer in (document, expected)
    ]
    assert reasons[0] == reasons[1]
    assert document["layout"] == {
        "way": "forked", "shards": 2, "reasons": ["in parallel, from zero: Temp; at the root: Report"],
    }  # fmt: skip
    assert run_command([*command, *MASTER, "--output", folder]) == 2
    assert "already has the batches of a run" in capsys.readouterr().err


@pytest.mark.spark
def test_a_folder_is_followed_and_taken_up_again(spark, tmp_path, capsys):
    channel, folder = tmp_path / "in", tmp_path / "emitted"
    command = ["run", KEYS, "--input", str(channel), "--output", str(folder), "--lateness", "5"]
    write_stream(channel, STREAM[:1])
    assert run_command([*command, *MASTER]) == 0
    first = capsys.readouterr().out
    assert "The program emitted nothing." in first
    assert "ledger    3 in = 3 pending" in first
    assert "  a          -2   holds back 3 pending" in first
    assert "layout    keyed, 2 shards" in first
    write_stream(channel, [*STREAM, [("Inc", 30, 1, "a", 4), ("Read", 30, 1, "reads", 2)]])
    assert run_command([*command, *MASTER, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    # Inc 2 came after Inc 4, within the lateness, and is counted where it belongs.
    assert [output["value"] for output in document["outputs"]] == [[1, 3], [1, 0]]
    assert document["ledger"] == {
        "input": 8, "processed": 6, "late": 0, "rejected": 0, "shed": 0, "pending": 2,
    }  # fmt: skip
    assert document["watermarks"] == {"a": 24, "reads": 24}


@pytest.mark.spark
def test_a_speculative_stream_tells_what_it_took_back_and_how_much(spark, tmp_path, capsys):
    channel = tmp_path / "in"
    write_stream(channel, STREAM)
    command = ["run", KEYS, "--input", str(channel), "--lateness", "5", "--mode", "speculative"]
    assert run_command([*command, *MASTER, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(row["op"], row["value"]) for row in document["outputs"]] == [
        (1, [1, 2]), (-1, [1, 2]), (1, [1, 3]), (1, [1, 0]),
    ]  # fmt: skip
    assert document["amount"] == {"emitted": 4, "valid": 2, "ratio": 2.0}


@pytest.mark.spark
def test_a_folder_with_bad_lines_warns_and_with_too_many_stops(spark, tmp_path, capsys):
    channel, folder = tmp_path / "in", tmp_path / "emitted"
    write_stream(channel, STREAM)
    file = channel / "1.jsonl"
    bad = ["{ broken", '{"type": "Inc", "time": 9, "key": "one", "channel": "a", "seq": 4}']
    file.write_text(file.read_text() + "".join(f"{line}\n" for line in bad))
    os.utime(file, (1_700_000_001, 1_700_000_001))
    command = ["run", KEYS, "--input", str(channel), "--lateness", "5", *MASTER]
    assert run_command([*command, "--json", "--most-rejected", "2"]) == 0
    emitted = capsys.readouterr()
    document = json.loads(emitted.out)
    assert [(entry["raw"], entry["reason"], entry["seq"]) for entry in document["rejected"]] == [
        (
            "{ broken",
            "not JSON: Expecting property name enclosed in double quotes: line 1 column 3 (char 2)",
            None,
        ),
        (bad[1], "field 'key' of Inc: expected int, got \"one\" (text)", 4),
    ]
    assert "warning: 2 events of 8 rejected" in emitted.err

    assert run_command([*command, "--most-rejected", "20%"]) == 1
    emitted = capsys.readouterr()
    assert "ledger    8 in = " in emitted.out
    assert "too many events are rejected: 2 of 8" in emitted.err
    assert "look at --output DIR, which has all of them" in emitted.err

    kept = [*command, "--output", str(folder), "--most-rejected"]
    assert run_command([*kept, "1"]) == 1
    assert f"look at {folder}/batch=*/rejected" in capsys.readouterr().err
    assert sorted(path.name for path in folder.glob("batch=*")) == ["batch=0", "batch=1"]
    assert run_command([*kept, "2"]) == 0
    assert "ledger    8 in = " in capsys.readouterr().out


@pytest.mark.spark
def test_an_event_that_is_too_large_is_rejected_with_its_size(spark, tmp_path, capsys):
    write_stream(tmp_path / "in", [[*STREAM[0], ("Inc", 6, 10**200, "a", 2)]])
    command = ["run", KEYS, "--input", str(tmp_path / "in"), "--lateness", "5", *MASTER, "--json"]
    assert run_command([*command, "--max-record-bytes", "100"]) == 0
    (bad,) = json.loads(capsys.readouterr().out)["rejected"]
    assert bad["reason"] == "the text takes 262 bytes; the limit is 100 (max_record_bytes)"
    assert len(bad["raw"]) == 262


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [BARRIER, "--reference", "--checkpoint", "x"],
            "--checkpoint does not apply to a run with",
        ),
        ([BARRIER, "--spark", "--shards", "0"], "--shards is not a number of shards"),
        ([BARRIER, "--spark", "--files-per-batch", "0"], "not a number of files"),
        ([BARRIER, "--spark", "--output", "-"], "on Spark, outputs go to a folder"),
        ([BARRIER, "--spark", "--output", "README.md"], "the file 'README.md'"),
        ([BARRIER, "--spark", "--unbounded"], "--unbounded does not apply to Spark"),
        ([BARRIER, "--spark", "--checkpoint", "x"], "--checkpoint needs a stream"),
        ([BARRIER, "--spark", "--input", "docs", "--input", "x.jsonl"], "must be the only input"),
        ([BARRIER, "--spark", "--input", "gone.jsonl"], "there is no file 'gone.jsonl'"),
        ([BARRIER, "--master", "loacl[2]"], "'loacl[2]' is not a Spark master"),
        ([BARRIER, "--master", "spark://127.0.0.1:1"], "no Spark master answers at"),
        ([BARRIER, "--max-record-bytes", "0"], "not a number of bytes"),
        ([BARRIER, "--spark", "--max-record-bytes", "0"], "not a number of bytes"),
        ([BARRIER, "--spark", "--most-rejected", "some"], "neither a number of events nor a share"),
    ],
)
def test_a_wrong_call_is_refused_before_spark_starts(arguments, message, capsys):
    assert run_command(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "there are no files in"),
        ({"a.jsonl": "", "b.csv": ""}, "the files of an input have different formats"),
        ({"a.what": ""}, "does not show the format of the file"),
    ],
)
def test_a_folder_that_can_not_be_followed_is_refused(files, message, tmp_path, capsys):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run_command(["run", KEYS, "--spark", "--input", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_outputs_of_another_checkpoint_are_not_mistaken_for_replays(tmp_path, capsys):
    (tmp_path / "emitted" / "batch=0").mkdir(parents=True)
    write_stream(tmp_path / "in", STREAM)
    flags = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "emitted")]
    assert run_command(["run", KEYS, "--spark", *flags]) == 2
    assert "has the batches of a run with another checkpoint" in capsys.readouterr().err


def test_without_pyspark_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run_command(["run", BARRIER, "--spark"]) == 2
    err = capsys.readouterr().err
    assert "Spark is not installed" in err
    assert "pip install 'anabranch[spark]'" in err


EVENTS = {
    "time": [1, 2, 4, 5, 9],
    "key": [1, 2, 1, 1, 2],
    "type": ["Inc", "Inc", "Inc", "Read", "Read"],
}


def write_events(place, form):
    """Write the same events in a format; rows name neither their channel nor their sequence."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table(EVENTS)
    if form == "jsonl":
        place.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif form == "arrow":
        with pa.OSFile(str(place), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    elif form == "csv":
        pyarrow.csv.write_csv(table, place)
    else:
        pyarrow.parquet.write_table(table, place)


@pytest.mark.spark
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_differential_a_file_of_any_format_takes_the_columnar_path(spark, tmp_path, capsys, form):
    place = tmp_path / f"events.{form}"
    write_events(place, form)
    command = ["run", KEYS, "--input", str(place), "--json"]
    assert run_command([*command, "--reference"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert run_command([*command, *MASTER, "--columnar", "require"]) == 0
    document = json.loads(capsys.readouterr().out)
    for output in expected["outputs"]:
        del output["event"]  # What is published has the outputs' own columns.
    for name in ("outputs", "ledger", "late", "watermarks"):
        assert document[name] == expected[name], name
    assert [output["value"] for output in document["outputs"]] == [[1, 2], [2, 1]]


ROWWISE = """
from typing import NamedTuple
from anabranch import Program, on

class Word(NamedTuple):
    time: int
    letters: tuple[int, ...]

words = Program(
    on(Word, update=lambda n, word: n + len(word.letters), output=lambda n, word: n),
    init=0,
)
"""


@pytest.mark.spark
def test_a_program_that_leaves_the_columnar_path_tells_why(spark, tmp_path, capsys, caplog):
    program, events = tmp_path / "words.py", tmp_path / "events.jsonl"
    program.write_text(ROWWISE)
    events.write_text('{"time": 1, "letters": [1, 2]}\n')
    command = ["run", str(program), "--input", str(events), *MASTER]
    assert run_command([*command, "--columnar", "require"]) == 2
    err = capsys.readouterr().err
    assert "words can't take the columnar path" in err
    assert f"{program}:10" in err
    assert run_command(command) == 0
    (line,) = [r.getMessage() for r in caplog.records if r.name == "anabranch"]
    assert line.startswith("words takes the row path: ")
    assert line.endswith(f"({program}:10)")
    capsys.readouterr()
    assert run_command(["explain", str(program)]) == 0
    assert (
        "row path: Word has field 'letters' of type tuple[int, ...], and its handler"
        in capsys.readouterr().out
    )


@pytest.mark.spark
def test_another_program_or_other_shards_are_refused_without_new_files(spark, tmp_path, capsys):
    program, channel = tmp_path / "changing.py", tmp_path / "in"
    program.write_text(PROGRAM)
    channel.mkdir()
    (channel / "0.jsonl").write_text(ROWS)
    command = ["run", str(program), "--input", str(channel), "--output", str(tmp_path / "out")]
    assert run_command([*command, *MASTER]) == 0
    capsys.readouterr()
    assert run_command([*command, *MASTER[:2], "--shards", "3"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("this checkpoint was made with other shards")
    assert len(err.splitlines()) == 4
    assert run_command([*command, *MASTER[:2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layout"]["shards"] == 2
    changed = tmp_path / "changed.py"
    changed.write_text(PROGRAM.replace("100 //", "200 //"))
    assert run_command(["run", str(changed), *command[2:], *MASTER]) == 2
    assert capsys.readouterr().err.startswith("this checkpoint was made with other code")


RAISING = """
from typing import NamedTuple
from anabranch import Program, depends, on
from anabranch.state import MapOf, Sum

class Txn(NamedTuple):
    time: int
    account: str
    amount: int

class Report(NamedTuple):
    time: int
    account: str

totals = Program(
    on(Txn, update=lambda total, txn: total + txn.amout),
    on(Report, output=lambda total, report: (report.account, total)),
    depends(Report, Txn, Report, same="account"),
    state=MapOf(Sum(), by="account"),
)

"""


@pytest.mark.spark
def test_differential_a_run_fails_if_a_function_raises_on_all_events_of_a_type(
    spark, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "totals.py").write_text(RAISING)
    rows = [
        f'{{"type": "Txn", "time": {n}, "account": "a{n % 3}", "amount": {n}}}' for n in range(9)
    ]
    rows += ['{"type": "Report", "time": 9, "account": "a1"}', "nonsense", "nothing"]
    (tmp_path / "till.jsonl").write_text("\n".join(rows) + "\n")
    command = ["run", "totals.py", "--input", "till.jsonl", "--json"]
    found = []
    for more in (["--reference"], [], MASTER, [*MASTER, "--columnar", "never"]):
        assert run_command([*command, *more]) == 1
        found.append(json.loads(capsys.readouterr().out))
    reason = "on Txn: AttributeError: 'Txn' object has no attribute 'amout' (totals.py:16)"
    for document in found:
        assert document["ledger"]["processed"] == 1
        first, second = document["reasons"]
        assert first == {"reason": reason, "type": "Txn", "count": 9}
        assert second["count"] == 2
        assert document["error"]["what"] == found[0]["error"]["what"]
