"""`anabranch savepoint`, and runs that leave one and go on from it."""

import json

import pytest

from anabranch.cli.main import run_command
from anabranch.savepoints.folders import open_savepoint

PROGRAM = """
from typing import NamedTuple
from anabranch import Program, depends, on
from anabranch.state import MapOf, Sum

class Temp(NamedTuple):
    time: int
    room: str
    degrees: int

class Report(NamedTuple):
    time: int

heat = Program(
    on(Temp, update=lambda total, temp: total + temp.degrees),
    on(Report, output=lambda rooms, report: dict(rooms)),
    depends(Report, Temp, Report),
    state=MapOf(Sum(), by="room"),
    name="heat",
)
"""
ROWS = [
    {"type": "Temp", "time": 1, "room": "hall", "degrees": 10, "channel": "t"},
    {"type": "Temp", "time": 2, "room": "attic", "degrees": 5, "channel": "t"},
    {"type": "Report", "time": 3, "channel": "r"},
    {"type": "Temp", "time": 4, "room": "hall", "degrees": 7, "channel": "t"},
    {"type": "Temp", "time": 5, "room": "hall", "degrees": "hot_keys", "channel": "t"},
    {"type": "Report", "time": 6, "channel": "r"},
    {"type": "Temp", "time": 1, "room": "hall", "degrees": 1, "channel": "t"},
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heat.py").write_text(PROGRAM)
    for name, rows in {"all": ROWS, "first": ROWS[:4], "rest": ROWS[4:]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def call(capsys, *arguments, code=0):
    found = run_command(list(arguments))
    out, err = capsys.readouterr()
    assert found == code, err
    return out if code == 0 or out else err


def read(capsys, *arguments, code=0):
    return json.loads(call(capsys, *arguments, "--json", code=code))


def make(capsys, path="savepoints/one", rows="first"):
    call(capsys, "run", "heat.py", "--input", f"{rows}.jsonl", "--savepoint", path)


def test_a_run_in_two_parts_says_what_one_run_says(place, capsys):
    whole = read(capsys, "run", "heat.py", "--reference", "--input", "all.jsonl")
    first = read(capsys, "run", "heat.py", "--input", "first.jsonl", "--savepoint", "s/one")
    rest = read(capsys, "run", "heat.py", "--input", "rest.jsonl", "--from", "s/one")
    assert first["savepoint"] == "s/one"
    assert len(first["pending"]) == 2
    assert first["outputs"] + rest["outputs"] == whole["outputs"]
    for part in ("state", "ledger", "late", "pending", "watermarks"):
        assert rest[part] == whole[part], part
    assert len(rest["rejected"]) == len(whole["rejected"]) == 1


def test_a_run_may_go_on_and_leave_a_savepoint_again(place, capsys):
    make(capsys)
    rest = ["run", "heat.py", "--input", "rest.jsonl", "--from", "savepoints/latest"]
    call(capsys, *rest, "--savepoint", "savepoints/two")
    once = ["run", "heat.py", "--input", "all.jsonl", "--savepoint", "savepoints/once"]
    call(capsys, *once)
    two, once = (open_savepoint(place / "savepoints" / name).manifest for name in ("two", "once"))
    assert two.standings == once.standings
    assert two.ledger == once.ledger
    assert two.id == once.id


def test_a_savepoint_is_announced(place, capsys):
    out = call(capsys, "run", "heat.py", "--input", "first.jsonl", "--savepoint", "one")
    assert out.splitlines()[-1] == "savepoint one"
    assert "holds back 2 pending" in out


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--mode", "speculative", "--from", "s/one"], "run_speculative_from"),
        (["--spark", "--savepoint", "s/one"], "run_savepoint_on_spark"),
    ],
)
def test_savepoints_are_of_settled_runs_without_spark(place, capsys, flags, name, message):
    message(name, call(capsys, "run", "heat.py", "--input", "all.jsonl", *flags, code=2))


def test_a_savepoint_is_not_overwritten_and_nothing_is_run(place, capsys):
    make(capsys)
    flags = ["--savepoint", "savepoints/one", "--output", "out.jsonl"]
    emitted = call(capsys, "run", "heat.py", "--input", "all.jsonl", *flags, code=2)
    assert "already exists" in emitted
    assert not (place / "out.jsonl").exists()


def test_events_that_were_read_before_are_rejected(place, capsys):
    rows = [row | {"seq": n} for n, row in enumerate(ROWS)]
    (place / "first.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:4]))
    (place / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    make(capsys)
    whole = read(capsys, "run", "heat.py", "--reference", "--input", "all.jsonl")
    again = read(capsys, "run", "heat.py", "--input", "all.jsonl", "--from", "savepoints/one")
    repeated = [r for r in again["rejected"] if "is not larger than the last" in r["reason"]]
    assert [r["seq"] for r in repeated] == [2, 0, 1, 3]
    assert again["state"] == whole["state"]


def test_savepoints_are_listed(place, capsys):
    make(capsys, "savepoints/one")
    make(capsys, "savepoints/two", "all")
    lines = call(capsys, "savepoint").splitlines()
    assert [line.split()[0] for line in lines if "─" not in line] == ["savepoint", "one", "two"]
    assert call(capsys, "savepoint", "list", "savepoints").splitlines() == lines
    found = read(capsys, "savepoint", "list")
    assert [(one["name"], one["program"], one["rows"]) for one in found] == [
        ("one", "heat", 4),
        ("two", "heat", 4),
    ]


def test_a_folder_without_savepoints_says_so(place, capsys):
    assert call(capsys, "savepoint", "list", ".") == "No savepoints found.\n"
    assert "there is no folder savepoints" in call(capsys, "savepoint", code=2)


def test_a_broken_one_is_listed_in_its_place(place, capsys):
    make(capsys)
    (place / "savepoints/one/manifest.json").write_text("{}")
    assert (
        call(capsys, "savepoint", code=1) == "  one: this savepoint was changed after it was made\n"
    )
    assert read(capsys, "savepoint", "list", code=1) == [
        {"name": "one", "error": "this savepoint was changed after it was made"}
    ]


def test_a_savepoint_is_shown(place, capsys):
    make(capsys)
    out = call(capsys, "savepoint", "show", "savepoints/latest")
    assert "program   heat, run by reference" in out
    assert "ledger    4 in = 2 processed + 2 pending" in out
    size = (place / "savepoints/one/state/part-00000.parquet").stat().st_size
    shown = [line.split() for line in out.splitlines() if line.startswith("  state")]
    assert shown == [["state", "1", "2", f"{size:,}"]]
    document = read(capsys, "savepoint", "show", "savepoints/one")
    assert document["path"] == "savepoints/one"
    assert document["standings"]["r"]["watermark"] == 2
    assert document["ledger"]["pending"] == 2


def test_every_damaged_file_is_named(place, capsys):
    make(capsys, "savepoints/one")
    make(capsys, "savepoints/two")
    good = call(capsys, "savepoint", "verify", "savepoints/one", "savepoints/two")
    assert [line.rpartition(", ")[2] for line in good.splitlines()] == ["unchanged", "unchanged"]
    (place / "savepoints/two/state/part-00000.parquet").unlink()
    (place / "savepoints/two/extra").touch()
    out = call(capsys, "savepoint", "verify", "savepoints/one", "savepoints/two", code=1)
    assert "missing: state/part-00000.parquet; extra: extra" in out
    found = read(capsys, "savepoint", "verify", "savepoints/two", code=1)
    assert (found[0]["missing"], found[0]["extra"]) == (["state/part-00000.parquet"], ["extra"])
    assert "is not a savepoint" in call(capsys, "savepoint", "verify", "savepoints", code=2)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_goes_out_and_comes_in(place, capsys, kind):
    make(capsys)
    out = call(capsys, "savepoint", "export", "savepoints/latest", f"a.{kind}")
    assert out.startswith(f"written   a.{kind}, ")
    call(capsys, "savepoint", "import", f"a.{kind}", "there/other")
    one, other = (
        open_savepoint(place / path).manifest for path in ("savepoints/one", "there/other")
    )
    assert one == other
    flags = ["--most-files", "2"]
    emitted = call(capsys, "savepoint", "import", f"a.{kind}", "there/third", *flags, code=2)
    assert "it has too many files" in emitted
    assert read(capsys, "savepoint", "export", "savepoints/one", f"b.{kind}")["file"] == f"b.{kind}"
    assert read(capsys, "savepoint", "import", f"b.{kind}", "there/fourth")["name"] == "fourth"


def test_savepoints_are_deleted_by_name_or_by_age(place, capsys, message):
    for name in ("a", "b", "c", "d"):
        make(capsys, f"savepoints/{name}")
    (place / "savepoints/notes").mkdir()
    assert call(capsys, "savepoint", "delete", "savepoints/b") == "deleted   savepoints/b\n"
    assert read(capsys, "savepoint", "delete", "savepoints", "--keep", "2") == ["savepoints/a"]
    assert (
        call(capsys, "savepoint", "delete", "savepoints", "--keep", "2") == "Nothing to delete.\n"
    )
    assert sorted(path.name for path in (place / "savepoints").iterdir()) == ["c", "d", "notes"]
    for path in ("savepoints/notes", "savepoints", "heat.py", "nowhere"):
        call(capsys, "savepoint", "delete", path, code=2)
    message("delete_the_latest", call(capsys, "savepoint", "delete", "savepoints/latest", code=2))
    assert (place / "heat.py").exists()
