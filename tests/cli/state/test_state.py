"""`anabranch state diff` tells what becomes of a state, and says so with its exit code."""

import json

import pytest

from anabranch import Map
from anabranch.cli.main import run_command
from anabranch.model.targets import load
from anabranch.state.evolution.schemas import describe_snapshot, write_schema

PROGRAM = """
from typing import NamedTuple
from anabranch import Program, depends, on
from anabranch.state import Default, Drop, MapOf, Rename
from anabranch.model.shapes import WrittenShape

class Stats(NamedTuple):
    {fields}

class Click(NamedTuple):
    time: int
    user: str

clicks = Program(
    on(Click), depends(Click, Click, same="user"), state=MapOf(WrittenShape(Stats({start})), by="user"),
    changes=({changes}),
)
"""


@pytest.fixture
def write(tmp_path):
    def write_file(name, fields, start, changes=""):
        file = tmp_path / name
        text = PROGRAM.format(fields="\n    ".join(fields), start=start, changes=changes)
        file.write_text(text)
        return str(file)

    return write_file


@pytest.fixture
def old(write):
    return write("old.py", ["count: int", "total: int"], "0, 0")


def diff(capsys, *arguments):
    code = run_command(["state", "diff", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_program_can_take_over_its_own_state(old, capsys):
    code, emitted = diff(capsys, old, old)
    assert (code, emitted["compatible"]) == (0, True)
    assert {one["status"] for one in emitted["verdicts"]} == {"same"}


def test_each_part_is_same_automatic_declared_or_refused(old, write, capsys):
    fields = ["seen: int", "total: float", "first: int = 0"]
    new = write("new.py", fields, "0, 0.0", 'Rename("Stats", "count", "seen"),')
    code, emitted = diff(capsys, old, new)
    assert (code, emitted["compatible"]) == (1, False)
    assert [(one["status"], one["place"], one["cure"]) for one in emitted["verdicts"]] == [
        ("declared", "Stats.seen", None),
        ("refused", "Stats.total", 'Retype("Stats", "total", function)'),
        ("automatic", "Stats.first", None),
        ("same", "key", None),
        ("same", "Click.time", None),
        ("same", "Click.user", None),
    ]
    assert run_command(["state", "diff", old, f"{new}:clicks"]) == 1
    out = capsys.readouterr().out
    assert "was int and is float (which may round)" in out
    assert "1 part refused" in out


def test_a_savepoint_is_compared_by_what_its_manifest_says(old, write, tmp_path, capsys):
    program = load(old)
    stats = type(program.initial.shape.inner.init)
    schema = describe_snapshot(program, Map({"a": stats(1, 2)}), {}, [])
    folder = tmp_path / "savepoint"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "schema": write_schema(schema)}))
    new = write("new.py", ["total: int"], "0", 'Drop("Stats", "count"),')
    code, emitted = diff(capsys, str(folder), new)
    assert code == 0
    places = [(one["status"], one["place"]) for one in emitted["verdicts"]]
    assert places == [("same", "Stats.total"), ("declared", "Stats.count"), ("same", "key")]
    assert diff(capsys, old, str(folder))[0] == 0
    assert run_command(["state", "diff", str(folder), new]) == 0
    assert "can take it over" in capsys.readouterr().out


@pytest.mark.parametrize(
    "manifest", [None, "", "{", "[]", '{"schema": 3}', '{"schema": {"version": 9}}']
)
def test_a_folder_that_is_no_savepoint_is_refused(tmp_path, old, manifest, capsys):
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    assert run_command(["state", "diff", str(tmp_path), old]) == 2
    emitted = capsys.readouterr().err
    assert "savepoint" in emitted or "schema" in emitted or "description of values" in emitted
