"""The files of a Spark checkpoint: which batch writes them, and when Spark removes them.

Files form series with increasing numbers. Spark removes old files of a series, at any moment and in any
order, but never those that one of the last batches needs. So Spark can have removed a missing file only if
its number is below the least one that the series must still have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["single", "offsets", "commits", "source", "schema", "changes", "snapshot"]

SINGLES = ("metadata", "_pair.json")
"""Files that are written once, before the first batch."""

FOLDERS = ("offsets", "commits", "sources", "state")

_SHARED = "SSTs"
"""Files of RocksDB that several snapshots share; each snapshot lists those that it needs."""

_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("offsets", r"(?P<series>offsets)/(?P<number>\d+)"),
    ("commits", r"(?P<series>commits)/(?P<number>\d+)"),
    ("source", r"(?P<series>sources/\d+)/(?P<number>\d+)(?P<whole>\.compact)?"),
    ("schema", r"(?P<series>state/\d+/_metadata/v\d+)/(?P<number>\d+)(?P<whole>)"),
    ("schema", r"(?P<series>state/\d+/_stateSchema/.+)/(?P<number>\d+)_[\w-]+(?P<whole>)"),
    ("changes", r"(?P<series>state/\d+/\d+(?:/[^/]+)?)/(?P<number>\d+)(?:_[\w-]+)?\.changelog"),
    (
        "snapshot",
        r"(?P<series>state/\d+/\d+(?:/[^/]+)?)/(?P<number>\d+)(?:_[\w-]+)?(?P<whole>\.zip)",
    ),
)


class Log(NamedTuple):
    """A file of a checkpoint, and the number of the batch that wrote it.

    The log of a source has its own numbers. A `whole` file makes all earlier files of its series unnecessary.
    """

    kind: Kind
    series: str
    number: int = -1
    whole: bool = False

    @property
    def is_state(self) -> bool:
        """Return whether the file is written during its batch, and so again if the batch is repeated."""
        return self.kind in ("schema", "changes", "snapshot")


def name_log(name: str) -> Log | None:
    """Return the kind and number of a file from its path in the checkpoint; None if it is unknown.

    >>> name_log("sources/0/9.compact")
    Log(kind='source', series='sources/0', number=9, whole=True)
    >>> name_log("state/0/1/3.changelog").number  # State has the number of the next batch.
    2
    """
    if name in SINGLES:
        return Log("single", name)
    for kind, pattern in _PATTERNS:
        if found := re.fullmatch(pattern, name):
            later = kind in ("changes", "snapshot")
            whole = found.groupdict().get("whole") is not None
            return Log(kind, found["series"], int(found["number"]) - later, whole)
    return None


def list_names(checkpoint: Path) -> Iterator[str]:
    """Yield the path of every file in a checkpoint, except for checksums and drafts (hidden or .crc)."""
    for name in SINGLES:
        if (checkpoint / name).is_file():
            yield name
    for name in FOLDERS:
        yield from _walk(checkpoint / name, name)


def _walk(folder: Path, path: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name.endswith(".crc") or entry.name == _SHARED:
            continue
        if entry.is_dir():
            yield from _walk(folder / entry.name, f"{path}/{entry.name}")
        else:
            yield f"{path}/{entry.name}"


def find_least(logs: Iterable[Log], batch: int, retain: int) -> dict[str, int]:
    """Return the number from which on each series must be complete.

    `batch` is the last batch that was finished, and `retain` the number of batches that Spark keeps.
    """
    found: dict[str, list[Log]] = {}
    for log in logs:
        found.setdefault(log.series, []).append(log)
    return {series: _find_least(mine, batch, retain) for series, mine in found.items()}


def _find_least(logs: list[Log], batch: int, retain: int) -> int:
    # Spark removes offsets and commits when it begins a batch, which may be the one after the last.
    begun = batch + 1 - retain
    whole = [log.number for log in logs if log.whole]
    if logs[0].kind in ("offsets", "commits"):
        return begun
    if logs[0].kind == "source":
        bound = max(log.number for log in logs) - retain
    elif logs[0].kind == "schema":
        bound = begun
    else:
        bound = max(whole, default=0) - retain + 1
    return max((number for number in whole if number <= bound), default=-1)
