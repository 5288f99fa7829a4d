"""The child: the process in which the query runs, as it is seen from the tour."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from anabranch.errors import AnabranchError
from anabranch.eventtime.ledger import Ledger
from anabranch.spark.sinks.directory import Frontiers
from anabranch.spark.sinks.progress import Batch

PATIENCE_S = 300
FAREWELL_S = 10
INTERVAL_S = 0.1
DRIVER = (sys.executable, "-m", "anabranch.tour.driver")


class ChildError(AnabranchError, RuntimeError):
    """The process of the query ended, or fell silent, before its time."""


class Begun(NamedTuple):
    """Spark runs, and the program is laid over its shards."""

    way: str
    shards: int
    spark: str


@dataclass(frozen=True)
class Home:
    """Where a query reads, publishes and keeps its state; what it scribbles is beside it."""

    folder: Path
    scratch: Path

    @property
    def events(self) -> Path:
        """Return the folder of the input."""
        return self.folder / "events"

    @property
    def published(self) -> Path:
        """Return the folder of the output."""
        return self.folder / "published"

    @property
    def log(self) -> Path:
        """Return the file with what the process says to itself."""
        return self.folder / "log"

    def list_published(self) -> list[int]:
        """Return the batches that can be seen."""
        return sorted(int(path.name[6:]) for path in self.published.glob("batch=*"))

    def list_unfinished(self) -> list[int]:
        """Return the batches that were begun and are not committed, by Spark's own logs."""
        begun, done = (
            {int(path.name) for path in (self.folder / "checkpoint" / log).glob("[0-9]*")}
            for log in ("offsets", "commits")
        )
        return sorted(begun - done)


@dataclass
class Child:
    """A running process, and what it has said that nobody has heard yet."""

    home: Home
    process: subprocess.Popen[str]
    said: queue.Queue[str] = field(default_factory=queue.Queue)
    heard_s: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        """Say whether it has ended, and nothing that it said is left to hear."""
        gone = self.process.poll() is not None
        return gone and not self._listener.is_alive() and self.said.empty()

    def hear(self) -> Batch | Begun | None:
        """Return the next thing that was said, or None if there is none for a moment."""
        try:
            said = read_line(self.said.get(timeout=INTERVAL_S))
        except queue.Empty:
            self._check_silence()
            return None
        self.heard_s = time.monotonic()
        return said

    def _check_silence(self) -> None:
        if self.has_ended and self.process.returncode:
            raise ChildError(
                "the query ended before its time",
                expected="exit code 0",
                got=f"{self.process.returncode}; its last words: {self.last_words()}",
            )
        if time.monotonic() - self.heard_s > PATIENCE_S:
            raise ChildError(
                "the query says nothing any more",
                expected=f"a batch within {PATIENCE_S} s",
                got=f"silence; its last words: {self.last_words()}",
            )

    def kill(self) -> int:
        """Kill the process and its JVM with SIGKILL; return the exit code when it is gone."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        code = self.process.wait()
        # The JVM holds the other end of standard output: when that is closed, it is gone too.
        self._listener.join(FAREWELL_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not self._listener.is_alive():
                pipe.close()
        return code

    def last_words(self) -> str:
        """Return the last line of its log."""
        text = self.home.log.read_text(encoding="utf-8", errors="replace").strip()
        return text.splitlines()[-1] if text else "none"

    def __post_init__(self) -> None:
        self._listener = threading.Thread(target=self._take_down, daemon=True)
        self._listener.start()

    def _take_down(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(line)


@contextmanager
def launch(home: Home) -> Iterator[Child]:
    """Run the query in a group of processes of its own, to which its JVM belongs too."""
    shutil.rmtree(home.scratch, ignore_errors=True)
    home.scratch.mkdir(parents=True)
    with home.log.open("ab") as log:
        process = subprocess.Popen(
            [*DRIVER, str(home.folder), str(home.scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(home.scratch)},
        )
    child = Child(home, process)
    try:
        yield child
    finally:
        child.kill()


def read_line(line: str) -> Batch | Begun:
    """Read what the driver says: that it has begun, what a batch did, or why it failed."""
    said = json.loads(line)
    if "failed" in said:
        raise ChildError(said["failed"])
    if "batch" not in said:
        return Begun(**said)
    batch = Batch(*said["batch"])
    return batch._replace(
        ledger=batch.ledger and Ledger(*batch.ledger),
        frontiers=batch.frontiers and Frontiers(*batch.frontiers),
    )
