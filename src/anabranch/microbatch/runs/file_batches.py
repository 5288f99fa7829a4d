"""Batches of files: the driver divides the files of a run into batches and tasks, and tasks read their files.

An offset records how far each folder has been read. A batch is everything between two offsets, so that it can be
repeated with the same files.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.microbatch.columns.allocator import keep_freed
from anabranch.microbatch.ingest.early_folds import begin_gathering, fold_file, is_foldable
from anabranch.microbatch.ingest.file_rows import Folder, read_rows, take_in_rows
from anabranch.microbatch.ingest.look_ahead import (
    SEEN_AHEAD,
    LookAheadReader,
    LookAheadResult,
    LookAheadState,
    can_look_ahead,
)
from anabranch.microbatch.job.job import Job
from anabranch.sources.files import Found, Taken, check_taken, list_batch, list_files, list_names

Offset = dict[str, Any]
"""How far each folder has been read, as JSON can encode it."""

Envelopes = Iterator[tuple[int, str, bytes]]
"""The number of a shard, the kind of the envelope, and its payload."""


@dataclass(frozen=True)
class FilePart:
    """The files that one task reads, by folder, and the look-ahead of the batch."""

    files: dict[int, list[Found]]
    look_ahead: LookAheadResult | None


class FileBatches:
    """Plans batches of a job's files on the driver, each for up to `tasks` tasks."""

    def __init__(self, job: Job, tasks: int) -> None:
        self._job = job
        self._folders = job.folders
        self._tasks = tasks
        self._checked = False
        self._look_ahead_reader = LookAheadReader(job) if can_look_ahead(job) else None
        self.listed: dict[str, dict[str, Any]] = {}
        """The number of files at the last listing of each folder, and the last name, for progress."""

    def begin(self) -> Offset:
        """Return the offset before the first file."""
        return write_offset(self._folders, [Taken() for _ in self._folders], LookAheadState({}))

    def find_last(self) -> list[str]:
        """Return the name of the last file of each folder now."""
        names = [list_names(folder.files) for folder in self._folders]
        return [found[-1] if found else "" for found in names]

    def advance(
        self, start: Offset, until: Sequence[str] | None = None, *, whole: bool = False
    ) -> Offset:
        """Return the offset after the next files of each folder: at most `files_per_batch`, none after `until`.

        With `whole`, it is the offset after all files.
        """
        taken, seen_ahead = read_offset(self._folders, start)
        if not self._checked:
            for folder, so_far in zip(self._folders, taken, strict=True):
                check_taken(folder.files, so_far)
            self._checked = True
        ends: Sequence[str | None] = [None] * len(taken) if until is None else until
        files = {}
        for place, folder in enumerate(self._folders):
            names = list_names(folder.files)
            most = None if whole else folder.files.files_per_batch
            files[place] = list_files(folder.files, taken[place], ends[place], most, names=names)
            self.listed[str(place)] = {"files": len(names), "last": names[-1] if names else ""}
        if self._look_ahead_reader is not None and not whole:
            seen_ahead = self._look_ahead_reader.advance(seen_ahead, files)
        after = [so_far.after(files[n]) for n, so_far in enumerate(taken)]
        return write_offset(self._folders, after, seen_ahead)

    def divide(self, start: Offset, end: Offset) -> list[FilePart]:
        """Distribute the files of a batch to tasks, the largest first."""
        before, known = read_offset(self._folders, start)
        after, seen_ahead = read_offset(self._folders, end)
        files = {
            place: list_batch(folder.files, a, b)
            for place, (folder, a, b) in enumerate(zip(self._folders, before, after, strict=True))
        }
        look_ahead = None
        if self._look_ahead_reader is not None:
            look_ahead = self._look_ahead_reader.look_ahead(known, seen_ahead, files)
        lined = [(found, place) for place in files for found in files[place]]
        lined.sort(key=lambda pair: (-pair[0].size, pair[1], pair[0].number))
        loads = [(0, task) for task in range(min(self._tasks, len(lined)))]
        dealt: list[dict[int, list[Found]]] = [{} for _ in loads]
        for found, place in lined:
            load, task = heapq.heappop(loads)
            dealt[task].setdefault(place, []).append(found)
            heapq.heappush(loads, (load + found.size, task))
        return [FilePart(part, look_ahead) for part in dealt]


def read_part(job: Job, part: FilePart) -> Iterator[Envelopes]:
    """Yield the envelopes of a task's files, a group at a time."""
    keep_freed()
    gathering = None
    if part.look_ahead is not None:
        gathering = begin_gathering(job, part.look_ahead.look_ahead)
    for place, files in part.files.items():
        folder = job.folders[place]
        if part.look_ahead is not None and is_foldable(job, folder):
            for found in files:
                yield iter(fold_file(job, place, found, part.look_ahead, gathering))
            continue
        for batches in read_rows(job, folder, files):
            yield take_in_rows(job, folder, batches)
    if gathering is not None:
        yield iter(gathering.send())


def write_offset(
    folders: Sequence[Folder], taken: Sequence[Taken], seen_ahead: LookAheadState
) -> Offset:
    """Return the offset of folders, which JSON can encode: how far each has been read."""
    files = {str(place): so_far._asdict() for place, so_far in enumerate(taken)}
    names = [list(folder.known_by) for folder in folders]
    return {**files, "names": names, SEEN_AHEAD: seen_ahead.write()}


def read_offset(
    folders: Sequence[Folder], offset: Mapping[str, Any]
) -> tuple[list[Taken], LookAheadState]:
    """Return how far each folder has been read. A folder is found by its channels; a new one begins."""
    seen_ahead = LookAheadState.read(offset[SEEN_AHEAD])
    read = [Taken(**offset[place]) for place in sorted(filter(str.isdecimal, offset), key=int)]
    names = offset.get("names")
    if names is None or len(folders) == len(read) == 1:
        # An earlier build found folders by their position.
        return read + [Taken()] * (len(folders) - len(read)), seen_ahead
    known = {name: so_far for found, so_far in zip(names, read, strict=True) for name in found}
    taken = [
        next((known[name] for name in folder.known_by if name in known), Taken())
        for folder in folders
    ]
    return taken, seen_ahead
