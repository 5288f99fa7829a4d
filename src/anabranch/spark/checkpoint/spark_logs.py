"""Logs: the files of which a checkpoint of Spark's consists, who wrote them, and when Spark removes them.

Files come in series, one number after the other. Spark removes the old ones of a series, at any moment and in
any order, but never those that one of the last batches needs. So a file that is gone was removed by Spark
only if it lies before what a series must still hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["single", "offsets", "commits", "source", "schema", "changes", "snapshot"]

SINGLES = ("metadata", "_pair.json")
"""Written once, before the first batch."""

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

    The log of a source counts by itself. Of a `whole` one, nothing that came before in its series is needed.
    """

    kind: Kind
    series: str
    number: int = -1
    whole: bool = False

    @property
    def is_state(self) -> bool:
        """Say whether it is written while its batch runs, and so again if the batch is repeated."""
        return self.kind in ("schema", "changes", "snapshot")


def name_log(name: str) -> Log | None:
    """Return what a file is, by its path in the checkpoint; None if it is not one that we know.

    >>> name_log("sources/0/9.compact")
    Log(kind='source', series='sources/0', number=9, whole=True)
    >>> name_log("state/0/1/3.changelog").number  # State is numbered by what it leads to.
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
    """Yield the path of every log in a checkpoint; what is hidden, or ends in .crc, is a checksum or a draft."""
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
    """Return from which number on a series must be complete.

    `batch` is the last batch that came to its end, and `retain` how many Spark keeps.
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
