"""Micro-batches: what every contender on Spark shares, so that none has a setting of its own.

Two cores, two partitions, state in RocksDB with a changelog, one file of each channel per batch (four, of
those whom that makes faster), results written as Parquet. Steady is batches 2 to n: the first one warms Spark up.
"""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from protocol import Task, tell

from anabranch.spark.session.startup import start_session

SCHEMAS = {
    "readings": "time long, key long, value double, seq long",
    "asks": "time long, key long, seq long, heartbeat long",
    "values": "time long, value long, seq long",
    "barriers": "time long, seq long",
    "views": "time long, page long, seq long",
    "updates": "time long, page long, version long, seq long",
    "bids": "time long, auction long, price long, seq long",
}
DRIVER_MEMORY = "4g"


def open_session() -> Any:
    """Start Spark, and let it do something, so that a start is a start."""
    spark = start_session(name="bench", ui=False, **{"spark.driver.memory": DRIVER_MEMORY})
    spark.range(1).count()
    return spark


def read_channel(spark: Any, task: Task, channel: str) -> Any:
    """Return a channel as a stream that brings its slices batch by batch."""
    reader = spark.readStream.schema(SCHEMAS[channel.partition("-")[0]])
    reader = reader.option("maxFilesPerTrigger", task.per_batch)
    return reader.parquet(str(task.folder / "parquet" / channel))


class Clock:
    """What is noted while a query runs: when it started, and when its first batch was there."""

    def __init__(self, task: Task, ready: float) -> None:
        self.task = task
        self.ready = ready
        self.started = time.time()
        self.first: float | None = None

    def note(self) -> None:
        """Note that a batch has been published."""
        if self.first is None:
            self.first = time.time()

    def tell(self, query: Any, *, partial: bool, total_s: float | None = None) -> None:
        """Print the figures of the batches so far."""
        batches = self.task.batches
        durations = list_durations(query)
        if partial and len(durations) < 2:
            return
        if not partial and len(durations) != len(batches):
            # Then it is unknown which rows a batch had.
            tell(
                self.task,
                total_s=total_s or 0,
                ready=self.ready,
                first=self.first,
                batches_s=durations,
            )
            return
        tell(
            self.task,
            total_s=time.time() - self.started if total_s is None else total_s,
            steady_s=sum(durations[1:]) or None,
            steady_events=sum(batches[1 : len(durations)]) or None,
            ready=self.ready,
            first=self.first,
            partial=partial,
            batches_s=durations,
        )


def list_durations(query: Any) -> list[float]:
    """Return how long each batch took, in seconds; one without input emits what the one before closed."""
    found: list[float] = []
    for progress in query.recentProgress:
        fields = progress if isinstance(progress, dict) else json.loads(progress.json)
        duration_s = fields["batchDuration"] / 1000
        if fields["numInputRows"] > 0:
            found.append(duration_s)
        elif found:
            found[-1] += duration_s
    return found


def follow(clock: Clock, query: Any) -> None:
    """Wait for the end of a query, and print what is known on the way."""
    done = threading.Event()

    def report() -> None:
        while not done.wait(5):
            clock.tell(query, partial=True)

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    query.awaitTermination()
    total_s = time.time() - clock.started
    done.set()
    reporter.join()
    clock.tell(query, partial=False, total_s=total_s)


def run_query(
    clock: Clock, result: Any, mode: str, take: Callable[[Any, int], None] | None = None
) -> None:
    """Run a query to the end of its input; each batch is written as Parquet, unless `take` does it."""
    task = clock.task

    def write(frame: Any, batch: int) -> None:
        if take is None:
            frame.write.parquet(str(task.scratch / "emitted" / f"batch={batch}"))
        else:
            take(frame, batch)
        clock.note()

    query = (
        result.writeStream.outputMode(mode)
        .trigger(availableNow=True)
        .option("checkpointLocation", str(task.scratch / "checkpoint"))
        .foreachBatch(write)
        .start()
    )
    follow(clock, query)


def read_emitted(spark: Any, task: Task) -> Any:
    """Return everything that was written, with the number of its batch."""
    return spark.read.parquet(str(task.scratch / "emitted")).toPandas()
