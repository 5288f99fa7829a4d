"""Savepoints: the state of a run in a folder of Parquet files, from which another run continues."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.savepoints.objects import read_snapshot, write_snapshot

__all__ = ["read_snapshot", "write_snapshot"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("anabranch.savepoints.objects"), name)
