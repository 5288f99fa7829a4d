"""Partitions: the number of tasks that Spark makes of an operator. More partitions than shards would be idle.

A checkpoint keeps the number of partitions that it was created with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting of the number of partitions, over which the shards are spread."""


def check_partitions(partitions: int | None) -> None:
    """Raise `InputError` if the number of partitions is below 1."""
    if partitions is not None and partitions < 1:
        raise InputError(
            "--partitions is not a number of partitions", expected="1 or more", got=str(partitions)
        )


@contextmanager
def spare_partitions(spark: SparkSession, shards: int | None) -> Iterator[None]:
    """Limit the partitions of a query that is started in this context to the number of shards.

    An idle partition costs as much as any other: two Python processes, a load of its state and a commit.
    """
    usual = int(str(spark.conf.get(PARTITIONS)))
    with set_partitions(spark, shards if shards is not None and shards < usual else None):
        yield


@contextmanager
def set_partitions(spark: SparkSession, partitions: int | None) -> Iterator[None]:
    """Set the partitions of queries that are started in this context; None keeps the session's number."""
    before = spark.conf.get(PARTITIONS)
    if partitions is not None:
        spark.conf.set(PARTITIONS, str(partitions))
    try:
        yield
    finally:
        if partitions is not None:
            spark.conf.set(PARTITIONS, str(before))
