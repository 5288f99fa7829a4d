"""Sinks for the results of a run on Spark. Names are imported from `anabranch.spark` on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.microbatch.runs.published_batches import (
        find_last_batch,
        read_waivers,
        read_watermarks,
    )
    from anabranch.spark.sinks.directory import for_each_batch, write_directory
    from anabranch.spark.sinks.preview_sinks import write_console, write_memory
    from anabranch.spark.sinks.published import read_late, read_outputs, read_rejected

__all__ = [
    "find_last_batch",
    "for_each_batch",
    "read_late",
    "read_outputs",
    "read_rejected",
    "read_waivers",
    "read_watermarks",
    "write_console",
    "write_directory",
    "write_memory",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from anabranch import spark

    return getattr(spark, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
