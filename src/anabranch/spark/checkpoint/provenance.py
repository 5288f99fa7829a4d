"""Provenance: what made a checkpoint, kept beside its state, so that a restart is judged before it starts.

The state itself has the same fingerprint, and each shard compares it. But a shard is only asked when there is
something new to read, and its error comes from inside a task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from anabranch.microbatch.job.fingerprint import check_fingerprint
from anabranch.spark.checkpoint.ownership import find_last

MADE_BY = "_made_by.json"
"""In a checkpoint: the fingerprint of the job that made it."""


def read_made_by(checkpoint: Path) -> dict[str, str] | None:
    """Return what made a checkpoint that has a committed batch, if that was noted."""
    if find_last(checkpoint / "commits", "[0-9]*") < 0:
        return None
    try:
        found: dict[str, str] = json.loads((checkpoint / MADE_BY).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None  # Each shard still compares its own.
    return found


def write_made_by(checkpoint: Path, fingerprint: Mapping[str, str]) -> None:
    """Note what made a checkpoint."""
    draft = checkpoint / f"{MADE_BY}.draft"
    draft.write_text(json.dumps(dict(fingerprint), indent=1) + "\n", encoding="utf-8")
    draft.replace(checkpoint / MADE_BY)


def check_made_by(checkpoint: Path, fingerprint: Mapping[str, str]) -> None:
    """Refuse a checkpoint that something else has made; note what makes a new one."""
    if find_last(checkpoint / "commits", "[0-9]*") < 0:
        write_made_by(checkpoint, fingerprint)
        return
    stored = read_made_by(checkpoint)
    if stored is not None:
        check_fingerprint(stored, fingerprint)


def find_shards(checkpoint: Path) -> int | None:
    """Return the number of shards that a checkpoint was made with, if it is known."""
    number = (read_made_by(checkpoint) or {}).get("shards", "")
    return int(number) if number.isdecimal() else None
