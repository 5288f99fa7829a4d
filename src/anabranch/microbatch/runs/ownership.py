"""Pairing: a checkpoint and its output folder belong together, and to one driver.

The checkpoint numbers the batches, and a number that is already published is treated as a replay. So a new
checkpoint with an old folder would publish nothing, and a new folder with an old checkpoint would lack the
earlier batches. Both have the same id in a file, and a query starts only if the ids agree.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import NamedTuple

from anabranch.errors import AnabranchError
from anabranch.publication import publish_file

PAIR = "_pair.json"
"""In a checkpoint and in its output folder: the id of the pair."""

LOCK = "_lock"
"""In a checkpoint: a file that the running driver locks; it names the driver."""

BEGIN = "_begin.json"
"""In a checkpoint that was restored from a savepoint: the savepoint, and the number of the first batch."""

PATIENCE_S = 5.0


class PairingError(AnabranchError, ValueError):
    """A checkpoint and an output folder do not belong together; no query was started."""


def check_pair(folder: Path, checkpoint: Path, begun: int) -> None:
    """Raise `PairingError` if an output folder and a checkpoint do not belong together.

    `begun` is the last batch that was planned, as it is numbered in the output folder; -1 if there is none.
    """
    check_apart(folder, checkpoint)
    published = find_last(folder, "batch=*")
    if published == begun == -1:
        return
    ids = [read_id(folder), read_id(checkpoint)]
    if ids[0] != ids[1]:
        raise PairingError(
            f"{folder} and the checkpoint {checkpoint} do not belong together",
            expected="the checkpoint and the folder of one query, or two new ones",
            got=_describe(ids, published, begun),
            cure="name the two that belong together, or start anew with both of them new: on the "
            "wrong folder new batches are taken for replays, and are not published",
        )
    if begun - published not in (0, 1):
        raise PairingError(
            f"{folder} and the checkpoint {checkpoint} are not at the same batch",
            expected="the last batch of the checkpoint to be the last of the folder, or the next",
            got=f"{_name(begun)} in the checkpoint, {_name(published)} in the folder",
            cure="put back what was removed, or copied from an older state of the two; "
            "or start anew with both of them new",
        )


def check_apart(folder: Path, checkpoint: Path) -> None:
    """Raise `PairingError` if a checkpoint is where readers of the output would take it for output."""
    outer, inner = folder.resolve(), checkpoint.resolve()
    if not inner.is_relative_to(outer):
        return
    if not any(part.startswith(("_", ".")) for part in inner.relative_to(outer).parts):
        raise PairingError(
            f"readers of {folder} would take the checkpoint for output",
            expected="a checkpoint elsewhere, or under a name that begins with an underscore",
            got=str(checkpoint),
            cure=f"name {folder / '_checkpoint'}",
        )


def write_pair(folder: Path, checkpoint: Path) -> None:
    """Write the same id into a new folder and a new checkpoint."""
    found = read_id(folder), read_id(checkpoint)
    name = found[0] or found[1] or uuid.uuid4().hex
    for place, old in zip((folder, checkpoint), found, strict=True):
        if old != name:
            write_id(place, name)


class Begin(NamedTuple):
    """The beginning of a checkpoint that was restored from a savepoint.

    `first` is the number of its first published batch: the next one, if it continues in the same folder.
    """

    first: int = 0
    savepoint: str | None = None
    shards: int | None = None


def read_begin(checkpoint: Path) -> Begin:
    """Return the beginning of a checkpoint; the default if it was not restored from a savepoint."""
    try:
        return Begin(**json.loads((checkpoint / BEGIN).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Begin()
    except (ValueError, TypeError) as error:
        raise PairingError(
            f"{checkpoint / BEGIN} can't be read",
            expected='{"first": …}, as it was written',
            got=str(error),
            cure="restore the savepoint again, into a new checkpoint",
        ) from error


def write_begin(checkpoint: Path, begin: Begin) -> None:
    """Write the beginning of a checkpoint."""
    with publish_file(checkpoint / BEGIN) as partial:
        partial.write_text(json.dumps(begin._asdict()) + "\n", encoding="utf-8")


def find_last(folder: Path, pattern: str) -> int:
    """Return the largest number of a batch among the names in a folder, or -1."""
    names = (path.name.partition("=")[2] or path.name for path in folder.glob(pattern))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def write_id(place: Path, name: str) -> None:
    """Write the id of a pair into a folder or a checkpoint."""
    place.mkdir(parents=True, exist_ok=True)
    with publish_file(place / PAIR) as partial:
        partial.write_text(json.dumps({"id": name}) + "\n", encoding="utf-8")


def read_id(place: Path) -> str | None:
    """Return the id of a pair in a folder or a checkpoint; None if it has none."""
    try:
        return str(json.loads((place / PAIR).read_text(encoding="utf-8"))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError) as error:
        raise PairingError(
            f"{place / PAIR} can't be read",
            expected='{"id": …}, as it was written',
            got=str(error),
            cure=f"copy {PAIR} from the other of the two: checkpoint or output folder",
        ) from error


def _describe(ids: list[str | None], published: int, begun: int) -> str:
    names = [name[:8] if name else "none" for name in ids]
    return (
        f"{_name(published)} and the id {names[0]} in the folder, "
        f"{_name(begun)} and the id {names[1]} in the checkpoint"
    )


def _name(batch: int) -> str:
    return "no batch" if batch < 0 else f"batch {batch}"
