"""On Spark, from its socket channel: `anabranch` from frames, and `tws`, transformWithStateInPandas."""

import pickle
import time
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from answers import Task, keep, read_task, wait_for_end
from merging import advance, begin, sort_chunk
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from anabranch.spark import Frame, for_each_batch, run
from anabranch.spark.session.startup import start_session
from bench.latency.producer import CHANNELS
from bench.peers.programs import value_barrier

Emitted = list[tuple[int, int, float]]


def read_socket(spark: Any, port: int) -> Any:
    """Return a channel as a frame in one part: Spark deals the lines of a socket out to several."""
    lines = spark.readStream.format("socket").options(host="127.0.0.1", port=port).load()
    parts = [
        f"CAST(split(value, ',')[{i}] AS LONG) AS {n}"
        for i, n in enumerate(("time", "seq", "value"))
    ]
    return lines.selectExpr(*parts).coalesce(1)


class Barriers(StatefulProcessor):
    """Merge the three channels with a watermark."""

    def init(self, handle: Any) -> None:
        """Find the state."""
        self.state = handle.getValueState("state", "data binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803 - Spark's names
        """Take in a batch."""
        merge = pickle.loads(self.state.get()[0]) if self.state.exists() else begin()  # noqa: S301 - our own state
        frame = pd.concat(rows)
        channel, when, value = (frame[name].to_numpy() for name in ("channel", "time", "value"))
        parts = [
            (int(s), sort_chunk(when[channel == s], value[channel == s]))
            for s in np.unique(channel)
        ]
        merge, closed = advance(merge, parts)
        self.state.update((pickle.dumps(merge),))
        yield pd.DataFrame([(c.time, c.total) for c in closed], columns=["time", "total"]).astype(
            "int64"
        )

    def close(self) -> None:
        """Have nothing to close."""


def start_anabranch(spark: Any, task: Task, emitted: Emitted) -> Any:
    """Start the program of W2."""
    sources = [
        Frame(
            read_socket(spark, port),
            channel=name,
            event="Barrier" if name == "barriers" else "Value",
            seq="seq",
            unique_times=True,
        )
        for name, port in zip(CHANNELS, task.ports, strict=True)
    ]

    def take(batch: Any, number: int) -> None:
        rows = batch.outputs.select("time", "value").collect()
        emitted.extend((row.time, row.value, time.time()) for row in rows)

    trigger = {"processingTime": "0 seconds"}
    return for_each_batch(
        run(value_barrier, sources, shards=1),
        take,
        checkpoint=task.scratch / "checkpoint",
        trigger=trigger,
    )


def start_tws(spark: Any, task: Task, emitted: Emitted) -> Any:
    """Start the same with Spark alone."""
    frames = [
        read_socket(spark, port).selectExpr("time", "value", f"{number} AS channel", "0 AS key")
        for number, port in enumerate(task.ports)
    ]
    rows = reduce(lambda a, b: a.unionByName(b), frames).groupBy("key")
    result = rows.transformWithStateInPandas(Barriers(), "time long, total long", "append", "None")

    def take(frame: Any, batch: int) -> None:
        found = frame.collect()
        emitted.extend((row.time, row.total, time.time()) for row in found)

    writer = result.writeStream.option("checkpointLocation", str(task.scratch / "checkpoint"))
    return writer.foreachBatch(take).start()


def main() -> None:
    """Run until the producer has ended."""
    task = read_task()
    spark = start_session(name="latency", ui=False, **{"spark.driver.memory": "4g"})
    emitted: Emitted = []
    query = (start_anabranch if task.how == "anabranch" else start_tws)(spark, task, emitted)
    wait_for_end(task)
    query.stop()
    keep(task, emitted)
    spark.stop()


if __name__ == "__main__":
    main()
