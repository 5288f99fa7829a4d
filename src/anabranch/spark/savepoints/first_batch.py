"""The seeding batch on Spark: the first batch of a query that continues from a savepoint.

The input of this batch is the savepoint: tasks read its tables and distribute them to the shards, which write
them into Spark's state. Then the offsets of the batch are replaced by those of the savepoint, and the query
continues from there, with the shards and partitions of this batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from anabranch.microbatch.exchange.envelopes import SCHEMA, make_batch
from anabranch.microbatch.savepoints.seeds import Seed

if TYPE_CHECKING:
    import pyarrow as pa


def make_seeding_source(seed: Seed, name: str) -> type[DataSource]:
    """Return the data source of a seeding batch, as a class, because Spark registers classes."""

    class SeedingSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
            return SeedingReader(seed)

    return SeedingSource


class _SeedPart(InputPartition):
    """One table of the state, or None for everything else."""

    def __init__(self, table: str | None) -> None:
        super().__init__(table)
        self.table = table


class SeedingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a savepoint as a stream of one batch."""

    def __init__(self, seed: Seed) -> None:
        self._seed = seed

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the savepoint."""
        return {"seeded": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: there is only one batch."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offset after the savepoint."""
        return {"seeded": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return a partition for each part of the savepoint."""
        return [_SeedPart(part) for part in self._seed.parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the envelopes of a task's part of the savepoint."""
        assert isinstance(partition, _SeedPart)
        shards = self._seed.job.layout.shards
        for envelope in self._seed.deal(partition.table):
            yield make_batch([envelope], shards)
