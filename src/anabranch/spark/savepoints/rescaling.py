"""Rescaling: another number of shards or partitions, or another plan, for a query that is stopped.

What a query holds is saved and taken up again, by a checkpoint that is made aside and then takes the place of
the old one. Where only Spark's partitions change, Spark moves the state itself.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES
from anabranch.microbatch.job.path_choice import Columnar
from anabranch.model.program import Program
from anabranch.paths import resolve_path, strip_scheme
from anabranch.publication import publish_folder
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from anabranch.spark.checkpoint.integrity import refuse_damage, renew_manifest
from anabranch.spark.checkpoint.locks import Lock
from anabranch.spark.checkpoint.ownership import (
    PAIR,
    check_pair,
    find_last,
    read_begin,
    write_begin,
)
from anabranch.spark.runs import find_session, make_job
from anabranch.spark.savepoints.checkpoint_restore import (
    describe_place,
    move_checkpoint,
    restore_savepoint,
)
from anabranch.spark.savepoints.creation import create_savepoint, read_checkpoint
from anabranch.spark.session.partitions import PARTITIONS, check_partitions
from anabranch.spark.sinks.directory import (
    FRONTIERS,
    LEDGER,
    OUTPUT_COLUMNS,
    find_last_batch,
    find_retained,
)
from anabranch.spark.sinks.part_files import Format, check_format
from anabranch.spark.sources.feeds import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rescale(  # noqa: PLR0913 - what `run` and `write_directory` take
    program: Program,
    feeds: Iterable[Feed],
    folder: str | Path,
    checkpoint: str | Path,
    *,
    shards: int | None = None,
    hot: Iterable[Any] = (),
    columnar: Columnar = "auto",
    partitions: int | None = None,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> None:
    """Give a stopped query another number of shards or partitions, or another plan; nothing is recomputed.

    Without `shards` their number stays. The folder and the checkpoint stay where they are.
    """
    place = check_rescale(folder, checkpoint, partitions=partitions, format=format).absolute()
    feeds = list(feeds)
    spark, target = find_session(feeds), resolve_path(folder, "output")
    lock = Lock(place)
    try:
        _check_finished(place)
        refuse_damage(place)
        overview = read_checkpoint(spark, place)
        asked = overview.description.plan.shards if shards is None else shards
        options: Any = {"shards": asked, "hot": hot, "columnar": columnar}
        options["max_record_bytes"] = max_record_bytes
        job = make_job(program, feeds, **options)
        if partitions is not None and job.fingerprint() == overview.made_by:
            _repartition(spark, place, target, partitions, format)
            write_begin(place, read_begin(place)._replace(shards=job.wiring.shards))
        else:
            _replace(place, program, feeds, target, partitions, format, options)
        renew_manifest(place, find_retained(spark))
    finally:
        lock.release()


def _repartition(
    spark: SparkSession,
    checkpoint: Path,
    folder: Path,
    partitions: int,
    format: Format,  # noqa: A002 - Spark's own word
) -> None:
    """Let Spark itself deal out the shards to other partitions: it moves pages as they are.

    That is a batch of its own to Spark, without rows, and so it is published as one.
    """
    check_partitions(partitions)
    settings = (
        checkpoint / "offsets" / str(find_last(checkpoint / "offsets", "[0-9]*"))
    ).read_text()
    if json.loads(settings.splitlines()[1])["conf"][PARTITIONS] == str(partitions):
        return
    (checkpoint / MANIFEST).unlink(
        missing_ok=True
    )  # It is renewed; a crash must not look like damage.
    manager: Any = spark._streamingCheckpointManager
    manager.repartition(str(checkpoint), partitions)
    last = find_last_batch(folder)
    if last is None:
        return
    number = find_last(checkpoint / "offsets", "[0-9]*") + read_begin(checkpoint).first
    with publish_folder(folder / f"batch={number}") as draft:
        for name in (LEDGER, FRONTIERS, OUTPUT_COLUMNS):
            shutil.copyfile(last / name, draft / name)


def _replace(
    place: Path,
    program: Program,
    feeds: Sequence[Feed],
    folder: Path,
    partitions: int | None,
    format: Format,  # noqa: A002 - Spark's own word
    options: dict[str, Any],
) -> None:
    """Put a checkpoint that was made of a savepoint in the place of the one that was saved."""
    aside = _name_aside(place)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    saved = create_savepoint(find_session(feeds), place, aside / "savepoint")
    restore_savepoint(
        saved, program, feeds, folder, aside / "checkpoint",
        partitions=partitions, format=format, **options,
    )  # fmt: skip
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
    """Refuse a checkpoint that can't be given other shards, as far as that needs no Spark.

    A rescale that was killed as it put the new checkpoint in place is finished first.
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
    check_pair(target, place)
    check_format(target, format)
    Lock(place).release()
    _check_finished(place)
    return place


def _name_aside(place: Path) -> Path:
    return place.with_name(f".{place.name}.rescale")


def _is_taken_over(folder: Path, made: Path) -> bool:
    """Say whether a folder already belongs to a checkpoint that was made aside."""
    ours, theirs = made / PAIR, folder / PAIR
    return ours.is_file() and theirs.is_file() and ours.read_bytes() == theirs.read_bytes()


def _finish(aside: Path, place: Path) -> None:
    """Let the checkpoint that was made aside take the place of the old one."""
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
            cure="start the query once more as it was, so that it finishes the batch",
        )
