"""Anabranch without Spark: the embedded runtime on the same files, with a durable checkpoint."""

import time
from typing import Any

import pyarrow.compute as pc
from protocol import Task, keep_answer, keep_pages, keep_sampled, read_task, tell

from anabranch.local import read_outputs, run
from anabranch.sources import Files
from bench.peers.programs import find_program


def list_sources(task: Task, event_types: dict[str, str]) -> list[Files]:
    """Return the channels of a task as folders of files."""
    names = [*task.channels, "asks"] if "asks" in event_types else task.channels
    return [
        Files(
            task.folder / "parquet" / name,
            files_per_batch=task.per_batch,
            channel=name,
            event=event_types[name.partition("-")[0]],
            unique_times=task.kind != "windows",  # Several bids have one time.
            heartbeat="heartbeat" if name == "asks" else None,
        )
        for name in names
    ]


def keep_outputs(task: Task) -> None:
    """Write the answer, from the typed columns of the outputs."""
    table = read_outputs(task.scratch / "emitted")
    if task.kind == "windows":
        value = table["value"]
        total, seen = (pc.struct_field(value, name) for name in ("total", "seen"))
        keep_answer(task, auction=table["key"], end=table["end"], total=total, seen=seen)
    elif task.kind == "barrier":
        keep_answer(task, time=table["time"], total=table["value"])
    elif task.kind == "pages":
        keep_pages(task, *(table[name] for name in ("page", "version", "seen")))
    elif task.kind == "fold":
        # A key that was asked for but never read is in the state it started from.
        known = table.filter(pc.greater(table["seen"], 0))
        keep_sampled(task, **{name: known[name].to_numpy() for name in ("key", "top", "seen")})
    else:
        known = table.filter(pc.is_valid(table["average"]))
        keep_sampled(task, **{name: known[name].to_numpy() for name in ("key", "average")})


def main() -> None:
    """Run the program to the end of its input; steady is batches 2 to n, as on Spark."""
    task = read_task()
    program, event_types = find_program(task.kind, task.manifest["workload"])
    ready = started = time.time()
    handle: Any = run(
        program,
        list_sources(task, event_types),
        output=task.scratch / "emitted",
        checkpoint=task.scratch / "checkpoint",
        available_now=True,
    )
    first = None
    while first is None and handle.is_active:
        time.sleep(0.001)
        first = time.time() if handle.progress is not None else None
    handle.wait()
    ended = time.time()
    first = ended if first is None else first
    tell(
        task,
        total_s=ended - started,
        steady_s=ended - first or None,
        steady_events=sum(task.batches[1:]) or None,
        ready=ready,
        first=first,
    )
    keep_outputs(task)


if __name__ == "__main__":
    main()
