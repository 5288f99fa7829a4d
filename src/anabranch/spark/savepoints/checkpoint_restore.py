"""Restores: a checkpoint made of a savepoint, for the same program or one that can take over its state.

All is made aside, and put in place at the end. Until then nothing has changed, and after a crash the
restore can be tried again.
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
from anabranch.microbatch.restore.shares import begin_channels
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

OF_FILES = f'"{SEEN_AHEAD}"'
"""What tells the offset of `Files` from those of frames."""


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
    """Make a new checkpoint that continues from a savepoint; `write_directory` then runs it.

    The program may differ from the one that was saved, as far as its `changes` describe it; shards, hot keys
    and Spark's partitions are free. `output` is new, or the folder in which the savepoint's batch is the
    last: then its batches are counted on, and the checkpoint that made them no longer fits it. The options
    are those of `run`.
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
    with _making(place) as draft:
        session = find_session(list_frames(sources), spark)
        with set_partitions(session, partitions):
            _seed(session, job, opened, migration, draft, first, format)
        _go_on_from(opened, draft / "checkpoint", list_origins(sources), files=bool(job.folders))
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
    """Refuse what can't go on from a savepoint, as far as that needs no Spark; nothing is touched."""
    check_partitions(partitions)
    target = Path(strip_scheme(folder, "output"))
    check_apart(target, _find_new(checkpoint))
    check_format(target, format)
    _find_first(target, savepoint)
    check_windows(savepoint.manifest, program)
    return Migration(read_schema(savepoint.manifest.schema), program)


def describe_place(place: Path) -> str:
    """Say what is where a checkpoint should be."""
    if place.is_dir():
        return "a folder without commits"
    return "a file" if place.exists() else "nothing"


def _find_new(checkpoint: str | Path) -> Path:
    place = Path(strip_scheme(checkpoint, "checkpoint"))
    if place.is_file() or (place.exists() and any(place.iterdir())):
        raise InputError(
            f"{checkpoint} can't become the checkpoint of a restored query",
            expected="a new folder",
            got="a file" if place.is_file() else "a folder that holds something",
            cure="publish into another folder, or name another checkpoint",
        )
    return place


def _check_sources(savepoint: Savepoint, job: Job, sources: Sequence[Source]) -> None:
    """Refuse sources that can't go on, before anything is touched."""
    manifest = savepoint.manifest
    if job.ended:
        raise InputError(
            "a savepoint goes on as a stream", expected="streaming sources", got="batch"
        )
    saved = bool(manifest.fingerprint.get("windows")) and manifest.fingerprint.get("state")
    windows = job.columns is not None and job.columns.windows is not None
    if windows != (saved == "in columns") and manifest.fingerprint.get("windows"):
        raise SavepointError(
            "windows that are open were kept in another form",
            expected=f"a run whose windows are {saved or 'in objects'}",
            got="windows in columns" if windows else "windows in objects",
            cure='run with columnar="never"'
            if windows
            else "run with columns, on numbered channels",
        )
    begin_channels(job, manifest.list_standings())
    if manifest.offsets:
        _line_up(manifest.offsets, len(list_origins(sources)), files=bool(job.folders))


def _find_first(folder: Path, savepoint: Savepoint) -> int:
    """Return the number under which the seeding batch is published."""
    last, batch = find_last(folder, "batch=*"), savepoint.manifest.batch
    if last == -1:
        return 0
    if last != batch:
        raise InputError(
            f"{folder} is not where the savepoint was made",
            expected="a new folder, or one whose last batch is that of the savepoint",
            got=f"batch {last} as its last; the savepoint is of {_name_batch(batch)}",
            cure="publish into a new folder; what was said since would be said twice",
        )
    ledger, saved = read_ledger(folder / f"batch={last}"), savepoint.manifest.list_ledger()
    if ledger != saved:
        raise InputError(
            f"{folder} is not where the savepoint was made",
            expected=f"a new folder, or one that came to: {saved}",
            got=str(ledger),
            cure="publish into a new folder; this one is of another query",
        )
    return last + 1


def _name_batch(batch: int | None) -> str:
    return "a run without Spark" if batch is None else f"batch {batch}"


@contextmanager
def _making(place: Path) -> Iterator[Path]:
    """Have a folder beside a checkpoint's place, in which it is made."""
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
    """Return the offsets of Spark's channels: those of frames in order, added ones, then all `Files` as one."""
    saved = [offset for offset in offsets if OF_FILES in offset]
    if len(offsets) == asked and (bool(saved) == files or offsets[-1] == NOTHING_READ):
        return list(offsets)
    frames = [offset for offset in offsets if OF_FILES not in offset]
    added = asked - files - len(frames)
    if added < 0 or (saved and not files):
        raise SavepointError(
            "the savepoint has read from sources that are missing now",
            expected=f"{_count_sources(len(frames), files=bool(saved))}, in the same order; added frames come last",
            got=_count_sources(asked - files, files=files),
            cure="give it the sources that it had, and new ones beside them",
        )
    fused = saved or [NOTHING_READ]
    return [*frames, *[NOTHING_READ] * added, *(fused if files else ())]


def _count_sources(frames: int, *, files: bool) -> str:
    counted = [f"{frames} frame{'s' * (frames != 1)}"] if frames or not files else []
    return " and ".join([*counted, *(["files"] if files else [])])


def _go_on_from(
    savepoint: Savepoint, checkpoint: Path, origins: Sequence[Origin], *, files: bool
) -> None:
    """Let the channels go on where the savepoint was made, not where the seeding batch was."""
    manifest = savepoint.manifest
    # What has not been read on Spark begins where it begins.
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
    """Move a checkpoint. Spark notes in it where the schemas of its state are, with the whole path.

    Its manifest is to be renewed; until then it has none.
    """
    (made / MANIFEST).unlink(missing_ok=True)
    for file in made.glob("state/*/_metadata/v2/[0-9]*"):
        text = file.read_text(encoding="utf-8")
        moved = text.replace(str(made.absolute()), str(place.absolute()))
        file.write_text(moved, encoding="utf-8")
        name_sums(file).unlink(missing_ok=True)
    made.rename(place)


def _put_in_place(draft: Path, place: Path, folder: Path, first: int) -> None:
    """Put the checkpoint in its place, and let it and the folder belong together, and to nobody else."""
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
