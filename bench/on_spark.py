"""How fast is value–barrier on Spark from a plain streaming frame, compared with transformWithState?

One hot key, a barrier per 1,000 values, Parquet files, local Spark on two cores, state in RocksDB.
`transformWithState` is written the way its users write it: grouped by the one key, each batch sorted
by time. It is correct here because every file is in order and one batch takes whole files. Both
answers are checked.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from anabranch.model.targets import load
from anabranch.spark import Frame
from anabranch.spark.runs import run
from anabranch.spark.session.startup import start_session

VALUES = 200_000
PER_BARRIER = 1_000
FILES = 4


def write_input(spark: Any, folder: Path) -> list[int]:
    """Write values and barriers as files of one channel each; return the expected sums."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sums, total = [], 0
    for t in range(1, VALUES + 1):
        if t % PER_BARRIER == 0:
            sums.append(total)
        total += t % 97
    (folder / "values").mkdir()
    (folder / "barriers").mkdir()
    size = VALUES // FILES
    for number in range(FILES):
        times = list(range(number * size + 1, (number + 1) * size + 1))
        values = pa.table({"time": times, "value": [t % 97 for t in times], "seq": times})
        barriers = [t for t in times if t % PER_BARRIER == 0]
        pq.write_table(values, folder / "values" / f"{number}.parquet")
        pq.write_table(
            pa.table({"time": barriers, "seq": barriers}), folder / "barriers" / f"{number}.parquet"
        )
        time.sleep(0.01)  # Spark's file source goes by the time of change.
    return sums


def run_anabranch(spark: Any, folder: Path) -> list[int]:
    """Run the example's program on two sources."""
    program = load("examples/value_barrier.py")

    def read(name: str, schema: str) -> Any:
        return spark.readStream.schema(schema).parquet(str(folder / name))

    sources = [
        Frame(
            read("values", "time long, value long, seq long"),
            channel="values",
            event="Value",
            seq="seq",
        ),
        Frame(
            read("barriers", "time long, seq long"),
            channel="barriers",
            event="Barrier",
            seq="seq",
        ),
    ]
    emitted: list[Any] = []
    result = run(program, sources, shards=2).outputs.select("time", "value")
    query = (
        result.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint-a"))
        .foreachBatch(lambda frame, _: emitted.extend(frame.collect()))
        .start()
    )
    query.awaitTermination()
    return [int(row.value) for row in sorted(emitted, key=lambda row: row.time)]


def run_transform_with_state(spark: Any, folder: Path) -> list[int]:
    """Run the same query, written with Spark alone."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Barriers(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "total long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            total = self.total.get()[0] if self.total.exists() else 0
            frame = pd.concat(list(rows)).sort_values(["time", "rank"])
            emitted = []
            for row in frame.itertuples():
                if row.rank == 0:
                    emitted.append((row.time, total))
                else:
                    total += int(row.value)
            self.total.update((total,))
            yield pd.DataFrame(emitted, columns=["time", "total"])

        def close(self) -> None:
            pass

    values = spark.readStream.schema("time long, value long, seq long").parquet(
        str(folder / "values")
    )
    barriers = spark.readStream.schema("time long, seq long").parquet(str(folder / "barriers"))
    both = values.selectExpr("time", "value", "1 as rank", "0 as key").union(
        barriers.selectExpr("time", "0L as value", "0 as rank", "0 as key")
    )
    emitted: list[Any] = []
    query = (
        both.groupBy("key")
        .transformWithStateInPandas(Barriers(), "time long, total long", "append", "None")
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint-t"))
        .foreachBatch(lambda frame, _: emitted.extend(frame.collect()))
        .start()
    )
    query.awaitTermination()
    return [row.total for row in sorted(emitted, key=lambda row: row.time)]


def measure() -> dict[str, float]:
    """Return events per second, of the second of two runs: the first one warms Spark up."""
    spark = start_session(name="bench", ui=False)
    events = VALUES + VALUES // PER_BARRIER
    rates: dict[str, float] = {}
    contenders = {"transformWithState": run_transform_with_state, "anabranch": run_anabranch}
    for name, contender in contenders.items():
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                expected = write_input(spark, Path(folder))
                started = time.perf_counter()
                answer = contender(spark, Path(folder))
                elapsed = time.perf_counter() - started
            # The last barrier stays pending: no channel's watermark passes it.
            missing = len(expected) - len(answer)
            if missing > 1 or answer != expected[: len(answer)]:
                raise AssertionError(f"{name} is wrong: {answer[:3]} … of {len(answer)}")
            rates[name] = events / elapsed
    return rates
