"""A clock as a feed: ticks of Spark's rate source, which are the same when a batch is repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.eventtime.clocks import CLOCK, Tick
from anabranch.eventtime.windows.window_types import check_whole
from anabranch.spark.sources.feeds import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def feed_clock(
    spark: SparkSession, *, every_s: int = 1, unit_us: int = 1, name: str = CLOCK
) -> Feed:
    """Return a feed of `Tick`s, one every `every_s` seconds, also for the time that a query was down.

    Times are microseconds UTC, or whole numbers of `unit_us` microseconds: 1_000_000 for seconds. When
    the first tick was is kept in the checkpoint, and each later one is counted from it.
    """
    check_whole("every_s of feed_clock", every_s, least=1)
    check_whole("unit_us of feed_clock", unit_us, least=1)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    ticks = rate.where(f"value % {every_s} = 0").selectExpr(
        f"unix_micros(timestamp) div {unit_us} as time",
        f"value div {every_s} as seq",
    )
    return Feed(ticks, name, tag=Tick, seq="seq", strict=True)
