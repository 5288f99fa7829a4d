"""How fast are micro-batches that are almost empty?

Each batch has one event of each channel, so the rate of events is also that of batches. The baseline is a small
aggregation of Spark itself, with one operator and the same settings of the session. The first batches warm Spark
up and do not count. Both answers are checked.
"""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from anabranch.model.targets import load
from anabranch.spark import Files, read_outputs, run, start_session, write_directory

BATCHES = 40
WARM_UP = 16


def write_input(folder: Path) -> None:
    """Write a file of one value and a file of one barrier for each batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in ("values", "barriers"):
        (folder / name).mkdir()
    for number in range(BATCHES):
        value = pa.table({"time": [2 * number + 1], "value": [number]})
        barrier = pa.table({"time": [2 * number + 2]})
        pq.write_table(value, folder / "values" / f"{number:03}.parquet")
        pq.write_table(barrier, folder / "barriers" / f"{number:03}.parquet")


def find_rate(query: Any) -> float:
    """Return the batches a second, by the median of those that count."""
    progress = [json.loads(p.json) if hasattr(p, "json") else p for p in query.recentProgress]
    durations = [p["batchDuration"] for p in progress if p["numInputRows"]]
    assert len(durations) == BATCHES, durations
    return 1000 / statistics.median(durations[WARM_UP:])


def run_native(spark: Any, folder: Path) -> float:
    """Run a count by key."""
    reader = spark.readStream.schema("time long, value long").option("maxFilesPerTrigger", 1)
    emitted: dict[int, int] = {}

    def take(frame: Any, _: int) -> None:
        emitted.update({row.value: row["count"] for row in frame.collect()})

    counts = reader.parquet(str(folder / "values")).groupBy("value").count()
    writer = counts.writeStream.outputMode("update").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "native")).foreachBatch(take)
    query = writer.start()
    query.awaitTermination()
    assert emitted == dict.fromkeys(range(BATCHES), 1)
    return find_rate(query)


def run_anabranch(spark: Any, folder: Path) -> float:
    """Run value–barrier."""
    sources = [
        Files(folder / name, files_per_batch=1, channel=name, event=event_type, unique_times=True)
        for name, event_type in (("values", "Value"), ("barriers", "Barrier"))
    ]
    result = run(load("examples/value_barrier.py"), sources)
    query = write_directory(
        result, output=folder / "emitted", checkpoint=folder / "checkpoint", available_now=True
    )
    query.awaitTermination()
    rows = read_outputs(spark, folder / "emitted").orderBy("time")
    found = [int(row.value) for row in rows.collect()]
    # The last barrier stays pending: a value before it could still arrive.
    assert found == [sum(range(n + 1)) for n in range(BATCHES - 1)], found
    return find_rate(query)


def measure() -> dict[str, float]:
    """Run both, one after the other."""
    spark = start_session(
        name="bench", ui=False, **{"spark.sql.streaming.numRecentProgressUpdates": "200"}
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_input(folder)
        native = run_native(spark, folder)
        ours = run_anabranch(spark, folder)
    return {"Spark, a count by key": native, "Anabranch, fused source": ours}
