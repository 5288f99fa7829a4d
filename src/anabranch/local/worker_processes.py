"""Worker processes of an embedded run: they read files and fold groups of an interpreted program.

Python's lock lets one thread at a time run a user's function, so that threads don't help there. A worker does the
same work as a thread: it gets the messages of a group, reads the group's pages from the log, and returns what the
group emits and the pages that it has changed. It has no state between batches and writes nothing, and so a batch
that a worker can't finish is repeated in threads.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import IO, Any, Literal, NamedTuple

from anabranch.local.batch_fold import FileTask, Group, Groups, Read
from anabranch.local.page_log import PageLog, PagePlace
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.operators.group_operators import Emitted, Message, list_operators
from anabranch.microbatch.runs.shipping import list_own_modules

_SERVE = "from anabranch.local.worker_processes import serve; serve()"

_END_S = 2.0
"""The time that a worker has to end by itself."""


class WorkerError(Exception):
    """A worker process has failed, or can't be started."""


class PageChanges(NamedTuple):
    """What a worker must know to read the pages of a group: the log, and the places that have changed since.

    If `whole`, these are all places of the group's pages.
    """

    path: str
    whole: bool
    places: dict[str, PagePlace | None]


class WorkerProcesses:
    """The groups of a job's operators in worker processes. A group is always in the same one."""

    def __init__(self, job: Job, log: PageLog, number: int) -> None:
        packed = pack_job(job)
        self._log = log
        self._roles = [operator.role for operator in list_operators(job)]
        self._turns = count()
        self._known: dict[str, str] = {}
        self._changed: dict[str, list[str]] = {}
        self._changes: dict[str, dict[str, bytes | None]] = {}
        self._workers: list[_Worker] = []
        try:
            for _ in range(number):
                self._workers.append(_Worker(packed))
        except BaseException:
            self.close()
            raise

    def read(self, task: Read) -> list[Message]:
        """Return the envelopes of a task; tables in memory are read in this process."""
        if not isinstance(task, FileTask):
            return list(task())
        worker = self._workers[next(self._turns) % len(self._workers)]
        found: list[Message] = worker.call(("read", task.part))
        return found

    def work(self, place: int, clock_ms: int | None, group: Group) -> Emitted:
        """Process the messages of a group; `place` is that of the operator."""
        number, _ = group
        owner = f"{self._roles[place]} {number}"
        worker = self._workers[number % len(self._workers)]
        pages = self._describe_pages(owner)
        emitted, changes = worker.call(("work", place, clock_ms, group, owner, pages))
        self._changes[owner] = changes
        return Emitted(*emitted)

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the pages that the last batch has changed, by their names in the log."""
        found, self._changes = self._changes, {}
        self._changed |= {owner: list(changes) for owner, changes in found.items()}
        return {name: data for changes in found.values() for name, data in changes.items()}

    def _describe_pages(self, owner: str) -> PageChanges:
        path = str(self._log.path)
        if self._known.get(owner) == path:
            names: Iterable[str] = self._changed.pop(owner, ())
            return PageChanges(path, False, self._log.find_places(names))
        self._known[owner] = path
        prefix = f"{owner}/"
        mine = (name for name in self._log if name.startswith(prefix))
        return PageChanges(path, True, self._log.find_places(mine))

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.close()
        self._workers = []


class _Worker:
    """A process, and the pipes to it. One call at a time."""

    def __init__(self, packed: bytes) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        # All workers have one order of sets, as on Spark.
        seed = os.environ.get("PYTHONHASHSEED", "0")
        environment = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": seed}
        self._lock = Lock()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE],
                env=os.environ | environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        except OSError as error:
            raise WorkerError(f"no process can be started: {error}") from error
        self._send(packed)

    def call(self, request: tuple[Any, ...]) -> Any:
        """Return the answer to a request; raise `WorkerError` if there is none."""
        with self._lock:
            self._send(pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL))
            assert self._process.stdout is not None
            try:
                outcome, answer = pickle.load(self._process.stdout)  # noqa: S301 - from our own process
            except (EOFError, OSError, pickle.UnpicklingError) as error:
                raise WorkerError("a worker process has ended") from error
        if outcome == "failed":
            raise WorkerError(answer)
        return answer

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerError("a worker process has ended") from error

    def close(self) -> None:
        """End the process: it ends by itself at the end of its input."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def pack_job(job: Job) -> bytes:
    """Return a job as bytes for another process; raise `WorkerError` if it can't be one."""
    try:
        import cloudpickle
    except ImportError as error:
        raise WorkerError("cloudpickle is not installed") from error
    own = list_own_modules(job.program)
    try:
        for module in own:
            cloudpickle.register_pickle_by_value(module)
        packed: bytes = cloudpickle.dumps(job)
    except Exception as error:
        raise WorkerError(f"the program can't be sent to another process: {error}") from error
    finally:
        for module in own:
            with suppress(ValueError):
                cloudpickle.unregister_pickle_by_value(module)
    return packed


class _PageFile:
    """The pages of one group in a log that another process writes."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._places: dict[str, PagePlace] = {}

    def update(self, changes: PageChanges) -> None:
        """Take the places of pages that have changed."""
        if self._file is None or self._file.name != changes.path:
            self.close()
            self._file = open(changes.path, "rb", buffering=0)  # noqa: SIM115 - until the next one
        if changes.whole:
            self._places = {}
        for name, place in changes.places.items():
            if place is None:
                self._places.pop(name, None)
            else:
                self._places[name] = place

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def read(self, name: str) -> bytes | None:
        """Return a page of the last committed batch."""
        place = self._places.get(name)
        if place is None:
            return None
        assert self._file is not None
        return os.pread(self._file.fileno(), place.size, place.start)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class _Service:
    """The work of one worker process."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._groups: dict[str, tuple[_PageFile, Groups]] = {}

    def answer(self, request: tuple[Any, ...]) -> Any:
        """Return the answer to a request."""
        if request[0] == "read":
            return list(FileTask(self._job, request[1])())
        _, place, clock_ms, group, owner, pages = request
        if owner not in self._groups or pages.whole:
            file = _PageFile()
            file.update(pages)
            self._groups[owner] = file, Groups(self._job, file)
        file, groups = self._groups[owner]
        file.update(pages)
        emitted = groups.work(place, clock_ms, group)
        return tuple(emitted), groups.take_changes()


def serve() -> None:
    """Answer the requests of the process that has started this one, until its end."""
    # Ctrl-C reaches all processes of a terminal; the one that started this one closes its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What a user's function prints must not come between the answers.
    service: _Service | None = None
    failed = ""
    try:
        service = _Service(pickle.load(requests))  # noqa: S301 - from the process that started this one
    except EOFError:
        return
    except BaseException:  # noqa: BLE001 - reported at the first request
        failed = traceback.format_exc()
    with suppress(EOFError, BrokenPipeError):
        while True:
            request = pickle.load(requests)  # noqa: S301 - from the process that started this one
            reply: tuple[Literal["done", "failed"], Any] = ("failed", failed)
            if service is not None:
                try:
                    reply = "done", service.answer(request)
                except BaseException:  # noqa: BLE001 - the other process repeats the batch, and raises it
                    reply = "failed", traceback.format_exc()
            pickle.dump(reply, replies, protocol=pickle.HIGHEST_PROTOCOL)
            replies.flush()
