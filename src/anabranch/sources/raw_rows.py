"""Raw rows: what a row of a frame holds, and what is kept of it if it is no event.

A row brings its fields in columns, or as the text of a JSON object in one column, or as cells, which are
texts all of them, beside the line on which they stood. A reader that gave up on a row has left its text in
a column of its own. Whatever is wrong, the text is still there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from anabranch.model.fields import Unfit, read_text

if TYPE_CHECKING:
    import pyarrow as pa

UNREADABLE = "the reader that made this frame could not read the row"

LINE = "anabranch line"
FAULT = "anabranch fault"
"""Columns that a reader of files adds: a line of text, and why it is no row."""


class RowColumns(Protocol):
    """Which columns of a frame hold texts or numbers beside an event, and how long a text may be."""

    @property
    def json_column(self) -> str | None: ...
    @property
    def corrupt_column(self) -> str | None: ...
    @property
    def reason_column(self) -> str | None: ...
    @property
    def line_column(self) -> str | None: ...
    @property
    def seq(self) -> str | None: ...
    @property
    def heartbeat(self) -> str | None: ...
    @property
    def max_bytes(self) -> int: ...


class Opened(NamedTuple):
    """A row, opened: where tag, source and sequence stand, the fields, and the row as it came.

    `fault` says why nothing can be read from it, `corrupt` that another reader could not read it, and
    `text` that all values are texts.
    """

    beside: Mapping[str, Any]
    fields: Mapping[str, Any]
    raw: Any
    sparse: bool
    fault: str | None = None
    corrupt: bool = False
    text: bool = False


def open_row(row: Mapping[str, Any], columns: RowColumns) -> Opened:
    """Return what a row holds."""
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
    # A column without a value is a field left out: several tags may share a frame's columns.
    present = {name: value for name, value in row.items() if value is not None}
    return Opened(row, present, row, sparse=True)


def is_blank(row: Mapping[str, Any], json_column: str | None) -> bool:
    """Say whether a row is an empty line, which is nothing, not even a bad event."""
    text = None if json_column is None else row.get(json_column)
    return isinstance(text, str | bytes) and not text.strip()


def read_batch(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Return the rows of a batch; a text that is not UTF-8 comes as bytes, which fit no field."""
    try:
        return iter(batch.to_pylist())
    except UnicodeDecodeError:
        return _read_bytes(batch)


def decode(data: bytes) -> str:
    """Return bytes as a text for people to look at."""
    return data.decode("utf-8", "backslashreplace")


def _read_bytes(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    columns = [
        [_try_text(value) for value in column.cast(pa.binary()).to_pylist()]
        if pa.types.is_string(column.type)
        else column.to_pylist()
        for column in batch.columns
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))


def _try_text(data: bytes | None) -> str | bytes | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _open_text(row: Mapping[str, Any], column: str, most: int) -> Opened:
    beside = {name: value for name, value in row.items() if name != column}
    text = row.get(column)
    if text is None:
        fault = f"column {column!r} is null where a JSON object should be"
        return Opened(beside, {}, dict(row), sparse=False, fault=fault)
    fields = parse_object(text, most)
    shown = decode(text) if isinstance(text, bytes) else str(text)
    if isinstance(fields, str):
        return Opened(beside, {}, shown, sparse=False, fault=fields)
    # What stands beside the text is not the sender's to say.
    return Opened({**fields, **beside}, fields, shown, sparse=False)


def _open_cells(row: Mapping[str, Any], columns: RowColumns, line: str) -> Opened:
    aside = (line, columns.reason_column)
    beside = {name: v for name, v in row.items() if name not in aside and v is not None}
    fault = None if columns.reason_column is None else row.get(columns.reason_column)
    fields = dict(beside)
    for name in (columns.seq, columns.heartbeat):
        if name is not None and isinstance(beside.get(name), str):
            beside[name] = _try_number(beside[name])
    return Opened(beside, fields, decode(row[line]), sparse=True, fault=fault, text=True)


def _try_number(cell: str) -> int | str:
    try:
        number: int = read_text(cell, int)
    except Unfit:
        return cell  # Whoever asks for a number will say that this is none.
    return number


def _open_corrupt(row: Mapping[str, Any], text: Any, most: int) -> Opened:
    fields = parse_object(text, most)
    shown = decode(text) if isinstance(text, bytes) else str(text)
    if isinstance(fields, str):
        # A line of CSV is not JSON either, and that is not what is wrong with it.
        known = shown.lstrip().startswith(("{", "["))
        fault = fields if known else UNREADABLE
        return Opened(row, {}, shown, sparse=False, fault=fault)
    return Opened({**row, **fields}, fields, shown, sparse=False, corrupt=True)


def parse_object(text: Any, most: int) -> dict[str, Any] | str:
    """Return the columns of a JSON object, or why it is none.

    >>> parse_object(b'{"time": 1}', 100), parse_object("[1]", 100)
    ({'time': 1}, 'not a JSON object: [1]')
    """
    if not isinstance(text, str | bytes):
        return f"expected a JSON object, got {type(text).__name__}"
    size = len(text) if isinstance(text, bytes) or text.isascii() else len(_encode(text))
    if size > most:
        return f"the text takes {size:,} bytes; at most {most:,} are taken (max_record_bytes)"
    try:
        # As bytes it might be taken for UTF-16; lines of JSON are UTF-8.
        columns = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except UnicodeDecodeError as error:
        return describe_byte(error)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if isinstance(columns, dict):
        return columns
    return f"not a JSON object: {(decode(text) if isinstance(text, bytes) else text)[:60]}"


def describe_byte(error: UnicodeDecodeError) -> str:
    """Say why a text is none."""
    return f"not UTF-8: byte {error.start + 1} is {error.object[error.start]:#x}"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
