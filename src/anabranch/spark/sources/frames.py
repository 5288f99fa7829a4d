"""Frames of events: from items in memory, and from a folder to which files are added.

Both have the layout of a file of events: a column for each field, and beside them `tag`, `source`,
`seq` and `heartbeat`, with an `@` before them where an event type has a field of that name.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from anabranch.errors import InputError
from anabranch.eventtime.channels import Source
from anabranch.model.events import Event, Heartbeat, Item, Malformed, field_names, field_types
from anabranch.model.program import Program
from anabranch.spark.sources.feeds import Feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BESIDE = {"tag": "string", "source": "string", "seq": "bigint", "heartbeat": "bigint"}
"""What stands beside the fields of an event."""

LINE = "@line"
"""A line of a file, as bytes: the one column of a folder of JSON lines."""

BROKEN = "_corrupt_record"
"""What a row was that can't be read: Spark's own name for it. It is kept with the rejected row."""

MALFORMED = "_malformed"
"""Why an item in memory is no event: the reason with which the row is rejected."""

_SQL_TYPES: dict[Any, str] = {int: "bigint", float: "double", str: "string", bool: "boolean"}
_LARGEST = (1 << 63) - 1


def name_columns(program: Program) -> dict[str, str]:
    """Return the columns for tag, source, seq and heartbeat, which no field is called like."""
    fields = {name for tag in program.inputs for name in field_names(tag)}
    return {name: f"@{name}" if name in fields else name for name in BESIDE}


def derive_types(program: Program) -> dict[str, str]:
    """Return Spark's type for each column of a program's events, from their annotations."""
    found: dict[str, tuple[str, str]] = {}
    for tag in program.inputs:
        for name, annotation in field_types(tag).items():
            place = f"{tag.__name__}.{name}"
            kind = _find_type(place, annotation)
            other, where = found.setdefault(name, (kind, place))
            if other != kind:
                raise InputError(
                    f"{where} and {place} share a column, and are of two types",
                    expected="one type for each field name, in all event types of a program",
                    got=f"{other} and {kind}",
                    cure="rename one of the fields, or feed each event type with a frame of its own",
                )
    beside = name_columns(program)
    kinds = {beside[name]: kind for name, kind in BESIDE.items()}
    return kinds | {name: kind for name, (kind, _) in found.items()}


def derive_schema(program: Program, *more: str) -> str:
    """Return Spark's schema for a program's events; `more` columns are texts."""
    kinds = derive_types(program) | dict.fromkeys(more, "string")
    return ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())


def make_frame(session: SparkSession, program: Program, items: Iterable[Item]) -> DataFrame:
    """Return items as a batch frame, in one part, so that each source stays in its sequence."""
    kinds = derive_types(program)
    beside = name_columns(program)
    rows = [_lay_out(item, kinds, beside) for item in items]
    return session.createDataFrame(rows, derive_schema(program, BROKEN, MALFORMED)).coalesce(1)


def feed_items(
    session: SparkSession, program: Program, items: Iterable[Item], sources: Sequence[Source]
) -> Feed:
    """Return items in memory as a feed that has ended."""
    names = name_columns(program)
    return Feed(
        make_frame(session, program, items),
        tag_column=names["tag"],
        source_column=names["source"],
        seq=names["seq"],
        heartbeat=names["heartbeat"],
        sources=sources,
        corrupt_column=BROKEN,
        reason_column=MALFORMED,
    )


def feed_directory(
    session: SparkSession,
    program: Program,
    folder: str,
    sources: Sequence[Source],
    *,
    format: Literal["json", "parquet"] = "json",  # noqa: A002 - Spark's own word
    files_per_batch: int = 1,
) -> Feed:
    """Return a folder of files as a feed; files come in the order of their last change.

    Each row has its `tag`, `source` and `seq` beside its fields. What is wrong with a line of JSON is
    found as the reference finds it, and the line is kept: Spark's own reader would make a null of
    what does not fit, and a text of anything where a text is asked for.
    """
    names = name_columns(program)
    if format == "json":
        reader = session.readStream.option("maxFilesPerTrigger", files_per_batch)
        # As bytes: a line that is not UTF-8 must get here too.
        frame = reader.text(folder).selectExpr(f"CAST(value AS BINARY) AS `{LINE}`")
    else:
        frame = read_directory(
            session, program, folder, format=format, files_per_batch=files_per_batch
        )
    return Feed(
        frame,
        tag_column=names["tag"],
        source_column=names["source"],
        seq=names["seq"],
        heartbeat=names["heartbeat"],
        sources=sources,
        json_column=LINE if format == "json" else None,
    )


def read_directory(
    session: SparkSession,
    program: Program,
    folder: str,
    *,
    format: Literal["json", "parquet"],  # noqa: A002 - Spark's own word
    files_per_batch: int = 1,
) -> DataFrame:
    """Return a folder of files as a streaming frame, read by Spark into the program's columns."""
    more = (BROKEN,) if format == "json" else ()
    return (
        session.readStream.schema(derive_schema(program, *more))
        .option("maxFilesPerTrigger", files_per_batch)
        .format(format)
        .load(folder)
    )


def _find_type(place: str, annotation: Any) -> str:
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [part for part in get_args(annotation) if part is not type(None)]
        annotation = inner[0] if len(inner) == 1 else annotation
    if annotation in _SQL_TYPES:
        return _SQL_TYPES[annotation]
    raise InputError(
        f"field {place} has a type for which there is no column on Spark",
        expected="int, float, str or bool, or one of them | None",
        got=getattr(annotation, "__name__", None) or str(annotation),
        cure="write it as one of these, or make the frame yourself and use anabranch.spark.run",
    )


def _lay_out(item: Item, kinds: dict[str, str], beside: dict[str, str]) -> tuple[Any, ...]:
    row: dict[str, Any] = {beside["source"]: item.source, beside["seq"]: item.seq}
    reason = _lay_out_item(item, kinds, beside, row)
    raw = item.raw if isinstance(item, Malformed) else None
    text = raw if raw is None or isinstance(raw, str) else json.dumps(raw, default=str)
    return (*(row.get(name) for name in kinds), text, reason)


def _lay_out_item(
    item: Item, kinds: dict[str, str], beside: dict[str, str], row: dict[str, Any]
) -> str | None:
    """Put an item into a row; return why it is no event."""
    if isinstance(item, Malformed):
        return item.reason
    if isinstance(item, Heartbeat):
        row[beside["heartbeat"]] = item.time
        return None
    assert isinstance(item, Event)
    for name in field_names(item.tag):
        value = getattr(item.data, name)
        if kinds.get(name) == "bigint" and isinstance(value, int) and abs(value) > _LARGEST:
            return f"field {name!r} is {value}, which does not fit into 64 bits"
        row[name] = float(value) if kinds.get(name) == "double" and value is not None else value
    row[beside["tag"]] = type(item.data).__name__
    return None
