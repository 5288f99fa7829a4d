"""Does one hot key use all cores, or one?

Value–barrier with one key, and page view with one page, from plain streaming frames on local Spark
with two cores. `groupBy(key)` is `transformWithStateInPandas` as its users write it: one group for
each key, each batch sorted by time. Its answer is right here, because one batch takes whole files
and these are in order. The benchmark measures not the speed but the distribution of work: the busiest
task's share of the longest stage, and each core's share of all task time. Both answers are checked.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from anabranch.model.targets import load
from anabranch.spark import Frame
from anabranch.spark.runs import run
from anabranch.spark.session.startup import start_session

EVENTS = 400_000
PER_MARKER = 1_000
FILES = 4
CORES = 2
SHARDS = 16


class Task(NamedTuple):
    """One task of a query: its stage, and from when to when it ran, in milliseconds."""

    stage: int
    launched_ms: int
    took_ms: int


class Workload(NamedTuple):
    """An example, and how a fold per key is written for it without Anabranch."""

    name: str
    event: str
    marker: str
    fields: dict[str, Callable[[int], int]]
    step: Callable[[Any, Any], tuple[Any, Any]]
    start: Any


def add_up(total: int, row: Any) -> tuple[int, int | None]:
    """Fold a value or a barrier; return the new total and the output."""
    return (total, total) if row.rank == 0 else (total + int(row.value), None)


def look_up(known: int, row: Any) -> tuple[int, int | None]:
    """Fold a view or an update of a page; return the new and the old data of the page."""
    return (int(row.zip), known) if row.rank == 0 else (known, known)


WORKLOADS = (
    Workload("value_barrier", "Value", "Barrier", {"value": lambda t: t % 97}, add_up, 0),
    Workload(
        "page_view",
        "View",
        "Update",
        {"page": lambda t: 1, "zip": lambda t: t % 90_000},
        look_up,
        0,
    ),
)


def write_input(folder: Path, work: Workload) -> None:
    """Write events and markers as files of one channel each, in order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = EVENTS // FILES
    for number in range(FILES):
        times = range(number * size + 1, (number + 1) * size + 1)
        for name, step in (("events", 1), ("markers", PER_MARKER)):
            chosen = [t for t in times if t % step == 0]
            columns = {field: [make(t) for t in chosen] for field, make in work.fields.items()}
            table = pa.table({"time": chosen, "seq": chosen, **columns})
            (folder / name).mkdir(exist_ok=True)
            pq.write_table(table, folder / name / f"{number}.parquet")


def read_stream(spark: Any, folder: Path, work: Workload) -> Any:
    """Return the streaming frame of a folder."""
    schema = ", ".join(f"{name} long" for name in ("time", "seq", *work.fields))
    return spark.readStream.schema(schema).parquet(str(folder))


def run_anabranch(spark: Any, folder: Path, work: Workload) -> Any:
    """Return the outputs of the example's program as a streaming frame of times and values.

    The output functions have no annotation, so an output is JSON in the column `value`.
    """
    sources = [
        Frame(
            read_stream(spark, folder / "events", work),
            channel="events",
            event=work.event,
            seq="seq",
        ),
        Frame(
            read_stream(spark, folder / "markers", work),
            channel="markers",
            event=work.marker,
            seq="seq",
        ),
    ]
    result = run(load(f"examples/{work.name}.py"), sources, shards=SHARDS)
    last = "get(from_json(value, 'array<string>'), 2)" if work.name == "page_view" else "value"
    return result.outputs.selectExpr("time", f"coalesce(cast({last} as long), 0) as value")


def run_by_key(spark: Any, folder: Path, work: Workload) -> Any:
    """Return the same, folded per key with Spark alone."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Fold(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("state", "state long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            state = self.state.get()[0] if self.state.exists() else work.start
            emitted = []
            for row in pd.concat(list(rows)).sort_values(["time", "rank"]).itertuples():
                state, value = work.step(state, row)
                if value is not None:
                    emitted.append((row.time, value))
            self.state.update((state,))
            yield pd.DataFrame(emitted, columns=["time", "value"])

        def close(self) -> None:
            pass

    events, markers = (
        read_stream(spark, folder / name, work).selectExpr("*", f"{rank} as rank", "1 as key")
        for rank, name in ((1, "events"), (0, "markers"))
    )
    return (
        events.unionByName(markers)
        .groupBy("key")
        .transformWithStateInPandas(Fold(), "time long, value long", "append", "None")
    )


def finish(spark: Any, frame: Any, checkpoint: Path) -> tuple[list[Any], list[Task]]:
    """Run a query to its end; return its outputs and its tasks."""
    emitted: list[Any] = []
    query = (
        frame.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(lambda rows, _: emitted.extend(rows.collect()))
        .start()
    )
    query.awaitTermination()
    answer = sorted((row.time, row.value) for row in emitted)
    return answer, list(list_tasks(spark.sparkContext, str(query.runId)))


def list_tasks(context: Any, group: str) -> Iterator[Task]:
    """Yield the tasks of a query, which Spark keeps as a group of jobs."""
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).stageIds:
            if tracker.getStageInfo(stage) is None or not tracker.getStageInfo(stage).numTasks:
                continue
            found = store.taskList(stage, 0, 1_000)
            for place in range(found.size()):
                task = found.apply(place)
                if task.duration().isDefined():
                    took = int(task.duration().get())
                    yield Task(stage, task.launchTime().getTime(), took)


def share_of_busiest(tasks: list[Task]) -> float:
    """Return the busiest task's share of the longest stage: 1 if it does all the work."""
    stages: dict[int, list[int]] = {}
    for task in tasks:
        stages.setdefault(task.stage, []).append(task.took_ms)
    longest = max(stages.values(), key=sum)
    return max(longest) / sum(longest)


def share_by_core(tasks: list[Task]) -> list[float]:
    """Return each core's share, busiest first: a task takes the core that has been idle longest."""
    free, busy = [0] * CORES, [0] * CORES
    for task in sorted(tasks, key=lambda task: task.launched_ms):
        idle = [core for core in range(CORES) if free[core] <= task.launched_ms]
        # The busiest core that is free: a second core counts only if it was needed.
        core = max(idle, key=busy.__getitem__) if idle else free.index(min(free))
        free[core] = task.launched_ms + task.took_ms
        busy[core] += task.took_ms
    return sorted((time / sum(busy) for time in busy), reverse=True)


def measure_details() -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return events per second and the shares of tasks and cores, of the second of two runs of each."""
    spark = start_session(name="bench", master=f"local[{CORES}]", ui=False)
    rates: dict[str, float] = {}
    details: dict[str, dict[str, float]] = {}
    for work in WORKLOADS:
        answers = []
        for name, contender in (("groupBy(key)", run_by_key), ("anabranch", run_anabranch)):
            for _ in range(2):
                with tempfile.TemporaryDirectory() as made:
                    folder = Path(made)
                    write_input(folder, work)
                    frame = contender(spark, folder, work)
                    started = time.perf_counter()
                    answer, tasks = finish(spark, frame, folder / "checkpoint")
                    elapsed = time.perf_counter() - started
            label = f"{work.name}, {name}"
            rates[label] = EVENTS / elapsed
            cores = share_by_core(tasks)
            details[label] = {
                "busiest task of the longest stage": share_of_busiest(tasks),
                **{f"core {number}": share for number, share in enumerate(cores, 1)},
            }
            answers.append(answer)
        # Events at the last time stay pending: no channel's watermark passes them.
        settled = [[emitted for emitted in answer if emitted[0] < EVENTS] for answer in answers]
        if settled[0] != settled[1] or not settled[0]:
            raise AssertionError(f"{work.name}: the answers differ")
    return rates, details


def measure() -> dict[str, float]:
    """Return events per second for each program and contender."""
    return measure_details()[0]
