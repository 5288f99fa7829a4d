"""The Spark runtime. The only package that imports PySpark.

Its public names come from their modules when they are first asked for, so that importing the
package costs nothing and works without PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.spark.progress import describe_progress, follow
    from anabranch.spark.query import Feed, run
    from anabranch.spark.session import start_session
    from anabranch.spark.sinks import for_each_batch, write_directory

__all__ = [
    "Feed",
    "describe_progress",
    "follow",
    "for_each_batch",
    "run",
    "start_session",
    "write_directory",
]

_HOMES = {
    "Feed": "query",
    "describe_progress": "progress",
    "follow": "progress",
    "for_each_batch": "sinks",
    "run": "query",
    "start_session": "session",
    "write_directory": "sinks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
