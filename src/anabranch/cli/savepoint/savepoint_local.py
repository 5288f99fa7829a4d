"""Savepoints of embedded runs on the command line: create and rescale, without Java."""

from __future__ import annotations

from pathlib import Path

from anabranch.cli.run.run_request import RunRequest, check_local, check_packages
from anabranch.cli.run.run_restore import make_options, make_sources
from anabranch.cli.target_module import TargetModule
from anabranch.cli.terminal.screen import Screen
from anabranch.errors import InputError


def create_embedded(
    screen: Screen, checkpoint: Path, target: Path, *, batch: int | None, at: int | None
) -> None:
    """Save the last committed batch of an embedded run."""
    check_packages()
    from anabranch.local.log_views import open_view
    from anabranch.local.savepoints import create_savepoint

    with open_view(checkpoint) as view:
        last = view.commit.batch
    if at is not None or batch not in (None, last):
        raise InputError(
            "the checkpoint of an embedded run has only its last batch",
            expected=f"no --at, and no --batch, or --batch {last}",
            got="--at" if at is not None else f"--batch {batch}",
            cure="save it without them, while it runs or after",
        )
    with screen.wait("saving"):
        create_savepoint(target, checkpoint=checkpoint)


def rescale_embedded(
    screen: Screen, material: TargetModule, order: RunRequest, checkpoint: Path
) -> int:
    """Change the number of shards of a stopped embedded run; return it."""
    check_packages()
    check_local(order)
    from anabranch.local.checkpoints import read_made_by
    from anabranch.local.savepoints import rescale

    assert order.output is not None
    with screen.wait("rescaling"):
        rescale(
            material.program, make_sources(material, order), output=order.output,
            checkpoint=checkpoint, format=order.format, cores=order.place.cores,
            **make_options(order),
        )  # fmt: skip
    return int(read_made_by(checkpoint)["shards"])
