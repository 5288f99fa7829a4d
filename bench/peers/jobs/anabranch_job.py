"""Anabranch: `frame` from plain streaming frames of Spark, `fused` from a channel that reads columns."""

import time
from collections.abc import Callable
from typing import Any

from batches import Clock, follow, open_session, read_channel
from protocol import Task, keep_answer, keep_pages, keep_sampled, read_task

from anabranch.spark import Files, Frame, read_outputs, run, write_directory
from bench.peers.programs import find_program

ANSWERS = {
    "fold": ("key", "top", "seen"),
    "ewma": ("key", "average"),
    "barrier": ("time", "value AS total"),
    "pages": ("page", "version", "seen"),
    "windows": ("key AS auction", "end", "value.total", "value.seen"),
}
"""The columns of the outputs that are the answer, by kind."""

SHARDS = 4


def run_program(task: Task, read: Callable[..., Any], *, fused: bool = False) -> Any:
    """Return the outputs of the program on its channels, each read with `read`."""
    windows = task.kind == "windows"
    program, event_types = find_program(task.kind, task.manifest["workload"])
    names = [*task.channels, "asks"] if "asks" in event_types else task.channels
    sources = [
        read(
            name,
            channel=name,
            event=event_types[name.partition("-")[0]],
            seq=None if fused else "seq",  # Files have a sequence of their own.
            unique_times=not windows,  # Several bids have one time.
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
    """Write the answer, from the typed columns of the outputs."""
    columns = ANSWERS[task.kind]
    frame = read_outputs(spark, task.scratch / "emitted").selectExpr(*columns).toPandas()
    # A key that was asked for but never read is in the state it started from.
    if task.kind == "fold":
        frame = frame[frame["seen"] > 0]
    elif task.kind == "ewma":
        frame = frame[frame["average"].notna()]
    found = {name: frame[name].to_numpy() for name in frame.columns}
    keep = {"fold": keep_sampled, "ewma": keep_sampled, "pages": keep_pages}
    keep.get(task.kind, keep_answer)(task, **found)


FORMS = {"frame": run_from_frames, "fused": run_from_files}


def main() -> None:
    """Run the query, then read what it has published."""
    task = read_task()
    spark = open_session()
    ready = time.time()
    result = FORMS[task.how](spark, task)
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
