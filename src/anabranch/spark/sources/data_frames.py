"""A Spark data frame as a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.sources.source_options import Source

if TYPE_CHECKING:
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
