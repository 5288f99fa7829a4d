"""Reading the files of a run's folders, on the driver or in tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from anabranch.kernels.column_layouts import is_plain_enum
from anabranch.microbatch.columns.allocator import pause_collection
from anabranch.microbatch.ingest.block_items import read_block
from anabranch.microbatch.ingest.column_reader import take_in_columns
from anabranch.microbatch.ingest.row_reader import Reading, send_items
from anabranch.microbatch.job.job import Job
from anabranch.model.events import EventType, field_types
from anabranch.model.values.event_times import time_field
from anabranch.model.values.fields import encode_value, strip_none
from anabranch.sources.arrow_tables import is_spelled
from anabranch.sources.files import ROW, Files, Found, read_file
from anabranch.sources.text_blocks import LINE, read_header

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 1 << 17
"""Rows of one list: enough to be worth an envelope for each shard, and few enough for the memory of the
JVM."""

_TYPES = {
    int: "int64", float: "float64", bool: "bool", str: "string", datetime: "string", date: "string",
    bytes: "string", Decimal: "string", time: "string", timedelta: "string", UUID: "string",
}  # fmt: skip


@dataclass(frozen=True)
class Folder:
    """A folder of a run, the options for reading its rows, and the names of its channels."""

    files: Files
    reading: Reading
    names: tuple[str, ...] = ()

    @property
    def known_by(self) -> tuple[str, ...]:
        """Return the names that identify the folder, whatever its place among the folders."""
        return self.names or (str(self.reading.channel),)

    def find_event_type(self, job: Job) -> EventType | None:
        """Return the event type of all its events, if there is only one."""
        named = [
            event_type
            for event_type in job.program.inputs
            if event_type.__name__ == self.reading.event_type
        ]
        return named[0] if named and self.reading.type_column is None else None


def read_rows(job: Job, folder: Folder, found: Iterable[Found]) -> Iterator[list[pa.RecordBatch]]:
    """Yield the rows of some files in lists of limited size; the rows of one list have the same columns."""
    wanted = list_columns(job, folder.reading)
    # On the row path, and if a field has no type, a line of JSON is parsed as an object.
    known = job.columns is not None and (
        folder.reading.type_column is not None or all(wanted.values())
    )
    typed = known or folder.files.format != "json"
    # Files of one folder need not have the same columns.
    alike: dict[tuple[Any, ...], list[pa.RecordBatch]] = {}
    for file in sorted(found, key=lambda file: file.number):
        for batch in read_file(folder.files, file, wanted, typed=typed):
            columns = _describe(batch.schema)
            group = alike.setdefault(columns, [])
            group.append(batch)
            if sum(part.num_rows for part in group) >= MOST_ROWS:
                yield alike.pop(columns)
    yield from alike.values()


def _describe(schema: pa.Schema) -> tuple[Any, ...]:
    return (read_header(schema), *((field.name, field.type, is_spelled(field)) for field in schema))


def take_in_rows(
    job: Job, folder: Folder, batches: list[pa.RecordBatch]
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the envelopes of rows: (shard, kind, payload)."""
    reading = number_rows(folder.reading, batches[0].schema)
    place = find_place(batches)
    if job.columns is not None:
        return take_in_columns(job, reading, batches, place)
    return take_in_blocks(job, reading, batches, place)


def take_in_blocks(
    job: Job, reading: Reading, batches: Iterable[pa.RecordBatch], place: int = 0
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the envelopes of blocks on the row path; see `take_in`."""
    with pause_collection():
        items = (item for batch in batches for item in read_block(job, reading, batch))
        return iter(list(send_items(job, items, place)))


def find_place(batches: Iterable[pa.RecordBatch]) -> int:
    """Return the place of the first row among all rows of a folder: the same on every read."""
    return next((batch.column(ROW)[0].as_py() for batch in batches if batch.num_rows), 0)


def number_rows(reading: Reading, schema: pa.Schema | None = None) -> Reading:
    """Return the options for reading rows, with the columns that the reader of their file added."""
    numbered = reading if reading.seq is not None else replace(reading, seq=ROW)
    if schema is None or LINE not in schema.names:
        return numbered
    header = read_header(schema)
    if header is not None:
        return replace(numbered, line_column=LINE, header=header)
    return replace(numbered, json_column=LINE)


def _find_type(kind: Any) -> str:
    """Return the type that texts of a field are read as; an empty one if it is unknown."""
    if not is_plain_enum(kind):
        return _TYPES.get(kind, "")
    found = {type(encode_value(member)) for member in kind}
    return _TYPES[found.pop()] if found in ({str}, {int}) else ""


def list_columns(job: Job, reading: Reading) -> dict[str, str]:
    """Return the columns to read, and the type of each; an empty type if it is unknown."""
    found: dict[str, str] = {}
    for event_type in job.program.inputs:
        if reading.type_column is None and event_type.__name__ != reading.event_type:
            continue
        for name, kind in field_types(event_type).items():
            column = reading.time_column(event_type) if name == time_field(event_type) else name
            mine = _find_type(strip_none(kind))
            found[column] = mine if found.setdefault(column, mine) == mine else ""
    others = {
        reading.seq: "int64",
        reading.heartbeat: "string" if job.program.timestamped else "int64",
        reading.type_column: "string",
        reading.channel_column: "string",
    }
    return found | {column: kind for column, kind in others.items() if column is not None}
