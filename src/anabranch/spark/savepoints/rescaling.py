"""Rescaling: another number of shards or partitions, or another layout, for a stopped query.

The state is written into a savepoint and restored into a draft of a checkpoint, which then replaces the old
one. If only Spark's partitions change, Spark moves the state itself.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from anabranch.errors import InputError
from anabranch.microbatch.runs.checkpoint_locks import Lock
from anabranch.microbatch.runs.ownership import (
    PAIR,
    check_pair,
    find_last,
    read_begin,
    write_begin,
)
from anabranch.microbatch.runs.part_files import Format, check_format
from anabranch.microbatch.runs.published_batches import (
    COLUMNS,
    LEDGER,
    WATERMARKS,
    find_last_batch,
)
from anabranch.microbatch.runs.run_options import RunKeywords, read_options
from anabranch.microbatch.savepoints.restore_checks import describe_place
from anabranch.model.program import Program
from anabranch.paths import resolve_path, strip_scheme
from anabranch.publication import publish_folder
from anabranch.sources.source_options import Source, list_sources
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from anabranch.spark.checkpoint.integrity import refuse_damage, renew_manifest
from anabranch.spark.checkpoint.provenance import find_begun
from anabranch.spark.runs import list_frames, make_job
from anabranch.spark.savepoints.checkpoint_restore import move_checkpoint, restore_savepoint
from anabranch.spark.savepoints.creation import create_savepoint, read_checkpoint
from anabranch.spark.session.current_session import find_session
from anabranch.spark.session.partitions import PARTITIONS, check_partitions
from anabranch.spark.sinks.directory import find_retained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rescale(
    program: Program,
    sources: Source | Iterable[Source],
    *,
    output: str | Path,
    checkpoint: str | Path,
    partitions: int | None = None,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    spark: SparkSession | None = None,
    **options: Unpack[RunKeywords],
) -> None:
    """Change the number of shards or partitions of a stopped query, or its layout; nothing is recomputed.

    Without `shards`, the number of shards does not change. The output and the checkpoint stay in their
    folders. The options are those of `run`.
    """
    place = check_rescale(output, checkpoint, partitions=partitions, format=format).absolute()
    sources, asked = list_sources(sources), read_options(options)
    session, target = find_session(list_frames(sources), spark), resolve_path(output, "output")
    lock = Lock(place)
    try:
        _check_finished(place)
        refuse_damage(place)
        overview = read_checkpoint(session, place)
        if asked.shards is None:
            asked = replace(asked, shards=overview.description.plan.shards)
        job = make_job(program, sources, asked, session)
        if partitions is not None and job.fingerprint() == overview.made_by:
            _repartition(session, place, target, partitions, format)
            write_begin(place, read_begin(place)._replace(shards=job.layout.shards))
        else:

            def restore(saved: Path, made: Path) -> None:
                restore_savepoint(
                    saved, program, sources, output=target, checkpoint=made, partitions=partitions,
                    format=format, spark=session, **asked.keywords(),
                )  # fmt: skip

            _replace(session, place, restore)
        renew_manifest(place, find_retained(session))
    finally:
        lock.release()


def _repartition(
    spark: SparkSession,
    checkpoint: Path,
    folder: Path,
    partitions: int,
    format: Format,  # noqa: A002 - Spark's own word
) -> None:
    """Change the partitions with Spark's own repartitioning, which moves the values of the state unchanged.

    For Spark this is a batch without rows, so it is published as one.
    """
    check_partitions(partitions)
    settings = (
        checkpoint / "offsets" / str(find_last(checkpoint / "offsets", "[0-9]*"))
    ).read_text()
    if json.loads(settings.splitlines()[1])["conf"][PARTITIONS] == str(partitions):
        return
    (checkpoint / MANIFEST).unlink(
        missing_ok=True
    )  # It is rewritten; a crash must not look like damage.
    manager: Any = spark._streamingCheckpointManager
    manager.repartition(str(checkpoint), partitions)
    last = find_last_batch(folder)
    if last is None:
        return
    number = find_last(checkpoint / "offsets", "[0-9]*") + read_begin(checkpoint).first
    with publish_folder(folder / f"batch={number}") as draft:
        for name in (LEDGER, WATERMARKS, COLUMNS):
            shutil.copyfile(last / name, draft / name)


def _replace(spark: SparkSession, place: Path, restore: Callable[[Path, Path], None]) -> None:
    """Replace a checkpoint by one that is restored from its savepoint."""
    aside = _name_aside(place)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    saved = create_savepoint(aside / "savepoint", checkpoint=place, spark=spark)
    restore(saved, aside / "checkpoint")
    begun = read_begin(aside / "checkpoint")
    write_begin(aside / "checkpoint", begun._replace(savepoint=read_begin(place).savepoint))
    _finish(aside, place)


def check_rescale(
    folder: str | Path,
    checkpoint: str | Path,
    *,
    partitions: int | None = None,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
) -> Path:
    """Return the checkpoint's path; raise if it can't be rescaled, as far as that shows without Spark.

    First finish a rescale that was killed while it moved the new checkpoint into place.
    """
    check_partitions(partitions)
    place = Path(strip_scheme(checkpoint, "checkpoint"))
    target = Path(strip_scheme(folder, "output"))
    aside = _name_aside(place)
    if _is_taken_over(target, aside / "checkpoint"):
        _finish(aside, place)
    if not (place / "commits").is_dir():
        raise InputError(
            f"there is no checkpoint at {checkpoint}",
            expected="the checkpoint of a query that has run and is stopped, on this machine",
            got=describe_place(place),
        )
    check_pair(target, place, find_begun(place))
    check_format(target, format)
    Lock(place).release()
    _check_finished(place)
    return place


def _name_aside(place: Path) -> Path:
    return place.with_name(f".{place.name}.rescale")


def _is_taken_over(folder: Path, made: Path) -> bool:
    """Return whether an output folder already belongs to the draft of a checkpoint."""
    ours, theirs = made / PAIR, folder / PAIR
    return ours.is_file() and theirs.is_file() and ours.read_bytes() == theirs.read_bytes()


def _finish(aside: Path, place: Path) -> None:
    """Replace the old checkpoint by the draft."""
    if place.exists():
        place.rename(aside / "before")
    move_checkpoint(aside / "checkpoint", place)
    shutil.rmtree(aside, ignore_errors=True)


def _check_finished(checkpoint: Path) -> None:
    begun = find_last(checkpoint / "offsets", "[0-9]*")
    committed = find_last(checkpoint / "commits", "[0-9]*")
    if begun != committed:
        raise InputError(
            f"batch {begun} of {checkpoint} was begun and not finished",
            expected="a query that was stopped between two batches",
            got=f"batch {committed} as the last that is committed",
            cure="start the query once more, unchanged, so that it finishes the batch",
        )
