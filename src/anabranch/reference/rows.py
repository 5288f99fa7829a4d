"""Rows: what a file holds, line by line, in JSON lines, CSV or Parquet.

A file that can't be opened or is of another format is refused. A row that can't be read is not:
it is returned as it is, with the reason.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from anabranch.errors import InputError, MissingExtraError
from anabranch.paths import strip_scheme

Format = Literal["jsonl", "parquet", "csv", "arrow"]

STANDARD = "-"
"""The name of standard input and output, which hold JSON lines."""

_SUFFIXES: Mapping[str, Format] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow",
}  # fmt: skip


class Row(NamedTuple):
    """A row as a file holds it: its columns, or the reason why it has none."""

    raw: Any
    columns: Mapping[str, Any] | str
    number: int


def find_format(file: str) -> Format:
    """Tell a file's format from its name."""
    if file == STANDARD:
        return "jsonl"
    strip_scheme(file, "input")
    suffix = Path(file).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(
            f"the name {file!r} does not say what is in the file",
            expected=f"a name that ends in {', '.join(_SUFFIXES)}",
            got=suffix or "no ending",
            cure="rename the file",
        )
    return _SUFFIXES[suffix]


def read_rows(file: str) -> Iterator[Row]:
    """Read the rows of a file, as they are."""
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
        yield from _read_table(file, kind)
    else:
        with _open_input(file) as stream:
            yield from (_read_csv if kind == "csv" else _read_lines)(stream)


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


def _read_lines(stream: BinaryIO) -> Iterator[Row]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        try:
            columns = json.loads(line.strip())
        except UnicodeDecodeError as error:
            yield Row(text, f"not UTF-8: byte {error.start + 1} is {line[error.start]:#x}", number)
        except (ValueError, RecursionError) as error:
            yield Row(text, f"not JSON: {error}", number)
        else:
            good = isinstance(columns, dict)
            yield Row(text, columns if good else f"not a JSON object: {text[:60]}", number)


def _read_csv(stream: BinaryIO) -> Iterator[Row]:
    lines = (line.decode("utf-8", "surrogateescape") for line in stream)
    reader = csv.reader(lines, strict=True)
    header: list[str] | None = None
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Row("", f"not CSV: {error}", reader.line_num)
            continue
        if header is None:
            header = [name.strip().removeprefix("\ufeff") for name in cells]
        elif not cells:
            continue
        elif len(cells) != len(header):
            reason = f"{len(cells)} columns where the header names {len(header)}"
            yield Row(",".join(cells), reason, reader.line_num)
        else:
            # An empty cell is no value; a file that means the empty text can't say so in CSV.
            columns = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
            yield Row(",".join(cells), columns, reader.line_num)


def list_inputs(place: str) -> list[str]:
    """Return the files that an input stands for: those of a folder by name, or the file itself."""
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


def _read_table(file: str, kind: Format) -> Iterator[Row]:
    arrow, parquet = _import_arrow()
    try:
        table = parquet.read_table(file) if kind == "parquet" else _open_arrow(arrow, file)
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"{file!r} is not a {kind.title()} file", got=str(error)) from error
    spelled = set()
    for place, field in enumerate(table.schema):
        if arrow.types.is_timestamp(field.type):
            moments = table.column(place).cast(arrow.timestamp("us"), safe=False)
            table = table.set_column(place, field.name, moments.cast(arrow.int64()))
        if (field.metadata or {}).get(b"anabranch") == b"json":
            spelled.add(field.name)
    for number, columns in enumerate(_iterate(table), 1):
        for name in spelled:
            columns[name] = json.loads(columns[name])
        yield Row(columns, columns, number)


def _open_arrow(arrow: Any, file: str) -> Any:
    with arrow.OSFile(file) as source:
        try:
            return arrow.ipc.open_file(source).read_all()
        except arrow.ArrowInvalid:
            source.seek(0)
            return arrow.ipc.open_stream(source).read_all()


def _iterate(table: Any) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def write_rows(file: str, rows: Iterable[Any], kind: Format | None = None) -> None:
    """Write rows as JSON lines or Parquet; a text among JSON lines is written as it is."""
    file = file if file == STANDARD else strip_scheme(file, "output")
    kind = kind or find_format(file)
    if kind in ("csv", "arrow"):
        raise InputError(
            f"outputs can't be written as {kind.upper()}",
            expected="a name that ends in .jsonl or .parquet",
            got=file,
        )
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
    arrow, parquet = _import_arrow()
    kinds = {"time": arrow.int64(), "seq": arrow.int64(), "index": arrow.int64()}
    names = list(dict.fromkeys(name for row in rows for name in row))
    fields, columns = [], []
    for name in names:
        values = [row.get(name) for row in rows]
        column, spelled = _build_column(arrow, values, kinds.get(name))
        metadata = {"anabranch": "json"} if spelled else None
        fields.append(arrow.field(name, column.type, metadata=metadata))
        columns.append(column)
    parquet.write_table(arrow.table(columns, schema=arrow.schema(fields)), file)


def _build_column(arrow: Any, values: list[Any], kind: Any) -> tuple[Any, bool]:
    """Return a column of Arrow's own types if it says the same, else one of JSON texts."""
    try:
        column = arrow.array(values, kind)
        if json.dumps(column.to_pylist()) == json.dumps(values):
            return column, False
    except (arrow.ArrowException, OverflowError, TypeError, ValueError):
        pass
    return arrow.array([json.dumps(value, ensure_ascii=False) for value in values]), True


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need pyarrow, which is not installed",
            expected="the extra `parquet`",
            cure="pip install 'anabranch[parquet]'",
        ) from error
    return pa, parquet
