"""The protocol of a job: its arguments, and the one line of JSON that it prints.

A job is a script that runs alone, in the environment of its contender. So this module needs nothing
but NumPy, which every contender brings along.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LARGE = ("fused", "native")
"""Who takes several slices at once. Python state code takes one: it would be at its first batch for minutes."""


@dataclass(frozen=True)
class Task:
    """What a job has to do: how, on which input, and where its answer and its state may go."""

    how: str
    folder: Path
    answer: Path
    scratch: Path
    manifest: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Return which question is asked."""
        return str(self.manifest["kind"])

    @property
    def channels(self) -> list[str]:
        """Return the channels that every contender reads, markers last."""
        return list(self.manifest["channels"])

    @property
    def events(self) -> int:
        """Return how many events there are to take in."""
        return sum(self.manifest["slices"])

    @property
    def batches(self) -> list[int]:
        """Return the events of each micro-batch, of the engines that have them."""
        slices = self.manifest["slices"]
        return [
            sum(slices[start : start + self.per_batch])
            for start in range(0, len(slices), self.per_batch)
        ]

    @property
    def per_batch(self) -> int:
        """Return how many slices a micro-batch takes: those who are fast with many take more."""
        return max(1, min(4, len(self.manifest["slices"]) // 4)) if self.how in LARGE else 1

    def list_files(self, channel: str) -> list[Path]:
        """Return a channel's Parquet files in the order of its sequence."""
        return sorted((self.folder / "parquet" / channel).glob("*.parquet"))


def read_task(arguments: Sequence[str] = sys.argv) -> Task:
    """Read the arguments of a job: how, the input's folder, the answer's file, a scratch folder."""
    how, folder, answer, scratch = arguments[1:5]
    manifest = json.loads((Path(folder) / "manifest.json").read_text(encoding="utf-8"))
    return Task(how, Path(folder), Path(answer), Path(scratch), manifest)


def since_start(moment: float | None) -> float | None:
    """Return the seconds from the start of the process to a moment."""
    started = float(os.environ.get("BENCH_STARTED", time.time()))
    return None if moment is None else round(moment - started, 3)


def tell(
    task: Task,
    *,
    total_s: float,
    steady_s: float | None = None,
    steady_events: int | None = None,
    ready: float | None = None,
    first: float | None = None,
    partial: bool = False,
    **more: Any,
) -> None:
    """Print the figures of a run. Those of a part are printed on the way, in case it is cut off."""
    figures = {
        "events": task.events,
        "total_s": round(total_s, 4),
        "steady_s": None if steady_s is None else round(steady_s, 4),
        "steady_events": steady_events,
        "ready_s": since_start(ready),
        "first_s": since_start(first),
        **more,
    }
    print(("partial " if partial else "result ") + json.dumps(figures), flush=True)


def keep_answer(task: Task, **columns: Any) -> None:
    """Write the answer, as arrays by column."""
    np.savez(task.answer, **{name: np.asarray(column) for name, column in columns.items()})


def keep_sampled(task: Task, **columns: Any) -> None:
    """Write an answer by key, of the keys that are compared."""
    key = np.asarray(columns["key"])
    asked = (key % task.manifest["asked_step"] == 0) & (key < task.manifest["keys"])
    keep_answer(task, **{name: np.asarray(column)[asked] for name, column in columns.items()})


def keep_pages(task: Task, page: Any, version: Any, seen: Any) -> None:
    """Write the views of each version of a page; before the first update there was none."""
    page, version, seen = (np.asarray(column).astype(np.int64) for column in (page, version, seen))
    known = (version >= 0) & (seen > 0)
    keep_answer(task, page=page[known], version=version[known], seen=seen[known])
