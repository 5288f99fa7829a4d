"""One batch of an embedded run: tasks read their input, groups of each operator fold it, on all cores.

Kernels, Arrow and the compression of pages release Python's lock, so that threads use all cores. The functions of an
interpreted program hold it: if its batches take long, worker processes do the work.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from anabranch.errors import InputError
from anabranch.local.page_stores import Pages, PageStore
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.operators.group_operators import Emitted, Message, list_operators
from anabranch.microbatch.runs.file_batches import FilePart, read_part

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.local.page_log import PageLog

_LOG = logging.getLogger("anabranch")

_WORTH_S = 0.5
"""The duration of a batch from which on worker processes are worth their start."""

T = TypeVar("T")
R = TypeVar("R")

Read = Callable[[], Iterable[Message]]
"""A task: a function that returns envelopes."""

Group = tuple[int, list[tuple[str, bytes]]]
"""The number of a group, and its messages."""


@dataclass(frozen=True)
class FileTask:
    """A task that reads files."""

    job: Job
    part: FilePart

    def __call__(self) -> Iterator[Message]:
        """Yield the envelopes of the files."""
        for envelopes in read_part(self.job, self.part):
            yield from envelopes


class GroupRunner(Protocol):
    """Where the work of a batch is done: `Groups` in this process, or `WorkerProcesses`."""

    def read(self, task: Read, /) -> list[Message]:
        """Return the envelopes of a task."""

    def work(self, place: int, clock_ms: int | None, group: Group, /) -> Emitted:
        """Process the messages of a group; `place` is that of the operator."""

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the pages that the last batch has changed, by their names in the log."""


class Groups:
    """The groups of a job's operators in this process, each with its store."""

    def __init__(self, job: Job, pages: Pages | None = None) -> None:
        self._job = job
        self._pages = pages
        self._operators = list_operators(job)
        self._stores: dict[str, PageStore] = {}

    def read(self, task: Read) -> list[Message]:
        """Return the envelopes of a task."""
        return list(task())

    def work(self, place: int, clock_ms: int | None, group: Group) -> Emitted:
        """Process the messages of a group; `place` is that of the operator."""
        number, messages = group
        operator = self._operators[place]
        owner = f"{operator.role} {number}"
        store = self._stores.get(owner)
        if store is None:
            store = self._stores[owner] = PageStore(owner, self._pages)
        return operator(store, self._job).work(number, messages, clock_ms)

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the pages that the last batch has changed, by their names in the log."""
        changes: dict[str, bytes | None] = {}
        for store in list(self._stores.values()):
            changes |= store.take_changes()
        return changes


class BatchFold:
    """The work of a job, batch by batch, on the threads of a pool, or in as many worker processes.

    `processes` is whether to use worker processes; if None, they are started when a batch takes long. Only interpreted
    programs whose state is in a log use them.
    """

    def __init__(
        self,
        job: Job,
        log: PageLog | None = None,
        pool: Executor | None = None,
        *,
        cores: int = 1,
        processes: bool | None = False,
    ) -> None:
        self._job, self._log, self._pool, self._cores = job, log, pool, cores
        self._place: GroupRunner = Groups(job, log)
        usable = log is not None and job.columns is None and pool is not None
        self._processes = processes if usable else False
        self._workers: Any = None

    def run(self, tasks: list[Read], clock_ms: int | None = None) -> list[pa.Table]:
        """Return the result rows of a batch."""
        from anabranch.local.worker_processes import WorkerError

        if self._processes:
            self._start_workers()
        if self._workers is not None:
            try:
                return self._run(tasks, clock_ms)
            except WorkerError as error:
                self._stop_workers(error)
        began = time.monotonic()
        tables = self._run(tasks, clock_ms)
        if self._processes is None and time.monotonic() - began > _WORTH_S:
            self._processes = (
                True  # From the next batch on: the pages of this one are in this process.
            )
        return tables

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the pages that the last batch has changed, by their names in the log."""
        return self._place.take_changes()

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()

    def _run(self, tasks: list[Read], clock_ms: int | None) -> list[pa.Table]:
        read = self._map(self._place.read, tasks)
        messages: Iterable[Message] = (message for envelopes in read for message in envelopes)
        tables: list[pa.Table] = []
        for place, _ in enumerate(list_operators(self._job)):
            work = partial(self._place.work, place, clock_ms)
            results = self._map(work, sorted(_group(messages).items()))
            messages = [message for emitted in results for message in emitted.messages]
            tables += [emitted.rows for emitted in results if emitted.rows is not None]
        return tables

    def _start_workers(self) -> None:
        from anabranch.local.worker_processes import WorkerError, WorkerProcesses

        assert self._log is not None
        self._processes = False
        try:
            self._workers = WorkerProcesses(self._job, self._log, self._cores)
        except WorkerError as error:
            self._stop_workers(error)
        else:
            self._place = self._workers

    def _stop_workers(self, error: Exception) -> None:
        """Continue in threads: they give the answer, or raise the error itself if it is not one of the processes."""
        self.close()
        self._workers, self._place = None, Groups(self._job, self._log)
        _LOG.warning("The run continues in threads, on one core: %s", str(error).strip())

    def _map(self, function: Callable[[T], R], values: list[T]) -> list[R]:
        if self._pool is None or len(values) < 2:
            return [function(value) for value in values]
        return list(self._pool.map(function, values))


def _group(messages: Iterable[Message]) -> dict[int, list[tuple[str, bytes]]]:
    groups: dict[int, list[tuple[str, bytes]]] = {}
    for to, kind, payload in messages:
        groups.setdefault(to, []).append((kind, payload))
    return groups


def join_batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of tables as record batches."""
    for table in tables:
        yield from table.to_batches()


def choose_cores(cores: int | None) -> int:
    """Return the number of threads: as given, or one for each core that this process may use."""
    if cores is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if type(cores) is not int or cores < 1:
        raise InputError("cores is not a number of cores", expected="1 or more", got=repr(cores))
    return cores


def choose_shards(cores: int, saved: str | None = None) -> int:
    """Return the default number of shards: that of the checkpoint, or one for each core, but at least two.

    More shards would only add work: unlike on Spark, no other machine can take some of them later; a savepoint
    can be restored with any number.
    """
    return int(saved) if saved is not None and saved.isdecimal() else max(2, cores)
