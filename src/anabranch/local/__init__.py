"""The embedded runtime: the shards and folds of a run on Spark, in one process, without Java."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.local.evaluation import Evaluation, evaluate
    from anabranch.local.local_runs import LocalRun, run
    from anabranch.local.published_tables import read_late, read_outputs, read_rejected
    from anabranch.local.savepoints import create_savepoint, rescale, restore_savepoint
    from anabranch.local.state_reads import export_state, read_state

__all__ = [
    "Evaluation",
    "LocalRun",
    "create_savepoint",
    "evaluate",
    "export_state",
    "read_late",
    "read_outputs",
    "read_rejected",
    "read_state",
    "rescale",
    "restore_savepoint",
    "run",
]

_HOMES = {
    "Evaluation": "evaluation",
    "LocalRun": "local_runs",
    "evaluate": "evaluation",
    "create_savepoint": "savepoints",
    "export_state": "state_reads",
    "read_late": "published_tables",
    "read_outputs": "published_tables",
    "read_rejected": "published_tables",
    "read_state": "state_reads",
    "rescale": "savepoints",
    "restore_savepoint": "savepoints",
    "run": "local_runs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
