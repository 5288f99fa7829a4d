"""Restores: a new checkpoint from a savepoint, for the same program or one that can take over its state.

The checkpoint is written into a draft folder, and moved into place at the end. Until then nothing has
changed, and after a crash the restore can be repeated.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from anabranch.errors import AnabranchError
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.ownership import PAIR, Begin, write_begin
from anabranch.microbatch.runs.part_files import Format
from anabranch.microbatch.runs.run_options import RunKeywords, read_options
from anabranch.microbatch.savepoints.restore_checks import (
    check_folders,
    check_sources,
    find_first,
    find_new,
    open_draft,
)
from anabranch.microbatch.savepoints.source_offsets import NOTHING_READ, line_up_offsets
from anabranch.model.program import Program
from anabranch.paths import resolve_path
from anabranch.publication import publish_file
from anabranch.savepoints.collection import find_savepoint
from anabranch.savepoints.file_names import SOURCE_LOGS
from anabranch.savepoints.folders import Savepoint, open_savepoint
from anabranch.sources.source_options import Source, list_sources
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from anabranch.spark.checkpoint.hadoop_checksums import name_sums
from anabranch.spark.checkpoint.integrity import renew_manifest
from anabranch.spark.checkpoint.provenance import write_made_by
from anabranch.spark.runs import fold_envelopes, list_frames, make_job
from anabranch.spark.session.current_session import find_session
from anabranch.spark.session.partitions import check_partitions, set_partitions
from anabranch.spark.sinks.directory import find_retained, publish
from anabranch.spark.sinks.progress import explain_failure
from anabranch.spark.sources.source_positions import Origin, list_origins, move_log
from anabranch.state.evolution.migration import Migration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def restore_savepoint(
    savepoint: str | Path,
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
    """Write a new checkpoint that continues from a savepoint; start it with `write_directory`.

    The program may differ from the saved one as far as its `changes` describe. The number of shards, the hot
    keys and Spark's partitions may differ, too. `output` is a new folder, or the folder in which the batch of
    the savepoint is the last one: then the numbers of its batches continue, and the old checkpoint no longer
    fits it. The options are those of `run`.
    """
    opened = open_savepoint(find_savepoint(savepoint).absolute())
    migration = check_restore(
        opened, program, output, checkpoint, partitions=partitions, format=format
    )
    target, place = resolve_path(output, "output"), find_new(checkpoint).absolute()
    sources = list_sources(sources)
    job = make_job(program, sources, read_options(options), spark)
    check_sources(opened, job, len(list_origins(sources)))
    first = find_first(target, opened)
    with open_draft(place) as draft:
        session = find_session(list_frames(sources), spark)
        with set_partitions(session, partitions):
            _seed(session, job, opened, migration, draft, first, format)
        _write_positions(
            opened, draft / "checkpoint", list_origins(sources), files=bool(job.folders)
        )
        write_begin(draft / "checkpoint", Begin(first, opened.manifest.id, job.layout.shards))
        write_made_by(draft / "checkpoint", job.fingerprint())
        _put_in_place(draft, place, target, first)
        renew_manifest(place, find_retained(session))


def check_restore(
    savepoint: Savepoint,
    program: Program,
    folder: str | Path,
    checkpoint: str | Path,
    *,
    partitions: int | None = None,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
) -> Migration:
    """Return the migration of a restore; raise if it is not possible, as far as that shows without Spark."""
    check_partitions(partitions)
    return check_folders(savepoint, program, folder, checkpoint, format=format)


def _seed(
    spark: SparkSession,
    job: Job,
    savepoint: Savepoint,
    migration: Migration,
    draft: Path,
    first: int,
    format: Format,  # noqa: A002 - Spark's own word
) -> None:
    """Run the seeding batch into a new checkpoint."""
    from anabranch.microbatch.savepoints.seeds import Seed
    from anabranch.spark.savepoints.first_batch import make_seeding_source

    name = f"anabranch_{uuid.uuid4().hex}"
    spark.dataSource.register(make_seeding_source(Seed(job, savepoint, migration), name))
    result = fold_envelopes(job, spark.readStream.format(name).load())
    published = draft / "published"
    published.mkdir()
    writer = result.packs.writeStream.outputMode("append").trigger(availableNow=True)

    def take(frame: DataFrame, _: int) -> None:
        publish(result.with_packs(frame), first, published, format)

    writer = writer.foreachBatch(take)
    query = writer.option("checkpointLocation", str(draft / "checkpoint")).start()
    try:
        query.awaitTermination()
    except AnabranchError:
        raise
    except Exception as error:
        raise explain_failure(str(error)) from error
    finally:
        query.stop()


def _write_positions(
    savepoint: Savepoint, checkpoint: Path, origins: Sequence[Origin], *, files: bool
) -> None:
    """Replace the offsets of the seeding batch by those of the savepoint."""
    manifest = savepoint.manifest
    # Sources that Spark has not read yet start at their beginning.
    offsets = [NOTHING_READ] * len(origins)
    if manifest.offsets:
        offsets = line_up_offsets(manifest.offsets, len(origins), files=files)
    file = checkpoint / "offsets" / "0"
    version, settings, *_ = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([version, settings, *offsets]), encoding="utf-8")
    name_sums(file).unlink(missing_ok=True)
    shutil.rmtree(checkpoint / SOURCE_LOGS, ignore_errors=True)
    for relative in manifest.files:
        if relative.startswith(f"{SOURCE_LOGS}/"):
            target = checkpoint / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            data = (savepoint.path / relative).read_bytes()
            folder = origins[int(relative.split("/")[1])].folder
            target.write_bytes(data if folder is None else move_log(data.decode(), folder).encode())


def move_checkpoint(made: Path, place: Path) -> None:
    """Move a checkpoint, and change the absolute paths of state schemas that Spark has written into it.

    The moved checkpoint has no manifest until `renew_manifest` writes one.
    """
    (made / MANIFEST).unlink(missing_ok=True)
    for file in made.glob("state/*/_metadata/v2/[0-9]*"):
        text = file.read_text(encoding="utf-8")
        moved = text.replace(str(made.absolute()), str(place.absolute()))
        file.write_text(moved, encoding="utf-8")
        name_sums(file).unlink(missing_ok=True)
    made.rename(place)


def _put_in_place(draft: Path, place: Path, folder: Path, first: int) -> None:
    """Move the checkpoint into its place, and write a new id into it and the output folder."""
    made = draft / "checkpoint"
    pair = json.dumps({"id": uuid.uuid4().hex}) + "\n"
    (made / PAIR).write_text(pair, encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rmdir()
    move_checkpoint(made, place)
    with publish_file(folder / PAIR) as partial:
        partial.write_text(pair, encoding="utf-8")
    (draft / "published" / f"batch={first}").rename(folder / f"batch={first}")
