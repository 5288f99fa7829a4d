"""A Spark data frame as a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.model.program import Program
from anabranch.sources.schema_check import check_columns, name_rows
from anabranch.sources.source_options import Source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Frame(Source):
    """A data frame as a source: `Frame(frame, event=Txn, seq="offset", lateness=5)`.

    A streaming frame is an unbounded source; any other frame is the whole input. The options are those of
    `Source`, which all sources share. The default of `channel` is the name of the event type.
    """

    frame: DataFrame

    def __post_init__(self) -> None:
        if not hasattr(self.frame, "isStreaming"):
            raise InputError(
                f"{type(self.frame).__name__} is not a data frame",
                expected="Frame(spark.readStream…, …); for a folder, Files(folder, …)",
                got=repr(self.frame)[:100],
            )
        super().__post_init__()

    @property
    def is_stream(self) -> bool:
        """Return whether the frame is a streaming frame."""
        return bool(self.frame.isStreaming)

    def known_columns(self) -> Sequence[str]:
        """Return the columns of the frame."""
        return list(self.frame.columns)

    def check_schema(self, program: Program) -> None:
        """Raise `InputError` if the columns of the frame show that no row can become an event."""
        frame = self.frame
        if self.json_column is not None:
            _check_text(self, frame, self.json_column)
            return
        schema = _read_schema(frame)
        if schema is not None:
            check_columns(
                self, program, schema, "frame",
                show=lambda name: frame.schema[name].dataType.simpleString(),
            )  # fmt: skip


def _read_schema(frame: DataFrame) -> pa.Schema | None:
    """Return the Arrow schema of a frame; None if Arrow has no counterpart of one of its types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(frame.schema, timezone="UTC")
    except Exception:  # noqa: BLE001 - Spark reports such a type itself when the query starts
        return None


def _check_text(source: Frame, frame: DataFrame, column: str) -> None:
    kind = frame.schema[column].dataType.simpleString()
    if kind not in ("string", "binary") and not kind.startswith(("varchar", "char")):
        raise InputError(
            f"{name_rows(source, 'frame')} has no JSON in {column!r}",
            expected=f"{column}: string or binary, a JSON object in each row",
            got=f"{column}: {kind}",
            cure=f"to_json({column}), or leave out json_column= if fields are columns",
        )
