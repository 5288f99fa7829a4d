"""The fused source: all folders of a run as one source of Spark's, which brings envelopes.

Spark asks it what is new, and for tasks; each task reads its files with Arrow and sends them to the shards
as columns. No row is ever built in between.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from anabranch.model.events import field_types
from anabranch.spark.columnar.intake import take_in_columns
from anabranch.spark.envelopes import SCHEMA, make_batch
from anabranch.spark.files import (
    ROW,
    Files,
    Found,
    Taken,
    check_taken,
    list_batch,
    list_files,
    read_file,
)
from anabranch.spark.intake import Reading, take_in
from anabranch.spark.raw import FAULT, LINE, read_batch
from anabranch.spark.shards import Job

if TYPE_CHECKING:
    import pyarrow as pa


_TYPES = {int: "int64", float: "float64", bool: "bool", str: "string"}


@dataclass(frozen=True)
class Folder:
    """A folder of a run, and how its rows are read."""

    files: Files
    reading: Reading


def make_source(job: Job, folders: list[Folder], tasks: int, name: str) -> type[DataSource]:
    """Return the source of these folders; Spark knows a source by its class."""

    class FusedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
            return FusedReader(job, folders, tasks)

    return FusedSource


class _Part(InputPartition):
    """The files that one task reads, by folder."""

    def __init__(self, files: dict[int, list[Found]]) -> None:
        super().__init__(files)
        self.files = files


class FusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches of files on the driver, and reads them in tasks."""

    def __init__(self, job: Job, folders: list[Folder], tasks: int) -> None:
        self._job = job
        self._folders = folders
        self._tasks = tasks
        self._checked = False
        self._until: list[str] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Begin before the first file."""
        return _write([Taken() for _ in self._folders])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember what there is now: nothing beyond it will be read."""
        names = [list_files(folder.files, Taken()) for folder in self._folders]
        self._until = [found[-1].name if found else "" for found in names]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the next files of each folder, as many as a batch takes."""
        taken = _read(start)
        if not self._checked:
            for folder, so_far in zip(self._folders, taken, strict=True):
                check_taken(folder.files, so_far)
            self._checked = True
        until: list[str | None] = [None] * len(taken)
        if self._until is not None:
            until = list(self._until)
        return _write(
            [
                so_far.after(list_files(folder.files, so_far, last)[: folder.files.files_per_batch])
                for folder, so_far, last in zip(self._folders, taken, until, strict=True)
            ]
        )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Deal a batch's files out to tasks, the largest first."""
        pairs = zip(self._folders, _read(start), _read(end), strict=True)
        files = [
            (found, place)
            for place, (folder, a, b) in enumerate(pairs)
            for found in list_batch(folder.files, a, b)
        ]
        files.sort(key=lambda pair: (-pair[0].size, pair[1], pair[0].number))
        loads = [(0, task) for task in range(min(self._tasks, len(files)))]
        dealt: list[dict[int, list[Found]]] = [{} for _ in loads]
        for found, place in files:
            load, task = heapq.heappop(loads)
            dealt[task].setdefault(place, []).append(found)
            heapq.heappush(loads, (load + found.size, task))
        return [_Part(part) for part in dealt]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's files into envelopes."""
        assert isinstance(partition, _Part)
        for place, files in partition.files.items():
            folder = self._folders[place]
            wanted = _list_columns(self._job, folder.reading)
            # Files of one folder need not have the same columns.
            alike: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
            for found in sorted(files, key=lambda found: found.number):
                for batch in read_file(folder.files, found, wanted):
                    columns = tuple(f"{field.name} {field.type}" for field in batch.schema)
                    alike.setdefault(columns, []).append(batch)
            for batches in alike.values():
                reading = _complete(folder.reading, batches[0].schema.names)
                yield _take_in(self._job, reading, batches)


def _take_in(job: Job, reading: Reading, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if job.columns is not None:
        return make_batch(take_in_columns(job, reading, batches))
    rows = (row for batch in batches for row in read_batch(batch))
    return make_batch(take_in(job, reading, rows))


def _complete(reading: Reading, columns: list[str]) -> Reading:
    """Return how rows are read, with what the reader of their file added to them."""
    numbered = reading if reading.seq is not None else replace(reading, seq=ROW)
    # Where some line is no row, each is looked at by itself.
    if FAULT in columns:
        return replace(numbered, line_column=LINE, reason_column=FAULT)
    return replace(numbered, json_column=LINE) if LINE in columns else numbered


def _list_columns(job: Job, reading: Reading) -> dict[str, str]:
    """Return the columns that are read, and the type of each; no type if there is no telling."""
    found: dict[str, str] = {}
    for tag in job.program.tags:
        for name, kind in field_types(tag).items():
            column = reading.time if name == "time" else name
            mine = _TYPES.get(kind, "")
            found[column] = mine if found.setdefault(column, mine) == mine else ""
    others = {
        reading.seq: "int64",
        reading.heartbeat: "int64",
        reading.tag_column: "string",
        reading.source_column: "string",
    }
    return found | {column: kind for column, kind in others.items() if column is not None}


def _write(taken: list[Taken]) -> dict[str, Any]:
    return {str(place): so_far._asdict() for place, so_far in enumerate(taken)}


def _read(offset: dict[str, Any]) -> list[Taken]:
    return [Taken(**offset[str(place)]) for place in range(len(offset))]
