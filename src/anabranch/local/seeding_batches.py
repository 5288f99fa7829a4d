"""Seeding batches: what a restore publishes into the output folder, as part of the checkpoint until it is there.

A restored checkpoint appears by one rename. From then on it is valid: if the restore is killed before its batch is
published and the folder has the new id, the next start does that.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from anabranch.microbatch.runs.ownership import find_last, read_id, write_id
from anabranch.microbatch.runs.published_batches import list_batches
from anabranch.publication import publish_folder

SEEDING = "_seeding"
"""In a checkpoint: the batch of a restore that may not be published yet."""

_TARGET = "_target.json"


def note_target(seeding: Path, folder: Path, batch: int) -> None:
    """Record the id of the output folder that a seeding batch is for, and the number of the batch."""
    document = {"id": read_id(folder), "batch": batch}
    (seeding / _TARGET).write_text(json.dumps(document) + "\n", encoding="utf-8")


def finish_restore(folder: Path, checkpoint: Path) -> None:
    """Publish the seeding batch of a restored checkpoint, and write its id into the output folder.

    Do nothing if there is none, or if it is for another folder, or if the folder has changed since.
    """
    seeding = checkpoint / SEEDING
    if not (seeding / _TARGET).is_file():
        return
    target = json.loads((seeding / _TARGET).read_text(encoding="utf-8"))
    number, own = int(target["batch"]), read_id(checkpoint)
    if own is None or read_id(folder) not in (target["id"], own):
        return
    if find_last(folder, "batch=*") not in (number - 1, number):
        return
    if read_id(folder) != own and find_last(folder, "batch=*") == number:
        return  # A batch of the query that the folder still belongs to.
    write_id(folder, own)
    final = folder / f"batch={number}"
    if not final.exists():
        with publish_folder(final) as draft:
            shutil.copytree(list_batches(seeding)[number], draft, dirs_exist_ok=True)
    (seeding / _TARGET).unlink()
    shutil.rmtree(seeding, ignore_errors=True)
