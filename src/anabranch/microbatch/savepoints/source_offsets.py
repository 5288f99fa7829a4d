"""Offsets of sources in a savepoint: one for each frame that Spark reads, and one for all `Files`.

Every runtime records the offset of `Files` as the same JSON, so that each continues where another stopped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from anabranch.microbatch.ingest.look_ahead import SEEN_AHEAD
from anabranch.savepoints.manifest import SavepointError

NOTHING_READ = "-"
"""The offset of a source that has not been read yet, as Spark writes it."""

_LOOK_AHEAD = f'"{SEEN_AHEAD}"'
"""A key that only the offset of `Files` has: the offsets of frames do not."""


def write_file_offset(offset: dict[str, Any]) -> str:
    """Return the offset of all `Files` as a savepoint has it."""
    return json.dumps(offset)


def read_file_offset(offsets: Sequence[str]) -> dict[str, Any] | None:
    """Return the offset of all `Files` in a savepoint; None if none were read. Raise if it has frames."""
    found = line_up_offsets(offsets, 1, files=True) if offsets else [NOTHING_READ]
    offset: dict[str, Any] | None = None if found == [NOTHING_READ] else json.loads(found[0])
    return offset


def line_up_offsets(offsets: Sequence[str], asked: int, *, files: bool) -> list[str]:
    """Return the offsets in Spark's order: frames, then added frames, then all `Files` as one."""
    saved = [offset for offset in offsets if _LOOK_AHEAD in offset]
    if len(offsets) == asked and (bool(saved) == files or offsets[-1] == NOTHING_READ):
        return list(offsets)
    frames = [offset for offset in offsets if _LOOK_AHEAD not in offset]
    added = asked - files - len(frames)
    if added < 0 or (saved and not files):
        raise SavepointError(
            "the savepoint has read from sources that are missing now",
            expected=f"{_count_sources(len(frames), files=bool(saved))}, in the same order; added frames come last",
            got=_count_sources(asked - files, files=files),
            cure="pass the sources that it had, and new ones after them",
        )
    fused = saved or [NOTHING_READ]
    return [*frames, *[NOTHING_READ] * added, *(fused if files else ())]


def _count_sources(frames: int, *, files: bool) -> str:
    counted = [f"{frames} frame{'s' * (frames != 1)}"] if frames or not files else []
    return " and ".join([*counted, *(["files"] if files else [])])
