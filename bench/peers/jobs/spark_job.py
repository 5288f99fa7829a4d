"""Spark alone: `native` operators, `transformWithState` in its two forms, `applyInPandasWithState`, `nothing`.

Values and barriers, and page views, have no streaming operator in Spark: `native` does them with SQL
window functions in `foreachBatch`, and carries on the driver what a batch leaves open. That is right
because all channels of a slice come in one batch, and it is lost on a restart.
"""

import pickle
import time
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from batches import Clock, open_session, read_channel, read_emitted, run_query
from merging import Merge, advance, begin, sort_chunk
from panes import Hop
from protocol import Task, keep_answer, keep_pages, keep_sampled, read_task
from pyspark.sql import Row, Window
from pyspark.sql import functions as F  # noqa: N812 - as everywhere with PySpark
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from spark_windows import WINDOWS

ALPHA = 0.1
FOLD_SCHEMA, FOLD_STATE = "key long, top double, seen long", "top double, seen long"
EWMA_SCHEMA, EWMA_STATE = "key long, average double", "average double"
CLOSED_SCHEMA = "key long, time long, version long, total long"
SMALLEST = float("-inf")


def fold_values(state: Any, values: Any) -> tuple[float, int]:
    """Return the largest value and the count after some values."""
    top, seen = state or (SMALLEST, 0)
    return max(top, float(values.max())), seen + len(values)


def smooth_values(state: Any, times: Any, values: Any) -> tuple[float]:
    """Return the moving average after some values, taken by time."""
    average = state[0] if state else None
    for value in values[np.argsort(times)].tolist():
        average = value if average is None else ALPHA * value + (1 - ALPHA) * average
    return (average,)


def merge_rows(merge: Merge, frames: list[pd.DataFrame]) -> tuple[Merge, pd.DataFrame]:
    """Take in the rows of a key; return the segments that were closed."""
    rows = pd.concat(frames)
    channel, time_, value = (rows[name].to_numpy() for name in ("channel", "time", "value"))
    parts = [
        (int(s), sort_chunk(time_[channel == s], value[channel == s])) for s in np.unique(channel)
    ]
    merge, closed = advance(merge, parts)
    return merge, pd.DataFrame(closed, columns=["time", "version", "total"]).astype("int64")


class PandasProcessor(StatefulProcessor):
    """What the processors of the pandas form share: one value of state per key."""

    schema = ""

    def init(self, handle: Any) -> None:
        """Find the state."""
        self.state = handle.getValueState("state", self.schema)

    def close(self) -> None:
        """Have nothing to close."""


class FoldFrames(PandasProcessor):
    schema = FOLD_STATE

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803 - Spark's names
        """Fold the frames of a key."""
        state = self.state.get()
        for frame in rows:
            state = fold_values(state, frame["value"].to_numpy())
        self.state.update(state)
        yield pd.DataFrame([(key[0], *state)], columns=["key", "top", "seen"])


class SmoothFrames(PandasProcessor):
    schema = EWMA_STATE

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803 - Spark's names
        """Smooth the frames of a key."""
        frame = pd.concat(rows)
        state = smooth_values(self.state.get(), frame["time"].to_numpy(), frame["value"].to_numpy())
        self.state.update(state)
        yield pd.DataFrame([(key[0], *state)], columns=["key", "average"])


class MergeFrames(PandasProcessor):
    schema = "data binary"

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803 - Spark's names
        """Merge the frames of a key by time."""
        merge = pickle.loads(self.state.get()[0]) if self.state.exists() else begin()  # noqa: S301 - our own state
        merge, closed = merge_rows(merge, list(rows))
        self.state.update((pickle.dumps(merge),))
        closed.insert(0, "key", np.int64(key[0]))
        yield closed


class FoldRows(PandasProcessor):
    schema = FOLD_STATE

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Fold the rows of a key."""
        top, seen = self.state.get() or (SMALLEST, 0)
        for row in rows:
            top, seen = max(top, row.value), seen + 1
        self.state.update((top, seen))
        yield Row(key=key[0], top=top, seen=seen)


class SmoothRows(PandasProcessor):
    schema = EWMA_STATE

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Smooth the rows of a key."""
        average = (self.state.get() or (None,))[0]
        for _, value in sorted((row.time, row.value) for row in rows):
            average = value if average is None else ALPHA * value + (1 - ALPHA) * average
        self.state.update((average,))
        yield Row(key=key[0], average=average)


def fold_group(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Fold a key's frames, for applyInPandasWithState."""
    kept = state.get if state.exists else None
    for frame in frames:
        kept = fold_values(kept, frame["value"].to_numpy())
    state.update(kept)
    yield pd.DataFrame([(key[0], *kept)], columns=["key", "top", "seen"])


def smooth_group(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Smooth a key's frames, for applyInPandasWithState."""
    frame = pd.concat(frames)
    kept = state.get if state.exists else None
    kept = smooth_values(kept, frame["time"].to_numpy(), frame["value"].to_numpy())
    state.update(kept)
    yield pd.DataFrame([(key[0], *kept)], columns=["key", "average"])


def merge_group(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Merge a key's frames by time, for applyInPandasWithState."""
    merge = pickle.loads(state.get[0]) if state.exists else begin()  # noqa: S301 - our own state
    merge, closed = merge_rows(merge, list(frames))
    state.update((pickle.dumps(merge),))
    closed.insert(0, "key", np.int64(key[0]))
    yield closed


PROCESSORS: dict[tuple[str, str], tuple[type[PandasProcessor], str]] = {
    ("tws-pandas", "fold"): (FoldFrames, FOLD_SCHEMA),
    ("tws-pandas", "ewma"): (SmoothFrames, EWMA_SCHEMA),
    ("tws-pandas", "barrier"): (MergeFrames, CLOSED_SCHEMA),
    ("tws-pandas", "pages"): (MergeFrames, CLOSED_SCHEMA),
    ("tws-row", "fold"): (FoldRows, FOLD_SCHEMA),
    ("tws-row", "ewma"): (SmoothRows, EWMA_SCHEMA),
}
GROUPS = {
    "fold": (fold_group, FOLD_SCHEMA, FOLD_STATE),
    "ewma": (smooth_group, EWMA_SCHEMA, EWMA_STATE),
    "barrier": (merge_group, CLOSED_SCHEMA, "data binary"),
    "pages": (merge_group, CLOSED_SCHEMA, "data binary"),
}


def read_input(spark: Any, task: Task) -> Any:
    """Return all channels as one stream: key, time, value, and the number of the channel."""
    expressions = {
        "readings": ("key", "value"),
        "values": ("0L AS key", "value"),
        "barriers": ("0L AS key", "-1L AS value"),
        "views": ("page AS key", "1L AS value"),
        "updates": ("page AS key", "version AS value"),
        "bids": ("auction AS key", "price AS value"),
    }
    frames = [
        read_channel(spark, task, name).selectExpr(
            "time", *expressions[name.partition("-")[0]], f"{number} AS channel"
        )
        for number, name in enumerate(task.channels)
    ]
    return reduce(lambda a, b: a.unionByName(b), frames)


class Carry:
    """What `native` keeps on the driver between batches: open sums, versions in force, answers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.open = 0
        self.versions: dict[int, int] = {}
        self.emitted: list[pd.DataFrame] = []

    def take(self, frame: Any, batch: int) -> None:
        """Work on a batch with SQL."""
        self.emitted.append(self.sum_up(frame) if self.kind == "barrier" else self.count(frame))

    def sum_up(self, frame: Any) -> pd.DataFrame:
        """Sum the values before each barrier of the batch."""
        marker = F.when(F.col("channel") == 2, F.col("time"))
        # Backwards: Spark works a frame that only grows out once, and one that shrinks for each row.
        backwards = Window.partitionBy("key").orderBy(F.col("time").desc())
        ahead = backwards.rowsBetween(Window.unboundedPreceding, 0)
        value = F.when(F.col("channel") < 2, F.col("value")).otherwise(0)
        rows = (
            frame.withColumn("closing", F.min(marker).over(ahead))
            .groupBy("closing")
            .agg(F.sum(value).alias("total"))
            .orderBy(F.col("closing").asc_nulls_last())
            .toPandas()
        )
        if len(rows):
            rows.loc[rows.index[0], "total"] += self.open
            self.open = 0
        still_open = rows["closing"].isna()
        self.open += int(rows["total"][still_open].sum())
        closed = rows[~still_open]
        return closed.rename(columns={"closing": "time"}).astype("int64")

    def count(self, frame: Any) -> pd.DataFrame:
        """Count the views of each version within the batch."""
        behind = Window.partitionBy("key").orderBy("time")
        behind = behind.rowsBetween(Window.unboundedPreceding, 0)
        version = F.last(F.when(F.col("channel") == 2, F.col("value")), ignorenulls=True)
        rows = (
            frame.withColumn("version", version.over(behind))
            .groupBy("key", "version")
            .agg(F.sum(F.when(F.col("channel") < 2, 1).otherwise(0)).alias("seen"))
            .toPandas()
        )
        known = rows["key"].map(self.versions)
        rows["version"] = rows["version"].fillna(known).fillna(-1)
        self.versions |= rows.groupby("key")["version"].max().astype("int64").to_dict()
        return rows.astype("int64")


def run_native(spark: Any, clock: Clock) -> None:
    """Use what Spark has: a streaming aggregation, or SQL in every batch."""
    task = clock.task
    rows = read_input(spark, task)
    if task.kind == "fold":
        folded = rows.groupBy("key").agg(
            F.max("value").alias("top"), F.count(F.lit(1)).alias("seen")
        )
        run_query(clock, folded, "update")
        keep_last(task, read_emitted(spark, task))
        return
    carry = Carry(task.kind)
    run_query(clock, rows, "append", carry.take)
    emitted = pd.concat(carry.emitted)
    if task.kind == "barrier":
        keep_answer(task, time=emitted["time"], total=emitted["total"])
    else:
        counts = emitted.groupby(["key", "version"])["seen"].sum().reset_index()
        keep_pages(task, counts["key"], counts["version"], counts["seen"])


def run_stateful(spark: Any, clock: Clock) -> None:
    """Use one of the operators that call Python for each key."""
    task = clock.task
    grouped = read_input(spark, task).groupBy("key")
    if task.how == "aipws":
        function, schema, state = GROUPS[task.kind]
        result = grouped.applyInPandasWithState(function, schema, state, "update", "NoTimeout")
    else:
        processor, schema = PROCESSORS[task.how, task.kind]
        operator = (
            grouped.transformWithState
            if task.how == "tws-row"
            else grouped.transformWithStateInPandas
        )
        result = operator(processor(), schema, "update", "None")
    run_query(clock, result, "update")
    emitted = read_emitted(spark, task)
    if task.kind == "barrier":
        keep_answer(task, time=emitted["time"], total=emitted["total"])
    elif task.kind == "pages":
        keep_pages(task, emitted["key"], emitted["version"], emitted["total"])
    else:
        keep_last(task, emitted)


def run_windows(spark: Any, clock: Clock) -> None:
    """Sum up windows, with Spark's own or with panes."""
    task = clock.task
    hop = Hop(task.manifest["size"], task.manifest["every"])
    run_query(clock, WINDOWS[task.how](read_input(spark, task), hop), "append")
    emitted = read_emitted(spark, task).rename(columns={"key": "auction"})
    keep_answer(task, **{name: emitted[name] for name in ("auction", "end", "total", "seen")})


def run_nothing(spark: Any, clock: Clock) -> None:
    """Hand all rows to Python and back: what anything costs that takes a plain frame."""

    def pass_on(frame: Any, batch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    rows = read_input(spark, clock.task)
    run_query(clock, rows.mapInArrow(lambda batches: batches, rows.schema), "append", pass_on)


def keep_last(task: Task, emitted: pd.DataFrame) -> None:
    """Write the last output of each key."""
    last = emitted.sort_values("batch", kind="stable").drop_duplicates("key", keep="last")
    columns = ("key", "top", "seen") if task.kind == "fold" else ("key", "average")
    keep_sampled(task, **{name: last[name].to_numpy() for name in columns})


def main() -> None:
    """Run the query and keep its answer."""
    task = read_task()
    spark = open_session()
    clock = Clock(task, time.time())
    if task.how == "nothing":
        run_nothing(spark, clock)
    elif task.kind == "windows":
        run_windows(spark, clock)
    else:
        (run_native if task.how == "native" else run_stateful)(spark, clock)
    spark.stop()


if __name__ == "__main__":
    main()
