"""Traffic: a week of tips as Parquet files, generated from a seed, with the disorder of real input.

Three offices send the tips of three taxis, and a clock sends the hours. The city and the suburb send
in order, but the suburb sends nothing for about a batch, and then catches up. The airport sends out of
order within its lateness, and a few tips later than that. Most tips are for one taxi; a few rows are broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.channels import Channel
from anabranch.model.events import FOREVER

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
TAXIS = (1, 2, 3)

CLOCK = "clock"
LATENESS = {"city": 0, "suburb": 0, "airport": 30 * MINUTE_S, CLOCK: 0}
CHANNELS = tuple(Channel(name, lateness=lateness) for name, lateness in LATENESS.items())
PROMISES = {
    "city": "in order",
    "suburb": "in order; sends nothing for a batch, then catches up",
    "airport": "out of order within its lateness of 30 minutes; 0.3 % are later",
    CLOCK: "in order; a marker every hour",
}
"""The behaviour of each channel, as the tour prints it."""

PARTS = 4
"""Number of files of an office for each batch, so that tasks get equal shares."""

# Relative number of tips in each hour of a day: few at night, most in the evening.
_BUSY = (3, 2, 1, 1, 1, 2, 4, 7, 9, 7, 5, 5, 6, 6, 5, 5, 6, 8, 10, 11, 10, 8, 6, 4)
_BUSY_DAYS = (10, 9, 10, 11, 14, 16, 12)
_SHARES = {"city": 0.5, "suburb": 0.3, "airport": 0.2}
# One taxi is the hot key by day, another at night. Cumulative percent.
_BY_DAY = (85, 96)
_AT_NIGHT = (60, 65)
_DELAY_S = 25 * MINUTE_S
_LATE_DELAY_S = 90 * MINUTE_S
_LATE_SHARE = 0.003
_BROKEN = 4
"""Number of rows of each office without an amount."""


class Drawn(NamedTuple):
    """The tips of an office in the order of their arrival; a broken amount is null."""

    time: Array
    taxi: Array
    amount: Array
    arrival: Array
    broken: Array


@dataclass(frozen=True)
class Traffic:
    """The number of tips, days and batches (at least 4) to generate, and the seed."""

    tips: int = 40_000_000
    days: int = 7
    batches: int = 8
    seed: int = 7

    @property
    def end(self) -> int:
        """Return the time of the last marker."""
        return self.days * DAY_S

    @property
    def crash_batch(self) -> int:
        """Return the batch in which the query is killed; in the one before, the suburb sends nothing."""
        return max(2, round(self.batches * 0.4))


def write_traffic(traffic: Traffic, folder: Path) -> None:
    """Write a folder of files for each channel; the folder appears when all of them are complete."""
    import numpy as np
    import pyarrow as pa

    draft = folder.with_name(f".{folder.name}")
    rng = np.random.default_rng(traffic.seed)
    quantiles = np.arange(1, traffic.batches) / traffic.batches
    cuts = np.interp(quantiles, *_spread(traffic)).astype(np.int64)
    for name in _SHARES:
        drawn = draw_office(traffic, name, rng, cuts)
        amounts = pa.array(drawn.amount, mask=drawn.broken)
        table = pa.table({"time": drawn.time, "taxi": drawn.taxi, "amount": amounts})
        places = [0, *np.searchsorted(drawn.arrival, cuts).tolist(), len(table)]
        _write_office(draft / name, table, places)
    hours = np.arange(HOUR_S, traffic.end + 1, HOUR_S)
    places = [0, *np.searchsorted(hours, cuts).tolist(), len(hours)]
    _write_clock(draft / CLOCK, hours, places)
    draft.rename(folder)


def draw_office(traffic: Traffic, name: str, rng: np.random.Generator, cuts: Array) -> Drawn:
    """Draw the tips of an office, in the order in which they arrive."""
    import numpy as np

    slices = [np.concatenate(column) for column in zip(*_draw(traffic, name, rng), strict=True)]
    time, taxi, amount = slices
    arrival = time
    if name == "airport":
        arrival = time + rng.integers(0, _DELAY_S, len(time))
        arrival[rng.random(len(time)) < _LATE_SHARE] += _LATE_DELAY_S
        order = np.argsort(arrival, kind="stable")
        time, taxi, amount, arrival = (column[order] for column in (*slices, arrival))
    elif name == "suburb":
        # The batch before the crash, and a little around it: meanwhile events are pending in the state.
        silent = int(cuts[traffic.crash_batch - 2]) - HOUR_S
        back = int(cuts[traffic.crash_batch - 1]) + HOUR_S
        arrival = np.where((time >= silent) & (time < back), back, time)
    broken = np.zeros(len(time), np.bool_)
    broken[rng.integers(0, max(len(time), 1), _BROKEN)] = len(time) > 0
    return Drawn(time, taxi, amount, arrival, broken)


def _draw(traffic: Traffic, name: str, rng: np.random.Generator) -> Iterator[Sequence[Array]]:
    """Yield times in order, taxis and amounts, a slice for each batch to bound the memory."""
    import numpy as np

    tips = round(traffic.tips * _SHARES[name])
    ends = [tips * n // traffic.batches for n in range(traffic.batches + 1)]
    shares, times = _spread(traffic)
    for start, end in pairwise(ends):
        # One tip in each of `tips` equal quantiles: in order without sorting.
        quantiles = (np.arange(start, end) + rng.random(end - start)) / tips
        time = np.interp(quantiles, shares, times).astype(np.int64)
        np.minimum(time, traffic.end - 1, out=time)
        hour = time // HOUR_S % 24
        night = (hour < 6) | (hour >= 22)
        first, second = (
            np.where(night, at_night, by_day).astype(np.uint8)
            for at_night, by_day in zip(_AT_NIGHT, _BY_DAY, strict=True)
        )
        percent = rng.integers(0, 100, len(time), dtype=np.uint8)
        taxi = (percent >= first).astype(np.int32) + (percent >= second) + np.int32(1)
        yield time, taxi, rng.integers(1, 10, len(time), dtype=np.int32)


def _spread(traffic: Traffic) -> tuple[Array, Array]:
    """Return the cumulative share of tips at each full hour."""
    import numpy as np

    weights = [_BUSY_DAYS[day % 7] * busy for day in range(traffic.days) for busy in _BUSY]
    sums = np.cumsum([0, *weights])
    return sums / sums[-1], np.arange(len(sums)) * HOUR_S


def _write_office(folder: Path, table: pa.Table, places: Sequence[int]) -> None:
    """Write the slices of an office; the last file of the last one ends the channel."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for batch, (start, end) in enumerate(pairwise(places)):
        last = batch == len(places) - 2
        parts = PARTS - last
        for part in range(parts):
            low, high = (start + (end - start) * n // parts for n in (part, part + 1))
            file = folder / f"{batch:03}-{part}.parquet"
            pq.write_table(table.slice(low, high - low), file, use_dictionary=["taxi", "amount"])
        if last:
            ended = pa.table({"heartbeat": pa.array([FOREVER])})
            pq.write_table(ended, folder / f"{batch:03}-{parts}.parquet")


def _write_clock(folder: Path, hours: Array, places: Sequence[int]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for batch, (start, end) in enumerate(pairwise(places)):
        times: list[int | None] = hours[start:end].tolist()
        beats: list[int | None] = [None] * len(times)
        if batch == len(places) - 2:
            times, beats = [*times, None], [*beats, FOREVER]
        columns = {"time": pa.array(times, pa.int64()), "heartbeat": pa.array(beats, pa.int64())}
        pq.write_table(pa.table(columns), folder / f"{batch:03}.parquet")


def name_moment(time: int) -> str:
    """Return a time of the stream as a weekday and a clock time.

    >>> name_moment(DAY_S + 7 * HOUR_S + 5 * MINUTE_S)
    'Tue 07:05'
    """
    day, rest = divmod(time, DAY_S)
    return f"{DAYS[day % 7]} {rest // HOUR_S:02}:{rest % HOUR_S // MINUTE_S:02}"
