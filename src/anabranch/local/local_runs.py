"""Embedded runs: a program on its sources in this process, batch by batch, with a durable checkpoint."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self, Unpack

from anabranch.errors import InputError
from anabranch.eventtime.tolerance import Tolerance, read_tolerance
from anabranch.local.batch_fold import (
    BatchFold,
    FileTask,
    Read,
    choose_cores,
    choose_shards,
    join_batches,
)
from anabranch.local.checkpoints import Checkpoint, read_made_by
from anabranch.local.evaluation import Evaluation, list_tables_tasks, order_rows
from anabranch.local.folder_sink import FolderSink
from anabranch.local.page_log import PlannedBatch, Sync
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.batch_progress import Batch, describe_batch
from anabranch.microbatch.runs.file_batches import FileBatches
from anabranch.microbatch.runs.job_assembly import assemble_job, check_program, warn_of_row_path
from anabranch.microbatch.runs.part_files import Format
from anabranch.microbatch.runs.published_batches import find_watermarks, read_counts, sum_up
from anabranch.microbatch.runs.run_options import RunKeywords, RunOptions, read_options
from anabranch.model.program import Program
from anabranch.paths import resolve_path
from anabranch.sources.files import Files
from anabranch.sources.source_options import Source, list_sources

POLL_S = 0.01
"""The time between two listings of the input folders while there is nothing new."""

_WATCH_S = 0.1
"""The time after which `watch` looks for new batches."""

_GRACE_S = 1.0
"""The time that Ctrl-C waits for the end of a batch."""

_RECENT = 1000
"""The number of batches that are kept for `watch`."""

Take = Callable[[Evaluation, int], Any]
"""A function that gets the result of a batch and its number."""


def run(  # noqa: PLR0913 - the options of a run, each by its name
    program: Program,
    sources: Source | Iterable[Source],
    *,
    output: str | Path | None = None,
    checkpoint: str | Path | None = None,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    for_each_batch: Take | None = None,
    available_now: bool = False,
    cores: int | None = None,
    processes: bool | None = None,
    sync: Sync = "batch",
    poll_s: float = POLL_S,
    most_rejected: float | str | Tolerance | None = None,
    **options: Unpack[RunKeywords],
) -> LocalRun:
    """Start a run of a program in this process, and return its handle.

    With `output`, each batch is published as a folder `output/batch=N`, exactly once, as `write_directory` does on
    Spark. `checkpoint` is the folder of the state (default: `output/_checkpoint`); a run on the same folders
    continues where the last one ended, however it ended. With `for_each_batch`, the function gets each batch as an
    `Evaluation`, and its number. Without either, the rows are kept in memory: `run(...).result()`.

    The run takes new files until it is stopped; with `available_now=True`, or bounded sources, it processes the
    input that exists and ends. A batch starts when files are there: `poll_s` is the time between two listings.
    `sync="batch"` waits for the disk at each commit; with `"system"`, a loss of power may lose the last batches, but
    a crash of the process loses nothing. `cores` is the number of threads (default: all cores). A program on
    the row path uses as many worker processes instead, from the second batch on, if the first takes longer than half a
    second; `processes=True` starts them at once, `False` never. If more events are rejected than `most_rejected`, a count or a share such as "1%", the run publishes them and stops with
    `RejectionError`. The options are those of `anabranch.spark.run`.
    """
    check_program(program)
    listed, chosen, number = list_sources(sources), read_options(options), choose_cores(cores)
    folder = None if output is None else resolve_path(output, "output")
    place = _find_checkpoint(checkpoint, folder, listed)
    made_by = {} if place is None else read_made_by(place)
    job = assemble_job(program, listed, chosen, choose_shards(number, made_by.get("shards")))
    warn_of_row_path(job)
    tolerance = None if most_rejected is None else read_tolerance(most_rejected)
    sink = None if folder is None else FolderSink(job, folder, format, durable=sync == "batch")
    if not job.ended:
        check_streams(listed)
    loop = _Loop(job, listed, chosen, sink, for_each_batch, number, tolerance)
    loop.processes = processes
    loop.until = loop.batches.find_last() if available_now else None
    loop.open(place, sync)
    loop.ends, loop.poll_s = available_now or job.ended, poll_s
    return LocalRun(loop)


def _find_checkpoint(
    checkpoint: str | Path | None, output: Path | None, sources: list[Source]
) -> Path | None:
    """Return the folder of the checkpoint; a bounded run has none unless it is given."""
    if checkpoint is not None:
        return resolve_path(checkpoint, "checkpoint")
    streams = any(source.is_stream for source in sources)
    return None if output is None or not streams else output / "_checkpoint"


class LocalRun:
    """The handle of an embedded run: `wait`, `stop`, `progress`. As a context manager it stops at the end."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop
        self._thread = threading.Thread(target=loop.run, name="anabranch-run", daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        """Return whether the run has not ended."""
        return not self._loop.ended.is_set()

    @property
    def progress(self) -> Batch | None:
        """Return the progress of the last batch; None before the first."""
        return self._loop.last

    @property
    def job(self) -> Job:
        """Return the job: the program, its layout, its path."""
        return self._loop.job

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the run, and raise its error if it failed; return False after `timeout_s`.

        Ctrl-C stops the run after its current batch, and raises `KeyboardInterrupt`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.is_active:
            left = 0.2 if deadline is None else min(0.2, deadline - time.monotonic())
            if left <= 0:
                return False
            self._join(left)  # In short steps, so that Ctrl-C is noticed.
        if self._loop.error is not None:
            raise self._loop.error
        return True

    def _join(self, timeout_s: float) -> None:
        """Wait for the thread for some time; Ctrl-C stops it, and raises."""
        try:
            # Not `Thread.join`: if Ctrl-C interrupts it, Python 3.11 takes the thread for ended.
            self._loop.ended.wait(timeout_s)
        except KeyboardInterrupt:
            self._end_soon()
            raise

    def _end_soon(self) -> None:
        """Stop the run, and wait for a moment: a batch that takes longer ends by itself, and is the last."""
        self._loop.stopping.set()
        self._loop.ended.wait(_GRACE_S)

    def watch(self) -> Iterator[Batch]:
        """Yield the progress of each batch when it is done, until the run ends; raise its error if it failed.

        Ctrl-C stops the run, and raises `KeyboardInterrupt`.
        """
        active = True
        while active:
            active = self.is_active
            if active:
                self._join(_WATCH_S)
            while self._loop.recent:
                yield self._loop.recent.popleft()
        self.wait()

    def stop(self) -> None:
        """Stop the run after its current batch, and wait for it; raise its error if it failed."""
        self._loop.stopping.set()
        self.wait()

    def result(self) -> Evaluation:
        """Wait for the end, and return the rows of all batches of a run without an output folder."""
        self.wait()
        return self._loop.collect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self._end_soon()

    def __repr__(self) -> str:
        state = "running" if self.is_active else "failed" if self._loop.error else "ended"
        last = "no batch yet" if self.progress is None else describe_batch(self.progress)
        return f"<LocalRun {self.job.program.name}, {state}: {last}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


class _Loop:
    """The batches of a run, one after the other."""

    def __init__(
        self,
        job: Job,
        sources: list[Source],
        options: RunOptions,
        sink: FolderSink | None,
        take: Take | None,
        cores: int,
        tolerance: Tolerance | None,
    ) -> None:
        self.job, self._sources, self._options = job, sources, options
        self._sink, self._take, self._cores, self._tolerance = sink, take, cores, tolerance
        self.batches = FileBatches(job, cores)
        self.stopping, self.ended = threading.Event(), threading.Event()
        self.until: list[str] | None = None
        self.ends, self.poll_s = False, POLL_S
        self.processes: bool | None = None
        self.last: Batch | None = None
        self.recent: deque[Batch] = deque(maxlen=_RECENT)
        self.error: BaseException | None = None
        self._kept: list[Any] = []
        self._checkpoint: Checkpoint | None = None

    def open(self, place: Path | None, sync: Sync) -> None:
        """Open the checkpoint, and check that it belongs to this job and to its output folder."""
        if self._sink is not None:
            self._sink.check(place)
        if place is None:
            return
        self._checkpoint = Checkpoint(place, self.job, sync)
        try:
            if self._sink is not None:
                opened = self._checkpoint
                self._sink.accept(place, opened.begun, opened.next_batch - 1)
        except BaseException:
            self._checkpoint.close()
            raise

    def run(self) -> None:
        """Process batches until the input ends, or the run is stopped, or fails."""
        try:
            with ThreadPoolExecutor(self._cores) if self._cores > 1 else nullcontext() as pool:
                self._run(pool)
        except BaseException as error:  # noqa: BLE001 - the handle raises it
            self.error = error
        finally:
            if self._checkpoint is not None:
                self._checkpoint.close()
            self.ended.set()

    def _run(self, pool: Executor | None) -> None:
        log = None if self._checkpoint is None else self._checkpoint.log
        fold = BatchFold(self.job, log, pool, cores=self._cores, processes=self.processes)
        try:
            self._run_batches(fold)
        finally:
            fold.close()

    def _run_batches(self, fold: BatchFold) -> None:
        checkpoint = self._checkpoint
        if self.job.ended:
            if checkpoint is None or checkpoint.next_batch == 0:
                self._run_once(fold, checkpoint)
            return
        start = self.batches.begin() if checkpoint is None else checkpoint.offset(self.batches)
        number = 0 if checkpoint is None else checkpoint.next_batch
        while not self.stopping.is_set():
            plan = None if checkpoint is None else checkpoint.log.plan
            if plan is None:
                end = self.batches.advance(start, self.until)
                if end == start:
                    if self.ends:
                        return
                    self.stopping.wait(self.poll_s)
                    continue
                plan = PlannedBatch(number, end, self._read_clock())
                if checkpoint is not None:
                    checkpoint.log.write_plan(plan)
            parts = self.batches.divide(start, plan.offset)
            self._process(fold, plan, [FileTask(self.job, part) for part in parts])
            start, number = plan.offset, number + 1

    def _run_once(self, fold: BatchFold, checkpoint: Checkpoint | None) -> None:
        """Process a bounded input as one batch; a repeated one has the same files."""
        plan = None if checkpoint is None else checkpoint.log.plan
        start = self.batches.begin()
        if plan is None:
            plan = PlannedBatch(0, self.batches.advance(start, whole=True), None)
            if checkpoint is not None:
                checkpoint.log.write_plan(plan)
        tasks = list_tables_tasks(self.job, self._sources, self._options)
        parts = self.batches.divide(start, plan.offset)
        self._process(fold, plan, [*tasks, *(FileTask(self.job, part) for part in parts)])

    def _read_clock(self) -> int | None:
        """Return the time that is recorded with a batch, if a channel can become idle."""
        idle = any(channel.idle_after_s is not None for channel in self.job.channels.values())
        return time.time_ns() // 1_000_000 if idle else None

    def _process(self, fold: BatchFold, plan: PlannedBatch, tasks: list[Read]) -> None:
        """Process a batch: fold it, publish its rows, and commit it."""
        began = time.monotonic()
        tables = fold.run(tasks, plan.clock_ms)
        counts = [count for table in tables for count in read_counts(table)]
        balance = sum_up(counts).check(f"batch {plan.batch}")
        columns = OutputColumns(
            self.job.program.output_types, timestamped=self.job.program.timestamped
        )
        if self._sink is not None:
            self._sink.publish(plan.batch, join_batches(tables), counts)
        if self._take is not None:
            self._take(Evaluation(order_rows(tables), columns), plan.batch)
        elif self._sink is None:
            self._kept.append(tables)
        changes = fold.take_changes()
        if self._checkpoint is not None:
            self._checkpoint.commit(plan, changes)
        events = sum(count.get("input_events", 0) for count in counts)
        duration_s = time.monotonic() - began
        self.last = Batch(
            plan.batch, events, events / duration_s if duration_s else 0.0, 0, 0, balance,
            find_watermarks(counts),
        )  # fmt: skip
        self.recent.append(self.last)
        if self._tolerance is not None and self._sink is not None:
            self._sink.judge(plan.batch, self._tolerance, ended=self.job.ended)

    def collect(self) -> Evaluation:
        """Return the rows of all batches; the ledger is that of the last."""
        columns = OutputColumns(
            self.job.program.output_types, timestamped=self.job.program.timestamped
        )
        if self._sink is not None or self._take is not None:
            raise InputError(
                "the rows of this run are not kept in memory",
                expected="a run without output= and for_each_batch=",
                got="a run with one of them",
                cure="anabranch.local.read_outputs(output) reads what was published",
            )
        return Evaluation(order_rows(_drop_old_ledgers(self._kept)), columns)


def _drop_old_ledgers(batches: list[Any]) -> list[Any]:
    """Return the tables of all batches; of ledger rows, which count all events so far, only the last."""
    import pyarrow.compute as pc

    old = [table for tables in batches[:-1] for table in tables]
    kept = [table.filter(pc.not_equal(table.column("kind"), "ledger")) for table in old]
    return [*kept, *(batches[-1] if batches else [])]


def check_streams(sources: list[Source]) -> None:
    """Raise `InputError` for a stream that only Spark can read."""
    for source in sources:
        if not isinstance(source, Files):
            raise InputError(
                f"{type(source).__name__} can't be read as a stream without Spark",
                expected="Files(…)",
                got=type(source).__name__,
                cure="anabranch.spark.run(program, …)",
            )
