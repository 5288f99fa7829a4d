"""Windows on Spark alone: its own, and in panes of the user's with either operator that keeps state.

The watermark is the time of the last bid: the slices of a batch are complete. All three say a window in
the batch after the one whose watermark passed it.
"""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from panes import Closed, Hop, Panes, add, begin, close, find_last
from pyspark.sql import functions as F  # noqa: N812 - as everywhere with PySpark
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

SCHEMA = "key long, end long, total long, seen long"


def set_watermark(rows: Any) -> Any:
    """Return a stream with its time as Spark wants it."""
    timed = rows.withColumn("moment", F.timestamp_millis("time"))
    return timed.withWatermark("moment", "0 seconds")


def run_native(rows: Any, hop: Hop) -> Any:
    """Use Spark's own windows."""
    window = F.window("moment", f"{hop.size} milliseconds", f"{hop.every} milliseconds")
    folded = (
        set_watermark(rows)
        .groupBy(window, "key")
        .agg(F.sum("value").alias("total"), F.count(F.lit(1)).alias("seen"))
    )
    return folded.select("key", F.unix_millis("window.end").alias("end"), "total", "seen")


def run_processor(rows: Any, hop: Hop) -> Any:
    """Use panes in transformWithStateInPandas."""
    grouped = set_watermark(rows).groupBy("key")
    return grouped.transformWithStateInPandas(HopFrames(hop), SCHEMA, "append", "EventTime")


def run_groups(rows: Any, hop: Hop) -> Any:
    """Use panes in applyInPandasWithState."""

    def hop_group(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        kept = state.get[0] if state.exists else None
        arrived = [] if state.hasTimedOut else list(frames)
        panes, closed = advance(hop, kept, arrived, state.getCurrentWatermarkMs())
        last = find_last(panes, hop)
        if last is None:
            state.remove()
        else:
            state.update((pickle.dumps(panes),))
            state.setTimeoutTimestamp(last)
        yield describe(key[0], closed)

    grouped = set_watermark(rows).groupBy("key")
    return grouped.applyInPandasWithState(
        hop_group, SCHEMA, "data binary", "append", "EventTimeTimeout"
    )


WINDOWS = {"native": run_native, "tws-pandas": run_processor, "aipws": run_groups}


def advance(
    hop: Hop, kept: bytes | None, frames: list[pd.DataFrame], watermark: int
) -> tuple[Panes, Closed]:
    """Take in the bids of a key; say the windows that the watermark has passed."""
    panes: Panes = pickle.loads(kept) if kept else begin(1)  # noqa: S301 - our own state
    if frames:
        rows = pd.concat(frames)
        panes = add(panes, hop, rows["time"].to_numpy(), 0, rows["value"].to_numpy())
    return close(panes, hop, watermark)


def describe(key: int, closed: Closed) -> pd.DataFrame:
    """Return what the windows of a key say, as rows."""
    return pd.DataFrame(closed._replace(key=np.full(len(closed.end), key))._asdict())


class HopFrames(StatefulProcessor):
    """Emit windows when bids come; a timer emits those of a key that has gone quiet."""

    def __init__(self, hop: Hop) -> None:
        self.hop = hop

    def init(self, handle: Any) -> None:
        """Find the state: the panes, and when the timer goes off."""
        self.handle = handle
        self.state = handle.getValueState("state", "data binary, timer long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803 - Spark's names
        """Take in the frames of a key."""
        yield self.advance(key, list(rows), timerValues)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: N803 - Spark's name
        expiredTimerInfo: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Say what is left of a key."""
        yield self.advance(key, [], timerValues)

    def advance(self, key: Any, frames: list[pd.DataFrame], timer_values: Any) -> pd.DataFrame:
        """Say what is complete, and move the timer to the end of the last window."""
        kept, timer = self.state.get() or (None, None)
        panes, closed = advance(self.hop, kept, frames, timer_values.getCurrentWatermarkInMs())
        last = find_last(panes, self.hop)
        if timer is not None and timer != last and frames:
            self.handle.deleteTimer(timer)
        if last is None:
            self.state.clear()
        else:
            self.state.update((pickle.dumps(panes), last))
            self.handle.registerTimer(last)
        return describe(key[0], closed)

    def close(self) -> None:
        """Have nothing to close."""
