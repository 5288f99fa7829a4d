"""Files of events and of outputs: JSON lines, Parquet and CSV.

One row is one event: its fields, and the columns `type`, `channel` and `seq`. These columns are optional:
`type` if the program has one event type; `channel` defaults to the file's stem, or the folder's name; `seq`
defaults to the number of the file and of the row in it. A row `{"heartbeat": 5, "channel": "a1"}` is a
heartbeat. If an event type has a field called `type`, `channel`, `seq` or `heartbeat`, that name is the
field's, and the column is called `@type`, `@channel`, `@seq` or `@heartbeat`.

A row that is not an event becomes `Malformed`, with the file, the row and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import fits
from anabranch.model.events import (
    FOREVER,
    Event,
    EventType,
    Heartbeat,
    Item,
    Malformed,
    field_names,
)
from anabranch.model.program import Program
from anabranch.model.values.event_times import to_moment, to_time
from anabranch.model.values.field_support import check_fields
from anabranch.model.values.fields import Unfit, encode_value, read_fields, read_text, read_value
from anabranch.paths import resolve_path
from anabranch.reference.rows import STANDARD, Row, find_format, list_inputs, read_rows
from anabranch.reference.sequential import Output
from anabranch.sources.event_limits import find_large_number
from anabranch.sources.schema_check import ColumnNames, check_files
from anabranch.speculation.output_changes import OutputChange

ROW_BITS = 32
"""Number of low bits of a row's number that hold its position in the file; the others number the file."""

Read = Callable[[Any, Any], Any]
"""A function that reads a value by its type: from a CSV cell, or from a typed value."""


def read_items(
    program: Program, files: Iterable[str], after: Mapping[str, int] = MappingProxyType({})
) -> list[Item]:
    """Return the items of files and folders of events; a wrong row is returned as `Malformed`.

    A row without `seq` gets the number of its file and of its row, as on Spark. Files are numbered within
    their folder, among files of the same name, or among those with a channel column. `after` has the last
    number of each channel that an earlier run has read: numbers continue from there, as in one file.
    """
    check_fields(program)
    counts: dict[str, int] = {}
    drafts: list[_DraftItem] = []
    for name in files:
        parts = list_inputs(name)
        stem = "input" if name == STANDARD else name_channel(name)
        for file in parts:
            found = _settle([_read_row(program, stem, file, row) for row in read_rows(file)])
            named = any(draft.named for draft in found)
            group = "/" if named else stem
            number = counts[group] = counts.get(group, -1) + 1
            last = max(after.values(), default=-1) if named else after.get(stem, -1)
            start = last + 1 + (number << ROW_BITS)
            drafts += [draft._replace(number=start + n) for n, draft in enumerate(found)]
    return _number(drafts)


def check_schemas(program: Program, files: Iterable[str]) -> None:
    """Raise an error for Parquet and Arrow files whose columns fit no event type of the program."""
    if find_spec("pyarrow") is None:
        return  # The reader raises an error with the package to install.
    fields = {name for event_type in program.inputs for name in field_names(event_type)}
    words = ("seq", "heartbeat", "type")
    seq, beat, event_type = (f"@{word}" if word in fields else word for word in words)
    names = ColumnNames(seq=seq, heartbeat=beat, event_type=event_type)
    for name in files:
        # Missing files and unknown formats are reported by the reader.
        found = [file for file in list_inputs(name) if Path(file).is_file()]
        parts = [file for file in found if find_format(file) in ("parquet", "arrow")]
        check_files(parts, list(program.inputs), names)


def name_channel(place: str) -> str:
    """Return the channel of rows without a channel column: the name of their folder or file.

    >>> name_channel("in/north"), name_channel("in/north.jsonl")
    ('north', 'north')
    """
    path = resolve_path(place, "input")
    return path.name if path.is_dir() else path.stem


def _settle(drafts: list[_DraftItem]) -> list[_DraftItem]:
    """Assign a row without a readable channel to the channel of the row before it, or of the first row.

    A separate channel would never advance its watermark, and hold back all others.
    """
    channel = next((draft.item.channel for draft in drafts if draft.sure), None)
    settled = []
    for draft in drafts:
        if draft.sure:
            channel = draft.item.channel
        elif channel is not None:
            draft = draft._replace(item=draft.item._replace(channel=channel))  # noqa: PLW2901
        settled.append(draft)
    return settled


class _DraftItem(NamedTuple):
    """An item without its final number, and the place of its row.

    `sure`: the channel is known. `named`: the row has a channel column. `number` is that of the file and row.
    """

    item: Item
    place: str
    sure: bool = True
    named: bool = False
    number: int = 0


def _read_row(program: Program, stem: str, file: str, row: Row) -> _DraftItem:
    place = f"{'standard input' if file == STANDARD else file}:{row.number}"
    if isinstance(row.columns, str):
        return _DraftItem(Malformed(row.raw, f"{place}: {row.columns}", stem), place, sure=False)
    kind = find_format(file)
    columns = dict(row.columns)
    if kind in ("parquet", "arrow"):
        columns = {name: value for name, value in columns.items() if value is not None}
    text = kind == "csv"
    read = read_text if text else read_value
    channel, seq, sure = stem, None, False
    try:
        beats = _is_heartbeat(program, columns)
        event_type = None if beats else _find_event_type(program, columns)
        given = _beside(event_type, columns, "channel", str, read, None)
        channel, named, sure = (stem, False, True) if given is None else (given, True, True)
        seq = _beside(event_type, columns, "seq", int, read, None)
        if event_type is None:
            unit: Any = datetime | int if program.timestamped else int
            time = _beside(None, columns, "heartbeat", unit, read, None)
            return _DraftItem(Heartbeat(to_time(time), channel, seq), place, named=named)
        data = read_fields(event_type, columns, text=text, sparse=kind != "jsonl")
        return _DraftItem(_check_numbers(Event(data, channel, seq)), place, named=named)
    except Unfit as error:
        guess = columns.get("@channel", columns.get("channel"))
        if not sure and isinstance(guess, str):
            channel, sure = guess, True
        return _DraftItem(Malformed(row.raw, f"{place}: {error}", channel, seq), place, sure)


def _is_heartbeat(program: Program, columns: Mapping[str, Any]) -> bool:
    if columns.get("@heartbeat") is not None:
        return True
    return columns.get("heartbeat") is not None and not any(
        "heartbeat" in field_names(t) for t in program.inputs
    )


def _find_event_type(program: Program, columns: Mapping[str, Any]) -> EventType:
    known = ", ".join(event_type.__name__ for event_type in program.inputs)
    named = columns.get("@type", columns.get("type"))
    for event_type in program.inputs:
        own = "type" in field_names(event_type) and "@type" not in columns
        if (len(program.inputs) == 1 and (named is None or own)) or event_type.__name__ == named:
            return event_type
    if named is None:
        raise Unfit(f"event type is missing; the program knows {known}")
    raise Unfit(f"unknown event type {encode_value(named)!r}; the program knows {known}")


def _beside(
    event_type: EventType | None,
    columns: Mapping[str, Any],
    name: str,
    kind: Any,
    read: Read,
    default: Any,
) -> Any:
    own = event_type is not None and name in field_names(event_type)
    column = f"@{name}" if f"@{name}" in columns else None if own else name
    if column is None or column not in columns:
        return default
    try:
        value = read(columns[column], kind)
    except Unfit as error:
        raise Unfit(f"{column}: {error}") from None
    if isinstance(value, int) and not fits(value):
        raise Unfit(f"{column} {value} does not fit into 64 bits")
    return value


def _check_numbers(event: Event) -> Event:
    large = find_large_number(event)
    if large is not None:
        raise Unfit(large)
    return event


def _number(drafts: Iterable[_DraftItem]) -> list[Item]:
    """Return the items with their numbers, channel by channel; a row that can't have one is malformed."""
    drafts = list(drafts)
    numbering = {
        draft.item.channel
        for draft in drafts
        if isinstance(draft.item, Event) and draft.item.seq is not None
    }
    counts: dict[str, int] = {}
    last: dict[str, int] = {}
    orphans: list[int] = []
    items: list[Item] = []
    for item, place, *_, number in drafts:
        channel = item.channel
        if channel not in numbering:
            items.append(item._replace(seq=number))
            continue
        if isinstance(item, Heartbeat):
            shared = counts.get(channel, -1) if item.seq is None else item.seq
            items.append(item._replace(seq=shared))
            continue
        if item.seq is not None:
            last[channel] = max(last.get(channel, 0), item.seq)
            counts[channel] = item.seq
        else:
            orphans.append(len(items))
            if not isinstance(item, Malformed):
                reason = f"{place}: seq is missing, and other rows of channel {channel!r} have one"
                item = Malformed(encode_value(item.data), reason, channel)  # noqa: PLW2901
        items.append(item)
    _number_orphans(items, orphans, last)
    return items


def _number_orphans(items: list[Item], orphans: Iterable[int], last: Mapping[str, int]) -> None:
    # A rejected item moves no watermark, so any number works that is unique in its channel.
    free = {channel: min(seq + 1, FOREVER) for channel, seq in last.items()}
    for place in orphans:
        channel = items[place].channel
        seq = free.get(channel, 0)
        items[place] = items[place]._replace(seq=seq)
        free[channel] = min(seq + 1, FOREVER)


def encode_item(item: Item) -> Any:
    """Return an item as a row of a file of events."""
    if isinstance(item, Malformed):
        return item.raw
    beside: dict[str, Any] = {"channel": item.channel}
    if item.seq is not None:
        beside["seq"] = item.seq
    if isinstance(item, Heartbeat):
        return {"heartbeat": item.time, **beside}
    fields = encode_value(item.data)
    beside["type"] = item.event_type.__name__
    clear = {f"@{name}" if name in fields else name: value for name, value in beside.items()}
    event_type = "@type" if "@type" in clear else "type"
    return {event_type: clear.pop(event_type), **fields, **clear}


def encode_output(output: Output, *, timestamped: bool = False) -> dict[str, Any]:
    """Return an output as a row: its value, and the event that caused it; `timestamped`, with an ISO time."""
    event = output.event
    return {
        "time": encode_value(to_moment(event.time)) if timestamped else event.time,
        "type": event.event_type.__name__,
        "channel": event.channel,
        "seq": event.seq,
        "index": output.index,
        "value": encode_value(output.value),
        "event": encode_value(event.data),
    }


def encode_change(row: OutputChange, *, timestamped: bool = False) -> dict[str, Any]:
    """Return an output change of a speculative run as a row: the output, and `op`, -1 for a retraction."""
    output = Output(row.value, row.event, row.id[1], row.id[0])
    return {"op": row.op, **encode_output(output, timestamped=timestamped)}


def decode_event(program: Program, row: Mapping[str, Any]) -> Event:
    """Return the event that caused an output of a file."""
    try:
        event_type = program.event_type(row["type"])
        data = read_fields(event_type, row["event"], text=False, sparse=False)
    except (KeyError, TypeError, Unfit) as error:
        raise InputError(
            f"an output does not name the event of {program.name} that caused it",
            expected="rows as `anabranch run --output` writes them: time, event type, channel, seq, event",
            got=f"{error.args[0]} in {json.dumps(row, default=str)[:100]}",
            cure="compare with --key FIELD, --ordered or --unordered; or write the outputs with "
            "anabranch run --reference, which adds the event of each",
        ) from None
    return Event(data, row.get("channel", "input"), row.get("seq"))
