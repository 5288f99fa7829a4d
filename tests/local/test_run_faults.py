"""Faults of whole embedded runs: full and read-only disks, two processes, folders of other runs; and how runs end."""

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anabranch.errors import AnabranchError, InputError
from anabranch.local import run
from anabranch.microbatch.runs.checkpoint_locks import BusyError
from anabranch.microbatch.runs.ownership import PairingError
from anabranch.microbatch.runs.part_files import PublishingError
from anabranch.microbatch.store.state_store import DamagedStateError
from anabranch.sources.files import Files
from tests.local.durable_effects import read_disk, record_effects, write_disk
from tests.local.test_crashes import CASES
from tests.local.whole_runs import read_batches, read_state

CASE = CASES["late and rejected"]


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    CASE.write(tmp_path / "in")
    (tmp_path / "home").mkdir()
    return tmp_path / "in", tmp_path / "home"


@pytest.fixture
def whole(folders, tmp_path):
    """Return what a run publishes and keeps that meets no fault."""
    CASE.start(folders[0], tmp_path / "whole").wait()
    return read_batches(tmp_path / "whole"), read_state(tmp_path / "whole")


def refuse(error: int, after: int, real):
    """Return a function that raises an `OSError` from some call on."""
    calls = iter(range(10**6))

    def effect(*args, **options):
        if next(calls) >= after:
            raise OSError(error, os.strerror(error))
        return real(*args, **options)

    return effect


FULL = [(os, "writev"), (Path, "mkdir"), (Path, "rename"), (Path, "replace"), (Path, "write_text")]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])
@pytest.mark.parametrize(("owner", "name"), FULL, ids=[name for _, name in FULL])
def test_a_disk_that_takes_no_more_stops_the_run_with_what_to_do_and_the_next_goes_on(
    owner, name, error, folders, whole, monkeypatch
):
    real = getattr(owner, name)
    failures = []
    for after in range(60):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, refuse(error, after, real))
            try:
                CASE.start(*folders).wait()
            except (PublishingError, InputError) as failure:
                failures.append(str(failure))
            else:
                break
    assert len(failures) >= 2
    assert all(os.strerror(error) in text for text in failures)
    CASE.start(*folders).wait()
    assert read_batches(folders[1]) == whole[0]
    assert read_state(folders[1]) == whole[1]


def test_a_file_that_can_not_be_written_is_an_error_of_ours(folders, whole, monkeypatch):
    case = CASES["parquet"]
    inputs = folders[0].with_name("typed")
    case.write(inputs)
    real = pq.write_table
    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", refuse(errno.ENOSPC, 1, real))
        with pytest.raises(PublishingError, match="No space left on device"):
            case.start(inputs, folders[1]).wait()
    case.start(inputs, folders[1]).wait()
    assert case.read(folders[1]) == case.expect()


def test_a_loss_of_power_loses_no_batch_that_was_committed(folders, whole, monkeypatch):
    """With sync="batch", what a commit rests on is on the disk before it: files, names and the plan."""
    synced: list[str] = []
    order: list[tuple[str, list[str]]] = []

    def sync(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))

    real = os.writev

    def append(handle: int, views) -> int:
        order.append((str(len(order)), list(synced)))
        synced.clear()
        return real(handle, views)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "writev", append)
    CASE.start(*folders, sync="batch").wait()
    out = folders[1] / "out"
    published = read_batches(folders[1])
    # Every second append is a commit: before it, the files of its batch and all folders were synced.
    for batch, (_, paths) in enumerate(order[1::2]):
        wanted = {n.partition("/")[2] for n in published if n.startswith(f"batch={batch}/")}
        draft = f"{out}/.batch={batch}/"
        found = {p.removeprefix(draft) for p in paths if p.startswith(draft)}
        assert found >= wanted
        assert str(out) in paths, "the name of the batch"
        assert paths[0].endswith(".log"), "the plan"
    assert len(order) == 6


# --- folders -------------------------------------------------------------------------------------


HOLD = """
import sys
from pathlib import Path
sys.path.insert(0, ".")
from anabranch.microbatch.runs.checkpoint_locks import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_while_the_first_runs(folders, whole):
    checkpoint = folders[1] / "checkpoint"
    command = [sys.executable, "-c", HOLD, str(checkpoint)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(BusyError) as refusal:
            CASE.start(*folders)
        assert f"process {first.pid} on " in (refusal.value.got or "")
        assert not (folders[1] / "out").exists()
        first.communicate()
    CASE.start(*folders).wait()
    assert read_batches(folders[1]) == whole[0]


def test_a_second_run_of_the_same_process_is_refused_too(folders, monkeypatch):
    from anabranch.microbatch.runs import checkpoint_locks

    monkeypatch.setattr(checkpoint_locks.Lock.__init__, "__kwdefaults__", {"patience_s": 0.1})
    with CASE.start(*folders, available_now=False), pytest.raises(BusyError, match="this process"):
        CASE.start(*folders)


def test_a_start_that_fails_leaves_no_lock(folders, whole):
    inputs, home = folders
    away = inputs.rename(inputs.with_name("away"))
    with pytest.raises(InputError, match="in"):
        CASE.start(inputs, home)
    away.rename(inputs)
    CASE.start(inputs, home).wait()
    assert read_batches(home) == whole[0]


def test_a_checkpoint_of_spark_is_refused_and_stays_as_it_is(folders):
    (folders[1] / "checkpoint" / "offsets").mkdir(parents=True)
    before = read_disk(folders[1])
    with pytest.raises(InputError, match="the checkpoint of a query on Spark") as refusal:
        CASE.start(*folders)
    assert "savepoint" in (refusal.value.cure or "")
    assert read_disk(folders[1]) == before


def test_a_checkpoint_of_another_program_is_refused(folders):
    CASE.start(*folders).wait()
    other = CASES["keyed, columns"]
    other.write(folders[0].with_name("other"))
    with pytest.raises(AnabranchError) as refusal:
        other.start(folders[0].with_name("other"), folders[1])
    assert refusal.value.cure
    CASE.start(*folders).wait()


@pytest.mark.parametrize("lost", ["batch=2", "_pair.json"])
def test_an_output_folder_that_lacks_something_is_refused(lost, folders, tmp_path, message):
    CASE.start(*folders).wait()
    (folders[1] / "out" / lost).rename(tmp_path / "lost")
    with pytest.raises(PairingError) as refusal:
        CASE.start(*folders)
    if lost == "batch=2":
        text = str(refusal.value).replace(str(tmp_path), "FOLDER")
        message("a_committed_batch_is_missing", text)
    assert refusal.value.cure
    (tmp_path / "lost").rename(folders[1] / "out" / lost)
    CASE.start(*folders).wait()


def test_every_flipped_byte_of_a_checkpoint_gives_the_same_answer_or_an_error(folders, whole):
    inputs, home = folders
    with record_effects(home) as moments:
        CASE.start(inputs, home).wait()
    other = home.with_name("other")
    outcomes = {"same": 0, "error": 0}
    # In the middle: batch 1 is published, and not committed.
    cut = [m for m in moments if m.effect == "append checkpoint/pages-000000.log"]
    middle = max((m for m in cut if "out/batch=2" not in m.disk), key=lambda m: len(str(m.disk)))
    for moment in (middle, moments[-1]):
        for name, data in sorted(moment.disk.items()):
            if data is None or not name.startswith("checkpoint/") or name.endswith("_lock"):
                continue
            for place in range(0, len(data), max(1, len(data) // 15)):
                damaged = bytearray(data)
                damaged[place] ^= 16
                write_disk(other, moment.disk | {name: bytes(damaged)})
                try:
                    CASE.start(inputs, other).wait()
                except (DamagedStateError, PairingError):
                    outcomes["error"] += 1
                else:
                    assert read_batches(other) == whole[0]
                    assert read_state(other)[0] == whole[1][0]
                    outcomes["same"] += 1
    assert outcomes["error"] > 10
    assert outcomes["same"] > 2


# --- the handle ----------------------------------------------------------------------------------


def test_a_run_takes_new_files_until_it_is_stopped_and_goes_on_later(folders, whole):
    inputs, home = folders
    files = sorted(inputs.iterdir())
    hidden = [file.rename(file.with_name(f".{file.name}")) for file in files[1:]]
    with CASE.start(inputs, home, available_now=False) as handle:
        wait_for(lambda: handle.progress is not None)
        assert handle.is_active
        assert not handle.wait(0.01)
        hidden[0].rename(files[1])
        wait_for((home / "out" / "batch=1").exists)
    assert not handle.is_active
    assert "ended" in repr(handle)
    assert sorted(p.name for p in (home / "out").glob("batch=*")) == ["batch=0", "batch=1"]
    hidden[1].rename(files[2])
    handle = CASE.start(inputs, home, available_now=False)
    wait_for((home / "out" / "batch=2").exists)
    handle.stop()
    handle.stop()
    assert read_batches(home) == whole[0]


def wait_for(condition) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.01)


def test_an_error_in_the_block_stops_the_run_and_is_not_hidden(folders):
    handle = CASE.start(*folders, available_now=False)

    def fail() -> None:
        with handle:
            wait_for(lambda: handle.progress is not None)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not handle.is_active
    wait_for(lambda: not [t for t in threading.enumerate() if t.name == "anabranch-run"])


def test_a_function_that_raises_stops_the_run_and_the_batch_is_repeated(folders):
    inputs, home = folders
    seen: list[tuple[int, int]] = []
    source = CASE.stream.files(inputs)

    def take(result, batch: int) -> None:
        seen.append((batch, len(result.outputs)))
        if len(seen) == 2:
            raise RuntimeError("the sink is down")

    def start():
        return run(
            CASE.program, source, for_each_batch=take, checkpoint=home / "cp",
            available_now=True, cores=1, shards=2, sync="system",
        )  # fmt: skip

    with pytest.raises(RuntimeError, match="the sink is down"):
        start().wait()
    start().wait()
    assert [batch for batch, _ in seen] == [0, 1, 1, 2]
    assert seen[1] == seen[2]
    assert sum(count for _, count in [seen[0], *seen[2:]]) == len(CASE.expect().outputs)


def test_rows_are_kept_in_memory_without_a_sink(folders):
    handle = run(CASE.program, CASE.stream.files(folders[0]), available_now=True, shards=2, cores=1)
    result = handle.result()
    assert result.ledger == CASE.expect().ledger
    assert result.outputs["id"].to_pylist() == [
        name for name, _ in sorted(CASE.expect().outputs, key=lambda o: place(o[0]))
    ]
    assert len(result.late) == len(CASE.expect().late)


def place(name: str):
    from anabranch.microbatch.speculative.row_barrier import read_id

    return read_id(name)


def test_a_bounded_input_with_a_checkpoint_survives_a_crash_at_any_effect(folders):
    inputs, home = folders
    whole_input = CASE.stream.files(inputs)
    options = {name: getattr(whole_input, name) for name in ("type_column", "channel_column")}

    def start(place: Path):
        ended = Files(
            inputs, format="json", ended=True, channels=CASE.channels, seq="seq",
            heartbeat="heartbeat", **options,
        )  # fmt: skip
        return run(
            CASE.program, ended, output=place / "out", checkpoint=place / "cp", format="json",
            shards=2, cores=1, sync="system",
        )  # fmt: skip

    with record_effects(home) as moments:
        start(home).wait()
    assert CASE.read(home).outputs == CASE.expect().outputs
    published = read_batches(home)
    for moment in moments:
        write_disk(home, moment.disk)
        start(home).wait()
        assert read_batches(home) == published, moment.effect
    start(home).wait()
    assert read_batches(home) == published
