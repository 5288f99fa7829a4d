"""`anabranch run --master`: run a program on Spark and read the published rows.

Files are one bounded input, which Spark folds as a batch. A folder is a stream: the checkpoint of its
query lists the files that have been read. Both are read by `Files`, in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.text import Text

from anabranch.cli.run.run_inputs import open_inputs
from anabranch.cli.run.run_report import RunReport, read_report
from anabranch.cli.run.run_request import (
    TRIGGER,
    RunRequest,
    check_flags,
    check_order,
    find_checkpoint,
    keep_shards,
)
from anabranch.cli.run.run_restore import check_begun
from anabranch.cli.target_module import TargetModule
from anabranch.cli.terminal.screen import Screen
from anabranch.errors import AnabranchError, InputError
from anabranch.paths import resolve_path
from anabranch.savepoints.collection import find_savepoint
from anabranch.savepoints.folders import Savepoint, open_savepoint

Session = Any
"""Spark's. Only `anabranch.spark` imports PySpark, for types too."""


def run_on_spark(
    screen: Screen,
    material: TargetModule,
    order: RunRequest,
    page: int | None,
    start: str | None = None,
) -> RunReport:
    """Run a program on Spark, and return a report with the first `page` rows of each kind, or all.

    A savepoint given as `start` is restored first, unless its checkpoint exists already.
    """
    savepoint = None if start is None else find_start(order, start)
    if savepoint is None:
        order = keep_shards(order)
        check_order(order)
    else:
        order = prepare_restore(material, order, savepoint)
    from anabranch.microbatch.runs.run_options import RunOptions
    from anabranch.spark.runs import make_job
    from anabranch.spark.session.signals import end_on_signals
    from anabranch.spark.session.startup import start_session

    with ExitStack() as scope:
        scratch = Path(scope.enter_context(open_scratch()))
        # A JVM that was already running may have another working directory.
        folder = resolve_path(order.output or scratch / "published", "output")
        folder_inputs = open_inputs(material, order, scratch)
        scope.enter_context(end_on_signals())
        with screen.wait("starting Spark"):
            start_session(name="anabranch", master=order.master)
        sources = [
            folder_input.make_source_of_files(material.program) for folder_input in folder_inputs
        ]
        if savepoint is not None:
            restore_here(screen, material, order, savepoint, sources)
        options = RunOptions(
            shards=order.place.shards, columnar=order.place.columnar, mode=order.mode,
            max_record_bytes=find_most(order),
        )  # fmt: skip
        job = make_job(material.program, sources, options)
        if order.folder is None:
            _run_batch(screen, job, sources, order, folder)
        else:
            _run_stream(screen, job, sources, order, folder)
        return read_report(order, job, folder_inputs, folder, page)


def open_scratch() -> TemporaryDirectory[str]:
    """Return a folder that is deleted at the end; Spark may still write to it then."""
    return TemporaryDirectory(prefix="anabranch-run-", ignore_cleanup_errors=True)


def find_most(order: RunRequest) -> int:
    """Return the maximum size of an event in bytes."""
    from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES

    return order.place.max_record_bytes or MAX_RECORD_BYTES


def find_start(order: RunRequest, start: str) -> Savepoint | None:
    """Return the savepoint that a run must restore, or None if its checkpoint began with it."""
    if order.folder is None or order.output is None:
        raise InputError(
            "on Spark, a savepoint continues as a stream",
            expected="--input DIR, the folder of the stream, and --output DIR",
            got="no --output" if order.folder else "no folder as --input",
        )
    from anabranch.microbatch.runs.ownership import read_begin

    checkpoint = find_checkpoint(order, Path(order.output))
    if not (checkpoint / "commits").is_dir():
        return open_savepoint(find_savepoint(start), verify=False)
    check_begun(checkpoint, read_begin(checkpoint).savepoint, start)
    return None


def prepare_restore(
    material: TargetModule, order: RunRequest, savepoint: Savepoint, partitions: int | None = None
) -> RunRequest:
    """Return the request with its number of shards; refuse what can't be restored before Java starts."""
    made_by = savepoint.manifest.fingerprint
    if order.place.shards is None and made_by.get("shards", "").isdecimal():
        order = replace(order, place=replace(order.place, shards=int(made_by["shards"])))
    check_flags(order)
    from anabranch.spark.savepoints.checkpoint_restore import check_restore

    assert order.output is not None
    checkpoint = find_checkpoint(order, Path(order.output))
    check_restore(
        savepoint, material.program, order.output, checkpoint, partitions=partitions,
        format=order.format,
    )  # fmt: skip
    return order


def restore_here(
    screen: Screen,
    material: TargetModule,
    order: RunRequest,
    savepoint: Savepoint,
    sources: list[Any],
    partitions: int | None = None,
) -> None:
    """Write the checkpoint of a run from a savepoint."""
    from anabranch.spark.savepoints.checkpoint_restore import restore_savepoint

    assert order.output is not None
    with screen.wait("restoring"):
        restore_savepoint(
            savepoint.path,
            material.program,
            sources,
            output=order.output,
            checkpoint=find_checkpoint(order, Path(order.output)),
            shards=order.place.shards,
            columnar=order.place.columnar,
            partitions=partitions,
            format=order.format,
            mode=order.mode,
            max_record_bytes=find_most(order),
        )


def _run_batch(
    screen: Screen, job: Any, sources: list[Any], order: RunRequest, folder: Path
) -> None:
    from anabranch.spark.runs import run_job
    from anabranch.spark.sinks.directory import check_writable, publish
    from anabranch.spark.sinks.progress import explain_failure, keep_trace

    result = run_job(job, sources, find_most(order))
    check_writable(result, order.format)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with screen.wait("running on Spark"):
            publish(result, 0, folder, order.format)
    except AnabranchError:
        raise
    except Exception as error:
        raise keep_trace(explain_failure(str(error)), str(error)) from error


def _run_stream(
    screen: Screen, job: Any, sources: list[Any], order: RunRequest, folder: Path
) -> None:
    from anabranch.spark.runs import run_job
    from anabranch.spark.sinks.directory import write_directory
    from anabranch.spark.sinks.progress import follow

    result = run_job(job, sources, find_most(order))
    # Without an output folder there are no rows for a user to inspect, so the limit is checked at the end.
    tolerance = None if order.output is None else order.most_rejected
    checkpoint = find_checkpoint(order, folder)
    query = write_directory(
        result, output=folder, checkpoint=checkpoint, format=order.format, most_rejected=tolerance,
        trigger=order.trigger,
    )  # fmt: skip
    if order.place.follow:
        page = result.session.sparkContext.uiWebUrl
        _note(screen, f"following {order.folder}, every {order.place.trigger or TRIGGER}", order)
        _note(screen, f"Ctrl-C stops it{f'; Spark shows it at {page}' if page else ''}", order)
    try:
        follow(query, lambda line: _note(screen, line, order), output=folder)
    except Exception:
        query.stop()
        raise


@contextmanager
def open_run(
    screen: Screen, material: TargetModule, order: RunRequest
) -> Iterator[tuple[Session, list[Any]]]:
    """Start Spark for a run on a folder; yield the session and the sources of the folder."""
    check_flags(order)
    from anabranch.spark.session.signals import end_on_signals
    from anabranch.spark.session.startup import start_session

    with open_scratch() as scratch, end_on_signals():
        folder_inputs = open_inputs(material, order, Path(scratch))
        with screen.wait("starting Spark"):
            session = start_session(name="anabranch", master=order.master)
        yield (
            session,
            [folder_input.make_source_of_files(material.program) for folder_input in folder_inputs],
        )


def _note(screen: Screen, line: str, order: RunRequest) -> None:
    """Print a line of progress; without --follow, only on a terminal."""
    if order.place.follow or screen.err.is_terminal:
        screen.err.print(Text(line, style="dim"), soft_wrap=True)
