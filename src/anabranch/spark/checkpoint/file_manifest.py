"""File manifests: a file with one line per batch that lists the files of a checkpoint.

A line is JSON with a checksum over itself and the line before it. So a line that was changed, truncated or
removed is detected. A last line without a line break is what a crash leaves; it is ignored.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from anabranch.publication import publish_file

MANIFEST = "_manifest.jsonl"
"""The name of the manifest in a checkpoint."""

FORMAT = 1

_MOST_LINES = 256
"""The number of lines after which the file is rewritten, without the files that Spark has removed."""


class Entry(NamedTuple):
    """The size of a file and, if it is small, its SHA-256."""

    size: int
    digest: str | None = None


class FileManifest:
    """The files of a checkpoint after a batch; `fault` is the reason why it can't be trusted, if any."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint / MANIFEST
        self.batch = -1
        self.retain = 0
        self.files: dict[str, Entry] = {}
        self.fault: str | None = None
        self._sum = ""
        self._lines = 0

    def append(self, batch: int, files: dict[str, Entry]) -> None:
        """Append the files that a batch has written."""
        self.batch = batch
        self.files |= files
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._compose({"batch": batch, "files": files}))

    @property
    def is_long(self) -> bool:
        """Return whether the manifest has so many lines that it should be rewritten."""
        return self._lines >= _MOST_LINES

    def write(self, batch: int, retain: int, files: dict[str, Entry]) -> None:
        """Rewrite the manifest atomically, as one line."""
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
        """Apply a line of the file; set `fault` if the line is not as it was written."""
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
    """Return the manifest of a checkpoint up to its first fault; None if it has no manifest."""
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
