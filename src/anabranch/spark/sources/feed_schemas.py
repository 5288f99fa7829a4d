"""The schemas of feeds, checked when a run is made: as Spark's analysis would, before the first row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anabranch.errors import InputError
from anabranch.model.events import Tag
from anabranch.model.program import Program
from anabranch.sources.files import Files, list_names
from anabranch.sources.schema_check import ColumnNames, check_files, explain_misfits, find_misfits
from anabranch.spark.sources.feeds import Feed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def list_feeds(program: object, feeds: object) -> list[Feed]:
    """Return the feeds of a run; refuse what is no program, no feed, or a feed of no frame."""
    if not isinstance(program, Program):
        raise InputError(
            "run() takes a program first",
            expected="run(program, [Feed(frame, …)])",
            got=f"a {type(program).__name__}",
        )
    several = isinstance(feeds, Iterable) and not hasattr(feeds, "columns")
    given: list[Any] = list(cast("Iterable[Any]", feeds)) if several else [feeds]
    for feed in given:
        frame = feed.frame if isinstance(feed, Feed) else None
        if not isinstance(feed, Feed):
            got = f"a {type(feed).__name__}"
        elif not isinstance(frame, Files) and not hasattr(frame, "isStreaming"):
            got = f"a Feed of a {type(frame).__name__}"
        else:
            continue
        raise InputError(
            "run() takes feeds of frames or files",
            expected='a list: [Feed(frame, "north", tag=Txn)], of a Spark frame or of Files(folder)',
            got=got,
        )
    return given


def check_feeds(program: Program, feeds: Iterable[Feed]) -> None:
    """Refuse a feed of which no row could become an event, by the schema of its frame or files."""
    for feed in feeds:
        tags = _list_tags(program, feed)
        if isinstance(feed.frame, Files):
            _check_files(feed, feed.frame, tags)
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
    return "a frame" if feed.name is None else f"the frame of {feed.name!r}"


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


def _check_files(feed: Feed, files: Files, tags: list[Tag]) -> None:
    if files.format in ("parquet", "arrow"):
        paths = [str(Path(files.folder) / name) for name in list_names(files)]
        check_files(paths, tags, _name_columns(feed))
