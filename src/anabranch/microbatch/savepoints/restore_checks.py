"""Checks of a restore, before anything is written: its folders, its program, its sources."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.errors import InputError
from anabranch.microbatch.job.fingerprint import ChangedProgramError, check_fingerprint
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.ownership import check_apart, find_last
from anabranch.microbatch.runs.part_files import Format, check_format
from anabranch.microbatch.runs.published_batches import read_ledger
from anabranch.microbatch.savepoints.source_offsets import line_up_offsets
from anabranch.model.program import Program
from anabranch.paths import strip_scheme
from anabranch.savepoints.folders import Savepoint
from anabranch.savepoints.manifest import SavepointError
from anabranch.savepoints.objects import check_windows
from anabranch.savepoints.program_fingerprint import fingerprint_program
from anabranch.state.evolution.migration import Migration
from anabranch.state.evolution.schemas import read_schema


def check_folders(
    savepoint: Savepoint,
    program: Program,
    folder: str | Path,
    checkpoint: str | Path,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
) -> Migration:
    """Return the migration of a restore; raise if it is not possible, as far as that shows without a job."""
    target = Path(strip_scheme(folder, "output"))
    check_apart(target, find_new(checkpoint))
    check_format(target, format)
    find_first(target, savepoint)
    check_windows(savepoint.manifest, program)
    return Migration(read_schema(savepoint.manifest.schema), program)


def describe_place(place: Path) -> str:
    """Return what is at the path where a checkpoint should be."""
    if place.is_dir():
        return "a folder without commits"
    return "a file" if place.exists() else "nothing"


def find_new(checkpoint: str | Path) -> Path:
    """Return the path of a checkpoint that does not exist yet; raise if it does."""
    place = Path(strip_scheme(checkpoint, "checkpoint"))
    if place.is_file() or (place.exists() and any(place.iterdir())):
        raise InputError(
            f"{checkpoint} can't become the checkpoint of a restored query",
            expected="a new folder",
            got="a file" if place.is_file() else "a folder that is not empty",
            cure="publish into another folder, or choose another checkpoint",
        )
    return place


def check_sources(savepoint: Savepoint, job: Job, asked: int) -> None:
    """Raise if the sources of a job can't continue from a savepoint.

    `asked` is their number, where all `Files` are one.
    """
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
    _check_mode(savepoint, job)
    begin_channels(job, manifest.list_standings())
    if manifest.offsets:
        line_up_offsets(manifest.offsets, asked, files=bool(job.folders))


def _check_mode(savepoint: Savepoint, job: Job) -> None:
    """Raise if a savepoint was made in another mode, or in speculative mode by another program.

    The outputs of pending events were emitted before a speculative savepoint. The restored run computes them again,
    to retract what turns out wrong; that needs the same functions.
    """
    stored, current = savepoint.manifest.fingerprint, job.fingerprint()
    saved = stored.get("mode", "settled")
    if saved != current["mode"]:
        raise SavepointError(
            "the savepoint was made in another mode",
            expected=f'mode="{saved.partition(",")[0]}", as in the run that was saved',
            got=f'mode="{job.mode}"',
            cure="restore it in its mode: outputs of pending events have been emitted in one of the two modes, "
            "and not in the other",
        )
    if job.mode == "speculative":
        parts = fingerprint_program(job.program)
        try:
            check_fingerprint({name: stored[name] for name in parts if name in stored}, current)
        except ChangedProgramError as error:
            raise SavepointError(
                "a speculative savepoint continues only with the program that made it",
                expected="the same program, whose outputs of pending events were emitted before",
                got=error.got or error.what,
                cure="restore it with the old program, and stop that run when nothing is pending",
            ) from error


def find_first(folder: Path, savepoint: Savepoint) -> int:
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
    return "a run of the reference" if batch is None else f"batch {batch}"


@contextmanager
def open_draft(place: Path) -> Iterator[Path]:
    """Create a draft folder beside the path of a checkpoint; remove it at the end."""
    draft = place.with_name(f".{place.name}.restore")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
