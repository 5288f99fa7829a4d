"""Anabranch: `frame` from plain streaming frames of Spark, `fused` from a channel that reads columns."""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from batches import Clock, follow, open_session, read_channel
from protocol import Task, keep_answer, keep_pages, keep_sampled, read_task

from anabranch import Program
from anabranch.spark import Files, Frame, read_outputs, run, write_directory
from bench.peers import programs

PROGRAMS: dict[str, tuple[Program, dict[str, str]]] = {
    "fold": (programs.keyed_fold, {"readings": "Reading", "asks": "Ask"}),
    "ewma": (programs.ewma, {"readings": "Reading", "asks": "Ask"}),
    "barrier": (programs.value_barrier, {"values": "Value", "barriers": "Barrier"}),
    "pages": (programs.page_view, {"views": "View", "updates": "Update"}),
    "w4": (programs.hopping_average, {"bids": "Bid"}),
    "w4-tumbling": (programs.tumbling_average, {"bids": "Bid"}),
}
"""By kind; of windows, which are part of a program, by workload."""

SHARDS = 4


def run_program(task: Task, read: Callable[..., Any], *, fused: bool = False) -> Any:
    """Return what the program says of its channels, each read with `read`."""
    windows = task.kind == "windows"
    program, event_types = PROGRAMS[task.manifest["workload"] if windows else task.kind]
    names = [*task.channels, "asks"] if "asks" in event_types else task.channels
    sources = [
        read(
            name,
            channel=name,
            event_type=event_types[name.partition("-")[0]],
            seq=None if fused else "seq",  # Files have a sequence of their own.
            strict=not windows,  # Several bids have one time.
            heartbeat="heartbeat" if name == "asks" else None,
        )
        for name in names
    ]
    return run(program, sources, shards=choose_shards(task.kind, fused=fused))


def choose_shards(kind: str, *, fused: bool) -> int | None:
    """Return how many shards do best on two cores; None is what a run takes by itself.

    Folding by columns is so little next to bringing rows out of Spark that one shard keeps up with both.
    """
    if kind == "barrier":
        return None if fused else 1
    return None if fused and kind == "windows" else SHARDS


def run_from_frames(spark: Any, task: Task) -> Any:
    """Run on a plain streaming frame for each channel."""
    return run_program(
        task, lambda name, **options: Frame(read_channel(spark, task, name), **options)
    )


def run_from_files(spark: Any, task: Task) -> Any:
    """Run on the files themselves, which are read without passing through Spark's rows."""
    folder = task.folder / "parquet"

    def read(name: str, **options: Any) -> Files:
        return Files(folder / name, files_per_batch=task.per_batch, **options)

    return run_program(task, read, fused=True)


def keep_outputs(spark: Any, task: Task) -> None:
    """Write the answer: windows have columns of their own, other outputs are JSON."""
    rows = read_outputs(spark, task.scratch / "emitted")
    if task.kind == "windows":
        keep_windows(task, rows)
        return
    frame = rows.select("time", "value").toPandas()
    values = [json.loads(value) for value in frame["value"]]
    if task.kind == "barrier":
        keep_answer(task, time=frame["time"].to_numpy(np.int64), total=values)
        return
    columns = [list(column) for column in zip(*values, strict=True)]
    if task.kind == "pages":
        keep_pages(task, *columns)
        return
    # A key that was asked for but never read has nothing to say: it is in the state it started from.
    start = 0 if task.kind == "fold" else None
    known = [place for place, emitted in enumerate(columns[-1]) if emitted != start]
    columns = [[column[place] for place in known] for column in columns]
    names = ("key", "top", "seen") if task.kind == "fold" else ("key", "average")
    keep_sampled(task, **dict(zip(names, columns, strict=True)))


def keep_windows(task: Task, rows: Any) -> None:
    """Write what each window said."""
    fields = ("key AS auction", "end", "value.total", "value.seen")
    frame = rows.selectExpr(*fields).toPandas()
    keep_answer(task, **{name: frame[name].to_numpy() for name in frame.columns})


def main() -> None:
    """Run the query, then read what it has published."""
    task = read_task()
    spark = open_session()
    ready = time.time()
    result = {"frame": run_from_frames, "fused": run_from_files}[task.how](spark, task)
    clock = Clock(task, ready)
    emitted = task.scratch / "emitted"
    query = write_directory(
        result, output=emitted, checkpoint=task.scratch / "checkpoint", available_now=True
    )
    while query.isActive and not (emitted / "batch=0").exists():
        time.sleep(0.01)
    clock.note()
    follow(clock, query)
    keep_outputs(spark, task)
    spark.stop()


if __name__ == "__main__":
    main()
