"""The Spark runtime: the only package that imports PySpark.

Public names are imported from their modules on first access, so that importing the package is cheap and
works without PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.microbatch.runs.batch_progress import Batch
    from anabranch.microbatch.runs.published_batches import (
        find_last_batch,
        read_waivers,
        read_watermarks,
    )
    from anabranch.microbatch.runs.run_options import RunOptions
    from anabranch.sources.files import Files
    from anabranch.spark.checkpoint.integrity import verify_checkpoint
    from anabranch.spark.inspect.live_state import export_view, history, serve, state
    from anabranch.spark.runs import run
    from anabranch.spark.savepoints.checkpoint_restore import restore_savepoint
    from anabranch.spark.savepoints.creation import create_savepoint
    from anabranch.spark.savepoints.rescaling import rescale
    from anabranch.spark.session.settings import prepare
    from anabranch.spark.session.startup import start_session
    from anabranch.spark.settlement import settle, settle_outputs
    from anabranch.spark.sinks.directory import for_each_batch, write_directory
    from anabranch.spark.sinks.preview_sinks import write_console, write_memory
    from anabranch.spark.sinks.progress import describe_progress, follow, watch
    from anabranch.spark.sinks.published import read_late, read_outputs, read_rejected
    from anabranch.spark.sinks.results import Result
    from anabranch.spark.sources.clock_frames import Clock
    from anabranch.spark.sources.data_frames import Frame

__all__ = [
    "Batch",
    "Clock",
    "Files",
    "Frame",
    "Result",
    "RunOptions",
    "create_savepoint",
    "describe_progress",
    "export_view",
    "find_last_batch",
    "follow",
    "for_each_batch",
    "history",
    "prepare",
    "read_late",
    "read_outputs",
    "read_rejected",
    "read_waivers",
    "read_watermarks",
    "rescale",
    "restore_savepoint",
    "run",
    "serve",
    "settle",
    "settle_outputs",
    "start_session",
    "state",
    "verify_checkpoint",
    "watch",
    "write_console",
    "write_directory",
    "write_memory",
]

_HOMES = {
    "Batch": "microbatch.runs.batch_progress",
    "Clock": "spark.sources.clock_frames",
    "Files": "sources.files",
    "Frame": "spark.sources.data_frames",
    "Result": "spark.sinks.results",
    "RunOptions": "microbatch.runs.run_options",
    "create_savepoint": "spark.savepoints.creation",
    "describe_progress": "spark.sinks.progress",
    "export_view": "spark.inspect.live_state",
    "follow": "spark.sinks.progress",
    "find_last_batch": "microbatch.runs.published_batches",
    "for_each_batch": "spark.sinks.directory",
    "history": "spark.inspect.live_state",
    "prepare": "spark.session.settings",
    "read_watermarks": "microbatch.runs.published_batches",
    "read_late": "spark.sinks.published",
    "read_outputs": "spark.sinks.published",
    "read_rejected": "spark.sinks.published",
    "read_waivers": "microbatch.runs.published_batches",
    "rescale": "spark.savepoints.rescaling",
    "restore_savepoint": "spark.savepoints.checkpoint_restore",
    "run": "spark.runs",
    "serve": "spark.inspect.live_state",
    "settle": "spark.settlement",
    "settle_outputs": "spark.settlement",
    "start_session": "spark.session.startup",
    "state": "spark.inspect.live_state",
    "verify_checkpoint": "spark.checkpoint.integrity",
    "watch": "spark.sinks.progress",
    "write_console": "spark.sinks.preview_sinks",
    "write_directory": "spark.sinks.directory",
    "write_memory": "spark.sinks.preview_sinks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"anabranch.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
