import json

import pytest

from anabranch.cli.main import run_command

FRAUD = "examples/fraud.py"


@pytest.fixture
def rows(tmp_path, capsys):
    file = tmp_path / "said.jsonl"
    assert run_command(["run", FRAUD, "--reference", "--output", str(file)]) == 0
    capsys.readouterr()
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def write(tmp_path):
    def write_file(name, lines):
        file = tmp_path / name
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(file)

    return write_file


def swap(rows, i, j):
    rows = list(rows)
    rows[i], rows[j] = rows[j], rows[i]
    return rows


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ([], 1),
        (["--ordered"], 1),
        (["--unordered"], 0),
        (["--target", FRAUD], 0),
        (["--key", "event.time"], 0),
        (["--key", "type"], 1),
    ],
)
def test_two_independent_outputs_may_change_places_unless_all_order_counts(
    rows, write, flags, code, capsys
):
    left, right = write("a.jsonl", rows), write("b.jsonl", swap(rows, 1, 2))
    assert run_command(["diff", left, right, *flags]) == code


def test_two_dependent_outputs_may_not(rows, write, capsys):
    left, right = write("a.jsonl", rows), write("b.jsonl", swap(rows, 0, 1))
    assert run_command(["diff", left, right, "--target", FRAUD]) == 1
    out, _ = capsys.readouterr()
    assert "different" in out
    assert "\x1b" not in out
    expected, got = (line for line in out.splitlines() if line.startswith(("  expected", "  got")))
    assert '"value": ["rule", 7]' in expected
    assert "a.jsonl, 1:" in expected
    assert '"value": ["txn", 7]' in got
    assert "b.jsonl, 1:" in got


def test_a_missing_output_is_named(rows, write, capsys):
    left, right = write("a.jsonl", rows), write("b.jsonl", rows[:-1])
    assert run_command(["diff", left, right, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["equivalent"] is False
    assert document["counts"] == {"left": 5, "right": 4}
    assert document["difference"]["expected"][0]["output"] == rows[-1]
    assert document["difference"]["came"] is None


def test_equivalent_files_say_so(rows, write, capsys):
    file = write("a.jsonl", rows)
    assert run_command(["diff", file, file, "--target", FRAUD]) == 0
    assert capsys.readouterr().out == "equivalent: 5 outputs, up to the dependence of fraud\n"
    assert run_command(["diff", file, file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equivalent"] is True


def test_parquet_and_json_lines_compare(rows, write, tmp_path, capsys):
    parquet = str(tmp_path / "b.parquet")
    assert run_command(["run", FRAUD, "--reference", "--output", parquet]) == 0
    assert run_command(["diff", write("a.jsonl", rows), parquet, "--ordered"]) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ordered", "--unordered"], "the order is given twice"),
        (["--key", "nope"], "an output has no field 'nope'"),
        (["--target", "examples/page_view.py"], "does not name the event of page_view"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(rows, write, flags, message, capsys):
    file = write("a.jsonl", rows)
    assert run_command(["diff", file, file, *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_broken_row_is_refused_with_its_line(tmp_path, capsys):
    file = tmp_path / "a.jsonl"
    file.write_text("{}\noops\n")
    assert run_command(["diff", str(file), str(file)]) == 2
    assert f"{file}:2" in capsys.readouterr().err


def test_a_folder_is_refused_by_its_name(tmp_path, capsys):
    file = tmp_path / "a.jsonl"
    file.write_text("")
    assert run_command(["diff", str(file), str(tmp_path)]) == 2
    assert "is a folder, and diff compares two files" in capsys.readouterr().err
