"""The published rows of the query; only this module depends on their columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
from anabranch.tour.oracle import Place
from anabranch.tour.view import Hour


def read_hours(folder: Path) -> list[Hour]:
    """Read the tips of each hour, in order of time."""
    rows = _read_rows(folder, "outputs", "time", "value")
    return sorted(Hour(row["time"], tuple(json.loads(row["value"]))) for row in rows)


def read_late(folder: Path) -> list[tuple[Place, int]]:
    """Return the late events with their distances."""
    rows = _read_rows(folder, "late", "channel", "seq", "distance")
    return [((row["channel"], row["seq"]), row["distance"]) for row in rows]


def read_rejected(folder: Path) -> list[Place]:
    """Return the places of the rejected rows."""
    return [
        (row["channel"], row["seq"]) for row in _read_rows(folder, "rejected", "channel", "seq")
    ]


def read_last_ledger(folder: Path) -> Ledger:
    """Return the ledger of the last batch, which counts all events so far."""
    last = find_last_batch(folder)
    return Ledger() if last is None else read_ledger(last)


def list_numbers(folder: Path) -> list[int]:
    """Return the numbers of the published batches."""
    return sorted(int(path.name.partition("=")[2]) for path in folder.glob("batch=*"))


def _read_rows(folder: Path, kind: str, *columns: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for file in sorted(folder.glob(f"batch=*/{kind}/*.parquet")):
        with pq.ParquetFile(file) as opened:
            rows += opened.read(columns=list(columns)).to_pylist()
    return rows
