"""Checks of the schemas of sources when a run is created, before the first row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.model.events import EventType
from anabranch.model.program import Program
from anabranch.sources.files import Files, list_names
from anabranch.sources.schema_check import ColumnNames, check_files, explain_misfits, find_misfits
from anabranch.sources.source_options import Source
from anabranch.spark.sources.data_frames import Frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def check_program(program: object) -> None:
    """Raise `InputError` if the first argument of `run` is not a program."""
    if not isinstance(program, Program):
        raise InputError(
            "run() takes a program first",
            expected="run(program, Files(folder, …))",
            got=f"a {type(program).__name__}",
        )


def check_sources(program: Program, sources: Iterable[Source]) -> None:
    """Raise `InputError` if the schema of a source shows that none of its rows can become an event."""
    for source in sources:
        event_types = _list_event_types(program, source)
        if isinstance(source, Files):
            _check_files(source, event_types)
        elif not isinstance(source, Frame):
            continue
        elif source.json_column is not None:
            _check_text(source, source.frame, source.json_column)
        else:
            _check_frame(source, source.frame, event_types)


def _list_event_types(program: Program, source: Source) -> list[EventType]:
    name = source.find_event_type(program)
    # A row that names its own type need not be of the one given.
    if name is None or source.type_column is not None:
        return list(program.inputs)
    return [event_type for event_type in program.inputs if event_type.__name__ == name]


def _name_columns(source: Source) -> ColumnNames:
    return ColumnNames(
        source.time, source.seq, source.heartbeat, source.type_column, source.channel_column
    )


def _name_source(source: Source) -> str:
    return "a frame" if source.channel_name is None else f"the frame of {source.channel_name!r}"


def _check_frame(source: Source, frame: DataFrame, event_types: list[EventType]) -> None:
    schema = _read_schema(frame)
    if schema is None:
        return
    misfits = find_misfits(
        schema,
        event_types,
        _name_columns(source),
        show=lambda name: frame.schema[name].dataType.simpleString(),
    )
    if misfits:
        raise explain_misfits(
            misfits, event_types, frame.columns, what=_name_source(source), place="frame"
        )


def _read_schema(frame: DataFrame) -> pa.Schema | None:
    """Return the Arrow schema of a frame; None if Arrow has no counterpart of one of its types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(frame.schema, timezone="UTC")
    except Exception:  # noqa: BLE001 - Spark reports such a type itself when the query starts
        return None


def _check_text(source: Source, frame: DataFrame, column: str) -> None:
    kind = frame.schema[column].dataType.simpleString()
    if kind not in ("string", "binary") and not kind.startswith(("varchar", "char")):
        raise InputError(
            f"{_name_source(source)} has no JSON in {column!r}",
            expected=f"{column}: string or binary, a JSON object in each row",
            got=f"{column}: {kind}",
            cure=f"to_json({column}), or leave out json_column= if fields are columns",
        )


def _check_files(files: Files, event_types: list[EventType]) -> None:
    if files.format in ("parquet", "arrow"):
        paths = [str(Path(files.folder) / name) for name in list_names(files)]
        check_files(paths, event_types, _name_columns(files))
