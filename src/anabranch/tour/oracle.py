"""The oracle: the answer computed from the files with NumPy alone, without code of any runtime.

A tip is late if its source has brought one that lies more than the lateness after it. Every other
tip counts for the hour in which it was given. The whole stream is at hand, so nothing has to wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.tour.traffic import CLOCK, HOUR_S, LATENESS, TAXIS

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Place = tuple[str, int]
"""A source and a sequence number in it: the number of the file, then 32 bits for the row."""

_FILE_BITS = 32


class Expected(NamedTuple):
    """The right answer: the tips of each hour, late and rejected rows, and counts."""

    hours: dict[int, tuple[int, ...]]
    late: dict[Place, int]
    rejected: set[Place]
    events: int
    hot_share: float


class OfficeRows(NamedTuple):
    """The rows of a source in its own order; `seq` is their place, `amount` is 0 where it is broken."""

    time: Array
    taxi: Array
    amount: Array
    broken: Array
    seq: Array


def compute_answer(folder: Path) -> Expected:
    """Compute the answer of a folder of traffic."""
    import numpy as np

    clock = read_hours(folder)
    totals = np.zeros(len(clock) * len(TAXIS), np.int64)
    events, hot = len(clock), 0
    late: dict[Place, int] = {}
    rejected: set[Place] = set()
    for name, rows in read_offices(folder):
        behind = find_distances(rows, LATENESS[name])
        is_late = (behind >= 0) & ~rows.broken
        late |= {
            (name, seq): distance
            for seq, distance in zip(
                rows.seq[is_late].tolist(), behind[is_late].tolist(), strict=True
            )
        }
        rejected |= {(name, seq) for seq in rows.seq[rows.broken].tolist()}
        good = ~(is_late | rows.broken)
        slots = (rows.time // HOUR_S * len(TAXIS) + rows.taxi - 1)[good]
        sums = np.bincount(slots, weights=rows.amount[good], minlength=len(totals))
        totals += sums.astype(np.int64)
        events += len(rows.time)
        hot += int(np.count_nonzero(rows.taxi == TAXIS[0]))
    hours = totals.reshape(-1, len(TAXIS)).tolist()
    answer = dict(zip(clock, map(tuple, hours), strict=True))
    return Expected(answer, late, rejected, events, hot / max(events - len(clock), 1))


def find_distances(rows: OfficeRows, lateness: int) -> Array:
    """Return how far each tip lies behind what its source had promised before it; negative if it is on time."""
    import numpy as np

    known = np.where(rows.broken, np.iinfo(np.int64).min // 2, rows.time)
    largest = np.maximum.accumulate(known)
    before = np.concatenate([[np.iinfo(np.int64).min // 2], largest[:-1]])
    return before - lateness - 1 - rows.time


def read_hours(folder: Path) -> list[int]:
    """Read the times of the markers."""
    import pyarrow.parquet as pq

    files = sorted((folder / CLOCK).iterdir())
    times = (time for file in files for time in pq.read_table(file)["time"].to_pylist())
    return [time for time in times if time is not None]


def read_offices(folder: Path) -> Iterator[tuple[str, OfficeRows]]:
    """Yield the rows of each office."""
    for name in LATENESS:
        if name != CLOCK:
            yield name, read_rows(folder / name)


def read_rows(folder: Path) -> OfficeRows:
    """Read the files of an office in the order of their names."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    tables, seqs = [], []
    for number, file in enumerate(sorted(folder.iterdir())):
        table = pq.read_table(file)
        if "time" in table.column_names:  # Else it is the file that ends the source.
            tables.append(table)
            seqs.append(np.arange(len(table)) + (number << _FILE_BITS))
    whole = pa.concat_tables(tables)
    return OfficeRows(
        whole["time"].to_numpy(),
        whole["taxi"].to_numpy(),
        pc.fill_null(whole["amount"], 0).to_numpy(),
        pc.is_null(whole["amount"]).to_numpy(),
        np.concatenate(seqs),
    )
