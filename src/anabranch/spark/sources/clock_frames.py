"""A clock as a source: ticks of Spark's rate source, which are the same if a batch is repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.eventtime.clocks import CLOCK, Tick
from anabranch.eventtime.windows.window_types import check_whole
from anabranch.spark.sources.data_frames import Frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Clock(Frame):
    """A source of `Tick`s, one every `every_s` seconds, including the time in which a query was down.

    The time of a tick is in units of `unit_us` microseconds since the epoch, UTC: 1 (default) for
    microseconds, 1_000_000 for seconds. The checkpoint keeps the time of the first tick; later ones are
    counted from it.
    """

    def __init__(
        self,
        *,
        every_s: int = 1,
        unit_us: int = 1,
        channel: str = CLOCK,
        spark: SparkSession | None = None,
    ) -> None:
        from anabranch.spark.session.current_session import find_session

        check_whole("every_s of Clock", every_s, least=1)
        check_whole("unit_us of Clock", unit_us, least=1)
        session = find_session((), spark)
        rate = session.readStream.format("rate").option("rowsPerSecond", 1).load()
        ticks = rate.where(f"value % {every_s} = 0").selectExpr(
            f"unix_micros(timestamp) div {unit_us} as time",
            f"value div {every_s} as seq",
        )
        super().__init__(ticks, channel=channel, event=Tick, seq="seq", unique_times=True)
