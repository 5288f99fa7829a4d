"""Paths inside a savepoint: names that are valid and unambiguous on every machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

MANIFEST = "manifest.json"
MANIFEST_SUM = "manifest.sha256"
STATE, DELTAS, PENDING, SOURCE_LOGS = "state", "deltas", "pending", "sources"

_PART = re.compile(r"[A-Za-z0-9_%@=+,~-]([A-Za-z0-9_.%@=+,~-]*[A-Za-z0-9_%@=+,~-])?")
_MOST_DEPTH, _MOST_LENGTH, _MOST_PART = 8, 1000, 200
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"
"""The pattern of savepoint names: valid folder names on any machine."""


def find_fault(relative: str) -> str | None:
    """Return why a path is not valid for a file in a savepoint, or None.

    >>> find_fault("state/part-0.parquet"), find_fault("../x")
    (None, "'..' is not a valid name")
    """
    if relative.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", relative):
        return "it is absolute"
    parts = relative.split("/")
    if len(relative) > _MOST_LENGTH or len(parts) > _MOST_DEPTH:
        return f"it is longer than {_MOST_LENGTH} characters, or deeper than {_MOST_DEPTH} folders"
    for part in parts:
        if len(part) > _MOST_PART or not _PART.fullmatch(part):
            return f"{part[:_MOST_PART]!r} is not a valid name"
    return None


def find_clash(paths: Iterable[str]) -> tuple[str, str] | None:
    """Return two paths that are equal on a case-insensitive file system, folders included, or None.

    >>> find_clash(["state/a.parquet", "State/b.parquet"])
    ('state', 'State')
    """
    seen: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            part = "/".join(parts[:depth])
            other = seen.setdefault(part.lower(), part)
            if other != part:
                return other, part
    return None


def name_folders(names: Iterable[str]) -> dict[str, str]:
    """Return the folder of each event type or state type: its quoted name, numbered if two are equal.

    >>> name_folders(["Temp", "temp", "by page"])
    {'Temp': 'Temp', 'temp': 'temp~2', 'by page': 'by%20page'}
    """
    folders: dict[str, str] = {}
    counts: dict[str, int] = {}
    for name in names:
        # `quote` does not quote a dot, and `..` is the parent folder.
        plain = quote(name, safe="").replace(".", "%2E").replace("~", "%7E")
        count = counts[plain.lower()] = counts.get(plain.lower(), 0) + 1
        folders[name] = plain if count == 1 else f"{plain}~{count}"
    return folders
