"""Savepoints of embedded runs: create, restore, rescale. Their format is that of savepoints of Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from anabranch.errors import InputError
from anabranch.local.batch_fold import BatchFold, choose_cores, choose_shards, join_batches
from anabranch.local.checkpoints import BEGUN, ENDED
from anabranch.local.folder_sink import FolderSink
from anabranch.local.local_runs import check_streams
from anabranch.local.log_views import LogView, open_view
from anabranch.local.page_log import Commit, PageLog, Sync, check_sync, list_logs, name_log
from anabranch.local.seeding_batches import SEEDING, finish_restore, note_target
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.checkpoint_locks import Lock
from anabranch.microbatch.runs.file_batches import FileBatches, Offset
from anabranch.microbatch.runs.job_assembly import assemble_job, check_program
from anabranch.microbatch.runs.ownership import Begin, check_pair, write_id
from anabranch.microbatch.runs.part_files import Format, check_format
from anabranch.microbatch.runs.published_batches import read_counts
from anabranch.microbatch.runs.run_options import RunKeywords, RunOptions, read_options
from anabranch.microbatch.savepoints.contents import write_stores
from anabranch.microbatch.savepoints.restore_checks import (
    check_folders,
    check_sources,
    find_first,
    find_new,
    open_draft,
)
from anabranch.microbatch.savepoints.seeds import Seed
from anabranch.microbatch.savepoints.source_offsets import read_file_offset, write_file_offset
from anabranch.model.program import Program
from anabranch.paths import resolve_path
from anabranch.publication import sync as sync_folder
from anabranch.savepoints.collection import find_savepoint
from anabranch.savepoints.drafts import begin_draft, check_is_free
from anabranch.savepoints.folders import Savepoint, open_savepoint
from anabranch.savepoints.objects import check_windows
from anabranch.sources.source_options import Source, list_sources
from anabranch.state.evolution.migration import Migration
from anabranch.state.evolution.schemas import read_schema

if TYPE_CHECKING:
    import pyarrow as pa


def create_savepoint(savepoint: str | Path, *, checkpoint: str | Path) -> Path:
    """Write the state of an embedded run into a new folder, atomically; return the folder.

    The state is that of the last committed batch. The run may keep running. The savepoint can be restored here or
    on Spark, with any number of shards.
    """
    place, folder = resolve_path(checkpoint, "checkpoint"), resolve_path(savepoint, "savepoint")
    check_is_free(folder)
    with open_view(place) as view:
        offset = view.commit.offset
        if view.commit.about.get(ENDED):
            raise InputError(
                f"the run of {place} has ended: its input was bounded",
                expected="the checkpoint of a stream, Files(…) without ended=True",
                got="a run that has settled all of its events",
            )
        with begin_draft(folder) as draft:
            manifest = write_stores(
                view.stores, draft, runtime="local", batch=view.commit.batch,
                offsets=[write_file_offset(offset)],
            )  # fmt: skip
            return draft.seal(manifest)


def restore_savepoint(
    savepoint: str | Path,
    program: Program,
    sources: Source | Iterable[Source],
    *,
    output: str | Path,
    checkpoint: str | Path,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    cores: int | None = None,
    sync: Sync = "batch",
    **options: Unpack[RunKeywords],
) -> None:
    """Write a new checkpoint that continues from a savepoint; start it with `anabranch.local.run`.

    The savepoint may be of an embedded run, of Spark or of the reference. The program may differ from the saved one
    as far as its `changes` describe, and so may the number of shards (default: that of the savepoint). `output` is a
    new folder, or the folder in which the batch of the savepoint is the last one: then the numbers of its batches
    continue, and the old checkpoint no longer fits it. The options are those of `run`.
    """
    check_program(program)
    check_sync(sync)
    opened = open_savepoint(find_savepoint(savepoint).absolute())
    migration = check_folders(opened, program, output, checkpoint, format=format)
    target, place = resolve_path(output, "output"), find_new(checkpoint).absolute()
    job = _make_job(program, list_sources(sources), read_options(options), opened, cores)
    first = find_first(target, opened)
    begin = Begin(first, opened.manifest.id, job.layout.shards)
    with open_draft(place) as draft:
        made = draft / "checkpoint"
        seeding = made / SEEDING
        seeding.mkdir(parents=True)
        start = _Start(job, opened, migration, first, begin)
        tables = _seed(start, made, sync, cores)
        counts = [count for table in tables for count in read_counts(table)]
        FolderSink(job, seeding, format, durable=sync == "batch").publish(
            first, join_batches(tables), counts
        )
        note_target(seeding, target, first)
        write_id(made, uuid.uuid4().hex)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            place.rmdir()
        made.rename(place)
        sync_folder(place.parent)
    target.mkdir(parents=True, exist_ok=True)
    finish_restore(target, place)


def rescale(
    program: Program,
    sources: Source | Iterable[Source],
    *,
    output: str | Path,
    checkpoint: str | Path,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    cores: int | None = None,
    sync: Sync = "batch",
    **options: Unpack[RunKeywords],
) -> None:
    """Change the number of shards of a stopped embedded run, or its layout; nothing is recomputed.

    The state of the last batch is divided anew into the next log of the same checkpoint, which replaces the old one
    by one rename. Without `shards`, the number of shards does not change. The options are those of `run`.
    """
    check_program(program)
    check_sync(sync)
    place, target = resolve_path(checkpoint, "checkpoint"), resolve_path(output, "output")
    check_format(target, format)
    with open_view(place) as view:
        _check_finished(view, place)
    lock = Lock(place)
    try:
        finish_restore(target, place)
        with open_view(place) as view:
            _check_finished(view, place)
            commit = view.commit
        check_pair(target, place, commit.batch)
        with open_draft(place) as draft:
            saved = create_savepoint(draft / "savepoint", checkpoint=place)
            opened = open_savepoint(saved, verify=False)
            check_windows(opened.manifest, program)
            migration = Migration(read_schema(opened.manifest.schema), program)
            job = _make_job(program, list_sources(sources), read_options(options), opened, cores)
            begin = Begin(**commit.about.get(BEGUN, {}))._replace(shards=job.layout.shards)
            made = draft / "checkpoint"
            made.mkdir()
            _seed(_Start(job, opened, migration, commit.batch, begin), made, sync, cores)
            _replace_log(made, place)
    finally:
        lock.release()


class _Start(NamedTuple):
    """What a new checkpoint begins with: its job, a savepoint, and the number of its batch."""

    job: Job
    savepoint: Savepoint
    migration: Migration
    batch: int
    begin: Begin


def _make_job(
    program: Program,
    sources: list[Source],
    options: RunOptions,
    savepoint: Savepoint,
    cores: int | None,
) -> Job:
    saved = savepoint.manifest.fingerprint.get("shards")
    job = assemble_job(program, sources, options, choose_shards(choose_cores(cores), saved))
    if not job.ended:
        check_streams(sources)
    check_sources(savepoint, job, 1)
    return job


def _seed(start: _Start, made: Path, sync: Sync, cores: int | None) -> list[pa.Table]:
    """Run the seeding batch into the log of a new checkpoint, and commit it; return its result rows."""
    job = start.job
    seed = Seed(job, start.savepoint, start.migration)
    number = choose_cores(cores)
    log = PageLog(made, sync)
    try:
        with ThreadPoolExecutor(number) if number > 1 else nullcontext() as pool:
            fold = BatchFold(job, log, pool)
            tables = fold.run([partial(seed.deal, part) for part in seed.parts])
        about: dict[str, Any] = {"made_by": job.fingerprint(), BEGUN: start.begin._asdict()}
        log.write_commit(Commit(start.batch, _find_offset(start), about), fold.take_changes())
    finally:
        log.close()
    return tables


def _find_offset(start: _Start) -> Offset:
    found = read_file_offset(start.savepoint.manifest.offsets)
    return FileBatches(start.job, 1).begin() if found is None else found


def _replace_log(made: Path, place: Path) -> None:
    """Move the log of a draft into a checkpoint, as its next one; from then on it counts."""
    old = list_logs(place)
    (new,) = list_logs(made).values()
    new.rename(name_log(place, max(old) + 1))
    sync_folder(place)
    for path in old.values():
        path.unlink()


def _check_finished(view: LogView, place: Path) -> None:
    if view.plan is not None:
        raise InputError(
            f"batch {view.plan.batch} of {place} was begun and not finished",
            expected="a run that was stopped between two batches",
            got=f"batch {view.commit.batch} as the last that is committed",
            cure="start the run once more, unchanged, so that it finishes the batch",
        )
