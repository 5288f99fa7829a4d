"""Start of a run from a savepoint: the savepoint that a checkpoint began with, and its restore in this process."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from anabranch.cli.run.run_inputs import open_inputs
from anabranch.cli.run.run_request import RunRequest, check_packages, check_values, find_checkpoint
from anabranch.cli.target_module import TargetModule
from anabranch.cli.terminal.screen import Screen
from anabranch.errors import InputError
from anabranch.microbatch.runs.run_options import RunKeywords
from anabranch.savepoints.collection import find_savepoint
from anabranch.savepoints.folders import NoSavepointError, Savepoint, open_savepoint
from anabranch.sources.files import Files


def restore_embedded(
    screen: Screen, material: TargetModule, order: RunRequest, savepoint: Savepoint
) -> None:
    """Write the checkpoint of an embedded run from a savepoint."""
    check_packages()
    check_values(order)
    from anabranch.local.savepoints import restore_savepoint

    assert order.output is not None
    checkpoint = find_checkpoint(order, Path(order.output))
    with screen.wait("restoring"):
        restore_savepoint(
            savepoint.path, material.program, make_sources(material, order), output=order.output,
            checkpoint=checkpoint, format=order.format, cores=order.place.cores,
            **make_options(order),
        )  # fmt: skip


def make_sources(material: TargetModule, order: RunRequest) -> list[Files]:
    """Return the folder of a stream as a source."""
    with TemporaryDirectory(prefix="anabranch-run-") as scratch:
        inputs = open_inputs(material, order, Path(scratch))
    return [one.make_source_of_files(material.program) for one in inputs]


def make_options(order: RunRequest) -> RunKeywords:
    """Return the options of a run, from its flags."""
    from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES

    place = order.place
    return RunKeywords(
        shards=place.shards, columnar=place.columnar, mode=order.mode,
        max_record_bytes=place.max_record_bytes or MAX_RECORD_BYTES,
    )  # fmt: skip


def find_start(order: RunRequest, start: str) -> Savepoint | None:
    """Return the savepoint that an embedded run must restore, or None if its checkpoint began with it."""
    from anabranch.local.checkpoints import is_checkpoint, read_begun

    assert order.output is not None
    checkpoint = find_checkpoint(order, Path(order.output))
    if not is_checkpoint(checkpoint):
        return open_savepoint(find_savepoint(start), verify=False)
    check_begun(checkpoint, read_begun(checkpoint).savepoint, start)
    return None


def check_begun(checkpoint: Path, begun: str | None, start: str) -> None:
    """Raise `InputError` if a checkpoint did not begin with a savepoint."""
    if begun is None:
        raise InputError(
            f"{checkpoint} did not begin with a savepoint",
            expected="a new --output, or one that began with it",
            got=f"--from {start}",
            cure="run without --from, which continues from the checkpoint",
        )
    try:
        wanted = open_savepoint(find_savepoint(start), verify=False).manifest.id
    except NoSavepointError:
        return  # The savepoint may have been deleted since.
    if wanted != begun:
        raise InputError(
            f"{checkpoint} began with another savepoint",
            expected=begun[:16],
            got=f"{wanted[:16]}, which is {start}",
            cure="give a new --output; or run without --from, which continues from the checkpoint",
        )
