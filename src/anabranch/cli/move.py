"""`anabranch move`: let a stopped run continue elsewhere: embedded or on Spark, with other shards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from anabranch.cli.flags import Json, Lateness, Strict, Target
from anabranch.cli.run.run_display import explain_ledger
from anabranch.cli.run.run_request import HERE, RunPlace, check_place, find_checkpoint
from anabranch.cli.savepoint.savepoint_local import create_embedded
from anabranch.cli.savepoint.savepoint_spark import (
    Folder,
    Partitions,
    create_on_spark,
    find_mode,
    make_order,
    name_next,
    read_shards,
    restore_anywhere,
)
from anabranch.cli.target_module import load_material
from anabranch.cli.terminal.screen import GOOD, Screen, count_things
from anabranch.errors import ConservationError, InputError
from anabranch.local.checkpoints import is_checkpoint
from anabranch.microbatch.runs.checkpoint_locks import Lock
from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
from anabranch.paths import strip_scheme
from anabranch.savepoints.folders import Savepoint, open_savepoint


def move(  # noqa: PLR0913 - one for each flag
    checkpoint: Annotated[
        Path,
        Parameter(
            help="Checkpoint of a stopped run, embedded or on Spark, or the folder that contains it."
        ),
    ],
    target: Target,
    /,
    *,
    input: Folder,  # noqa: A002 - the flag's name
    output: Annotated[
        str,
        Parameter(help="New output folder; or that of the run, with a new --checkpoint."),
    ],
    format: Annotated[  # noqa: A002 - the flag's name
        Literal["jsonl", "parquet"], Parameter(help="Format of the outputs (default parquet).")
    ] = "parquet",
    lateness: Lateness = None,
    unique_times: Strict = False,
    partitions: Partitions = None,
    place: RunPlace = HERE,
    json: Json = False,
) -> int:
    """Let a stopped run continue elsewhere: in this process, or, with --master or --spark, on Spark.

    The state is saved, restored with the given flags, and compared. The old checkpoint is not changed.
    """
    check_place(place)
    screen, material = Screen(quiet=json), load_material(target)
    old = _find_old(Path(strip_scheme(checkpoint, "checkpoint")))
    order = make_order(place, input, output, format, lateness, unique_times=unique_times)
    new = find_checkpoint(order, Path(order.output or output))
    lock = Lock(old)
    try:
        with _save(screen, old, new) as saved:
            order = replace(order, mode=find_mode(saved))
            restore_anywhere(screen, material, order, saved, partitions)
            ledger = _compare(saved, Path(order.output or output))
    finally:
        lock.release()
    shards = read_shards(new)
    if json:
        screen.print_json({
            "from": str(old), "checkpoint": str(new), "output": output, "shards": shards,
            "batch": saved.manifest.batch, "ledger": saved.manifest.list_ledger()._asdict(),
        })  # fmt: skip
        return GOOD
    screen.write(f"moved     {old} ({_name_runtime(old)}) to {new} ({_name_runtime(new)}), "
                 f"{count_things(shards, 'shard')}")  # fmt: skip
    screen.write(f"ledger    {ledger}")
    screen.write(f"to do     {name_next(target, order, lateness)}")
    return GOOD


def _find_old(place: Path) -> Path:
    """Return the checkpoint in a folder, or the folder itself; raise if there is none."""
    for found in (place / "_checkpoint", place):
        if is_checkpoint(found) or (found / "commits").is_dir():
            return found
    raise InputError(
        f"{place} is not a checkpoint",
        expected="the checkpoint folder of a run: OUTPUT/_checkpoint, or that of --checkpoint; or OUTPUT",
        got="a folder without a committed batch" if place.is_dir() else "no folder",
    )


@contextmanager
def _save(screen: Screen, old: Path, new: Path) -> Iterator[Savepoint]:
    """Save a checkpoint beside the new one, where all machines of the new run find it; delete it at the end."""
    place = new.absolute().parent
    home = (place if place.name else new.absolute()).with_name(f".{place.name}.move")
    shutil.rmtree(home, ignore_errors=True)
    try:
        if is_checkpoint(old):
            create_embedded(screen, old, home / "savepoint", batch=None, at=None)
        else:
            create_on_spark(screen, old, home / "savepoint", "local[2]")
        yield open_savepoint(home / "savepoint")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _compare(savepoint: Savepoint, output: Path) -> str:
    """Return the ledger of the restored run; raise if it is not that of the savepoint."""
    last = find_last_batch(output)
    found, saved = (None if last is None else read_ledger(last)), savepoint.manifest.list_ledger()
    if found != saved:
        raise ConservationError(
            "the moved run does not have the events of the old one",
            expected=str(saved),
            got=str(found),
        )
    return explain_ledger(saved)


def _name_runtime(checkpoint: Path) -> str:
    return "embedded" if is_checkpoint(checkpoint) else "Spark"
