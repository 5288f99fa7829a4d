"""The arguments of a job, and the times of its outputs."""

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """How to run, where the channels are, the file that marks their end, and where to write."""

    how: str
    ports: list[int]
    ended: Path
    answer: Path
    scratch: Path


def read_task() -> Task:
    """Read the arguments of a job."""
    how, ports, ended, answer, scratch = sys.argv[1:6]
    numbers = [int(port) for port in ports.split(",")]
    return Task(how, numbers, Path(ended), Path(answer), Path(scratch))


def wait_for_end(task: Task) -> None:
    """Wait until the producer has sent everything, and a little longer for what is on its way."""
    while not task.ended.exists():
        time.sleep(0.1)
    time.sleep(2)


def keep(task: Task, emitted: Iterable[tuple[int, int, float]]) -> None:
    """Write the time of each barrier, its total, and when it was emitted."""
    rows = [(int(when), int(total), float(moment)) for when, total, moment in emitted]
    task.answer.write_text(json.dumps(rows), encoding="utf-8")
