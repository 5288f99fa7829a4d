"""Files of events and of outputs: JSON lines, Parquet and CSV.

One row is one event: its fields, and beside them `tag`, `source` and `seq`. What may be left out:
the tag where the program has one only, the source (then the file's stem), the sequence number (then
the row's place in its source). A row `{"heartbeat": 5, "source": "a1"}` is a heartbeat. Where an
event type has a field of its own called `tag`, `source`, `seq` or `heartbeat`, the word is the
field's, and `@tag`, `@source`, `@seq`, `@heartbeat` say what stands beside it.

A row that is no event becomes `Malformed`, with the file, the row and the reason.
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
from anabranch.model.events import Event, Heartbeat, Item, Malformed, Tag, field_names
from anabranch.model.program import Program
from anabranch.reference.fields import Unfit, encode_value, read_fields, read_text, read_value

Format = Literal["jsonl", "parquet", "csv"]

STANDARD = "-"
"""The name of standard input and output, which hold JSON lines."""

_SUFFIXES: Mapping[str, Format] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv",
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
    suffix = Path(file).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(
            f"the name {file!r} does not say what is in the file",
            expected=f"a name that ends in {', '.join(_SUFFIXES)}",
            got=suffix or "no ending",
            cure="rename the file",
        )
    return _SUFFIXES[suffix]


def read_items(program: Program, files: Iterable[str]) -> list[Item]:
    """Read files of events; whatever is wrong with a row, the row is in the result."""
    drafts: list[_Draft] = []
    for file in files:
        stem = "input" if file == STANDARD else Path(file).stem
        drafts += _settle([_read_row(program, stem, file, row) for row in read_rows(file)])
    return _number(drafts)


def _settle(drafts: list[_Draft]) -> list[_Draft]:
    """Count a row that does not tell its source with the row before it, or else the first.

    A source of its own would never promise anything, and hold everybody back.
    """
    source = next((draft.item.source for draft in drafts if draft.sure), None)
    settled = []
    for draft in drafts:
        if draft.sure:
            source = draft.item.source
        elif source is not None:
            draft = draft._replace(item=draft.item._replace(source=source))  # noqa: PLW2901
        settled.append(draft)
    return settled


def read_rows(file: str) -> Iterator[Row]:
    """Read the rows of a file, as they are."""
    kind = find_format(file)
    if file != STANDARD and not Path(file).is_file():
        raise InputError(
            f"there is no file {file!r}",
            expected="a file of events or outputs: JSON lines, Parquet or CSV",
            got="a folder" if Path(file).is_dir() else "nothing of that name",
        )
    if kind == "parquet":
        yield from _read_parquet(file)
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
            columns = json.loads(line)
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


def _read_parquet(file: str) -> Iterator[Row]:
    arrow, parquet = _import_arrow()
    try:
        table = parquet.read_table(file)
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"{file!r} is not a Parquet file", got=str(error)) from error
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


def _iterate(table: Any) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


class _Draft(NamedTuple):
    """An item before its number is known, the row it comes from, and whether its source is sure."""

    item: Item
    place: str
    sure: bool = True


def _read_row(program: Program, stem: str, file: str, row: Row) -> _Draft:
    place = f"{'standard input' if file == STANDARD else file}:{row.number}"
    if isinstance(row.columns, str):
        return _Draft(Malformed(row.raw, f"{place}: {row.columns}", stem), place, sure=False)
    kind = find_format(file)
    columns = dict(row.columns)
    if kind == "parquet":
        columns = {name: value for name, value in columns.items() if value is not None}
    text = kind == "csv"
    source, seq, sure = stem, None, False
    try:
        beats = _is_heartbeat(program, columns)
        tag = None if beats else _find_tag(program, columns)
        source = _beside(tag, columns, "source", str, text, stem)
        sure = True
        seq = _beside(tag, columns, "seq", int, text, None)
        if tag is None:
            time = _beside(None, columns, "heartbeat", int, text, None)
            return _Draft(Heartbeat(time, source, seq), place)
        data = read_fields(tag, columns, text=text, sparse=kind != "jsonl")
        return _Draft(Event(data, source, seq), place)
    except Unfit as error:
        named = columns.get("@source", columns.get("source"))
        if not sure and isinstance(named, str):
            source, sure = named, True
        return _Draft(Malformed(row.raw, f"{place}: {error}", source, seq), place, sure)


def _is_heartbeat(program: Program, columns: Mapping[str, Any]) -> bool:
    if "@heartbeat" in columns:
        return True
    return "heartbeat" in columns and not any("heartbeat" in field_names(t) for t in program.tags)


def _find_tag(program: Program, columns: Mapping[str, Any]) -> Tag:
    known = ", ".join(tag.__name__ for tag in program.tags)
    named = columns.get("@tag", columns.get("tag"))
    for tag in program.tags:
        own = "tag" in field_names(tag) and "@tag" not in columns
        if (len(program.tags) == 1 and (named is None or own)) or tag.__name__ == named:
            return tag
    if named is None:
        raise Unfit(f"tag is missing; the program knows {known}")
    raise Unfit(f"unknown tag {encode_value(named)!r}; the program knows {known}")


def _beside(
    tag: Tag | None, columns: Mapping[str, Any], name: str, kind: type, text: bool, default: Any
) -> Any:
    own = tag is not None and name in field_names(tag)
    column = f"@{name}" if f"@{name}" in columns else None if own else name
    if column is None or column not in columns:
        return default
    try:
        return (read_text if text else read_value)(columns[column], kind)
    except Unfit as error:
        raise Unfit(f"{column}: {error}") from None


def _number(drafts: Iterable[_Draft]) -> list[Item]:
    """Give every item its number, source by source; what can't have one is malformed."""
    drafts = list(drafts)
    numbering = {
        draft.item.source
        for draft in drafts
        if isinstance(draft.item, Event) and draft.item.seq is not None
    }
    counts: dict[str, int] = {}
    taken: dict[tuple[str, int], str] = {}
    orphans: list[int] = []
    items: list[Item] = []
    for item, place, _ in drafts:
        source = item.source
        if source not in numbering:
            seq = counts[source] = counts.get(source, -1) + 1
            items.append(item._replace(seq=seq))
            continue
        if isinstance(item, Heartbeat):
            last = counts.get(source, -1) if item.seq is None else item.seq
            items.append(item._replace(seq=last))
            continue
        reason = None
        if item.seq is None:
            reason = f"seq is missing, and other rows of source {source!r} have one"
        elif (source, item.seq) in taken:
            reason = f"seq {item.seq} of source {source!r} came before, at {taken[source, item.seq]}"
        if reason is None and item.seq is not None:
            taken[source, item.seq] = place
            counts[source] = item.seq
        else:
            orphans.append(len(items))
            if not isinstance(item, Malformed):
                item = Malformed(encode_value(item.data), f"{place}: {reason}", source)  # noqa: PLW2901
        items.append(item)
    _number_orphans(items, orphans, taken)
    return items


def _number_orphans(
    items: list[Item], orphans: Iterable[int], taken: Mapping[tuple[str, int], str]
) -> None:
    # What is rejected moves no frontier, so any free number will do; it only must be its own.
    free: dict[str, int] = {}
    for source, seq in taken:
        free[source] = max(free.get(source, 0), seq + 1)
    for place in orphans:
        source = items[place].source
        seq = free.get(source, 0)
        items[place] = items[place]._replace(seq=seq)
        free[source] = seq + 1


def encode_item(item: Item) -> Any:
    """Return an item as a row of a file of events."""
    if isinstance(item, Malformed):
        return item.raw
    beside: dict[str, Any] = {"source": item.source}
    if item.seq is not None:
        beside["seq"] = item.seq
    if isinstance(item, Heartbeat):
        return {"heartbeat": item.time, **beside}
    fields = encode_value(item.data)
    beside["tag"] = item.tag.__name__
    clear = {f"@{name}" if name in fields else name: value for name, value in beside.items()}
    tag = "@tag" if "@tag" in clear else "tag"
    return {tag: clear.pop(tag), **fields, **clear}


def encode_output(output: Any) -> dict[str, Any]:
    """Return an output as a row: what was said, and the event on which it was said."""
    event: Event = output.event
    return {
        "time": event.time,
        "tag": event.tag.__name__,
        "source": event.source,
        "seq": event.seq,
        "index": output.index,
        "value": encode_value(output.value),
        "event": encode_value(event.data),
    }


def decode_event(program: Program, row: Mapping[str, Any]) -> Event:
    """Return the event on which an output of a file was said."""
    try:
        tag = program.tag(row["tag"])
        data = read_fields(tag, row["event"], text=False, sparse=False)
    except (KeyError, TypeError, Unfit) as error:
        raise InputError(
            f"an output does not tell the event of {program.name} that caused it",
            expected="rows as `anabranch run --output` writes them: time, tag, source, seq, event",
            got=f"{error.args[0]} in {json.dumps(row, default=str)[:100]}",
            cure="compare with --key FIELD, --ordered or --unordered",
        ) from None
    return Event(data, row.get("source", "input"), row.get("seq"))


def write_rows(file: str, rows: Iterable[Any], kind: Format | None = None) -> None:
    """Write rows as JSON lines or Parquet; a text among JSON lines is written as it is."""
    kind = kind or find_format(file)
    if kind == "csv":
        raise InputError(
            "outputs have an event inside, which CSV can't hold",
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
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need pyarrow, which is not installed",
            expected="the extra `parquet`",
            cure="pip install 'anabranch[parquet]'",
        ) from error
    return arrow, parquet
