"""Provenance: the fingerprint of the job that made a checkpoint; a restart compares it before it starts.

The state itself has the same fingerprint, and each shard compares it. But a shard runs only if there is new
input, and its error is raised inside a task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from anabranch.microbatch.job.fingerprint import ChangedProgramError, check_fingerprint, name_part
from anabranch.microbatch.runs.ownership import find_last, read_begin

MADE_BY = "_made_by.json"
"""In a checkpoint: the fingerprint of the job that made it."""


class Provenance(NamedTuple):
    """The fingerprint of a job, and the channels that a column of its input distinguishes."""

    fingerprint: Mapping[str, str]
    mixed: frozenset[str] = frozenset()


def read_made_by(checkpoint: Path) -> dict[str, str] | None:
    """Return the fingerprint in a checkpoint with a committed batch; None if there is none."""
    if find_last(checkpoint / "commits", "[0-9]*") < 0:
        return None
    try:
        found: dict[str, str] = json.loads((checkpoint / MADE_BY).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None  # Each shard still compares that in its state.
    return found


def write_made_by(checkpoint: Path, fingerprint: Mapping[str, str]) -> None:
    """Write the fingerprint of a job into its checkpoint."""
    draft = checkpoint / f"{MADE_BY}.draft"
    draft.write_text(json.dumps(dict(fingerprint), indent=1) + "\n", encoding="utf-8")
    draft.replace(checkpoint / MADE_BY)


def check_made_by(
    checkpoint: Path, fingerprint: Mapping[str, str], mixed: Iterable[str] = ()
) -> None:
    """Raise if another job made a checkpoint; else write the fingerprint, or the parts that are new."""
    committed = find_last(checkpoint / "commits", "[0-9]*")
    if committed < 0:
        write_made_by(checkpoint, fingerprint)
        return
    stored = read_made_by(checkpoint)
    if stored is None:
        return
    check_fingerprint(stored, fingerprint)
    parts = [part for part in map(name_part, sorted(mixed)) if part not in stored]
    planned = find_last(checkpoint / "offsets", "[0-9]*")
    if parts and planned > committed:
        # Its rows of these channels may have been published as rejected.
        raise ChangedProgramError(
            f"batch {planned} was planned before {', '.join(parts)} was declared, and is not committed",
            expected="the declaration with which the batch was planned",
            got=f"{', '.join(parts)} beside it, in the same frame or folder",
            cure="start the query once without it, which finishes the batch; then add it",
        )
    added = {part: value for part, value in fingerprint.items() if part not in stored}
    if added:
        write_made_by(checkpoint, {**stored, **added})


def find_begun(checkpoint: Path) -> int:
    """Return the last batch that was planned, as it is numbered in the output folder; -1 if there is none."""
    return find_last(checkpoint / "offsets", "[0-9]*") + read_begin(checkpoint).first


def find_shards(checkpoint: Path) -> int | None:
    """Return the number of shards of a checkpoint; None if it is not known."""
    number = (read_made_by(checkpoint) or {}).get("shards", "")
    return int(number) if number.isdecimal() else None
