"""Pairing: a checkpoint and the folder it publishes into belong together, and to one driver.

Batches are numbered by the checkpoint, and a number that is already published is taken for a replay.
So a new checkpoint on an old folder would publish nothing, and a new folder for an old checkpoint
would lack what was published elsewhere. Both carry the same id, and a query starts only if they agree.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import NamedTuple

from anabranch.errors import AnabranchError
from anabranch.publication import publish_file

PAIR = "_pair.json"
"""In a checkpoint and in the folder it publishes into: the id of the two."""

LOCK = "_lock"
"""In a checkpoint: locked by the driver that runs it; says which one that is."""

BEGIN = "_begin.json"
"""In a checkpoint that was made from a savepoint: which one, and the number of its first batch."""

PATIENCE_S = 5.0


class PairingError(AnabranchError, ValueError):
    """A checkpoint and an output folder do not belong together; nothing was started."""


def check_pair(folder: Path, checkpoint: Path) -> None:
    """Refuse a folder and a checkpoint that do not belong together, before anything is written."""
    check_apart(folder, checkpoint)
    published = find_last(folder, "batch=*")
    begun = find_last(checkpoint / "offsets", "[0-9]*") + read_begin(checkpoint).first
    if published == begun == -1:
        return
    ids = [_read_id(folder), _read_id(checkpoint)]
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
    """Refuse a checkpoint that readers of a folder would take for output."""
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
    """Let a new folder and a new checkpoint belong together."""
    found = _read_id(folder), _read_id(checkpoint)
    name = found[0] or found[1] or uuid.uuid4().hex
    for place, old in zip((folder, checkpoint), found, strict=True):
        if old != name:
            place.mkdir(parents=True, exist_ok=True)
            with publish_file(place / PAIR) as partial:
                partial.write_text(json.dumps({"id": name}) + "\n", encoding="utf-8")


class Begin(NamedTuple):
    """How a checkpoint began that goes on from a savepoint.

    `first` is the number under which its first batch is published: it goes on counting, if it goes on in
    the same folder.
    """

    first: int = 0
    savepoint: str | None = None
    shards: int | None = None


def read_begin(checkpoint: Path) -> Begin:
    """Return how a checkpoint began."""
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
    """Note how a checkpoint began."""
    with publish_file(checkpoint / BEGIN) as partial:
        partial.write_text(json.dumps(begin._asdict()) + "\n", encoding="utf-8")


def find_last(folder: Path, pattern: str) -> int:
    """Return the largest number of a batch among the names in a folder, or -1."""
    names = (path.name.partition("=")[2] or path.name for path in folder.glob(pattern))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _read_id(place: Path) -> str | None:
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
