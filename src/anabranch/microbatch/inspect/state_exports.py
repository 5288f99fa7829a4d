"""Exports: the state of a committed batch as Parquet in a folder, for dashboards and notebooks.

`FOLDER/batch=N` has the whole state of a batch and becomes visible by one rename; `FOLDER/latest` is a link
to the newest batch, which another rename replaces. File names are never reused, so a reader may miss a file
during a change, but never reads rows of two batches. The next export removes the draft that a crash leaves.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from anabranch.publication import publish_file, publish_folder

LATEST = "latest"
POSITION = "_view.json"
"""Beside the rows: the number of their batch, and its watermark."""
KEEP = 2
"""The number of batches that are kept: a reader may still read the last but one."""


def publish_state(
    folder: Path, batch: int, write: Callable[[Path], int], *, keep: int = KEEP
) -> None:
    """Publish the state of a batch, unless it is published already.

    `write` writes the rows of the state into a folder, and returns the watermark.
    """
    final = folder / f"batch={batch}"
    if not final.is_dir():
        with publish_folder(final) as draft:
            position = {"batch": batch, "watermark": write(draft)}
            (draft / POSITION).write_text(json.dumps(position) + "\n", encoding="utf-8")
    if _read_latest(folder) != final.name:
        with publish_file(folder / LATEST) as link:
            link.symlink_to(final.name)
        _tidy(folder, keep)


def _read_latest(folder: Path) -> str | None:
    try:
        return os.readlink(folder / LATEST)
    except OSError:
        return None


def _tidy(folder: Path, keep: int) -> None:
    """Remove old batches, and the drafts of crashed exports."""
    done = sorted(folder.glob("batch=*"), key=lambda path: int(path.name.partition("=")[2]))
    for path in [*done[:-keep], *folder.glob(".batch=*")]:
        shutil.rmtree(path, ignore_errors=True)
