"""Rows of a file, one at a time, as every runtime reads them; only Parquet and Arrow files need a library.

A row that can't be read is not omitted: it is returned as text, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from anabranch.sources.csv_cells import read_cells, split_records
from anabranch.sources.text_lines import is_blank, parse_object, trim_end


class Row(NamedTuple):
    """A row of a file: its columns, or the reason why it has none, and its number.

    The number is that of its line, or of the row in a file without lines.
    """

    raw: Any
    columns: Mapping[str, Any] | str
    number: int


def read_json_rows(lines: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows of JSON lines; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        if not is_blank(line):
            text = trim_end(line)
            yield Row(text, parse_object(text), number)


def read_csv_rows(data: bytes, name: str) -> Iterator[Row]:
    """Yield the rows of CSV after the header; `name` is the name of the file, for errors."""
    header, lines, first = split_records(data, name)
    number = first
    for record, height in lines:
        text = trim_end(record)
        if text:
            yield Row(text, read_cells(text, header), number)
        number += height
