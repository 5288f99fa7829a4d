"""One batch of an embedded run: tasks read their input, groups of each operator fold it, on threads.

Kernels, Arrow and the compression of pages release Python's lock, so that threads use all cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anabranch.errors import InputError
from anabranch.local.page_stores import PageStore
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.operators.group_operators import (
    Emitted,
    GroupOperator,
    Message,
    list_operators,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.local.page_log import PageLog

T = TypeVar("T")
R = TypeVar("R")

Read = Callable[[], Iterable[Message]]
"""A task: a function that returns envelopes."""


_Group = tuple[int, PageStore, list[tuple[str, bytes]]]
"""The number of a group, its store, and its messages."""


class BatchFold:
    """The groups of a job's operators, each with its store."""

    def __init__(self, job: Job, log: PageLog | None = None, pool: Executor | None = None) -> None:
        self._job = job
        self._log = log
        self._pool = pool
        self._operators = list_operators(job)
        self._stores: dict[str, PageStore] = {}

    def run(self, tasks: list[Read], clock_ms: int | None = None) -> list[pa.Table]:
        """Return the result rows of a batch."""
        read = self._map(lambda task: list(task()), tasks)
        messages: Iterable[Message] = (message for envelopes in read for message in envelopes)
        tables: list[pa.Table] = []
        for operator in self._operators:
            groups = [
                (number, self._find_store(f"{operator.role} {number}"), mine)
                for number, mine in sorted(_group(messages).items())
            ]
            work = partial(_work, operator, self._job, clock_ms)
            results = self._map(work, groups)
            messages = [message for emitted in results for message in emitted.messages]
            tables += [emitted.rows for emitted in results if emitted.rows is not None]
        return tables

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the pages that the last batch has changed, by their names in the log."""
        changes: dict[str, bytes | None] = {}
        for store in self._stores.values():
            changes |= store.take_changes()
        return changes

    def _find_store(self, owner: str) -> PageStore:
        store = self._stores.get(owner)
        if store is None:
            store = self._stores[owner] = PageStore(owner, self._log)
        return store

    def _map(self, function: Callable[[T], R], values: list[T]) -> list[R]:
        if self._pool is None or len(values) < 2:
            return [function(value) for value in values]
        return list(self._pool.map(function, values))


def _work(operator: type[GroupOperator], job: Job, clock_ms: int | None, group: _Group) -> Emitted:
    number, store, messages = group
    return operator(store, job).work(number, messages, clock_ms)


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
