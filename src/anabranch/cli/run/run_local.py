"""`anabranch run`: run a program in this process, and read the published rows.

Files are one bounded input, which is one batch. A folder with an output folder is a stream: the checkpoint of the
run lists the files that have been read. Both are read by `Files`, as on Spark.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.text import Text

from anabranch.cli.run.run_inputs import open_inputs
from anabranch.cli.run.run_report import RunReport, read_output_table, read_report
from anabranch.cli.run.run_request import (
    LOCAL_TRIGGER,
    RunRequest,
    check_local,
    check_packages,
    find_checkpoint,
    read_interval,
)
from anabranch.cli.target_module import TargetModule
from anabranch.cli.terminal.screen import Screen
from anabranch.cli.terminal.stop_signals import check_signals
from anabranch.paths import resolve_path


def run_embedded(
    screen: Screen,
    material: TargetModule,
    order: RunRequest,
    page: int | None,
    start: str | None = None,
    *,
    table: bool = False,
) -> RunReport:
    """Run a program in this process, and return a report with the first `page` rows of each kind, or all.

    A savepoint given as `start` is restored first, unless its checkpoint exists already. With `table`, the
    report has the outputs as a table, too.
    """
    check_packages()
    if start is not None:
        from anabranch.cli.run.run_restore import find_start, restore_embedded

        savepoint = find_start(order, start)
        if savepoint is not None:
            restore_embedded(screen, material, order, savepoint)
    check_local(order)
    order = keep_shards(order)
    from anabranch.local.local_runs import run
    from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES

    place = order.place
    # A run that is stopped in a long batch may still write to the folder when it is deleted.
    with TemporaryDirectory(prefix="anabranch-run-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        kept = order.output is not None and not order.to_file
        folder = resolve_path(order.output or "", "output") if kept else scratch / "published"
        inputs = open_inputs(material, order, scratch)
        check_signals()
        checkpoint = scratch / "state" if order.unbounded else None
        if order.is_stream:
            checkpoint = find_checkpoint(order, folder)
        handle = run(
            material.program,
            [one.make_source_of_files(material.program) for one in inputs],
            output=folder,
            checkpoint=checkpoint,
            format="parquet" if order.to_file else order.format,
            available_now=not place.follow,
            cores=place.cores,
            # What is deleted at the end need not survive a loss of power.
            sync="batch" if order.is_stream else "system",
            poll_s=_read_seconds(place.trigger or LOCAL_TRIGGER),
            # Without an output folder there are no rows for a user to inspect: the limit is checked at the end.
            most_rejected=order.most_rejected if order.is_stream else None,
            shards=place.shards,
            columnar=place.columnar,
            mode=order.mode,
            max_record_bytes=place.max_record_bytes or MAX_RECORD_BYTES,
        )
        with handle:
            _follow(screen, handle, order, folder)
        report = read_report(order, handle.job, inputs, folder, page)
        return replace(report, table=read_output_table(folder)) if table else report


def _follow(screen: Screen, handle: Any, order: RunRequest, folder: Path) -> None:
    """Wait for the end of a run; print a line for each batch."""
    from anabranch.microbatch.runs.batch_progress import describe_batch
    from anabranch.microbatch.runs.published_batches import read_watermarks

    if order.place.follow:
        every = order.place.trigger or LOCAL_TRIGGER
        _note(screen, f"following {order.folder}, every {every}", order)
        _note(screen, "Ctrl-C stops it", order)
    for batch in handle.watch():
        if order.is_stream:
            # What is published also has the batches since which channels hold the watermark back.
            watermarks = read_watermarks(folder / f"batch={batch.number}")
            _note(screen, describe_batch(batch._replace(watermarks=watermarks)), order)


def _note(screen: Screen, line: str, order: RunRequest) -> None:
    """Print a line of progress; without --follow, only on a terminal."""
    if order.place.follow or screen.err.is_terminal:
        screen.err.print(Text(line, style="dim"), soft_wrap=True)


def keep_shards(order: RunRequest) -> RunRequest:
    """Return the request with the number of shards of its checkpoint, if the user gave none."""
    if not order.is_stream or order.place.shards is not None:
        return order
    from anabranch.local.page_log import list_logs, read_log

    assert order.output is not None
    logs = list_logs(find_checkpoint(order, Path(order.output)))
    commit = read_log(max(logs.items())[1]).commit if logs else None
    if commit is None:
        return order
    shards = int(commit.about["made_by"]["shards"])
    return replace(order, place=replace(order.place, shards=shards))


def _read_seconds(text: str) -> float:
    number, unit = read_interval(text).split()
    return timedelta(**{unit: int(number)}).total_seconds()
