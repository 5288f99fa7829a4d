"""The child process that runs the query, as controlled by the tour."""

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
from anabranch.microbatch.runs.published_batches import Watermarks
from anabranch.tour.fold_tasks import Shares
from anabranch.tour.published_rows import list_numbers
from anabranch.tour.view import Step

PATIENCE_S = 300
FAREWELL_S = 10
INTERVAL_S = 0.05
DRIVER = (sys.executable, "-m", "anabranch.tour.driver")


class ChildError(AnabranchError, RuntimeError):
    """The process of the query failed, or reported nothing for too long."""


class Started(NamedTuple):
    """The report that Spark runs: its version and its number of cores."""

    spark: str
    cores: int


Report = Started | Step | Shares


@dataclass(frozen=True)
class Home:
    """The folders of a query: input, output and checkpoint; its temporary files are in `scratch`."""

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
        """Return the file with the standard error of the process."""
        return self.folder / "log"

    def list_published(self) -> list[int]:
        """Return the numbers of the published batches."""
        return list_numbers(self.published)

    def list_unfinished(self) -> list[int]:
        """Return the batches that were begun and are not committed, according to Spark's logs."""
        begun, done = (
            {int(path.name) for path in (self.folder / "checkpoint" / log).glob("[0-9]*")}
            for log in ("offsets", "commits")
        )
        return sorted(begun - done)


@dataclass
class Child:
    """A running process, and the lines of its standard output that have not been processed."""

    home: Home
    process: subprocess.Popen[str]
    lines: queue.Queue[str] = field(default_factory=queue.Queue)
    last_s: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        """Return whether the process has ended and every line was processed."""
        gone = self.process.poll() is not None
        return gone and not self._reader.is_alive() and self.lines.empty()

    def receive(self) -> Report | None:
        """Return the next report, or None if there is none within a short time."""
        try:
            report = read_line(self.lines.get(timeout=INTERVAL_S))
        except queue.Empty:
            self._check_silence()
            return None
        self.last_s = time.monotonic()
        return report

    def _check_silence(self) -> None:
        if self.has_ended and self.process.returncode:
            raise ChildError(
                "the query ended too early",
                expected="exit code 0",
                got=f"{self.process.returncode}; the last line of its log: {self.read_last_line()}",
            )
        if time.monotonic() - self.last_s > PATIENCE_S:
            raise ChildError(
                "the query has stopped reporting",
                expected=f"a batch within {PATIENCE_S} s",
                got=f"no report; the last line of its log: {self.read_last_line()}",
            )

    def kill(self) -> int:
        """Kill the process and its JVM with SIGKILL; return the exit code when it has ended."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        code = self.process.wait()
        # The JVM has the other end of standard output: when that is closed, the JVM has ended too.
        self._reader.join(FAREWELL_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not self._reader.is_alive():
                pipe.close()
        return code

    def read_last_line(self) -> str:
        """Return the last line of its log."""
        text = self.home.log.read_text(encoding="utf-8", errors="replace").strip()
        return text.splitlines()[-1] if text else "none"

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)


@contextmanager
def launch(home: Home) -> Iterator[Child]:
    """Run the query in a process group of its own, which also contains its JVM."""
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


def read_line(line: str) -> Report:
    """Read a report of the driver: that Spark runs, a batch, the shares of tasks, or a failure."""
    fields = json.loads(line)
    if "failed" in fields:
        raise ChildError(fields["failed"])
    if "spark" in fields:
        return Started(**fields)
    if "shares" in fields:
        return Shares(fields["tasks"], tuple(fields["shares"]))
    step = Step(**fields["batch"])
    return step._replace(
        ledger=step.ledger and Ledger(*step.ledger),
        watermarks=step.watermarks and Watermarks(*step.watermarks),
    )
