"""Cells: files of CSV, in bulk where all cells are written plainly, and line by line where not.

Either way a row means what it means to the reference, whatever else is in its file. Arrow alone would take
007 and 0x1F for numbers, and everything behind a quote that is never closed for one text.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anabranch.errors import InputError
from anabranch.sources.raw_rows import FAULT, LINE, describe_byte

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_BYTES = 1 << 23
"""What Arrow reads at a time. A larger row comes line by line."""

_PLAIN = {
    "int64": r"^-?(?:0|[1-9][0-9]*)$",
    # JSON's numbers, as far as no float is too small for them; -0 is an int there, and so no -0.0.
    "float64": r"^(?:0|-?[1-9][0-9]{0,30}|(?i:nan|-?inf|-?infinity)"
    r"|-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2}))$",
    "bool": r"^(?i:true|false)$",
}
"""How a cell of a type is spelled, such that Arrow and the reference read the same from it."""

_WELL_QUOTED = re.compile(
    rb"""(?: [^"]++                                                 # no quote
           | (?<=[^,\r\n])"                                         # a quote inside a cell
           | (?<![^,\r\n])" (?:[^"]++|"")*+ " (?=[,\r\n]|\Z)        # a quoted cell
         )*+""",
    re.VERBOSE,
)
"""Rows in which each quote that opens a cell is closed at its end."""

_OPEN_QUOTE = "not CSV: a quote does not close its cell"


class _Sheet(NamedTuple):
    """A file: the names in its first row, and where the rows begin."""

    data: bytes
    header: list[str]
    start: int


class _Record(NamedTuple):
    """A row as it stands in its file, and its cells, or why it has none."""

    raw: bytes
    cells: Mapping[str, str]
    fault: str | None = None


def read_cells(path: str, wanted: Mapping[str, str]) -> pa.Table:
    """Return the wanted columns of a file; or the cells as texts, beside each line and its fault."""
    sheet = _open(path)
    known = {name: kind for name, kind in wanted.items() if name in sheet.header}
    table = None
    if known and all(wanted.values()) and len({*sheet.header}) == len(sheet.header):
        table = _read_bulk(sheet, known)
    return _read_lines(sheet, list(known)) if table is None else table


def _open(path: str) -> _Sheet:
    data = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    stream = io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape", newline="")
    start = 0

    def follow() -> Iterator[str]:
        nonlocal start
        for line in stream:
            start += len(line.encode("utf-8", "surrogateescape"))
            yield line

    try:
        cells = next((cells for cells in csv.reader(follow(), strict=True) if cells), [])
    except csv.Error as error:
        raise InputError(
            f"{path} can't be read as csv",
            expected="a first row that names the columns",
            got=f"one that is not CSV: {error}",
        ) from error
    return _Sheet(data, [name.strip() for name in cells], start)


def _read_bulk(sheet: _Sheet, known: Mapping[str, str]) -> pa.Table | None:
    """Return typed columns, or None if some cell has to be looked at by itself."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pv

    data, header, start = sheet
    if b'"' in data and not _WELL_QUOTED.fullmatch(data, start):
        return None
    columns = {}
    try:
        table = pv.read_csv(
            pa.py_buffer(data).slice(start),
            pv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=header),
            pv.ParseOptions(newlines_in_values=True),
            pv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                include_columns=list(known),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        for name, kind in known.items():
            column = table.column(name)
            if kind in _PLAIN:
                plain = pc.match_substring_regex(column, _PLAIN[kind])
                if not pc.all(plain, min_count=0).as_py():
                    return None
            columns[name] = column.cast(kind)
    except pa.ArrowInvalid:
        return None
    return pa.table(columns)


def _read_lines(sheet: _Sheet, known: list[str]) -> pa.Table:
    """Return cells as texts, and with each row the line that it stands on."""
    import pyarrow as pa

    with _no_limit():
        records = [_judge(record, known) for record in _split(sheet)]
    columns = {
        name: pa.array([record.cells.get(name) for record in records], pa.string())
        for name in known
    }
    lines = pa.array([record.raw for record in records], pa.binary())
    faults = pa.array([record.fault for record in records], pa.string())
    return pa.table({**columns, LINE: lines, FAULT: faults})


@contextmanager
def _no_limit() -> Iterator[None]:
    """Read cells of any length, as in bulk; how large an event may be is judged later."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _split(sheet: _Sheet) -> Iterator[_Record]:
    """Cut a file into rows. A quote that is never closed spoils its own line only."""
    data, header, start = sheet
    lines = data[start:].splitlines(keepends=True)
    place = 0
    while place < len(lines):
        used, cells = _read_row(lines, place, len(header))
        raw = b"".join(lines[place : place + used]).rstrip(b"\r\n")
        place += used
        if isinstance(cells, str):
            yield _Record(raw, {}, cells)
        elif cells:
            # An empty cell is no value; a file that means the empty text can't say so in CSV.
            pairs = zip(header, cells, strict=True)
            yield _Record(raw, {name: cell for name, cell in pairs if cell})


def _read_row(lines: list[bytes], place: int, width: int) -> tuple[int, list[str] | str]:
    """Return how many lines a row takes, and its cells, or why it has none."""
    reader = csv.reader(_decode(lines, place), strict=True)
    try:
        cells = next(reader)
    except csv.Error:
        return 1, _OPEN_QUOTE
    if not cells or len(cells) == width:
        return reader.line_num, cells
    if reader.line_num > 1:
        return 1, _OPEN_QUOTE
    return 1, f"{len(cells)} columns where the header names {width}"


def _decode(lines: list[bytes], place: int) -> Iterable[str]:
    return (lines[n].decode("utf-8", "surrogateescape") for n in range(place, len(lines)))


def _judge(record: _Record, known: list[str]) -> _Record:
    """Return a row without its cells if one that is wanted is not UTF-8."""
    try:
        record.raw.decode()
    except UnicodeDecodeError as error:
        if not all(_is_text(record.cells.get(name, "")) for name in known):
            return record._replace(cells={}, fault=describe_byte(error))
    return record


def _is_text(cell: str) -> bool:
    # What is not UTF-8 was read as lone surrogates, which no text of UTF-8 has.
    return not any("\ud800" <= letter <= "\udfff" for letter in cell)
