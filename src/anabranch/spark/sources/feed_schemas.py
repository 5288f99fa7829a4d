"""The schemas of feeds, checked when a run is made: as Spark's analysis would, before the first row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.model.events import Tag
from anabranch.model.program import Program
from anabranch.sources.feeds import Feed
from anabranch.sources.files import Files, list_names
from anabranch.sources.schema_check import ColumnNames, check_files, explain_misfits, find_misfits
from anabranch.spark.sources.data_frames import Frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def check_program(program: object) -> None:
    """Refuse to run anything but a program."""
    if not isinstance(program, Program):
        raise InputError(
            "run() takes a program first",
            expected="run(program, Files(folder, …))",
            got=f"a {type(program).__name__}",
        )


def check_feeds(program: Program, feeds: Iterable[Feed]) -> None:
    """Refuse a feed of which no row could become an event, by the schema of its frame or files."""
    for feed in feeds:
        tags = _list_tags(program, feed)
        if isinstance(feed, Files):
            _check_files(feed, tags)
        elif not isinstance(feed, Frame):
            continue
        elif feed.json_column is not None:
            _check_text(feed, feed.frame, feed.json_column)
        else:
            _check_frame(feed, feed.frame, tags)


def _list_tags(program: Program, feed: Feed) -> list[Tag]:
    if feed.tag is None:
        return list(program.inputs)
    name = feed.tag if isinstance(feed.tag, str) else feed.tag.__name__
    named = [tag for tag in program.inputs if tag.__name__ == name]
    if not named:
        raise InputError(
            f"the program has no event type {name!r}",
            expected=f"tag= one of {', '.join(tag.__name__ for tag in program.inputs)}",
            got=repr(name),
        )
    # A row that names its own type need not be of this one.
    return named if feed.tag_column is None else list(program.inputs)


def _name_columns(feed: Feed) -> ColumnNames:
    return ColumnNames(feed.time, feed.seq, feed.heartbeat, feed.tag_column, feed.source_column)


def _name_feed(feed: Feed) -> str:
    return "a frame" if feed.source_name is None else f"the frame of {feed.source_name!r}"


def _check_frame(feed: Feed, frame: DataFrame, tags: list[Tag]) -> None:
    schema = _read_schema(frame)
    if schema is None:
        return
    misfits = find_misfits(
        schema,
        tags,
        _name_columns(feed),
        show=lambda name: frame.schema[name].dataType.simpleString(),
    )
    if misfits:
        raise explain_misfits(misfits, tags, frame.columns, what=_name_feed(feed), place="frame")


def _read_schema(frame: DataFrame) -> pa.Schema | None:
    """Return a frame's schema as Arrow has it; None if a type of it has no counterpart there."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(frame.schema, timezone="UTC")
    except Exception:  # noqa: BLE001 - Spark names such a type itself when the query starts
        return None


def _check_text(feed: Feed, frame: DataFrame, column: str) -> None:
    kind = frame.schema[column].dataType.simpleString()
    if kind not in ("string", "binary") and not kind.startswith(("varchar", "char")):
        raise InputError(
            f"{_name_feed(feed)} has no JSON in {column!r}",
            expected=f"{column}: string or binary, a JSON object in each row",
            got=f"{column}: {kind}",
            cure=f"to_json({column}), or leave out json_column= if fields are columns",
        )


def _check_files(files: Files, tags: list[Tag]) -> None:
    if files.format in ("parquet", "arrow"):
        paths = [str(Path(files.folder) / name) for name in list_names(files)]
        check_files(paths, tags, _name_columns(files))
