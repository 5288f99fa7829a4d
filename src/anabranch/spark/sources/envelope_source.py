"""The envelope source: all folders of a run as one Spark data source, whose rows are envelopes.

Spark asks it for the next offset and for partitions. Each task reads its files with Arrow and sends them to
the shards as columns, without building rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from anabranch.microbatch.exchange.envelopes import SCHEMA, make_batch
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.file_batches import FileBatches, FilePart, Offset, read_part

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


class _Partition(InputPartition):
    """The part of a batch that one task reads."""

    def __init__(self, part: FilePart) -> None:
        super().__init__(part.files)
        self.part = part


class FusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches of files on the driver, and reads them in tasks."""

    def __init__(self, job: Job, tasks: int) -> None:
        self._job = job
        self._batches = FileBatches(job, tasks)
        self._until: list[str] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset before the first file."""
        return self._batches.begin()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note the last file of each folder; later ones are not read."""
        self._until = self._batches.find_last()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset after the next files of each folder, at most `files_per_batch`."""
        return self._batches.advance(start, self._until)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the number of files at the last listing of the folders, for Spark's progress."""
        return self._batches.listed or None

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Distribute the files of a batch to tasks."""
        return [_Partition(part) for part in self._batches.divide(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's files into envelopes."""
        return _read(self._job, partition)


class BatchReader(DataSourceReader):
    """Reads all files of folders that have ended, as one batch."""

    def __init__(self, job: Job, tasks: int) -> None:
        self._job = job
        self._batches = FileBatches(job, tasks)

    def partitions(self) -> list[InputPartition]:
        """Distribute all files to tasks."""
        start = self._batches.begin()
        end = self._batches.advance(start, whole=True)
        return [_Partition(part) for part in self._batches.divide(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's files into envelopes."""
        return _read(self._job, partition)


def _read(job: Job, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, _Partition)
    for envelopes in read_part(job, partition.part):
        yield make_batch(envelopes, job.layout.shards)
