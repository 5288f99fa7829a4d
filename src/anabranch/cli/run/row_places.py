"""Places of rows: the file and line of a rejected row, from its position in its channel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.job.job import Job
from anabranch.sources.csv_cells import split_records
from anabranch.sources.files import ROW_BITS, list_names
from anabranch.sources.text_lines import is_blank, trim_end


class RowPlaces:
    """The files and lines of a job's rows. `shown` has their names as the user gave them.

    A row of a file without a sequence column has the number of its file and row as its sequence. If rows
    bring their own sequence, their places are unknown.
    """

    def __init__(self, job: Job, shown: Mapping[str, str]) -> None:
        self._folders = [folder for folder in job.folders if folder.reading.seq is None]
        self._shown = shown
        self._names: dict[str, list[str]] = {}
        self._number_lines = cache(number_lines)

    def name_reason(self, row: Mapping[str, Any]) -> str:
        """Return the reason of a rejected row, after its place if it is known."""
        place = None if row["type"] is not None else self._find(row["channel"], row["seq"])
        reason: str = row["reason"]
        return reason if place is None else f"{place}: {reason}"

    def _find(self, channel: str | None, seq: int | None) -> str | None:
        mine = [folder for folder in self._folders if _brings(folder, channel)]
        if len(mine) != 1 or seq is None:
            return None
        files = mine[0].files
        folder, number = str(files.folder), seq >> ROW_BITS
        if folder not in self._names:
            self._names[folder] = list_names(files)
        names = self._names[folder]
        if not 0 <= number < len(names):
            return None
        path = Path(folder) / names[number]
        shown = self._shown.get(str(path))
        if folder in self._shown:
            shown = str(Path(self._shown[folder]) / names[number])
        row = seq & ((1 << ROW_BITS) - 1)
        if shown is None:
            return None
        if files.format not in ("json", "csv"):
            return f"{shown}:{row + 1}"
        lines = self._number_lines(path, files.format)
        return f"{shown}:{lines[row]}" if row < len(lines) else None


def _brings(folder: Folder, channel: str | None) -> bool:
    if folder.reading.channel_column is not None:
        return True  # A row that can't be read has no channel.
    return channel == folder.reading.channel


def number_lines(path: Path, form: str) -> list[int]:
    """Return the line numbers of the rows of a text file, without those of blank lines and of the header."""
    data = path.read_bytes()
    if form == "json":
        lines = data.split(b"\n")
        return [number for number, line in enumerate(lines, 1) if not is_blank(line)]
    _, records, number = split_records(data, str(path))
    found = []
    for record, height in records:
        if trim_end(record):
            found.append(number)
        number += height
    return found
