"""Partitions: how many tasks Spark makes of an operator. More than there are shards would be idle ones.

A checkpoint keeps the number that it was begun with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting: how many tasks share the shards."""


def check_partitions(partitions: int | None) -> None:
    """Refuse a number of partitions that is none."""
    if partitions is not None and partitions < 1:
        raise InputError(
            "--partitions is not a number of partitions", expected="1 or more", got=str(partitions)
        )


@contextmanager
def spare_partitions(spark: SparkSession, shards: int | None) -> Iterator[None]:
    """Let a query that is started here have no more partitions than shards.

    An idle one costs as much as any other: two Python processes, a load of its state and a commit.
    """
    usual = int(str(spark.conf.get(PARTITIONS)))
    with set_partitions(spark, shards if shards is not None and shards < usual else None):
        yield


@contextmanager
def set_partitions(spark: SparkSession, partitions: int | None) -> Iterator[None]:
    """Let queries that are started here have so many partitions; None leaves it as it is."""
    before = spark.conf.get(PARTITIONS)
    if partitions is not None:
        spark.conf.set(PARTITIONS, str(partitions))
    try:
        yield
    finally:
        if partitions is not None:
            spark.conf.set(PARTITIONS, str(before))
