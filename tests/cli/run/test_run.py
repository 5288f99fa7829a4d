import json
import sys
from pathlib import Path

import pytest

from anabranch.cli.main import run_command

BARRIER = "examples/value_barrier.py"

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


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "top.py"
    file.write_text(PROGRAM)
    return str(file)


@pytest.fixture
def events(tmp_path):
    rows = [
        {"type": "Temp", "time": 5, "degrees": 10, "channel": "t"},
        {"type": "Temp", "time": 9, "degrees": 50, "channel": "t"},
        {"type": "Temp", "time": 2, "degrees": 20, "channel": "t"},
        {"type": "Temp", "time": 9, "degrees": 0, "channel": "t"},
        {"type": "Temp", "time": 9, "degrees": "hot", "channel": "t"},
        {"type": "Report", "time": 7, "channel": "r"},
    ]
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "nonsense\n")
    return str(file)


def test_the_events_beside_a_program_are_its_input(capsys):
    assert run_command(["run", BARRIER]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert [line.split()[-1] for line in out.splitlines()[2:6]] == ["1", "9", "27", "51"]
    assert "ledger    16 in = 16 processed" in out


def test_every_event_of_a_file_is_accounted_for(program, events, capsys):
    assert run_command(["run", program, "--input", events]) == 0
    out, _ = capsys.readouterr()
    assert "7 in = 3 processed + 1 late + 3 rejected" in out
    assert "late      Temp(time=2, degrees=20) from t, 6 behind" in out
    assert "on Temp: ZeroDivisionError" in out
    assert f"{events}:5: field 'degrees' of Temp: expected int, got \"hot\" (text)" in out
    assert f"{events}:7: not JSON" in out


@pytest.mark.parametrize(("flags", "channel"), [([], None), (["--reference"], "r")])
def test_json_is_one_document_that_balances(program, events, capsys, flags, channel):
    assert run_command(["run", program, "--input", events, "--json", *flags]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [output["value"] for output in document["outputs"]] == [10]
    ledger = document["ledger"]
    assert ledger["input"] == sum(n for name, n in ledger.items() if name != "input") == 7
    assert document["late"][0]["distance"] == 6
    rejected = {(entry["channel"], entry["seq"]) for entry in document["rejected"]}
    # The reference assigns a line without a channel to the channel of the line before it.
    assert rejected == {("t", 3), ("t", 4), (channel, 6)}


def test_lateness_lets_an_event_in(program, events, capsys):
    assert run_command(["run", program, "--input", events, "--lateness", "10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["late"] == []


def test_an_input_that_has_not_ended_keeps_its_tail_and_says_who_holds_it_back(
    program, events, capsys
):
    assert run_command(["run", program, "--input", events, "--unbounded"]) == 0
    out, _ = capsys.readouterr()
    assert "7 in = 1 processed + 1 late + 2 rejected + 3 pending" in out
    assert out.split("watermark")[1].splitlines()[1:] == [
        "  r          6   holds back 3 pending",
        "  t          8",
    ]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_outputs_are_written_with_what_was_lost_beside_them(
    program, events, tmp_path, ending, capsys
):
    file = tmp_path / f"out.{ending}"
    assert run_command(["run", program, "--input", events, "--output", str(file)]) == 0
    assert f"written   {file}.rejected.jsonl" in capsys.readouterr().out
    late = json.loads((tmp_path / f"out.{ending}.late.jsonl").read_text())
    assert late == {
        "type": "Temp", "time": 2, "degrees": 20, "channel": "t", "seq": 2, "distance": 6
    }  # fmt: skip
    assert len((tmp_path / f"out.{ending}.rejected.jsonl").read_text().splitlines()) == 3
    assert run_command(["diff", str(file), str(file)]) == 0


def test_no_side_file_is_written_where_nothing_was_lost(tmp_path, capsys):
    file = tmp_path / "out.jsonl"
    assert run_command(["run", BARRIER, "--output", str(file)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    first = {"time": 2, "type": "Barrier", "channel": "b", "seq": 0, "index": 0, "value": 1}
    assert json.loads(file.read_text().splitlines()[0]) == first
    other = tmp_path / "reference.jsonl"
    assert run_command(["run", BARRIER, "--output", str(other), "--reference"]) == 0
    assert json.loads(other.read_text().splitlines()[0]) == {**first, "event": {"time": 2}}
    capsys.readouterr()
    assert run_command(["diff", str(file), str(other)]) == 0
    assert run_command(["diff", str(file), str(other), "--target", BARRIER]) == 2
    assert "or write the outputs with anabranch run --reference" in capsys.readouterr().err


def test_a_dash_writes_outputs_to_standard_output_and_the_rest_to_standard_error(capsys):
    assert run_command(["run", BARRIER, "--output", "-"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["value"] for line in out.splitlines()] == [1, 9, 27, 51]
    assert "16 processed" in err


def test_only_a_page_of_outputs_is_shown(program, tmp_path, capsys):
    file = tmp_path / "r.jsonl"
    file.write_text("".join(f'{{"type": "Report", "time": {n}}}\n' for n in range(1234)))
    assert run_command(["run", program, "--input", str(file)]) == 0
    assert "… and 1,214 more; --output FILE writes all of them" in capsys.readouterr().out


@pytest.fixture
def disorder(tmp_path):
    rows = [("Temp", 1, 50), ("Report", 6, None), ("Temp", 4, 10), ("Temp", 5, 20)]
    file = tmp_path / "late.jsonl"
    lines = [
        {"type": event_type, "time": time, "channel": event_type} | ({"degrees": d} if d else {})
        for event_type, time, d in rows
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def test_a_speculative_run_shows_what_was_taken_back_and_how_much(program, disorder, capsys):
    command = ["run", program, "--input", disorder, "--lateness", "9", "--reference"]
    command += ["--mode", "speculative"]
    assert run_command(command) == 0
    out, _ = capsys.readouterr()
    assert [line.split() for line in out.splitlines()[2:5]] == [
        ["emitted", "6", "Report", "Report", "2"],
        ["retracted", "6", "Report", "Report", "2"],
        ["emitted", "6", "Report", "Report", "10"],
    ]
    assert "amount    3 rows emitted for 1 valid outputs, 200.0% extra" in out
    assert "ledger    4 in = 4 processed" in out


def test_a_speculative_run_is_written_with_its_ops(program, disorder, tmp_path, capsys):
    command = ["run", program, "--input", disorder, "--lateness", "9", "--reference"]
    command += ["--mode", "speculative"]
    assert run_command([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(row["op"], row["value"]) for row in document["outputs"]] == [(1, 2), (-1, 2), (1, 10)]
    assert document["amount"] == {"emitted": 3, "valid": 1, "ratio": 3.0}
    file = tmp_path / "said.jsonl"
    assert run_command([*command, "--output", str(file)]) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows == document["outputs"]


def test_a_settled_run_has_no_ops(program, disorder, capsys):
    assert run_command(["run", program, "--input", disorder, "--lateness", "9", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["value"] for row in document["outputs"]] == [10]
    assert "amount" not in document
    assert "op" not in document["outputs"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", BARRIER, "--mode", "eager"], "Invalid value"),
        (["run"], "requires an argument"),
        (["run", "gone.py"], "there is no file 'gone.py'"),
        (["run", "no.such.module:p"], "there is no module 'no.such.module'"),
        (["run", f"{BARRIER}:nope"], "has no program 'nope'"),
        (["run", BARRIER, "--input", "gone.jsonl"], "there is no file 'gone.jsonl'"),
        (["run", BARRIER, "--output", "x.arrow"], "outputs can't be written to 'x.arrow'"),
        (["run", BARRIER, "--output", "x.what"], "outputs can't be written to 'x.what'"),
        (["run", BARRIER, "--output", "no/such/folder/x.jsonl"], "there is no folder for"),
        (["run", BARRIER, "--lateness", "soon"], "soon"),
        (["run", BARRIER, "--lateness", "-1"], "not a distance in time"),
        (
            ["run", BARRIER, "--lateness", "3", "--unique-times"],
            "both unique times and a lateness",
        ),
        (["run", BARRIER, "--wrong"], "Unknown option"),
        (["run", BARRIER, "--json", "--output", "-"], "both write to standard output"),
        (["rnu", BARRIER], "rnu"),
    ],
)
def test_a_wrong_call_says_why_and_ends_with_2(arguments, message, capsys):
    assert run_command(arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err
    if "--json" in arguments:
        document = json.loads(out)
        assert (message in document["error"]["what"], document["exit_code"]) == (True, 2)
    else:
        assert out == ""


def test_a_module_that_fails_is_named_with_the_line(tmp_path, capsys):
    file = tmp_path / "bad.py"
    file.write_text("x = 1\ny = x / 0\n")
    assert run_command(["run", str(file)]) == 2
    err = capsys.readouterr().err
    assert "bad.py:2" in err
    assert "ZeroDivisionError: division by zero" in err


def test_a_program_without_any_input_says_what_it_needs(program, capsys):
    assert run_command(["run", program]) == 2
    assert (
        "expected: --input FILE, or a list `events` beside the program" in capsys.readouterr().err
    )


def test_events_that_are_no_events_are_refused(tmp_path, capsys):
    file = tmp_path / "mixed.py"
    file.write_text(PROGRAM + "from anabranch import Event\nevents = [Event(Temp(1, 2)), 7]\n")
    assert run_command(["run", str(file)]) == 2
    assert "`events` contains a value that is not an event" in capsys.readouterr().err


def test_a_module_of_the_working_folder_can_be_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "neighbour.py").write_text(PROGRAM + "events = [Temp(1, 50), Report(2)]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path != str(tmp_path)])
    assert run_command(["run", "neighbour:top", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["value"] == 2


def test_rejected_events_are_a_warning_and_too_many_a_failure(program, events, tmp_path, capsys):
    command = ["run", program, "--input", events]
    assert run_command(command) == 0
    assert (
        "warning: 3 events of 7 rejected; --most-rejected sets a limit" in capsys.readouterr().err
    )
    assert run_command([*command, "--most-rejected", "3"]) == 0
    assert run_command([*command, "--most-rejected", "43%"]) == 0
    capsys.readouterr()
    output = str(tmp_path / "out.jsonl")
    assert run_command([*command, "--most-rejected", "42%", "--output", output]) == 1
    emitted = capsys.readouterr()
    assert "7 in = 3 processed + 1 late + 3 rejected" in emitted.out
    assert "too many events are rejected: 3 of 7" in emitted.err
    assert "once: on Temp: ZeroDivisionError" in emitted.err
    assert f"look at {output}.rejected.jsonl" in emitted.err


def test_without_a_rejected_event_nothing_is_warned_of(capsys):
    assert run_command(["run", BARRIER, "--most-rejected", "0"]) == 0
    assert capsys.readouterr().err == ""


EXITS = """
import sys
from typing import NamedTuple
from anabranch import Program, on

class Inc(NamedTuple):
    time: int

counts = Program(on(Inc, update=lambda n, inc: sys.exit(0)), init=0)
events = [Inc(1)]
"""


def test_a_program_that_ends_the_process_is_an_error_with_its_line(tmp_path, capsys):
    file = tmp_path / "exits.py"
    file.write_text(EXITS)
    assert run_command(["run", str(file), "--json", "--most-rejected", "0"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ledger"]["rejected"] == 1
    assert document["rejected"][0]["reason"] == "on Inc: SystemExit: 0 (exits.py:9)"
    at_import = tmp_path / "exits_at_import.py"
    at_import.write_text("import sys\nsys.exit(0)\n")
    assert run_command(["run", str(at_import)]) == 2
    assert "SystemExit: 0" in capsys.readouterr().err


def test_too_many_rejected_are_one_document_with_the_error(program, events, capsys):
    command = ["run", program, "--input", events, "--json", "--most-rejected", "1"]
    assert run_command(command) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["type"] == "RejectionError"
    assert document["exit_code"] == 1
    assert document["ledger"]["input"] == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "s3a://bucket/in"], "the input s3a://bucket/in is not on a file system"),
        (["--output", "s3a://bucket/out"], "the output s3a://bucket/out is not on a file system"),
        (["--spark", "--output", "s3://b/out"], "the output s3://b/out is not on a file system"),
        (["--spark", "--input", "hdfs://n/in"], "the input hdfs://n/in is not on a file system"),
        (["--from", "s3://b/s"], "the savepoint s3://b/s is not on a file system"),
        (["--savepoint", "s3://b/s"], "the savepoint s3://b/s is not on a file system"),
        (["--input", "gone"], "there is no file 'gone'"),
        (["--spark", "--input", "gone"], "there is no file 'gone'"),
        (["--input", "examples", "--output", "examples/x.jsonl"], "is inside the input folder"),
        (["--spark", "--input", "examples", "--output", "examples"], "is inside the input folder"),
        (["--reference", "--columnar", "never"], "--columnar does not apply to a run with --ref"),
        (
            ["--savepoint", "s", "--shards", "2"],
            "--shards does not apply to a run with --savepoint",
        ),
        (["--reference", "--spark"], "--reference and Spark don't go together"),
        (["--cores", "0"], "--cores is not a number of cores"),
        (["--master", "local[2]", "--cores", "2"], "--cores does not apply to a Spark master"),
        (["--input", "examples", "--output", "x.jsonl", "--follow"], "needs a folder to read and"),
        (["--checkpoint", "x"], "--checkpoint needs a stream"),
    ],
)
def test_a_path_that_can_not_be_used_has_its_own_words(arguments, message, capsys):
    assert run_command(["run", BARRIER, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_file_uri_is_a_file(program, events, tmp_path, capsys):
    output = tmp_path / "said.jsonl"
    command = ["run", program, "--input", Path(events).as_uri(), "--output", output.as_uri()]
    assert run_command(command) == 0
    assert json.loads(output.read_text())["value"] == 10


def test_the_reference_reads_all_files_of_a_folder_by_name(program, tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, time in (("b", 9), ("a", 1)):
        (folder / f"{name}.jsonl").write_text(f'{{"type": "Temp", "time": {time}, "degrees": 5}}\n')
    (folder / "_hidden").write_text("not read")
    assert run_command(["run", program, "--input", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ledger"]["processed"] == 2
    assert document["watermarks"] == {"in": "ended"}


DECLARED = """
from anabranch.sources import Channel

channels = [Channel("phones", lateness=90)]
"""


def test_a_channel_that_is_not_declared_is_rejected_with_a_hint(program, tmp_path, capsys):
    with Path(program).open("a") as file:
        file.write(DECLARED)
    rows = [{"type": "Temp", "time": time, "degrees": 1, "channel": "phone"} for time in (100, 40)]
    events = tmp_path / "calls.jsonl"
    events.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_command(["run", program, "--input", str(events)]) == 1
    out, err = capsys.readouterr()
    assert "2 in = 2 rejected" in out
    assert "every event is rejected: 2 of 2" in err
    assert (
        "hint: 2 events rejected, of 1 undeclared channel: 'phone' (2). Declared: 'phones'." in err
    )
    assert run_command(["run", program, "--input", str(events), "--json"]) == 1
    assert "Add Channel('phone')" in json.loads(capsys.readouterr().out)["hint"]
    # What the flags declare are all channels that there are.
    assert run_command(["run", program, "--input", str(events), "--lateness", "90"]) == 0
    assert "2 in = 2 processed" in capsys.readouterr().out


RAISING = """
from typing import NamedTuple
from anabranch import Event, Program, depends, on
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
events = [Event(Txn(n, "a", n), "till", n) for n in range(1, 8)]
events.append(Event(Report(9, "a"), "till", 9))
"""


def test_a_run_fails_if_a_function_raises_on_all_events_of_a_type(
    tmp_path, monkeypatch, capsys, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "totals.py").write_text(RAISING)
    assert run_command(["run", "totals.py"]) == 1
    emitted = capsys.readouterr()
    message("every_event_of_a_type_raises", emitted.err)
    reason = "on Txn: AttributeError: 'Txn' object has no attribute 'amout' (totals.py:16)"
    assert f"rejected  7 times: {reason}\n" in emitted.out
    assert run_command(["run", "totals.py", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["reasons"] == [{"reason": reason, "type": "Txn", "count": 7}]
    assert document["exit_code"] == 1
    assert run_command(["run", "totals.py", "--most-rejected", "100%"]) == 0


def test_the_most_frequent_reasons_come_first_with_their_counts(program, tmp_path, capsys):
    rows = [f'{{"type": "Temp", "time": {n}, "degrees": "{n}"}}' for n in range(1, 5)]
    rows += ["nonsense", '{"type": "Temp", "time": 9, "degrees": 1}']
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(["nothing", *rows]) + "\n")
    assert run_command(["run", program, "--input", str(file)]) == 0
    out = capsys.readouterr().out
    shown = [line for line in out.splitlines() if line.startswith("rejected")]
    assert [line.partition(": ")[0] for line in shown] == [
        "rejected  4 times",
        "rejected  2 times",
    ]
    assert "rows.jsonl:2: field 'degrees' of Temp: expected int" in shown[0]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_of_which_no_row_could_fit_is_refused_with_its_columns(tmp_path, capsys, ending):
    import pyarrow as pa
    from pyarrow import feather, parquet

    file = tmp_path / f"counts.{ending}"
    table = pa.table({"type": ["Inc"], "time": ["2026-01-01"], "kee": [1]})
    (parquet.write_table if ending == "parquet" else feather.write_feather)(table, file)
    assert run_command(["run", "examples/key_counter.py", "--input", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"file {file} has no events of Inc, Read: none of its rows would fit\n"
        "  expected: time: int\n"
        "            key: int\n"
        "  got:      time: string\n"
        "            no column 'key'\n"
        "  to do:    write 'time' with another type, or change the field's annotation; "
        "add a column 'key' (is 'kee' meant?), or give the field a default\n"
    )
