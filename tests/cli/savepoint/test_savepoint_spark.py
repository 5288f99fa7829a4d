"""`anabranch savepoint create` and `restore`, `rescale`, and `run --spark --from`."""

import contextlib
import io
import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
import pytest

from anabranch import load
from anabranch.cli.main import run_command
from anabranch.errors import InputError
from anabranch.microbatch.job.fingerprint import ChangedProgramError, check_fingerprint
from anabranch.microbatch.runs.checkpoint_locks import Lock
from anabranch.microbatch.runs.ownership import PAIR, Begin, read_begin, write_begin
from anabranch.savepoints.folders import open_savepoint
from anabranch.spark.savepoints import checkpoint_restore, rescaling
from tests.cli.savepoint.test_savepoint import PROGRAM, call, read

RESTORE = [
    "savepoint", "restore", "savepoints/one", "heat.py", "--spark", "--input", "in", "--output", "out",
]  # fmt: skip
RESCALE = ["rescale", "heat.py", "--input", "in", "--output", "out"]
FROM = ["run", "heat.py", "--spark", "--from", "savepoints/one", "--input", "in"]
CREATE = ["savepoint", "create", "out/_checkpoint"]
FILES = [
    [("Temp", 1, "hall", 10), ("Temp", 2, "attic", 5), ("Report", 3), ("Temp", 4, "hall", 7)],
    [("Report", 6), ("Temp", 7, "attic", 1), ("Temp", 9, "hall", 2)],
    [("Report", 10), ("Temp", 12, "cellar", 4), ("Report", 13), ("Temp", 14, "hall", 1)],
]


def write_files(folder, first=0, last=None):
    """Write files of a stream into a folder, each as if it came after the one before."""
    folder.mkdir(exist_ok=True)
    numbers = {"Temp": count(), "Report": count()}
    for name, rows in enumerate(FILES):
        lines = []
        for row in rows:
            event = dict(zip(("type", "time", "room", "degrees"), row, strict=False))
            lines.append(event | {"channel": row[0].lower(), "seq": next(numbers[row[0]])})
        if first <= name < (len(FILES) if last is None else last):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / f"{name}.jsonl").write_text(text)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A program, a folder to follow, and a savepoint that the reference has made of its first file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heat.py").write_text(PROGRAM)
    write_files(tmp_path / "in", last=1)
    call_quietly("run", "heat.py", "--input", "in/0.jsonl", "--savepoint", "savepoints/one")
    return tmp_path


@pytest.fixture
def no_java(monkeypatch):
    def start(*arguments):
        raise AssertionError("it should have been refused before Spark was started")

    monkeypatch.setattr("anabranch.spark.session.startup.start_session", start)


def give(command, flags):
    """Return a command with other flags, instead of its own of that name."""
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    kept = [*command]
    for flag in given.keys() & {*command}:
        kept[kept.index(flag) : kept.index(flag) + 2] = []
    return [*kept, *(word for pair in given.items() for word in pair)]


def swap(command, old, new):
    return [new if word == old else word for word in command]


def call_quietly(*arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        assert run_command([*arguments]) == 0


def make_checkpoint(output="out", committed=1, begun=1, number="a", begin=None):
    """Make what looks like the checkpoint and the folder of a query, to whoever does not look closely."""
    folder = Path(output)
    checkpoint = folder / "_checkpoint"
    for name, last in (("commits", committed), ("offsets", begun)):
        (checkpoint / name).mkdir(parents=True)
        for batch in range(last + 1):
            (checkpoint / name / str(batch)).write_text("v1\n{}\n")
    for batch in range(committed + 1):
        (folder / f"batch={batch}" / "outputs").mkdir(parents=True)
        (folder / f"batch={batch}" / "_ledger.json").write_text('{"input": 9, "processed": 9}\n')
    (folder / "batch=0/outputs/part-00000.parquet").touch()
    (checkpoint / PAIR).write_text(json.dumps({"id": number}))
    (folder / PAIR).write_text(json.dumps({"id": "a"}))
    if begin is not None:
        write_begin(checkpoint, begin)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["create", "nowhere", "sp"], "saving_nothing"),
        (["create", "heat.py", "sp"], "saving_a_file"),
        (["create", "out", "sp"], "saving_an_output"),
        (["create", "out/_checkpoint", "heat.py"], "saving_over_a_file"),
        (["create", "out/_checkpoint", "savepoints/one"], "saving_over_a_savepoint"),
        (["create", "out/_checkpoint", "out/savepoints/sp"], "saving_into_the_output"),
        (["create", "out/_checkpoint", "out/_checkpoint/sp"], "saving_into_the_checkpoint"),
        (["create", "out/_checkpoint", "sp", "--batch", "1", "--at", "2"], "saving_twice_chosen"),
        (["create", "out/_checkpoint", "sp", "--wait-s", "1"], "saving_waits_for_nothing"),
        (["create", "out/_checkpoint", "sp"], "saving_without_a_batch"),
    ],
)
def test_what_can_not_be_saved_is_refused_before_spark_starts(
    place, capsys, no_java, message, arguments, name
):
    make_checkpoint()
    message(name, call(capsys, "savepoint", *arguments, code=2))
    assert not (place / "sp").exists()


def test_a_batch_whose_state_is_gone_is_refused_before_spark_starts(
    place, capsys, no_java, message
):
    make_checkpoint(committed=2, begun=2)
    store = place / "out/_checkpoint/state/0/0"
    store.mkdir(parents=True)
    for name in ("2.zip", "3.changelog"):
        (store / name).touch()
    message("saving_a_batch_that_is_gone", call(capsys, *CREATE, "sp", "--batch", "0", code=2))


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--shards", "0"], "restoring_without_shards"),
        (["--partitions", "0"], "restoring_without_partitions"),
        (["--input", "in/0.jsonl"], "restoring_on_a_file"),
        (["--output", "heat.py"], "restoring_into_a_file"),
        (["--checkpoint", "heat.py"], "restoring_as_a_file"),
        (["--checkpoint", "in"], "restoring_over_something"),
        (["--output", "other"], "restoring_into_another_folder"),
        (["--output", "other", "--format", "jsonl"], "restoring_in_another_format"),
    ],
)
def test_what_can_not_be_restored_is_refused_before_spark_starts(
    place, capsys, no_java, message, flags, name
):
    make_checkpoint("other")
    (place / "other/_checkpoint").rename(place / "moved")
    message(name, call(capsys, *give(RESTORE, flags), code=2))
    assert not (place / "out").exists()


def test_a_folder_of_another_query_is_told_by_its_ledger(place, message):
    make_checkpoint("other", committed=0, begun=0)
    saved = open_savepoint(Path("savepoints/one"), verify=False)
    spark_made = replace(saved, manifest=msgspec.structs.replace(saved.manifest, batch=0))
    with pytest.raises(InputError) as caught:
        checkpoint_restore.check_restore(spark_made, load("heat.py"), "other", "new")
    message("restoring_into_the_folder_of_another_query", str(caught.value))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ('MapOf(Sum(), by="room")', 'MapOf(TopK(2), by="room")', "restoring_another_state"),
        ("room", "place", "restoring_another_key"),
    ],
)
def test_another_program_is_refused_before_spark_starts(
    place, capsys, no_java, message, old, new, name
):
    text = PROGRAM.replace(old, new).replace("import MapOf, Sum", "import MapOf, Sum, TopK")
    (place / "now.py").write_text(text)
    for command in (RESTORE, [*FROM, "--output", "out"]):
        message(name, call(capsys, *swap(command, "heat.py", "now.py"), code=2))
    assert not (place / "out").exists()


@pytest.mark.parametrize("path", ["nowhere", "in", "heat.py", "in/latest"])
def test_what_is_no_savepoint_is_refused_before_spark_starts(place, capsys, no_java, path):
    rest = ["heat.py", "--input", "in", "--output", "out"]
    emitted = call(capsys, "savepoint", "restore", path, *rest, code=2)
    assert "not a savepoint" in emitted or "no savepoint" in emitted
    assert not (place / "out").exists()


def test_there_is_nothing_to_rescale(place, capsys, no_java, message):
    message("rescale_of_nothing", call(capsys, *RESCALE, code=2))
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    ("made", "flags", "name"),
    [
        ({}, ["--shards", "0"], "rescale_to_no_shards"),
        ({}, ["--partitions", "-1"], "rescale_to_no_partitions"),
        ({}, ["--input", "nowhere"], "rescale_of_no_folder"),
        ({}, ["--format", "jsonl"], "rescale_in_another_format"),
        ({"begun": 2}, [], "rescale_in_the_middle_of_a_batch"),
        ({"number": "b"}, [], "rescale_of_another_output"),
    ],
)
def test_what_can_not_be_rescaled_is_refused_before_spark_starts(
    place, capsys, no_java, message, made, flags, name
):
    make_checkpoint(**made)
    message(name, call(capsys, *give(RESCALE, flags), code=2))


def test_a_query_that_runs_is_not_rescaled(place, capsys, no_java):
    make_checkpoint()
    lock = Lock(place / "out/_checkpoint")
    try:
        assert "a query is running on the checkpoint" in call(capsys, *RESCALE, code=2)
    finally:
        lock.release()


@pytest.mark.parametrize(
    ("made", "flags", "name"),
    [
        ({}, [], "run_from_without_an_output"),
        ({}, ["--input", "in/0.jsonl"], "run_from_on_a_file"),
        ({"begin": Begin()}, ["--output", "out"], "run_from_on_an_old_checkpoint"),
        ({"begin": Begin(0, "b" * 64, 4)}, ["--output", "out"], "run_from_another_savepoint"),
    ],
)
def test_a_run_on_spark_goes_on_from_what_it_can(
    place, capsys, no_java, message, made, flags, name
):
    make_checkpoint(**made)
    emitted = call(capsys, *give(FROM, flags), code=2)
    message(name, emitted.replace(open_savepoint(place / "savepoints/one").manifest.id[:16], "ID"))


def test_a_checkpoint_with_other_shards_tells_of_rescale(message):
    with pytest.raises(ChangedProgramError) as caught:
        check_fingerprint({"shards": "4", "code": "x"}, {"shards": "8", "code": "x"})
    message("checkpoint_of_other_shards", str(caught.value))
    with pytest.raises(ChangedProgramError) as caught:
        check_fingerprint({"shards": "4", "code": "3.11 x"}, {"shards": "8", "code": "3.11 y"})
    message("checkpoint_of_another_program", str(caught.value))


# --- on Spark -----------------------------------------------------------------------------------


def emitted_by(document):
    return [(one["time"], one["value"]) for one in document["outputs"]]


@pytest.mark.spark
def test_a_run_from_a_savepoint_begins_once_and_then_goes_on(spark, place, capsys):
    old = ["run", "heat.py", "--master", "local[2]", "--input", "in", "--output", "out"]
    read(capsys, *old, "--shards", "2", "--format", "jsonl")
    made = read(capsys, *CREATE, "savepoints/two")
    assert (made["batch"], made["watermark"]) == (0, 2)
    begin = ["run", "heat.py", "--spark", "--from", "savepoints/two", "--input", "in"]
    begin += ["--output", "new", "--format", "jsonl"]
    write_files(place / "in", first=1, last=2)
    first = read(capsys, *begin)
    assert first["layout"]["shards"] == 2
    assert emitted_by(first) == [(3, {"attic": 5, "hall": 10})]
    assert read_begin(place / "new/_checkpoint").savepoint == made["id"]
    write_files(place / "in", first=2)
    assert "batches of another format" in call(capsys, *begin[:-2], code=2)
    again = read(capsys, *begin)
    files = [flag for file in sorted(map(str, Path("in").iterdir())) for flag in ("--input", file)]
    whole = read(capsys, "run", "heat.py", *files, "--unbounded")
    assert emitted_by(again) == emitted_by(whole)
    assert again["ledger"] == whole["ledger"]


@pytest.mark.spark
def test_a_rescale_that_was_cut_off_is_finished_by_the_next(spark, place, capsys, monkeypatch):
    run = ["run", "heat.py", "--spark", "--input", "in", "--output", "out"]
    read(capsys, *run, "--shards", "2")

    def stop(*places):
        raise InputError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(rescaling, "_finish", stop)
        assert call(capsys, *RESCALE, "--shards", "3", code=2) == "cut off\n"
    assert (place / "out/_checkpoint").is_dir()
    assert "do not belong together" in call(capsys, *run, "--shards", "2", code=2)
    assert read(capsys, *RESCALE, "--shards", "4")["shards"] == 4
    write_files(place / "in", first=1)
    again = read(capsys, *run)
    assert again["layout"]["shards"] == 4
    files = [flag for file in sorted(map(str, Path("in").iterdir())) for flag in ("--input", file)]
    whole = read(capsys, "run", "heat.py", *files, "--unbounded")
    assert emitted_by(again) == emitted_by(whole)
    assert again["ledger"] == whole["ledger"]
