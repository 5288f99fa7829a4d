"""Inputs of a run, embedded or on Spark: files and folders of events, as sources of `Files`.

A folder is a stream of files. Single files, standard input and the events beside a program are one bounded
input: a manifest lists the files, and they are read as one batch. Both are read by `Files`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.cli.run.run_request import RunRequest
from anabranch.cli.target_module import TargetModule
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel
from anabranch.model.events import Item
from anabranch.model.program import Program
from anabranch.paths import check_folder, resolve_path
from anabranch.reference.event_files import encode_item, name_channel
from anabranch.reference.rows import STANDARD, Format, find_format, list_inputs, write_rows
from anabranch.sources.source_options import name_columns

if TYPE_CHECKING:
    from anabranch.sources.files import FileFormat, Files

PEEK = 100
"""Number of lines of a JSON file that are read to find its columns."""

_MANIFEST = "files.txt"
_FORMATS: dict[Format, FileFormat] = {
    "jsonl": "json", "parquet": "parquet", "csv": "csv", "arrow": "arrow",
}  # fmt: skip


@dataclass(frozen=True)
class InputFolder:
    """Files that are read as one source. `name` is their channel, unless rows have a channel column."""

    files: Files
    name: str
    columns: frozenset[str]
    channels: tuple[Channel, ...] = ()
    shown: Mapping[str, str] = field(default_factory=dict)
    """The names of the folder, or of its files, as the user gave them, by their absolute paths."""

    def make_source_of_files(self, program: Program) -> Files:
        """Return the source of these files."""
        names = name_columns(program)
        has = {name: column for name, column in names.items() if column in self.columns}
        only = program.inputs[0] if len(program.inputs) == 1 else None
        named = "channel" in has
        promised = {} if named else _describe(self.channels[0])
        return replace(
            self.files,
            channel=None if named else self.name,
            event=only,
            type_column=has.get("type") if only is not None else names["type"],
            seq=has.get("seq"),
            heartbeat=has.get("heartbeat"),
            channel_column=has.get("channel"),
            channels=self.channels if named else (),
            **promised,
        )


def _describe(channel: Channel) -> dict[str, Any]:
    names = ("lateness", "unique_times", "max_ahead", "idle_after_s", "order")
    return {name: getattr(channel, name) for name in names}


def open_inputs(material: TargetModule, order: RunRequest, scratch: Path) -> list[InputFolder]:
    """Return the inputs of a run, each with its channels; raise `InputError` for unreadable input."""
    folder_inputs = list(_find_inputs(material, order, scratch))
    declared = declare_inputs(material, order, folder_inputs)
    return [
        replace(folder_input, channels=tuple(declared[n]))
        for n, folder_input in enumerate(folder_inputs)
    ]


def declare_inputs(
    material: TargetModule, order: RunRequest, folder_inputs: list[InputFolder]
) -> list[list[Channel]]:
    """Return the channels of each input, as declared beside the program or by flags."""
    column = name_columns(material.program)["channel"]
    idle = order.place.idle_after_s
    found: list[list[Channel]] = []
    flagged = order.lateness is not None or order.unique_times
    for folder_input in folder_inputs:
        named = column in folder_input.columns
        known = {} if flagged else {channel.name: channel for channel in material.channels}
        names = [folder_input.name]
        if named and known:
            # A channel without rows so far may still get some, if the input is a stream.
            bounded = not order.is_stream and bool(order.inputs)
            brought = _read_names(folder_input.files, column) if bounded else known.keys()
            names = [name for name in known if name in brought] or list(known)
        elif named:
            names = sorted(_read_names(folder_input.files, column))
        usual = Channel("", lateness=order.lateness or 0, unique_times=order.unique_times)
        mine = [known.get(name, replace(usual, name=name)) for name in names]
        if idle is not None:
            mine = [replace(channel, idle_after_s=idle) for channel in mine]
        found.append(mine or [Channel(folder_input.name)])
    return found


def _find_inputs(material: TargetModule, order: RunRequest, scratch: Path) -> Iterator[InputFolder]:
    from anabranch.sources.files import Files

    column = name_columns(material.program)["channel"]
    if order.is_stream:
        assert order.folder is not None
        folder = check_folder(order.folder)
        paths = list_inputs(str(folder))
        files = Files(folder, format=_find_format(paths), files_per_batch=order.files_per_batch)
        shown = {str(files.folder): order.folder}
        yield InputFolder(files, name_channel(order.folder), _peek(paths), shown=shown)
        return
    groups: dict[tuple[str, str], dict[str, str]] = {}
    for channel, path, shown_as in _list_files(material, order, scratch):
        absolute = str(resolve_path(path, "input"))
        named = column in _peek([absolute])
        group = groups.setdefault(("", "input") if named else ("channel", channel), {})
        group[absolute] = shown_as
    for number, ((_, name), mine) in enumerate(groups.items()):
        place = scratch / f"manifest-{number}"
        place.mkdir()
        (place / _MANIFEST).write_text("".join(f"{path}\n" for path in mine), encoding="utf-8")
        files = Files(
            place, format=_find_format(mine), manifest=_MANIFEST, ended=not order.unbounded,
            files_per_batch=len(mine),
        )  # fmt: skip
        yield InputFolder(files, name, _peek(mine), shown={p: s for p, s in mine.items() if s})


def _list_files(
    material: TargetModule, order: RunRequest, scratch: Path
) -> Iterator[tuple[str, str, str]]:
    """Yield the files of a bounded input: the channel of rows that name none, the path, and the shown name."""
    if not order.inputs:
        yield "input", _write_items(material, scratch), ""
    for name in order.inputs:
        if name == STANDARD:
            copy = scratch / "input.jsonl"
            with copy.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            yield "input", str(copy), "standard input"
            continue
        if not Path(name).exists():
            raise InputError(
                f"there is no file {name!r}",
                expected="a file or a folder of events: JSON lines, Parquet, Arrow or CSV",
                got="nothing of that name",
            )
        for path in list_inputs(name):
            find_format(path)
            yield name_channel(name), path, path


def _write_items(material: TargetModule, scratch: Path) -> str:
    from anabranch.cli.target_module import load_items

    items: tuple[Item, ...] = load_items(material, ())
    file = str(scratch / "input.jsonl")
    rows = (encode_item(item) for item in items)
    write_rows(file, (row if isinstance(row, str | dict) else str(row) for row in rows), "jsonl")
    return file


def _find_format(files: Iterable[str]) -> FileFormat:
    formats = {find_format(file) for file in files}
    if len(formats) == 1:
        return _FORMATS[formats.pop()]
    raise InputError(
        "the files of an input have different formats",
        expected="JSON lines only, or Parquet, Arrow or CSV only",
        got=", ".join(sorted(formats)),
        cure="convert them, or run each format separately; --reference reads them together",
    )


def _peek(files: Iterable[str]) -> frozenset[str]:
    """Return the columns of files, as found at the start of each file."""
    found: set[str] = set()
    for file in files:
        try:
            found |= _LOOKS[find_format(file)](file)
        except (OSError, ValueError):
            continue  # Reading the file later raises a precise error.
    return frozenset(found)


def _peek_lines(file: str) -> set[str]:
    found: set[str] = set()
    with Path(file).open("rb") as lines:
        for line in islice(lines, PEEK):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            found |= {*row} if isinstance(row, dict) else set()
    return found


def _peek_csv(file: str) -> set[str]:
    import csv

    with Path(file).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
        return {name.strip() for name in next(csv.reader(lines), [])}


def _peek_parquet(file: str) -> set[str]:
    from pyarrow import parquet

    return {*parquet.read_schema(file).names}


def _peek_arrow(file: str) -> set[str]:
    import pyarrow as pa

    with pa.OSFile(file) as channel:
        try:
            return {*pa.ipc.open_file(channel).schema.names}
        except pa.ArrowInvalid:
            channel.seek(0)
            return {*pa.ipc.open_stream(channel).schema.names}


_LOOKS = {
    "jsonl": _peek_lines, "csv": _peek_csv, "parquet": _peek_parquet, "arrow": _peek_arrow,
}  # fmt: skip


def _read_names(files: Files, column: str) -> set[str]:
    """Return the names in the channel column of files."""
    from anabranch.sources.files import Taken, list_files, read_file
    from anabranch.sources.raw_rows import LINE

    found: set[str] = set()
    for file in list_files(files, Taken()):
        for batch in read_file(files, file, {column: "string"}):
            if column in batch.schema.names:
                values = batch.column(column).cast("string").unique().to_pylist()
                found |= {value for value in values if value is not None}
            elif LINE in batch.schema.names:
                found |= set(_read_lines(batch.column(LINE).to_pylist(), column))
    return found


def _read_lines(lines: Iterable[bytes], column: str) -> Iterator[str]:
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get(column), str):
            yield row[column]


def list_channels(folder_inputs: Iterable[InputFolder]) -> tuple[Channel, ...]:
    """Return the channels of all inputs."""
    return tuple(channel for folder_input in folder_inputs for channel in folder_input.channels)
