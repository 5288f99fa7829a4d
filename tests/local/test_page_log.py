"""Laws of the page log: what a prefix, a flipped bit, a copy that was cut off or a full disk leaves of it."""

import errno
import os
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from anabranch.errors import AnabranchError, InputError
from anabranch.local import page_log
from anabranch.local.page_log import (
    Commit,
    PageLog,
    PlannedBatch,
    Sync,
    list_logs,
    name_log,
    read_first_commit,
    read_log,
)
from anabranch.microbatch.runs.part_files import PublishingError
from anabranch.microbatch.store.state_store import DamagedStateError
from tests.local.durable_effects import record_effects, write_disk

NAMES = [f"shard {n}/{page}" for n in range(2) for page in ("head", "entries/1", "entries/2")]


OPENED: list[PageLog] = []


def open_log(folder: Path, sync: Sync = "system") -> PageLog:
    OPENED.append(PageLog(folder, sync))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def close_logs():
    yield
    while OPENED:
        OPENED.pop().close()


class Contents(NamedTuple):
    """All that a log holds."""

    commit: Commit | None
    plan: PlannedBatch | None
    pages: dict[str, bytes]


class Write(NamedTuple):
    """A write to a log: a plan, or a commit with its pages."""

    plan: PlannedBatch | None
    commit: Commit | None
    changes: dict[str, bytes | None]


def draw_writes(rng: random.Random, batches: int) -> list[Write]:
    writes = []
    for batch in range(batches):
        offset: dict[str, Any] = {"0": {"files": batch, "last": "\n\x00é" * (batch % 3)}}
        writes.append(Write(PlannedBatch(batch, offset, rng.choice((None, 5))), None, {}))
        chosen = rng.sample(NAMES, rng.randint(0, 4))
        changes = {
            name: rng.choice((None, rng.randbytes(rng.choice((0, 1, 40))))) for name in chosen
        }
        writes.append(Write(None, Commit(batch, offset, {"made_by": {}}), changes))
    return writes


def apply(log: PageLog, write: Write) -> None:
    if write.plan is not None:
        log.write_plan(write.plan)
    if write.commit is not None:
        log.write_commit(write.commit, write.changes)


def read(log: PageLog) -> Contents:
    return Contents(log.commit, log.plan, {name: log.read(name) for name in log})


def record(folder: Path, writes: list[Write]) -> list[tuple[int, Contents]]:
    """Write a history; return the size of the file and the contents after each write, by a plain dict."""
    log = open_log(folder)
    path = name_log(folder, 0)
    states = [(0, Contents(None, None, {}))]
    for write in writes:
        apply(log, write)
        commit, plan, pages = states[-1][1]
        if write.commit is not None:
            changed = {**pages, **write.changes}
            kept = {name: data for name, data in changed.items() if data is not None}
            commit, plan, pages = write.commit, None, kept
        else:
            plan = write.plan
        states.append((path.stat().st_size, Contents(commit, plan, pages)))
        assert read(log) == states[-1][1]
    log.close()
    return states


def open_copy(folder: Path, data: bytes) -> PageLog:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    name_log(folder, 0).write_bytes(data)
    return open_log(folder)


@pytest.mark.parametrize("seed", range(3))
def test_every_prefix_is_the_last_write_within_it_and_goes_on(seed, tmp_path):
    rng = random.Random(seed)
    writes = draw_writes(rng, 4)
    states = record(tmp_path, writes)
    data = name_log(tmp_path, 0).read_bytes()
    for size in range(len(data) + 1):
        last = max(n for n, (end, _) in enumerate(states) if end <= size)
        log = open_copy(tmp_path / "copy", data[:size])
        assert read(log) == states[last][1], f"prefix of {size} bytes"
        for write in writes[last : last + 2]:
            apply(log, write)
        expected = states[min(last + 2, len(writes))][1]
        assert read(log) == expected
        log.close()
        again = open_log(tmp_path / "copy")
        assert read(again) == expected
        again.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_flipped_bit_gives_the_same_contents_or_a_repeated_batch_or_an_error(seed, tmp_path):
    writes = draw_writes(random.Random(seed), 3)
    states = record(tmp_path, writes)
    data = name_log(tmp_path, 0).read_bytes()
    outcomes = {"error": 0, "repeated": 0}
    for place in range(len(data)):
        for bit in (1, 128):
            damaged = bytearray(data)
            damaged[place] ^= bit
            try:
                log = open_copy(tmp_path / "copy", bytes(damaged))
            except DamagedStateError:
                outcomes["error"] += 1
                continue
            # Only the last batch: its plan is there, and so it is repeated with the same input.
            assert read(log) == states[-2][1]
            assert states[-2][0] <= place
            apply(log, writes[-1])
            assert read(log) == states[-1][1]
            log.close()
            outcomes["repeated"] += 1
    assert min(outcomes.values()) > 20


def test_a_plan_that_is_damaged_at_the_end_is_gone_and_all_before_it_is_there(tmp_path):
    writes = draw_writes(random.Random(1), 3)[:5]
    states = record(tmp_path, writes)
    data = bytearray(name_log(tmp_path, 0).read_bytes())
    data[-1] ^= 1
    assert read(open_copy(tmp_path / "copy", bytes(data))) == states[-2][1]


def test_a_loss_of_power_may_lose_any_part_of_the_last_write(tmp_path):
    """The disk writes blocks in any order: the commit may be there, and pages before it may not."""
    writes = draw_writes(random.Random(5), 3)
    writes[-1] = writes[-1]._replace(changes={name: bytes([7]) * 60 for name in NAMES})
    states = record(tmp_path, writes)
    data = name_log(tmp_path, 0).read_bytes()
    start, rng = states[-2][0], random.Random(0)
    for _ in range(200):
        torn = bytearray(data)
        for block in range(start, len(data), 16):
            if rng.random() < 0.5:
                torn[block : block + 16] = bytes(len(torn[block : block + 16]))
        if torn != data:
            log = open_copy(tmp_path / "copy", bytes(torn))
            assert read(log) == states[-2][1]
            # Nothing of it is left, also behind a shorter write.
            apply(log, writes[-1]._replace(changes={}))
            after = read(log)
            log.close()
            again = open_log(tmp_path / "copy")
            assert read(again) == after
            again.close()


def test_damage_before_a_later_write_is_an_error_also_where_a_plan_follows(tmp_path):
    writes = draw_writes(random.Random(2), 3)[:5]
    states = record(tmp_path, writes)
    data = bytearray(name_log(tmp_path, 0).read_bytes())
    for place in range(states[3][0], states[4][0]):  # The last commit, after which there is a plan.
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(DamagedStateError, match="damaged"):
            open_copy(tmp_path / "copy", bytes(damaged))


# --- copies of the pages in use ------------------------------------------------------------------


def test_a_crash_at_any_effect_of_a_copy_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(page_log, "_GARBAGE_BYTES", 300)
    writes = draw_writes(random.Random(3), 14)
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    log = open_log(home)
    tried = copies = 0
    for write in writes:
        number = max(list_logs(home))
        before = read(log)
        with record_effects(home) as moments:
            apply(log, write)
        copies += max(list_logs(home)) > number
        for moment in moments:
            write_disk(other, moment.disk)
            found = open_log(other)
            assert read(found) in (before, read(log)), moment.effect
            assert len(list(other.iterdir())) == 1, "what the crash has left is removed"
            if read(found) == before:
                apply(found, write)
            assert read(found) == read(log)
            found.close()
            tried += 1
    assert copies >= 2
    assert tried > 100
    assert name_log(home, max(list_logs(home))).stat().st_size < 2500


def test_a_copy_holds_the_pages_in_use_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(page_log, "_GARBAGE_BYTES", 1000)
    log = open_log(tmp_path, "batch")
    for batch in range(40):
        log.write_plan(PlannedBatch(batch, {}, None))
        changes = {"a": bytes([batch]) * 100, f"b{batch}": b"new", f"b{batch - 1}": None}
        log.write_commit(Commit(batch, {}, {}), changes)
    log.close()
    (path,) = list_logs(tmp_path).values()
    assert path.stat().st_size < 3000
    log = open_log(tmp_path)
    assert read(log) == Contents(Commit(39, {}, {}), None, {"a": b"'" * 100, "b39": b"new"})
    log.close()
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 4
    path.write_bytes(damaged)
    # A copy may begin with a commit that has no plan: it can't be repeated.
    with pytest.raises(DamagedStateError):
        open_log(tmp_path)


# --- disks that take nothing ---------------------------------------------------------------------


class FullDisk:
    """Takes some bytes, and then no more."""

    def __init__(self, space: int, error: int = errno.ENOSPC) -> None:
        self.space, self.error, self.writev = space, error, os.writev

    def __call__(self, handle: int, views: list[Any]) -> int:
        data = b"".join(views)[: self.space]
        if not data:
            raise OSError(self.error, os.strerror(self.error))
        self.space -= len(data)
        return self.writev(handle, [data])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("space", [0, 1, 30, 60])
def test_a_full_disk_is_an_error_that_names_it_and_the_log_goes_on(
    space, error, tmp_path, monkeypatch
):
    writes = draw_writes(random.Random(4), 3)
    log = open_log(tmp_path)
    for write in writes[:3]:
        apply(log, write)
    before = read(log)
    monkeypatch.setattr(os, "writev", FullDisk(space, error))
    with pytest.raises(PublishingError) as failure:
        apply(log, writes[3])
    assert os.strerror(error) in failure.value.got
    assert "start again" in failure.value.cure
    assert read(log) == before
    monkeypatch.undo()
    # The same log goes on, and so does the next process.
    apply(log, writes[3])
    apply(log, writes[4])
    after = read(log)
    log.close()
    assert read(open_log(tmp_path)) == after


def test_a_disk_that_fails_to_sync_loses_the_write_and_nothing_else(tmp_path, monkeypatch):
    writes = draw_writes(random.Random(4), 2)
    log = open_log(tmp_path, "batch")
    apply(log, writes[0])
    before = read(log)

    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(PublishingError, match="Input/output error"):
        apply(log, writes[1])
    monkeypatch.undo()
    log.close()
    assert read(open_log(tmp_path)) == before


def test_a_disk_that_is_full_during_a_copy_keeps_the_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(page_log, "_GARBAGE_BYTES", 100)
    log = open_log(tmp_path)
    log.write_commit(Commit(0, {}, {}), {"a": b"x" * 90})
    real = Path.open

    def refuse(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "w" in mode:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, mode, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PublishingError, match="No space left"):
        log.write_commit(Commit(1, {}, {}), {"a": b"y" * 90})
    monkeypatch.setattr(Path, "open", real)
    log.close()
    log = open_log(tmp_path)
    assert read(log) == Contents(Commit(1, {}, {}), None, {"a": b"y" * 90})
    log.write_commit(Commit(2, {}, {}), {"a": b"z" * 90})
    assert max(list_logs(tmp_path)) == 1, "the copy that failed was made"


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda handle, views: real(handle, [bytes(views[0][:7])]))
    writes = draw_writes(random.Random(6), 3)
    states = record(tmp_path, writes)
    assert read(open_log(tmp_path)) == states[-1][1]


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sync", "waits"), [("batch", 4), ("system", 0)])
def test_only_batch_waits_for_the_disk_at_each_write(sync, waits, tmp_path, monkeypatch):
    log = open_log(tmp_path, sync)
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for write in draw_writes(random.Random(0), 2):
        apply(log, write)
    assert len(synced) == waits
    assert set(synced) <= {log._file.fileno()}


def test_an_unknown_time_of_writing_is_refused(tmp_path):
    with pytest.raises(InputError, match="sync= one of 'batch', 'system'"):
        open_log(tmp_path, "never")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_reading_a_log_does_not_change_it(tmp_path):
    writes = draw_writes(random.Random(0), 2)
    record(tmp_path, writes)
    path = name_log(tmp_path, 0)
    path.write_bytes(path.read_bytes() + b"the tail of a crash")
    before = path.read_bytes()
    found = read_log(path)
    assert (found.commit, found.plan) == (writes[-1].commit, None)
    assert path.read_bytes() == before


@pytest.mark.parametrize("garbage", [10**6, 200])
def test_the_first_commit_is_found_in_any_prefix_that_holds_it(garbage, tmp_path, monkeypatch):
    monkeypatch.setattr(page_log, "_GARBAGE_BYTES", garbage)
    log = open_log(tmp_path)
    for write in draw_writes(random.Random(9), 6):
        apply(log, write)
    path = name_log(tmp_path, max(list_logs(tmp_path)))
    data = path.read_bytes()
    first = next(
        size
        for size in range(len(data) + 1)
        if read(open_copy(tmp_path / "copy", data[:size])).commit is not None
    )
    copy = tmp_path / "copy.log"
    for size in range(len(data) + 1):
        copy.write_bytes(data[:size])
        found = read_first_commit(copy)
        assert (found is not None) == (size >= first)
    assert read_first_commit(copy) == read(open_copy(tmp_path / "copy", data[:first])).commit
    copy.write_bytes(b"not a log at all, but long enough")
    assert read_first_commit(copy) is None


def test_the_texts_of_errors_are_these(tmp_path, message, monkeypatch):
    def shorten(error: AnabranchError) -> str:
        return str(error).replace(str(tmp_path), "FOLDER")

    writes = draw_writes(random.Random(4), 2)
    record(tmp_path, writes)
    path = name_log(tmp_path, 0)
    whole = path.read_bytes()
    path.write_bytes(b"?" + whole[1:])
    with pytest.raises(DamagedStateError) as damaged:
        open_log(tmp_path)
    message("a_page_log_is_damaged", shorten(damaged.value))
    path.write_bytes(whole)
    log = open_log(tmp_path)
    monkeypatch.setattr(os, "writev", FullDisk(10))
    with pytest.raises(PublishingError) as full:
        apply(log, writes[0])
    message("a_page_log_on_a_full_disk", shorten(full.value))


def test_every_error_of_the_log_is_ours(tmp_path):
    (tmp_path / "pages-000000.log").mkdir()
    with pytest.raises(AnabranchError, match="the checkpoint can't be written"):
        open_log(tmp_path)
