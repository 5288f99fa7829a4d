"""The oracle: the answer computed from the files with NumPy alone, without code of any runtime.

A tip is late if an earlier tip of its channel has a time that is larger by more than the lateness. Every
other tip counts for the hour in which it was given. The whole stream is available, so nothing is pending.
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
"""A channel and a sequence number in it: the number of the file, then 32 bits for the row."""

OFFICES = tuple(name for name in LATENESS if name != CLOCK)

_FILE_BITS = 32
_NOTHING = -(1 << 62)
"""A value before all times: the largest time of a channel without events."""


class Expected(NamedTuple):
    """The correct answer: the tips of each hour, late rows with their distances, rejected rows, and counts."""

    hours: dict[int, tuple[int, ...]]
    late: dict[Place, int]
    rejected: set[Place]
    events: int
    hot_share: float


class OfficeRows(NamedTuple):
    """Rows of an office in its own order; `seq` is their position, `amount` is 0 in broken rows."""

    time: Array
    taxi: Array
    amount: Array
    broken: Array
    seq: Array


def compute_answer(folder: Path) -> Expected:
    """Compute the answer of a folder of traffic."""
    import numpy as np

    clock = read_hours(folder)
    totals = np.zeros(len(clock) * len(TAXIS))
    events, hot_keys = len(clock), 0
    late: dict[Place, int] = {}
    rejected: set[Place] = set()
    for name in OFFICES:
        largest = _NOTHING
        for rows in read_office(folder / name):
            behind, largest = find_distances(rows, LATENESS[name], largest)
            is_late = (behind >= 0) & ~rows.broken
            places = [(name, seq) for seq in rows.seq[is_late].tolist()]
            late |= dict(zip(places, behind[is_late].tolist(), strict=True))
            rejected |= {(name, seq) for seq in rows.seq[rows.broken].tolist()}
            good = ~(is_late | rows.broken)
            slots = (rows.time // HOUR_S * len(TAXIS) + rows.taxi - TAXIS[0])[good]
            # Sums of integers, which floats represent exactly up to 2**53.
            totals += np.bincount(slots, weights=rows.amount[good], minlength=len(totals))
            events += len(rows.time)
            hot_keys += int(np.count_nonzero(rows.taxi == TAXIS[0]))
    tips = totals.astype(np.int64).reshape(-1, len(TAXIS)).tolist()
    hours = dict(zip(clock, map(tuple, tips), strict=True))
    return Expected(hours, late, rejected, events, hot_keys / max(events - len(clock), 1))


def find_distances(rows: OfficeRows, lateness: int, largest: int) -> tuple[Array, int]:
    """Return the distance of each tip behind its channel's watermark, and the new largest time.

    A tip that is on time has a negative distance.
    """
    import numpy as np

    times = np.where(rows.broken, _NOTHING, rows.time)  # A broken row moves no watermark.
    reached = np.maximum.accumulate(np.concatenate([[largest], times]))
    return reached[:-1] - lateness - 1 - rows.time, int(reached[-1])


def read_hours(folder: Path) -> list[int]:
    """Read the times of the markers."""
    import pyarrow.parquet as pq

    files = sorted((folder / CLOCK).iterdir())
    times = (time for file in files for time in pq.read_table(file)["time"].to_pylist())
    return [time for time in times if time is not None]


def read_office(folder: Path) -> Iterator[OfficeRows]:
    """Yield the rows of an office, file by file in the order of their names."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for number, file in enumerate(sorted(folder.iterdir())):
        table = pq.read_table(file)
        if "time" not in table.column_names or not len(table):
            continue  # The file that ends the channel, or one of a batch without events.
        yield OfficeRows(
            table["time"].to_numpy(),
            table["taxi"].to_numpy(),
            pc.fill_null(table["amount"], 0).to_numpy(),
            pc.is_null(table["amount"]).to_numpy(),
            np.arange(len(table)) + (number << _FILE_BITS),
        )
