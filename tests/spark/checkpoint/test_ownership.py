"""A checkpoint and its folder belong together, and to one driver; no Spark is needed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from anabranch.microbatch.runs.checkpoint_locks import BusyError, Lock
from anabranch.microbatch.runs.ownership import PairingError, write_pair
from anabranch.microbatch.runs.ownership import check_pair as compare_pair
from anabranch.spark.checkpoint.provenance import find_begun

HOLDER = """
import sys, time
from pathlib import Path
from anabranch.microbatch.runs.checkpoint_locks import Lock
Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def check_pair(folder, checkpoint):
    """Check a folder and a checkpoint, as a query does before it starts."""
    compare_pair(folder, checkpoint, find_begun(checkpoint))


@pytest.fixture
def pair(tmp_path):
    """Return a folder and a checkpoint that belong together, with batches 0 to 2."""
    folder, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    write_pair(folder, checkpoint)
    for batch in range(3):
        publish(folder, batch)
        begin(checkpoint, batch)
    return folder, checkpoint


def publish(folder, batch):
    (folder / f"batch={batch}").mkdir(parents=True)


def begin(checkpoint, batch):
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text("v1")


def test_a_pair_is_accepted_again_and_after_a_crash_before_publishing(pair):
    check_pair(*pair)
    begin(pair[1], 3)
    check_pair(*pair)


def test_two_new_ones_are_accepted_and_then_belong_together(tmp_path):
    folder, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    check_pair(folder, checkpoint)
    write_pair(folder, checkpoint)
    ids = {(place / "_pair.json").read_text() for place in (folder, checkpoint)}
    assert len(ids) == 1
    write_pair(folder, checkpoint)
    assert {(place / "_pair.json").read_text() for place in (folder, checkpoint)} == ids


def test_a_crash_between_the_two_ids_is_mended(tmp_path):
    folder, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    write_pair(folder, checkpoint)
    (checkpoint / "_pair.json").unlink()
    check_pair(folder, checkpoint)
    write_pair(folder, checkpoint)
    assert (folder / "_pair.json").read_text() == (checkpoint / "_pair.json").read_text()


def test_a_new_checkpoint_for_an_old_folder_is_refused(pair, tmp_path, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("out", "checkpoint"):
        (tmp_path / place / "_pair.json").write_text('{"id": "0123456789abcdef"}')
    with pytest.raises(PairingError) as refusal:
        check_pair(Path("out"), Path("new"))
    message("a_new_checkpoint_for_an_old_folder", str(refusal.value))
    assert not (tmp_path / "new").exists()


def test_an_old_checkpoint_for_a_new_folder_is_refused(pair, tmp_path):
    with pytest.raises(PairingError, match="do not belong together"):
        check_pair(tmp_path / "new", pair[1])
    assert not (tmp_path / "new").exists()


def test_two_old_ones_of_different_queries_are_refused(pair, tmp_path):
    other = tmp_path / "other", tmp_path / "other_checkpoint"
    write_pair(*other)
    for batch in range(3):
        publish(other[0], batch)
        begin(other[1], batch)
    with pytest.raises(PairingError, match="do not belong together"):
        check_pair(pair[0], other[1])


def test_a_checkpoint_that_was_set_back_is_refused(pair):
    (pair[1] / "offsets" / "2").unlink()
    with pytest.raises(PairingError, match="not at the same batch") as refusal:
        check_pair(*pair)
    assert refusal.value.got == "batch 1 in the checkpoint, batch 2 in the folder"


def test_a_folder_that_has_lost_batches_is_refused(pair):
    for batch in (1, 2):
        (pair[0] / f"batch={batch}").rmdir()
    with pytest.raises(PairingError, match="not at the same batch"):
        check_pair(*pair)


def test_an_id_that_can_not_be_read_is_refused_and_not_replaced(pair):
    (pair[0] / "_pair.json").write_text("{")
    with pytest.raises(PairingError, match=r"_pair\.json can't be read"):
        check_pair(*pair)


def test_another_process_that_holds_a_checkpoint_is_named(tmp_path):
    command = [sys.executable, "-c", HOLDER, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            before = time.monotonic()
            with pytest.raises(BusyError) as refusal:
                Lock(tmp_path)
            assert time.monotonic() - before < 2, "it waited for a process that is not ours"
            assert f"process {holder.pid} on " in refusal.value.got
        finally:
            holder.kill()
    # A process that is gone holds nothing.
    Lock(tmp_path).release()


def test_a_query_of_our_own_is_waited_for_a_moment(tmp_path, message):
    first = Lock(tmp_path / "checkpoint")
    with pytest.raises(BusyError, match="a query is running on the checkpoint") as refusal:
        Lock(tmp_path / "checkpoint", patience_s=0.2)
    message("a_checkpoint_is_in_use", str(refusal.value).replace(str(tmp_path), "."))

    class Query:
        def awaitTermination(self):  # noqa: N802 - Spark's name
            time.sleep(0.3)
            raise RuntimeError("the query failed")

    first.release_after(Query())
    Lock(tmp_path / "checkpoint", patience_s=30).release()


@pytest.mark.parametrize("inner", [".", "checkpoint", "a/b"])
def test_a_checkpoint_that_would_be_read_as_output_is_refused(tmp_path, monkeypatch, inner):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PairingError, match="would take the checkpoint for output"):
        check_pair(Path("out"), Path("out") / inner)
    with pytest.raises(PairingError, match="would take the checkpoint for output"):
        check_pair(Path("out"), tmp_path / "out" / inner)


@pytest.mark.parametrize("inner", ["out/_checkpoint", "out/.c", "out/_state/checkpoint", "outer"])
def test_a_checkpoint_that_is_not_read_as_output_may_be_anywhere(tmp_path, inner):
    check_pair(tmp_path / "out", tmp_path / inner)


def test_the_refusal_of_a_checkpoint_amid_the_output_tells_a_better_place(message):
    with pytest.raises(PairingError) as error:
        check_pair(Path("out"), Path("out/checkpoint"))
    message("checkpoint_amid_the_output", str(error.value))
