"""Origins: Spark's own streaming sources in the sources of a run, and the folders of their files.

A file source of Spark logs the whole path of each file that it has read. If its folder was moved, for example
to another machine, the paths in the log must be changed, or Spark would not find the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anabranch.errors import InputError
from anabranch.paths import resolve_path
from anabranch.sources.files import Files
from anabranch.sources.source_options import Source
from anabranch.spark.sources.data_frames import Frame


class Origin(NamedTuple):
    """One of Spark's streaming sources: the folder that it reads, if it reads one on this machine."""

    folder: Path | None


def list_origins(sources: Sequence[Source]) -> list[Origin]:
    """Return the origins in Spark's order: each stream of a frame, then all `Files` as one."""
    found = [
        origin
        for source in sources
        if isinstance(source, Frame)
        for origin in _look_into(source.frame)
    ]
    return found + [Origin(None)] * any(isinstance(source, Files) for source in sources)


def _look_into(frame: Any) -> Iterator[Origin]:
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelation":
            path = leaf.dataSource().options().get("path")
            yield Origin(_find_folder(path.get()) if path.isDefined() else None)
        elif kind.startswith("StreamingRelation"):
            yield Origin(None)


def _find_folder(path: str) -> Path | None:
    try:
        return resolve_path(path, "input")
    except InputError:
        return None  # Not on this machine, so it has not moved.


def move_log(text: str, folder: Path) -> str:
    r"""Return the log of a file source as if its files had been read from another folder.

    >>> move_log('v1\n{"path":"file:///old/a.json","batchId":0}', Path("/new"))
    'v1\n{"path":"file:///new/a.json","batchId":0}'
    """
    version, *lines = text.split("\n")
    paths = {json.loads(line)["path"].rpartition("/")[0] for line in lines if line}
    if len(paths) != 1:
        return text  # With several folders, it is unknown which of them has moved where.
    (old,) = paths
    new = folder.absolute().as_uri()
    return "\n".join([version, *(line.replace(f'"{old}/', f'"{new}/', 1) for line in lines)])
