"""Restores: a new checkpoint from a savepoint, for the same program or one that can take over its state.

The checkpoint is written into a draft folder, and moved into place at the end. Until then nothing has
changed, and after a crash the restore can be repeated.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from anabranch.errors import AnabranchError, InputError
from anabranch.microbatch.ingest.look_ahead import SEEN_AHEAD
from anabranch.microbatch.job.job import Job
from anabranch.model.program import Program
from anabranch.paths import resolve_path, strip_scheme
from anabranch.publication import publish_file
from anabranch.savepoints.collection import find_savepoint
from anabranch.savepoints.file_names import SOURCE_LOGS
from anabranch.savepoints.folders import Savepoint, open_savepoint
from anabranch.savepoints.manifest import SavepointError
from anabranch.savepoints.objects import check_windows
from anabranch.sources.source_options import Source, list_sources
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from anabranch.spark.checkpoint.hadoop_checksums import name_sums
from anabranch.spark.checkpoint.integrity import renew_manifest
from anabranch.spark.checkpoint.ownership import PAIR, Begin, check_apart, find_last, write_begin
from anabranch.spark.checkpoint.provenance import write_made_by
from anabranch.spark.run_options import RunKeywords, read_options
from anabranch.spark.runs import fold_envelopes, list_frames, make_job
from anabranch.spark.savepoints.creation import NOTHING_READ
from anabranch.spark.session.current_session import find_session
from anabranch.spark.session.partitions import check_partitions, set_partitions
from anabranch.spark.sinks.directory import find_retained, publish, read_ledger
from anabranch.spark.sinks.part_files import Format, check_format
from anabranch.spark.sinks.progress import explain_failure
from anabranch.spark.sources.source_positions import Origin, list_origins, move_log
from anabranch.state.evolution.migration import Migration
from anabranch.state.evolution.schemas import read_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_AHEAD = f'"{SEEN_AHEAD}"'
"""A key that only the offset of `Files` has: the offsets of frames do not."""


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
    target, place = resolve_path(output, "output"), _find_new(checkpoint).absolute()
    sources = list_sources(sources)
    job = make_job(program, sources, read_options(options), spark)
    _check_sources(opened, job, sources)
    first = _find_first(target, opened)
    with _draft(place) as draft:
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
    target = Path(strip_scheme(folder, "output"))
    check_apart(target, _find_new(checkpoint))
    check_format(target, format)
    _find_first(target, savepoint)
    check_windows(savepoint.manifest, program)
    return Migration(read_schema(savepoint.manifest.schema), program)


def describe_place(place: Path) -> str:
    """Return what is at the path where a checkpoint should be."""
    if place.is_dir():
        return "a folder without commits"
    return "a file" if place.exists() else "nothing"


def _find_new(checkpoint: str | Path) -> Path:
    place = Path(strip_scheme(checkpoint, "checkpoint"))
    if place.is_file() or (place.exists() and any(place.iterdir())):
        raise InputError(
            f"{checkpoint} can't become the checkpoint of a restored query",
            expected="a new folder",
            got="a file" if place.is_file() else "a folder that is not empty",
            cure="publish into another folder, or choose another checkpoint",
        )
    return place


def _check_sources(savepoint: Savepoint, job: Job, sources: Sequence[Source]) -> None:
    """Raise if sources can't continue from a savepoint, before anything is written."""
    from anabranch.microbatch.restore.shares import begin_channels  # It needs NumPy.

    manifest = savepoint.manifest
    if job.ended:
        raise InputError(
            "a savepoint continues as a stream", expected="streaming sources", got="batch"
        )
    saved = bool(manifest.fingerprint.get("windows")) and manifest.fingerprint.get("state")
    windows = job.columns is not None and job.columns.windows is not None
    if windows != (saved == "in columns") and manifest.fingerprint.get("windows"):
        raise SavepointError(
            "open windows were saved in another form",
            expected="a run on the row path" if windows else "a run on the columnar path",
            got="the columnar path" if windows else "the row path",
            cure='run with columnar="never"'
            if windows
            else 'columnar="require" names what keeps the run on the row path',
        )
    begin_channels(job, manifest.list_standings())
    if manifest.offsets:
        _line_up(manifest.offsets, len(list_origins(sources)), files=bool(job.folders))


def _find_first(folder: Path, savepoint: Savepoint) -> int:
    """Return the number of the seeding batch in the output folder."""
    last, batch = find_last(folder, "batch=*"), savepoint.manifest.batch
    if last == -1:
        return 0
    if last != batch:
        raise InputError(
            f"{folder} is not where the savepoint was made",
            expected="a new folder, or one whose last batch is that of the savepoint",
            got=f"batch {last} as its last; the savepoint is of {_name_batch(batch)}",
            cure="publish into a new folder; here, outputs after the savepoint would be published twice",
        )
    ledger, saved = read_ledger(folder / f"batch={last}"), savepoint.manifest.list_ledger()
    if ledger != saved:
        raise InputError(
            f"{folder} is not where the savepoint was made",
            expected=f"a new folder, or one whose ledger is: {saved}",
            got=str(ledger),
            cure="publish into a new folder; this one belongs to another query",
        )
    return last + 1


def _name_batch(batch: int | None) -> str:
    return "a run without Spark" if batch is None else f"batch {batch}"


@contextmanager
def _draft(place: Path) -> Iterator[Path]:
    """Create a draft folder beside the path of a checkpoint; remove it at the end."""
    draft = place.with_name(f".{place.name}.restore")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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
    from anabranch.spark.savepoints.first_batch import Seed, make_seeding_source

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


def _line_up(offsets: Sequence[str], asked: int, *, files: bool) -> list[str]:
    """Return the offsets in Spark's order: frames, then added frames, then all `Files` as one."""
    saved = [offset for offset in offsets if LOOK_AHEAD in offset]
    if len(offsets) == asked and (bool(saved) == files or offsets[-1] == NOTHING_READ):
        return list(offsets)
    frames = [offset for offset in offsets if LOOK_AHEAD not in offset]
    added = asked - files - len(frames)
    if added < 0 or (saved and not files):
        raise SavepointError(
            "the savepoint has read from sources that are missing now",
            expected=f"{_count_sources(len(frames), files=bool(saved))}, in the same order; added frames come last",
            got=_count_sources(asked - files, files=files),
            cure="pass the sources that it had, and new ones after them",
        )
    fused = saved or [NOTHING_READ]
    return [*frames, *[NOTHING_READ] * added, *(fused if files else ())]


def _count_sources(frames: int, *, files: bool) -> str:
    counted = [f"{frames} frame{'s' * (frames != 1)}"] if frames or not files else []
    return " and ".join([*counted, *(["files"] if files else [])])


def _write_positions(
    savepoint: Savepoint, checkpoint: Path, origins: Sequence[Origin], *, files: bool
) -> None:
    """Replace the offsets of the seeding batch by those of the savepoint."""
    manifest = savepoint.manifest
    # Sources that Spark has not read yet start at their beginning.
    offsets = [NOTHING_READ] * len(origins)
    if manifest.offsets:
        offsets = _line_up(manifest.offsets, len(origins), files=files)
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
