"""`anabranch run --master`: the same program on Spark, and what it published.

Files are one bounded input: the reference reads and numbers their rows, and Spark folds them as a
batch. A folder is a stream: Spark reads its files itself, as many as there are, and remembers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from rich.text import Text

from anabranch.cli.run_report import RunReport, read_report
from anabranch.cli.screen import Screen
from anabranch.cli.spark_options import (
    SparkRequest,
    check_flags,
    check_order,
    find_checkpoint,
    keep_shards,
)
from anabranch.cli.target_module import TargetModule, declare_sources, load_items
from anabranch.errors import AnabranchError, InputError
from anabranch.eventtime.channels import Source
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout, choose_layout
from anabranch.reference.event_files import read_items
from anabranch.reference.rows import find_format, read_rows
from anabranch.savepoints.collection import find_savepoint
from anabranch.savepoints.folders import NoSavepointError, Savepoint, open_savepoint

Session = Any
"""Spark's. Only `anabranch.spark` imports PySpark, for types too."""


def run_on_spark(
    screen: Screen,
    material: TargetModule,
    order: SparkRequest,
    page: int | None,
    start: str | None = None,
) -> RunReport:
    """Run a program on Spark, and return the first `page` rows of each kind, or all.

    With a savepoint to `start` from, that is restored first, unless its checkpoint is there already.
    """
    savepoint = None if start is None else find_start(order, start)
    if savepoint is None:
        order = keep_shards(order)
        check_order(order)
    else:
        order = prepare_restore(material, order, savepoint)
    from anabranch.spark.session.signals import end_on_signals
    from anabranch.spark.session.startup import start_session

    sources, items = _take_stock(material, order)
    with ExitStack() as scope:
        # A JVM that was there before may have started elsewhere.
        folder = Path(order.output or scope.enter_context(TemporaryDirectory())).absolute()
        scope.enter_context(end_on_signals())
        with screen.wait("starting Spark"):
            session = start_session("anabranch", order.master)
        if order.folder is None:
            _run_batch(screen, session, material, order, sources, items, folder)
        else:
            if savepoint is not None:
                feed = _open_folder(session, material, order, sources)
                restore_here(screen, material, order, savepoint, feed)
            _run_stream(screen, session, material, order, sources, folder)
        wiring = _wire(material.program, order)
        return read_report(session, order, wiring, sources, folder, page)


def _wire(program: Program, order: SparkRequest) -> Layout:
    if order.mode == "settled":
        return choose_layout(program, order.shards)
    from anabranch.microbatch.job.speculative_layout import choose_speculative_layout

    return choose_speculative_layout(program, order.shards)


def find_start(order: SparkRequest, start: str) -> Savepoint | None:
    """Return the savepoint that a run has to begin with; None if its checkpoint has begun with it."""
    if order.folder is None or order.output is None:
        raise InputError(
            "on Spark, a savepoint goes on as a stream",
            expected="--input DIR, the folder that is followed, and --output DIR",
            got="no --output" if order.folder else "no folder as --input",
        )
    from anabranch.spark.checkpoint.ownership import read_begin

    checkpoint = find_checkpoint(order, Path(order.output))
    if not (checkpoint / "commits").is_dir():
        return open_savepoint(find_savepoint(start), verify=False)
    begun = read_begin(checkpoint).savepoint
    if begun is None:
        raise InputError(
            f"{checkpoint} did not begin with a savepoint",
            expected="a new --output, or one that began with it",
            got=f"--from {start}",
            cure="without --from it goes on where it is",
        )
    try:
        wanted = open_savepoint(find_savepoint(start), verify=False).manifest.id
    except NoSavepointError:
        return None  # It is not needed any more.
    if wanted != begun:
        raise InputError(
            f"{checkpoint} began with another savepoint",
            expected=begun[:16],
            got=f"{wanted[:16]}, which is {start}",
            cure="a new --output; or without --from it goes on where it is",
        )
    return None


def prepare_restore(
    material: TargetModule, order: SparkRequest, savepoint: Savepoint, partitions: int | None = None
) -> SparkRequest:
    """Refuse what can't go on from a savepoint before Java starts; return with how many shards it would."""
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
    order: SparkRequest,
    savepoint: Savepoint,
    feed: Any,
    partitions: int | None = None,
) -> None:
    """Make the checkpoint of a run out of a savepoint."""
    from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES
    from anabranch.spark.savepoints.checkpoint_restore import restore_savepoint

    assert order.output is not None
    with screen.wait("restoring"):
        restore_savepoint(
            savepoint.path,
            material.program,
            [feed],
            order.output,
            find_checkpoint(order, Path(order.output)),
            shards=order.shards,
            partitions=partitions,
            format=order.format,
            max_record_bytes=order.place.max_record_bytes or MAX_RECORD_BYTES,
        )


def _take_stock(
    material: TargetModule, order: SparkRequest
) -> tuple[tuple[Source, ...], tuple[Any, ...]]:
    """Return every source, and the items if they are a bounded input."""
    from anabranch.spark.sources.frames import derive_types

    derive_types(material.program)  # Refuse a type before Java starts, not after it.
    sources, items = _list_sources(material, order)
    if order.place.idle_after_s is not None:
        sources = tuple(replace(s, idle_after_s=order.place.idle_after_s) for s in sources)
    return sources, items


def _list_sources(
    material: TargetModule, order: SparkRequest
) -> tuple[tuple[Source, ...], tuple[Any, ...]]:
    if order.folder is None:
        items = load_items(material, order.inputs)
        sources = declare_sources(material, items, order.lateness, strict=order.strict)
        return _complete(sources, items), items
    files = list_files(order.folder)
    _find_stream_format(files)
    _check_sequence(material, files)
    if material.sources and order.lateness is None and not order.strict:
        return material.sources, ()
    items = tuple(read_items(material.program, files))
    sources = declare_sources(material, items, order.lateness, strict=order.strict)
    return _complete(sources, items), ()


def _complete(sources: Iterable[Source], items: Iterable[Any]) -> tuple[Source, ...]:
    """Return the sources of a run: those that are declared, or else all that bring items, in order."""
    declared = tuple(sources)
    return declared or tuple(Source(name) for name in dict.fromkeys(item.source for item in items))


def list_files(folder: str) -> list[str]:
    """Return the files of events in a folder, by name."""
    files = sorted(
        str(path)
        for path in Path(folder).iterdir()
        if path.is_file() and not path.name.startswith((".", "_"))
    )
    if not files:
        raise InputError(
            f"there are no files in {folder!r}",
            expected="files of events, JSON lines or Parquet",
            got="an empty folder",
        )
    return files


def _find_stream_format(files: list[str]) -> Literal["json", "parquet"]:
    formats = {find_format(file) for file in files}
    if formats == {"jsonl"}:
        return "json"
    if formats == {"parquet"}:
        return "parquet"
    raise InputError(
        "a folder must hold files of one format that Spark can follow",
        expected="JSON lines only, or Parquet only",
        got=", ".join(sorted(formats)),
    )


def _check_sequence(material: TargetModule, files: list[str]) -> None:
    from anabranch.spark.sources.frames import name_columns

    names = name_columns(material.program)
    row = next((row for row in read_rows(files[0]) if not isinstance(row.columns, str)), None)
    if row is None or isinstance(row.columns, str):
        return
    for name in ("source", "seq", "tag"):
        beat = name == "tag" and row.columns.get(names["heartbeat"]) is not None
        if row.columns.get(names[name]) is None and not beat:
            raise InputError(
                f"rows of a stream need a column {names[name]!r}",
                where=f"{files[0]}:{row.number}",
                expected="tag, source and seq in every row: files can't be numbered as they come",
                got=f"only {', '.join(row.columns)}",
                cure=f"add it, or run the files as one input: --input {files[0]}",
            )


def _run_batch(
    screen: Screen,
    session: Session,
    material: TargetModule,
    order: SparkRequest,
    sources: tuple[Source, ...],
    items: tuple[Any, ...],
    folder: Path,
) -> None:
    from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES
    from anabranch.spark.runs import run
    from anabranch.spark.sinks.directory import publish
    from anabranch.spark.sinks.progress import explain_failure
    from anabranch.spark.sources.feeds import Feed
    from anabranch.spark.sources.frames import BROKEN, MALFORMED, make_frame, name_columns

    folder.mkdir(parents=True, exist_ok=True)
    names = name_columns(material.program)
    feed = Feed(
        make_frame(session, material.program, items),
        tag_column=names["tag"],
        source_column=names["source"],
        seq=names["seq"],
        heartbeat=names["heartbeat"],
        sources=sources,
        corrupt_column=BROKEN,
        reason_column=MALFORMED,
    )
    most = order.place.max_record_bytes or MAX_RECORD_BYTES
    result = run(
        material.program, [feed], shards=order.shards, mode=order.mode, max_record_bytes=most
    )
    try:
        with screen.wait("running on Spark"):
            publish(result, 0, folder, order.format)
    except AnabranchError:
        raise
    except Exception as error:
        raise explain_failure(str(error)) from error


def _run_stream(
    screen: Screen,
    session: Session,
    material: TargetModule,
    order: SparkRequest,
    sources: tuple[Source, ...],
    folder: Path,
) -> None:
    from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES
    from anabranch.spark.checkpoint.ownership import find_local
    from anabranch.spark.runs import run
    from anabranch.spark.sinks.directory import write_directory
    from anabranch.spark.sinks.progress import follow

    feed = _open_folder(session, material, order, sources)
    most = order.place.max_record_bytes or MAX_RECORD_BYTES
    result = run(
        material.program, [feed], shards=order.shards, mode=order.mode, max_record_bytes=most
    )
    checkpoint = find_checkpoint(order, folder)
    if find_local(checkpoint) is not None:
        checkpoint = checkpoint.absolute()
    # Without a folder nothing is kept that a user could look at; then it is judged at the end.
    tolerance = None if order.output is None else order.most_rejected
    query = write_directory(
        result, folder, checkpoint, format=order.format, most_rejected=tolerance
    )
    try:
        follow(query, lambda line: _note(screen, line), folder)
    except Exception:
        query.stop()
        raise


def _open_folder(
    session: Session, material: TargetModule, order: SparkRequest, sources: tuple[Source, ...]
) -> Any:
    from anabranch.spark.sources.frames import feed_directory

    assert order.folder is not None
    return feed_directory(
        session,
        material.program,
        str(Path(order.folder).absolute()),
        sources,
        format=_find_stream_format(list_files(order.folder)),
        files_per_batch=order.files_per_batch,
    )


@contextmanager
def open_run(
    screen: Screen, material: TargetModule, order: SparkRequest
) -> Iterator[tuple[Session, Any]]:
    """Start Spark for a run that follows a folder; yield the session, and the feed of the folder."""
    check_flags(order)
    from anabranch.spark.session.signals import end_on_signals
    from anabranch.spark.session.startup import start_session

    sources, _ = _take_stock(material, order)
    with end_on_signals():
        with screen.wait("starting Spark"):
            session = start_session("anabranch", order.master)
        yield session, _open_folder(session, material, order, sources)


def _note(screen: Screen, line: str) -> None:
    """Show a line of progress to whoever looks at a terminal."""
    if screen.err.is_terminal:
        screen.err.print(Text(line, style="dim"), soft_wrap=True)
