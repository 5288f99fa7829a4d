"""The page log: the state, the offsets and the commits of an embedded run, in one file that only grows.

A record is a header (mark, kind, sizes, checksum), a name and data. The pages that a batch changes are followed by
one commit record, and count from then on: so a batch is committed by the last bytes of one write. A crash leaves a
tail without a commit, which the next start removes. When most of a file is outdated, the pages in use are copied into
the next file, which replaces it by one rename.

Damage before the last commit is an error, never a wrong answer: each record has a checksum. A loss of power may leave
the commit of the last write without some of its pages: then that batch is repeated, by its plan.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from anabranch.errors import InputError
from anabranch.microbatch.runs.part_files import PublishingError
from anabranch.microbatch.store.state_store import DamagedStateError
from anabranch.publication import PARTIAL, publish_file, sync

Sync = Literal["batch", "system"]
"""When a batch is safe: "batch" waits for the disk at every commit, so that it survives a loss of power; "system"
leaves the time of writing to the operating system, so that it survives the end of the process, but not of the machine."""

SYNCS: tuple[Sync, ...] = ("batch", "system")

_MARK = b"\xa5abl"
_HEADER = struct.Struct("<4sBHQI")
"""Mark, kind, bytes of the name, bytes of the data, checksum of all of these and of name and data."""

_PAGE, _REMOVAL, _PLAN, _COMMIT = range(1, 5)

_GARBAGE_BYTES = 64 << 20
"""Outdated bytes that are never worth a copy of the others."""


class PagePlace(NamedTuple):
    """The position of a page's data in the file."""

    start: int
    size: int


class Commit(NamedTuple):
    """A committed batch: its number, the offset after it, and the fingerprint of the job."""

    batch: int
    offset: dict[str, Any]
    about: dict[str, Any]


class PlannedBatch(NamedTuple):
    """A planned batch: its number, the offset after it, and the recorded time."""

    batch: int
    offset: dict[str, Any]
    clock_ms: int | None


class PageLog:
    """The durable pages of a run, by name, and the last commit and plan."""

    def __init__(self, folder: Path, sync: Sync = "batch") -> None:
        check_sync(sync)
        with explain_disk(folder):
            self._recover(folder, sync)

    def _recover(self, folder: Path, sync: Sync) -> None:
        self._folder = folder
        self._sync = sync
        self.commit: Commit | None = None
        self.plan: PlannedBatch | None = None
        self._places: dict[str, PagePlace] = {}
        self._number, end = 0, 0
        files = list_logs(folder)
        if files:
            self._number, path = max(files.items())
            found = read_log(path)
            self._places, self.commit, self.plan = found.places, found.commit, found.plan
            end = found.end
        # What a crash has left: logs that were replaced, and incomplete copies.
        old = [path for number, path in files.items() if number < self._number]
        for path in [*old, *folder.glob(f"{PARTIAL}*")]:
            path.unlink()
        self._file = self._open(end)
        self._live = sum(place.size for place in self._places.values())

    def _open(self, end: int) -> BinaryIO:
        path = name_log(self._folder, self._number)
        is_new = not path.exists()
        file = path.open("w+b" if is_new else "r+b", buffering=0)
        if is_new and self._sync == "batch":
            sync(self._folder)
        file.truncate(end)
        file.seek(end)
        self._end = end
        return file

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    @property
    def path(self) -> Path:
        """Return the path of the file: compaction replaces it by another one."""
        return name_log(self._folder, self._number)

    def find_places(self, names: Iterable[str]) -> dict[str, PagePlace | None]:
        """Return the places of pages in the file, for a process that reads them itself; None if there is no page."""
        return {name: self._places.get(name) for name in names}

    def read(self, name: str) -> bytes | None:
        """Return a page of the last committed batch."""
        place = self._places.get(name)
        return None if place is None else os.pread(self._file.fileno(), place.size, place.start)

    def write_plan(self, plan: PlannedBatch) -> None:
        """Record what a batch will process, before it does: a batch that is repeated has the same input."""
        self._append([(_PLAN, "", _encode(plan))])
        self.plan = plan

    def write_commit(self, commit: Commit, changes: Mapping[str, bytes | None]) -> None:
        """Write the pages that a batch has changed, and commit it; None removes a page."""
        records = [
            (_REMOVAL, name, b"") if data is None else (_PAGE, name, data)
            for name, data in changes.items()
        ]
        starts = self._append([*records, (_COMMIT, "", _encode(commit))])
        for (kind, name, data), start in zip(records, starts, strict=False):
            old = self._places.pop(name, None)
            self._live -= 0 if old is None else old.size
            if kind == _PAGE:
                self._places[name] = PagePlace(start, len(data))
                self._live += len(data)
        self.commit, self.plan = commit, None
        if self._end - self._live > max(_GARBAGE_BYTES, self._live):
            with explain_disk(self._folder):
                self._compact()

    def _append(self, records: list[tuple[int, str, bytes]]) -> list[int]:
        """Append records in one write; return where the data of each begins."""
        parts: list[bytes] = []
        starts: list[int] = []
        end = self._end
        for kind, name, data in records:
            written = name.encode()
            parts += [_make_header(kind, written, data), written, data]
            starts.append(end + _HEADER.size + len(written))
            end = starts[-1] + len(data)
        with explain_disk(self._folder):
            try:
                _write_all(self._file, parts)
                if self._sync == "batch":
                    os.fsync(self._file.fileno())
            except OSError:
                with suppress(OSError):  # If this fails too, the next start does it.
                    self._file.truncate(self._end)
                    self._file.seek(self._end)
                raise
        self._end = end
        return starts

    def _compact(self) -> None:
        """Copy the pages in use into a new file, which replaces the old one."""
        assert self.commit is not None
        number = self._number + 1
        places: dict[str, PagePlace] = {}
        end = 0
        new = name_log(self._folder, number)
        with publish_file(new, durable=True) as partial, partial.open("wb") as out:
            for name in self._places:
                data, written = self.read(name) or b"", name.encode()
                out.writelines([_make_header(_PAGE, written, data), written, data])
                places[name] = PagePlace(end + _HEADER.size + len(written), len(data))
                end = sum(places[name])
            data = _encode(self.commit)
            out.writelines([_make_header(_COMMIT, b"", data), data])
            end += _HEADER.size + len(data)
            out.flush()
        old, self._number, self._places = self._number, number, places
        self._file.close()
        self._file = self._open(end)
        sync(self._folder)
        name_log(self._folder, old).unlink()

    def close(self) -> None:
        """Close the file; with "system", its bytes may still be on the way to the disk."""
        self._file.close()


class Recovered(NamedTuple):
    """The contents of a log: the places of its pages, its last commit and plan, and where the next record begins."""

    places: dict[str, PagePlace]
    commit: Commit | None
    plan: PlannedBatch | None
    end: int


def read_log(path: Path) -> Recovered:
    """Read a log up to its last commit, and a plan after it; raise `DamagedStateError` on damage before."""
    with path.open("rb") as file:
        return recover(file, path)


def recover(file: BinaryIO, path: Path) -> Recovered:
    """Read an open log up to its last commit, and a plan after it; `path` names it in errors."""
    size = os.fstat(file.fileno()).st_size
    places: dict[str, PagePlace] = {}
    fresh: dict[str, PagePlace | None] = {}
    commit: Commit | None = None
    plan: PlannedBatch | None = None
    position = end = 0
    while position < size:
        record = _read_record(file, position, size)
        if record is None:
            _refuse_damage(file, path, position, size, plan)
            break
        kind, name, start, data_size, after = record
        if kind == _PAGE:
            fresh[name] = PagePlace(start, data_size)
        elif kind == _REMOVAL:
            fresh[name] = None
        else:
            document = json.loads(os.pread(file.fileno(), data_size, start))
            if kind == _PLAN:
                plan = PlannedBatch(**document)
            else:
                for changed, place in fresh.items():
                    places.pop(changed, None)
                    if place is not None:
                        places[changed] = place
                commit, plan = Commit(**document), None
            fresh, end = {}, after
        position = after
    return Recovered(places, commit, plan, end)


def read_first_commit(path: Path) -> Commit | None:
    """Return the first commit of a log, without reading its pages; None if none is found."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        position = 0
        while size - position >= _HEADER.size:
            head = os.pread(file.fileno(), _HEADER.size, position)
            mark, kind, name_size, data_size, _ = _HEADER.unpack(head)
            if mark != _MARK:
                return None  # Damage, or the tail of a crash: `PageLog` finds out which.
            if kind == _COMMIT:
                record = _read_record(file, position, size)
                if record is None:
                    return None
                return Commit(**json.loads(os.pread(file.fileno(), record[3], record[2])))
            position += _HEADER.size + name_size + data_size
    return None


def _read_record(file: BinaryIO, position: int, size: int) -> tuple[int, str, int, int, int] | None:
    """Return the kind, the name, the place and size of the data, and the next position; None if it is not valid."""
    head = os.pread(file.fileno(), _HEADER.size, position)
    if len(head) < _HEADER.size:
        return None
    mark, kind, name_size, data_size, checksum = _HEADER.unpack(head)
    start = position + _HEADER.size + name_size
    after = start + data_size
    if mark != _MARK or after > size:
        return None
    body = os.pread(file.fileno(), name_size + data_size, position + _HEADER.size)
    if checksum != _add_up(kind, body[:name_size], memoryview(body)[name_size:]):
        return None
    return kind, body[:name_size].decode(), start, data_size, after


def _refuse_damage(
    file: BinaryIO, path: Path, position: int, size: int, plan: PlannedBatch | None
) -> None:
    """Raise if a plan or a commit follows a record that can't be read.

    Only the commit of the last write may, because a loss of power can lose any part of that write: the batch is
    repeated, by its plan.
    """
    rest = os.pread(file.fileno(), size - position, position)
    found = rest.find(_MARK, 1)
    while found >= 0:
        record = _read_record(file, position + found, size)
        if record is not None and record[0] in (_PLAN, _COMMIT):
            kind, _, start, data_size, after = record
            document = json.loads(os.pread(file.fileno(), data_size, start))
            if kind == _COMMIT and after == size and plan and plan.batch == document["batch"]:
                return
            raise DamagedStateError(
                "the log of the state is damaged",
                where=f"{path}, byte {position:,}",
                expected="the record that was written",
                got="bytes with another checksum, before a later record",
                cure="restore a copy of the checkpoint and of its output folder, or start with new folders for "
                "both",
            )
        found = rest.find(_MARK, found + 1)


@contextmanager
def explain_disk(folder: Path) -> Iterator[None]:
    """Raise `PublishingError`, with what could not be written and where, on an `OSError`."""
    try:
        yield
    except OSError as error:
        raise PublishingError(
            "the checkpoint can't be written",
            where=str(folder),
            expected="a folder that this user may write to, on a disk with space for the state",
            got=f"{type(error).__name__}: {error}",
            cure="fix that and start again: the run continues after its last committed batch",
        ) from error


def list_logs(folder: Path) -> dict[int, Path]:
    """Return the logs of a checkpoint by number; there are two only after a crash."""
    names = {path.stem.partition("-")[2]: path for path in folder.glob("pages-*.log")}
    return {int(number): path for number, path in names.items() if number.isdecimal()}


def name_log(folder: Path, number: int) -> Path:
    """Return the path of a log."""
    return folder / f"pages-{number:06}.log"


def check_sync(sync: str) -> None:
    """Raise `InputError` on an unknown policy."""
    if sync not in SYNCS:
        raise InputError(
            f"{sync!r} is not a time at which batches are written to disk",
            expected=f"sync= one of {', '.join(map(repr, SYNCS))}",
            got=repr(sync),
        )


def _encode(record: Commit | PlannedBatch) -> bytes:
    return json.dumps(record._asdict(), separators=(",", ":")).encode()


def _make_header(kind: int, name: bytes, data: bytes) -> bytes:
    return _HEADER.pack(_MARK, kind, len(name), len(data), _add_up(kind, name, data))


def _add_up(kind: int, name: bytes, data: bytes | memoryview) -> int:
    sizes = struct.pack("<BHQ", kind, len(name), len(data))
    return zlib.crc32(data, zlib.crc32(name, zlib.crc32(sizes)))


def _write_all(file: BinaryIO, parts: list[bytes]) -> None:
    """Write parts with as few calls as the system allows, however many bytes each call takes."""
    views = [memoryview(part) for part in parts if part]
    while views:
        written = os.writev(file.fileno(), views[:512])
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if written:
            views[0] = views[0][written:]
