"""Manifests: a file that grows by a line with every batch, and says which files a checkpoint has.

A line is JSON, and carries a sum over itself and the line before it. So a line that was changed, cut or
taken out is found. A last line without its end is what a crash leaves, and counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from anabranch.publication import publish_file

MANIFEST = "_manifest.jsonl"
"""In a checkpoint."""

FORMAT = 1

_MOST_LINES = 256
"""After so many lines the file is written anew, without what Spark has removed since."""


class Entry(NamedTuple):
    """What is known of a file: its size and, if it is a small one, its SHA-256."""

    size: int
    digest: str | None = None


class FileManifest:
    """What is known of a checkpoint's files after a batch; `fault` says why it can't be trusted."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint / MANIFEST
        self.batch = -1
        self.retain = 0
        self.files: dict[str, Entry] = {}
        self.fault: str | None = None
        self._sum = ""
        self._lines = 0

    def append(self, batch: int, files: dict[str, Entry]) -> None:
        """Add what a batch has written."""
        self.batch = batch
        self.files |= files
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._compose({"batch": batch, "files": files}))

    @property
    def is_long(self) -> bool:
        """Say whether it is time to write it anew."""
        return self._lines >= _MOST_LINES

    def write(self, batch: int, retain: int, files: dict[str, Entry]) -> None:
        """Write it anew, at once."""
        self.batch, self.retain, self.files = batch, retain, files
        self._sum, self._lines = "", 0
        line = self._compose({"format": FORMAT, "batch": batch, "retain": retain, "files": files})
        with publish_file(self.path, durable=True) as partial:
            partial.write_text(line, encoding="utf-8")

    def _compose(self, content: dict[str, object]) -> str:
        text = json.dumps(content, sort_keys=True)
        self._sum = _add_up(self._sum, text)
        self._lines += 1
        return f'{text[:-1]}, "sum": "{self._sum}"}}\n'

    def read_line(self, line: str) -> None:
        """Take in a line of the file, if it is as it was written."""
        self._lines += 1
        try:
            content = json.loads(line)
            mine = content.pop("sum")
        except (ValueError, LookupError, TypeError, AttributeError):
            self.fault = f"line {self._lines} is not what was written"
            return
        self._sum = _add_up(self._sum, json.dumps(content, sort_keys=True))
        if mine != self._sum:
            self.fault = f"line {self._lines}, or the one before it, is not what was written"
        elif content.get("format", FORMAT) != FORMAT:
            self.fault = f"it is of a later release, in format {content['format']}"
        else:
            self.retain = content.get("retain", self.retain)
            self.batch = content["batch"]
            self.files |= {name: Entry(*entry) for name, entry in content["files"].items()}


def read_manifest(checkpoint: Path) -> FileManifest | None:
    """Return the manifest of a checkpoint, as far as it can be read; None if it has none."""
    manifest = FileManifest(checkpoint)
    try:
        text = manifest.path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    *lines, _ = text.split("\n")
    for line in lines:
        if manifest.fault is None:
            manifest.read_line(line)
    if not lines:
        manifest.fault = "it has no line"
    return manifest


def _add_up(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}{text}".encode()).hexdigest()[:16]
