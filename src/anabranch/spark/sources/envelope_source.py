"""The envelope source: all folders of a run as one Spark data source, whose rows are envelopes.

Spark asks it for the next offset and for partitions. Each task reads its files with Arrow and sends them to
the shards as columns, without building rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from anabranch.microbatch.columns.allocator import keep_freed
from anabranch.microbatch.exchange.envelopes import SCHEMA, make_batch
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

if TYPE_CHECKING:
    import pyarrow as pa


def make_source(job: Job, tasks: int, name: str) -> type[DataSource]:
    """Return the data source of a job's folders, as a class, because Spark registers classes."""

    class FusedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
            return FusedReader(job, tasks)

        def reader(self, schema: StructType) -> DataSourceReader:
            return BatchReader(job, tasks)

    return FusedSource


class _FilePart(InputPartition):
    """The files that one task reads, by folder, and the look-ahead of the batch."""

    def __init__(self, files: dict[int, list[Found]], look_ahead: LookAheadResult | None) -> None:
        super().__init__(files)
        self.files = files
        self.look_ahead = look_ahead


class FusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches of files on the driver, and reads them in tasks."""

    def __init__(self, job: Job, tasks: int) -> None:
        self._job = job
        self._folders = job.folders
        self._tasks = tasks
        self._checked = False
        self._until: list[str] | None = None
        self._latest: dict[str, dict[str, Any]] = {}
        self._look_ahead_reader = LookAheadReader(job) if can_look_ahead(job) else None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the first file."""
        return self._write([Taken() for _ in self._folders], LookAheadState({}))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note the last file of each folder; later ones are not read."""
        names = [list_names(folder.files) for folder in self._folders]
        self._until = [found[-1] if found else "" for found in names]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offset after the next files of each folder, at most `files_per_batch`."""
        taken, seen_ahead = self._read(start)
        if not self._checked:
            for folder, so_far in zip(self._folders, taken, strict=True):
                check_taken(folder.files, so_far)
            self._checked = True
        until: list[str | None] = [None] * len(taken)
        if self._until is not None:
            until = list(self._until)
        files = {}
        for place, folder in enumerate(self._folders):
            names = list_names(folder.files)
            most = folder.files.files_per_batch
            files[place] = list_files(folder.files, taken[place], until[place], most, names=names)
            self._latest[str(place)] = {"files": len(names), "last": names[-1] if names else ""}
        if self._look_ahead_reader is not None:
            seen_ahead = self._look_ahead_reader.advance(seen_ahead, files)
        return self._write([so_far.after(files[n]) for n, so_far in enumerate(taken)], seen_ahead)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the number of files at the last listing of the folders, for Spark's progress."""
        return self._latest or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Distribute the files of a batch to tasks, the largest first."""
        (before, known), (after, seen_ahead) = self._read(start), self._read(end)
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
        return [_FilePart(part, look_ahead) for part in dealt]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's files into envelopes."""
        assert isinstance(partition, _FilePart)
        keep_freed()
        shards = self._job.layout.shards
        gathering = None
        if partition.look_ahead is not None:
            gathering = begin_gathering(self._job, partition.look_ahead.look_ahead)
        for place, files in partition.files.items():
            folder = self._folders[place]
            if partition.look_ahead is not None and is_foldable(self._job, folder):
                for found in files:
                    folded = fold_file(self._job, place, found, partition.look_ahead, gathering)
                    yield make_batch(folded, shards)
                continue
            for batches in read_rows(self._job, folder, files):
                yield make_batch(take_in_rows(self._job, folder, batches), shards)
        if gathering is not None:
            yield make_batch(gathering.send(), shards)

    def _write(self, taken: list[Taken], seen_ahead: LookAheadState) -> dict[str, Any]:
        return write_offset(self._folders, taken, seen_ahead)

    def _read(self, offset: dict[str, Any]) -> tuple[list[Taken], LookAheadState]:
        return read_offset(self._folders, offset)


class BatchReader(DataSourceReader):
    """Reads all files of folders that have ended, as one batch."""

    def __init__(self, job: Job, tasks: int) -> None:
        self._job = job
        self._inner = FusedReader(job, tasks)

    def partitions(self) -> list[InputPartition]:
        """Distribute all files to tasks."""
        files = [list_files(folder.files, Taken()) for folder in self._job.folders]
        end = write_offset(
            self._job.folders, [Taken().after(found) for found in files], LookAheadState({})
        )
        return self._inner.partitions(self._inner.initialOffset(), end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's files into envelopes."""
        return self._inner.read(partition)


def write_offset(
    folders: Sequence[Folder], taken: Sequence[Taken], seen_ahead: LookAheadState
) -> dict[str, Any]:
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
