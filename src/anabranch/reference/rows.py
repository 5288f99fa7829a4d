"""Rows of files in JSON lines, CSV, Parquet or Arrow.

A file that can't be opened or has another format raises an error. A row that can't be decoded does
not: it is returned as its text, with the reason.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

from anabranch.errors import InputError, MissingExtraError
from anabranch.paths import strip_scheme
from anabranch.sources.arrow_tables import read_arrow_blocks, read_batch, read_parquet_blocks
from anabranch.sources.single_rows import Row, read_csv_rows, read_json_rows

__all__ = ["STANDARD", "Format", "Row", "find_format", "list_inputs", "read_rows", "write_rows"]

Format = Literal["jsonl", "parquet", "csv", "arrow"]

STANDARD = "-"
"""The name of standard input and output, whose format is JSON lines."""

_SUFFIXES: Mapping[str, Format] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip


_COMPRESSIONS = frozenset({".gz", ".bz2", ".zst", ".xz", ".zip", ".lz4", ".snappy"})
_COMPRESSED = "unpack the file; Parquet and Arrow files compress inside"

_BLOCK_ROWS = 10_000
"""Number of rows of a Parquet or Arrow file that are read at once."""


def find_format(file: str) -> Format:
    """Return a file's format by the ending of its name."""
    if file == STANDARD:
        return "jsonl"
    strip_scheme(file, "input")
    suffix = Path(file).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(
            f"the name {file!r} does not show the format of the file",
            expected=f"a name that ends in {', '.join(_SUFFIXES)}",
            got=suffix or "no ending",
            cure=_COMPRESSED if suffix in _COMPRESSIONS else "rename the file",
        )
    return _SUFFIXES[suffix]


def check_output_name(file: str) -> None:
    """Raise `InputError` for a file name that outputs can't be written to."""
    if file == STANDARD:
        return
    suffix = Path(file).suffix.lower()
    kinds = (".jsonl", ".ndjson", ".json", ".parquet", ".pq", ".csv")
    if Path(file).is_dir() or suffix not in kinds:
        raise InputError(
            f"outputs can't be written to {file!r}",
            expected=f"--output FILE, with a name that ends in {', '.join(kinds)}",
            got="a folder" if Path(file).is_dir() else suffix or "no ending",
            cure="--format jsonl, parquet or csv for any other name of a file; a name without an ending is a "
            "folder, except with --reference",
        )


def read_rows(file: str) -> Iterator[Row]:
    """Yield the rows of a file, not yet decoded as events."""
    if file != STANDARD:
        file = strip_scheme(file, "input")
        if not Path(file).is_file():
            raise InputError(
                f"there is no file {file!r}",
                expected="a file of events or outputs: JSON lines, Parquet, Arrow or CSV",
                got="a folder" if Path(file).is_dir() else "nothing of that name",
            )
    kind = find_format(file)
    if kind in ("parquet", "arrow"):
        yield from _read_blocks(file, kind)
        return
    with _open_input(file) as stream:
        rows = read_csv_rows(stream.read(), file) if kind == "csv" else read_json_rows(stream)
        for row in rows:
            # Bytes that are not UTF-8 are kept, so that a rejected line can be written unchanged.
            yield row._replace(raw=row.raw.decode("utf-8", "surrogateescape"))


@contextmanager
def _open_input(file: str) -> Iterator[BinaryIO]:
    if file == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as stream:
            yield stream
    except OSError as error:
        raise InputError(f"{file!r} can't be read", got=str(error)) from error


def list_inputs(place: str) -> list[str]:
    """Return the files of an input: those of a folder, sorted by name, or the file itself."""
    if place == STANDARD:
        return [place]
    place = strip_scheme(place, "input")
    folder = Path(place)
    if not folder.is_dir():
        return [place]
    names = (path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._")
    files = sorted(str(path) for path in names)
    if not files:
        raise InputError(
            f"there are no files in {place!r}",
            expected="files of events: JSON lines, Parquet, Arrow or CSV",
            got="an empty folder",
        )
    return files


def _read_blocks(file: str, kind: Format) -> Iterator[Row]:
    arrow, _ = import_arrow()
    read = read_parquet_blocks if kind == "parquet" else read_arrow_blocks
    try:
        rows = (columns for block in read(file, _BLOCK_ROWS) for columns in read_batch(block))
        for number, columns in enumerate(rows, 1):
            yield Row(columns, columns, number)
    except (OSError, arrow.ArrowException) as error:
        name = "a Parquet" if kind == "parquet" else "an Arrow"
        raise InputError(f"{file!r} is not {name} file", got=str(error)) from error


def write_rows(file: str, rows: Iterable[Any], kind: Format | None = None) -> None:
    """Write rows as JSON lines or Parquet; a text among JSON lines is written unchanged."""
    file = file if file == STANDARD else strip_scheme(file, "output")
    kind = kind or find_format(file)
    try:
        if kind == "parquet":
            _write_parquet(file, list(rows))
        elif file == STANDARD:
            sys.stdout.writelines(map(_encode_line, rows))
        else:
            with Path(file).open("w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.writelines(map(_encode_line, rows))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{file!r} can't be written", got=str(error)) from error


def _encode_line(row: Any) -> str:
    return (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n"


def _write_parquet(file: str, rows: list[dict[str, Any]]) -> None:
    arrow, parquet = import_arrow()
    kinds = {"time": arrow.int64(), "seq": arrow.int64(), "index": arrow.int64()}
    stamped = arrow.timestamp("us", tz="UTC")
    names = list(dict.fromkeys(name for row in rows for name in row))
    fields, columns = [], []
    for name in names:
        values = [row.get(name) for row in rows]
        if name == "time" and isinstance(next(iter(values), None), str):
            fields.append(arrow.field(name, stamped))
            columns.append(arrow.array([datetime.fromisoformat(str(v)) for v in values], stamped))
            continue
        column, spelled = _build_column(arrow, values, kinds.get(name))
        metadata = {"anabranch": "json"} if spelled else None
        fields.append(arrow.field(name, column.type, metadata=metadata))
        columns.append(column)
    parquet.write_table(arrow.table(columns, schema=arrow.schema(fields)), file)


def _build_column(arrow: Any, values: list[Any], kind: Any) -> tuple[Any, bool]:
    """Return a column of Arrow's types if they represent the values exactly, else one of JSON texts."""
    try:
        column = arrow.array(values, kind)
        if json.dumps(column.to_pylist()) == json.dumps(values):
            return column, False
    except (arrow.ArrowException, OverflowError, TypeError, ValueError):
        pass
    return arrow.array([json.dumps(value, ensure_ascii=False) for value in values]), True


def import_arrow() -> tuple[Any, Any]:
    """Return the modules of Arrow and of Parquet; raise `MissingExtraError` if they are not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files, and outputs in CSV, need pyarrow, which is not installed",
            expected="the extra `parquet`",
            cure="pip install 'anabranch[parquet]'",
        ) from error
    return pa, parquet
