"""Savepoints as folders: whole or not there, and every file as it was made."""

import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess

import pyarrow as pa
import pytest

from anabranch.savepoints.drafts import Draft, SavepointExistsError, begin_draft
from anabranch.savepoints.folders import (
    DamagedSavepointError,
    ForbiddenFileError,
    NoSavepointError,
    open_savepoint,
)
from anabranch.savepoints.manifest import SavepointError
from tests.savepoints.folders import describe, fill, list_tree, make_savepoint


def make(path, *steps, name="one"):
    with begin_draft(path) as draft:
        for step in steps:
            step(draft)
        return draft.seal(describe(name))


def add(relative, file):
    return lambda draft: draft.add_file(relative, file)


def hide(error):
    return re.sub(r"\S*/\.one\.draft-\w+", "FOLDER", str(error))


def test_a_savepoint_is_read_as_it_was_written(tmp_path):
    savepoint = open_savepoint(make_savepoint(tmp_path / "one"))
    assert list_tree(tmp_path) == [
        "one", "one/manifest.json", "one/manifest.sha256", "one/pending", "one/pending/Reading",
        "one/pending/Reading/part-0.parquet", "one/state", "one/state/part-0.parquet",
        "one/state/part-1.parquet",
    ]  # fmt: skip
    assert savepoint.list_tables("state") == ["state/part-0.parquet", "state/part-1.parquet"]
    assert savepoint.list_tables("pending") == []
    assert savepoint.read_table("state/part-1.parquet").to_pylist() == [
        {"key": 3, "value": [{"a": 4}]}
    ]
    assert {path: file.rows for path, file in savepoint.manifest.files.items()} == {
        "pending/Reading/part-0.parquet": 1,
        "state/part-0.parquet": 2,
        "state/part-1.parquet": 1,
    }


def test_the_same_content_has_the_same_id(tmp_path):
    first = open_savepoint(make_savepoint(tmp_path / "one"))
    second = open_savepoint(make_savepoint(tmp_path / "two"))
    assert first.manifest.id == second.manifest.id


def test_whoever_fails_before_the_seal_leaves_nothing(tmp_path):
    def fail(draft):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make(tmp_path / "one", fill, fail)
    assert list_tree(tmp_path) == []


def test_a_manifest_that_is_refused_leaves_nothing(tmp_path):
    with pytest.raises(SavepointError):
        make(tmp_path / "one", fill, name="latest")
    assert list_tree(tmp_path) == []


def make_half(path):
    with begin_draft(path) as draft:
        fill(draft)
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_leaves_is_no_savepoint_and_is_removed_by_the_next(tmp_path):
    child = multiprocessing.get_context("spawn").Process(target=make_half, args=(tmp_path / "one",))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".one.draft-")
    with pytest.raises(NoSavepointError):
        open_savepoint(left)
    make_savepoint(tmp_path / "one")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_draft_that_somebody_works_on_is_left_alone(tmp_path):
    with begin_draft(tmp_path / "one") as slow:
        fill(slow)
        make_savepoint(tmp_path / "one")
        assert slow.folder.is_dir()
        with pytest.raises(SavepointExistsError):
            slow.seal(describe())
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    open_savepoint(tmp_path / "one")


def write_part(draft: Draft, number: int) -> None:
    for _ in range(2):  # A task may be repeated.
        draft.write_table(f"state/part-{number}.parquet", pa.table({"key": [number]}))


def test_several_processes_write_their_own_parts(tmp_path):
    with begin_draft(tmp_path / "one") as draft:
        copy = pickle.loads(pickle.dumps(draft))
        children = [
            multiprocessing.get_context("spawn").Process(target=write_part, args=(copy, n))
            for n in range(2)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join()
        (draft.folder / "state" / ".partial-0").write_bytes(b"of a task that died")
        draft.seal(describe())
    savepoint = open_savepoint(tmp_path / "one")
    assert list(savepoint.manifest.files) == ["state/part-0.parquet", "state/part-1.parquet"]


def test_channels_keep_their_logs_as_they_are(tmp_path):
    (tmp_path / "log").write_text('v1\n{"batchId":0}\n')
    with begin_draft(tmp_path / "one") as draft:
        draft.add_file("sources/0/0", tmp_path / "log")
        draft.seal(describe(runtime="spark"))
    savepoint = open_savepoint(tmp_path / "one")
    assert savepoint.manifest.files["sources/0/0"].rows is None
    assert (savepoint.path / "sources/0/0").read_text() == 'v1\n{"batchId":0}\n'


@pytest.mark.parametrize("place", ["folder", "file", "link"])
def test_nothing_is_overwritten(tmp_path, place, message):
    target = tmp_path / "one"
    if place == "folder":
        target.mkdir()
    elif place == "file":
        target.touch()
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(SavepointExistsError) as error:
        make_savepoint(target)
    if place == "folder":
        message("savepoint_is_there", str(error.value).replace(str(tmp_path), "FOLDER"))


class Evil:
    def __reduce__(self):
        return (print, ("run",))


PICKLES = {protocol: pickle.dumps([Evil()], protocol) for protocol in range(6)}


@pytest.mark.parametrize("protocol", PICKLES)
def test_a_pickle_is_refused_wherever_it_lies(tmp_path, protocol, message):
    (tmp_path / "pickle").write_bytes(PICKLES[protocol])
    for place in ("state/part-0.parquet", "sources/0/0"):
        with pytest.raises(ForbiddenFileError) as error:
            make(tmp_path / "one", add(place, tmp_path / "pickle"))
        if protocol == 4:
            message(f"savepoint_pickle_in_{place.partition('/')[0]}", hide(error.value))


def test_a_large_pickle_is_refused_too(tmp_path):
    (tmp_path / "pickle").write_bytes(pickle.dumps(b"x" * (2 << 20)))
    with pytest.raises(ForbiddenFileError):
        make(tmp_path / "one", add("sources/0/0", tmp_path / "pickle"))


@pytest.mark.parametrize("relative", ["../out", "/out", "state/.hidden", "a/../b"])
def test_no_part_is_written_outside(tmp_path, relative, message):
    with pytest.raises(ForbiddenFileError) as error, begin_draft(tmp_path / "one") as draft:
        draft.write_table(relative, pa.table({"key": [1]}))
    assert list_tree(tmp_path) == []
    if relative == "../out":
        message("savepoint_part_outside", str(error.value))


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "empty folder"])
def test_what_is_no_plain_file_is_not_sealed(tmp_path, kind, message):
    with pytest.raises(ForbiddenFileError) as error:
        make(tmp_path / "one", fill, lambda draft: add_strange(draft.folder / "strange", kind))
    if kind == "link":
        message("savepoint_with_a_link", hide(error.value))


def add_strange(path, kind):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "empty folder":
        path.mkdir()
    else:
        path.symlink_to("/etc/hostname" if kind == "link" else "/etc")


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "empty folder"])
def test_what_is_no_plain_file_is_extra(tmp_path, kind):
    folder = make_savepoint(tmp_path / "one")
    add_strange(folder / "strange", kind)
    with pytest.raises(DamagedSavepointError) as error:
        open_savepoint(folder)
    assert [name.rstrip("/") for name in error.value.extra] == ["strange"]


def test_a_file_that_became_a_link_to_the_same_bytes_is_changed(tmp_path):
    folder = make_savepoint(tmp_path / "one")
    (folder / "state/part-0.parquet").rename(tmp_path / "moved")
    (folder / "state/part-0.parquet").symlink_to(tmp_path / "moved")
    with pytest.raises(DamagedSavepointError) as error:
        open_savepoint(folder)
    assert error.value.changed == ("state/part-0.parquet",)


def test_folders_that_are_empty_because_their_files_are_gone_are_not_named(tmp_path):
    folder = make_savepoint(tmp_path / "one")
    (folder / "pending/Reading/part-0.parquet").unlink()
    for gone in ("pending/Reading", None):
        with pytest.raises(DamagedSavepointError) as error:
            open_savepoint(folder)
        assert error.value.missing == ("pending/Reading/part-0.parquet",)
        assert error.value.extra == ()
        if gone:
            (folder / gone).rmdir()


def test_every_damaged_file_is_named_at_once(tmp_path, message):
    folder = make_savepoint(tmp_path / "one")
    (folder / "state/part-0.parquet").unlink()
    (folder / "state/part-1.parquet").write_bytes(b"PAR1 short PAR1")
    (folder / "state/part-2.parquet").write_bytes(b"new")
    (folder / "pending/Reading/note.txt").touch()
    with pytest.raises(DamagedSavepointError) as error:
        open_savepoint(folder)
    assert error.value.missing == ("state/part-0.parquet",)
    assert error.value.changed == ("state/part-1.parquet",)
    assert error.value.extra == ("pending/Reading/note.txt", "state/part-2.parquet")
    message("savepoint_is_damaged", str(error.value).replace(str(tmp_path), "FOLDER"))
    assert open_savepoint(folder, verify=False).manifest.name == "one"


def test_a_folder_without_a_manifest_is_no_savepoint(tmp_path, message):
    with pytest.raises(NoSavepointError) as error:
        open_savepoint(tmp_path)
    message("savepoint_is_none", str(error.value).replace(str(tmp_path), "FOLDER"))
    with pytest.raises(NoSavepointError):
        open_savepoint(tmp_path / "nowhere")
    with pytest.raises(LookupError):
        open_savepoint(__file__)


def test_the_sum_of_the_manifest_is_what_sha256sum_says(tmp_path):
    folder = make_savepoint(tmp_path / "one")
    tool = shutil.which("sha256sum")
    if tool is None:
        pytest.skip("no sha256sum here")
    subprocess.run(
        [tool, "--check", "manifest.sha256"], cwd=folder, check=True, capture_output=True
    )


def test_what_is_no_parquet_inside_is_refused(tmp_path, message):
    (tmp_path / "table").write_bytes(b"PAR1" + b"\0" * 20 + b"PAR1")
    with pytest.raises(ForbiddenFileError) as error:
        make(tmp_path / "one", add("state/part-0.parquet", tmp_path / "table"))
    # What pyarrow says of it differs from release to release.
    message("savepoint_no_parquet", re.sub(r"got: .*", "got: …", hide(error.value)))
