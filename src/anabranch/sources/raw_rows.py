"""Raw rows: the columns of a row before it is an event, and the text that is kept if it is rejected.

The fields of a row are in columns, or in the text of a JSON object in one column, or in cells, which are
all texts, beside the line that contains them. A reader that could not parse a row has put its text into
a separate column. The text is kept whatever the error is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from anabranch.model.values.fields import Unfit, read_text
from anabranch.sources.arrow_tables import read_batch
from anabranch.sources.csv_cells import read_cells
from anabranch.sources.text_blocks import LINE
from anabranch.sources.text_lines import is_blank as is_blank_text
from anabranch.sources.text_lines import parse_object, show_bytes, trim_end

__all__ = [
    "LINE",
    "UNREADABLE",
    "Opened",
    "RowColumns",
    "decode",
    "is_blank",
    "open_row",
    "parse_object",
    "read_batch",
]

decode = show_bytes

UNREADABLE = "the reader that made this frame could not read the row"


class RowColumns(Protocol):
    """Which columns of a frame contain texts or numbers beside an event, and the limit of a text's length."""

    @property
    def json_column(self) -> str | None: ...
    @property
    def corrupt_column(self) -> str | None: ...
    @property
    def reason_column(self) -> str | None: ...
    @property
    def line_column(self) -> str | None: ...
    @property
    def header(self) -> tuple[str, ...]: ...
    @property
    def seq(self) -> str | None: ...
    @property
    def heartbeat(self) -> str | None: ...
    @property
    def max_bytes(self) -> int: ...


class Opened(NamedTuple):
    """A parsed row: the columns beside the event, its fields, and the raw row.

    `fault` is the reason why the row can't be read, `corrupt` is set if another reader could not read it, and
    `text` if all values are texts.
    """

    beside: Mapping[str, Any]
    fields: Mapping[str, Any]
    raw: Any
    sparse: bool
    fault: str | None = None
    corrupt: bool = False
    text: bool = False


def open_row(row: Mapping[str, Any], columns: RowColumns) -> Opened:
    """Return the parts of a row."""
    if columns.json_column is not None:
        return _open_text(row, columns.json_column, columns.max_bytes)
    if columns.line_column is not None:
        return _open_cells(row, columns, columns.line_column)
    aside = (columns.corrupt_column, columns.reason_column)
    text, reason = (None if name is None else row.get(name) for name in aside)
    if any(aside):
        row = {name: value for name, value in row.items() if name not in aside}
    if reason is not None:
        return Opened(row, {}, row if text is None else text, sparse=True, fault=str(reason))
    if text is not None:
        return _open_corrupt(row, text, columns.max_bytes)
    # A column without a value is a missing field: several event types may share a frame's columns.
    present = {name: value for name, value in row.items() if value is not None}
    return Opened(row, present, row, sparse=True)


def is_blank(row: Mapping[str, Any], json_column: str | None) -> bool:
    """Return whether a row is an empty line, which is skipped and not rejected."""
    text = None if json_column is None else row.get(json_column)
    return isinstance(text, str | bytes) and is_blank_text(text)


def _open_text(row: Mapping[str, Any], column: str, most: int) -> Opened:
    beside = {name: value for name, value in row.items() if name != column}
    text = row.get(column)
    if isinstance(text, bytes):
        text = trim_end(text)
    if text is None:
        fault = f"column {column!r} is null; expected a JSON object"
        return Opened(beside, {}, dict(row), sparse=False, fault=fault)
    fields = parse_object(text, most)
    shown = decode(text) if isinstance(text, bytes) else str(text)
    if isinstance(fields, str):
        return Opened(beside, {}, shown, sparse=False, fault=fields)
    # Columns beside the text are not set by the sender.
    return Opened({**fields, **beside}, fields, shown, sparse=False)


def _open_cells(row: Mapping[str, Any], columns: RowColumns, line: str) -> Opened:
    record = trim_end(row[line])
    cells = read_cells(record, columns.header)
    beside: dict[str, Any] = {} if isinstance(cells, str) else dict(cells)
    fields = dict(beside)
    for name in (columns.seq, columns.heartbeat):
        if name is not None and isinstance(beside.get(name), str):
            beside[name] = _try_number(beside[name])
    beside |= {name: value for name, value in row.items() if name != line}
    fault = cells if isinstance(cells, str) else None
    return Opened(beside, fields, decode(record), sparse=True, fault=fault, text=True)


def _try_number(cell: str) -> int | str:
    try:
        number: int = read_text(cell, int)
    except Unfit:
        return cell  # The check of the column reports that it is not a number.
    return number


def _open_corrupt(row: Mapping[str, Any], text: Any, most: int) -> Opened:
    fields = parse_object(text, most)
    shown = decode(text) if isinstance(text, bytes) else str(text)
    if isinstance(fields, str):
        # A line of CSV is not JSON either, and that is not the error to report.
        known = shown.lstrip().startswith(("{", "["))
        fault = fields if known else UNREADABLE
        return Opened(row, {}, shown, sparse=False, fault=fault)
    return Opened({**row, **fields}, fields, shown, sparse=False, corrupt=True)
