"""Rows and cells of CSV. The meaning of a row does not depend on the other rows of its file.

A line feed ends a row, with or without a carriage return before it, unless it is inside quotes. A quote that is
never closed invalidates its own line only. An empty line is not a row, and an empty cell is not a value.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from anabranch.errors import InputError
from anabranch.sources.text_lines import BOM, trim_end

_OPEN_QUOTE = "not CSV: a quote does not close its cell"
_LONE_RETURN = "not CSV: a carriage return outside quotes that ends no line"


def split_records(
    data: bytes, name: str
) -> tuple[tuple[str, ...], Iterator[tuple[bytes, int]], int]:
    """Return the names of the columns, the records with their line counts, and the line number of the first."""
    header, place, lines = open_sheet(data, name)
    return header, _iterate(lines, place, len(header)), place + 1


def open_sheet(data: bytes, name: str) -> tuple[tuple[str, ...], int, list[bytes]]:
    """Return the names in the first row of a file, the number of lines before the data rows, and all lines."""
    lines = data.removeprefix(BOM).split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])
    return *open_lines(lines, name), lines


def open_lines(lines: Sequence[bytes], name: str) -> tuple[tuple[str, ...], int]:
    """Return the names in the first row of a file's lines, and the number of lines before the data rows."""
    place = 0
    while place < len(lines) and not trim_end(lines[place]):
        place += 1
    if place == len(lines):
        return (), place
    height, cells = measure_record(lines, place)
    if isinstance(cells, str):
        raise InputError(
            f"{name} can't be read as CSV",
            expected="a first row that names the columns",
            got=f"one that is {cells}",
        )
    header = tuple(cell.strip() for cell in cells)
    _check_delimiter(header, name)
    return header, place + height


def _check_delimiter(header: tuple[str, ...], name: str) -> None:
    """Raise if the columns of a file are separated by anything but a comma."""
    for delimiter, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(header) == 1 and delimiter in header[0]:
            raise InputError(
                f"{name} has its columns between {word}, not commas",
                expected="a first row that names the columns, with commas between them",
                got=header[0],
                cure=f"convert it: pandas.read_csv({name!r}, sep={delimiter!r}).to_csv(…, index=False)",
            )


def _iterate(lines: Sequence[bytes], place: int, width: int) -> Iterator[tuple[bytes, int]]:
    while place < len(lines):
        height = 1
        if b'"' in lines[place]:
            height = find_height(lines, place, width)
        yield b"".join(lines[place : place + height]), height
        place += height


def find_height(lines: Sequence[bytes], place: int, width: int) -> int:
    """Return the number of lines of the record that begins in a line."""
    height, cells = measure_record(lines, place)
    return height if isinstance(cells, str) or len(cells) == width else 1


def measure_record(lines: Sequence[bytes], place: int) -> tuple[int, list[str] | str]:
    """Return the number of lines of a record, and its cells, or the reason why it can't be parsed."""
    reader = csv.reader((_decode(lines[n]) for n in range(place, len(lines))), strict=True)
    try:
        with _no_limit():
            cells = next(reader)
    except csv.Error:
        quoted = b'"' in lines[place]
        return 1, _OPEN_QUOTE if quoted else _LONE_RETURN
    return reader.line_num, cells


def read_cells(record: bytes, header: Sequence[str]) -> dict[str, str] | str:
    """Return the non-empty cells of a record by the names of their columns, or the reason why it is rejected.

    >>> read_cells(b'1,,"a, b"', ["time", "price", "text"])
    {'time': '1', 'text': 'a, b'}
    """
    lines = record.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + lines[-1:]
    height, cells = measure_record(lines, 0)
    if isinstance(cells, str):
        return cells
    if len(cells) != len(header) or height != len(lines):
        more = height > 1 or height != len(lines)
        return _OPEN_QUOTE if more else f"{len(cells)} columns where the header names {len(header)}"
    return {name: cell for name, cell in zip(header, cells, strict=True) if cell}


def _decode(line: bytes) -> str:
    # Bytes that are not UTF-8 are kept as lone surrogates, which fit no field.
    return line.decode("utf-8", "surrogateescape")


@contextmanager
def _no_limit() -> Iterator[None]:
    """Allow cells of any length; the size of an event is checked later."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
