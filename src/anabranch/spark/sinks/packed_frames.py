"""Packed frames: a result frame that also knows its packed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ATTRIBUTE = "_anabranch_packed"


def attach_packed(frame: DataFrame, packed: DataFrame) -> DataFrame:
    """Return a result that knows how it looks in packs."""
    frame.__dict__[_ATTRIBUTE] = packed
    return frame


def find_packed(frame: DataFrame) -> DataFrame:
    """Return a result in packs, if it is one as `run` gave it; else the frame itself."""
    return frame.__dict__.get(_ATTRIBUTE, frame)  # type: ignore[no-any-return]


def is_packed(frame: DataFrame) -> bool:
    """Say whether a frame holds packs."""
    return frame.columns == ["pack", "ledger"]
