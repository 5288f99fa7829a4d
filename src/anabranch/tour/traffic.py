"""Traffic: days of tips as files of events, made up from a seed, as unruly as real input.

Three offices send the tips of three taxis, and a clock sends the hours. The city and the suburb
send in order, but the suburb falls silent for a while and catches up. The airport sends out of order, as
its lateness allows, and now and then later than that. Most tips are for one taxi, a few rows are broken.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from anabranch.eventtime.channels import Source
from anabranch.model.events import FOREVER

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

SOURCES = (
    Source("city"),
    Source("suburb"),
    Source("airport", lateness=30 * MINUTE_S),
    Source("clock"),
)

PROMISES = {
    "city": "in order",
    "suburb": "in order; falls silent for a while, and catches up",
    "airport": "out of order by up to 30 minutes, as declared; some tips are later",
    "clock": "in order",
}
"""What is to be said of each source."""

# How many tips each hour of a day brings, in proportion: little at night, most in the evening.
_BUSY = (3, 2, 1, 1, 1, 2, 4, 7, 9, 7, 5, 5, 6, 6, 5, 5, 6, 8, 10, 11, 10, 8, 6, 4)
_BUSY_DAYS = (10, 9, 10, 11, 14, 16, 12)
_SHARES = {"city": 5, "suburb": 3, "airport": 2}
# One taxi is the hot key by day; at night another has its hours.
_BY_DAY = {1: 85, 2: 11, 3: 4}
_AT_NIGHT = {1: 60, 2: 5, 3: 35}
_LATE_IN = 60
_BROKEN_IN = 1000


class ArrivingRow(NamedTuple):
    """A row of a file, and when it comes in."""

    moment: float
    source: str
    columns: dict[str, Any]


@dataclass(frozen=True)
class Traffic:
    """How much to make up, in how many files, from which seed."""

    tips: int = 50_000
    days: int = 7
    files: int = 10
    seed: int = 7

    @property
    def end(self) -> int:
        """Return the last moment, at which the last hour strikes."""
        return self.days * DAY_S


def write_traffic(traffic: Traffic, folder: Path) -> list[Path]:
    """Write the files, which Spark reads in this order, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(number_rows(arrange(traffic)))
    ends = [len(rows) * n // traffic.files for n in range(traffic.files + 1)]
    rng = random.Random(f"broken {traffic.seed}")
    files = []
    for number, (start, end) in enumerate(pairwise(ends)):
        file = folder / f"{number:03}.jsonl"
        lines = [spoil(rng, row) for row in rows[start:end]]
        if end == len(rows):
            lines += end_lines(rows)
        hidden = file.with_name(f".{file.name}")
        hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        hidden.rename(file)  # A name without a dot is a file that is complete.
        files.append(file)
    return files


def arrange(traffic: Traffic) -> list[ArrivingRow]:
    """Return every event in the order in which it comes in."""
    rng = random.Random(traffic.seed)
    hours = [day * 24 + hour for day in range(traffic.days) for hour in range(24)]
    weights = [_BUSY[hour % 24] * _BUSY_DAYS[hour // 24 % 7] for hour in hours]
    silent, back = 0.35 * traffic.end, 0.55 * traffic.end
    arrivals = [
        ArrivingRow(time, "clock", {"tag": "Hour", "time": time})
        for time in range(HOUR_S, traffic.end + 1, HOUR_S)
    ]
    for hour in rng.choices(hours, weights, k=traffic.tips):
        time = hour * HOUR_S + rng.randrange(HOUR_S)
        source = _choose(rng, _SHARES)
        moment = float(time)
        if source == "airport":
            moment += rng.uniform(0, 25 * MINUTE_S)
            moment += 4 * HOUR_S if rng.randrange(_LATE_IN) == 0 else 0
        elif source == "suburb" and silent <= moment < back:
            moment = back
        taxi = _choose(rng, _BY_DAY if 6 <= hour % 24 < 22 else _AT_NIGHT)
        amount = rng.randint(1, 9)
        columns = {"tag": "Tip", "time": time, "taxi": taxi, "amount": amount}
        arrivals.append(ArrivingRow(moment, source, columns))
    # What comes in at one moment has been waiting, and comes in the order of time.
    return sorted(arrivals, key=lambda arrival: (arrival.moment, arrival.columns["time"]))


def number_rows(arrivals: list[ArrivingRow]) -> Iterator[dict[str, Any]]:
    """Give each row its place in its source's sequence."""
    counts = dict.fromkeys((source.name for source in SOURCES), 0)
    for _, source, columns in arrivals:
        yield {**columns, "source": source, "seq": counts[source]}
        counts[source] += 1


def spoil(rng: random.Random, row: dict[str, Any]) -> str:
    """Return a row as a line, and once in a while a broken one."""
    if row["tag"] != "Tip" or rng.randrange(_BROKEN_IN):
        return json.dumps(row)
    if rng.randrange(2):
        return json.dumps({**row, "amount": "a smile"})
    text = json.dumps(row)
    return text[: len(text) // 3]


def end_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return each source's word that it has ended."""
    last = {row["source"]: row["seq"] for row in sorted(rows, key=itemgetter("seq"))}
    return [
        json.dumps({"heartbeat": FOREVER, "source": name, "seq": seq + 1})
        for name, seq in last.items()
    ]


def name_moment(time: int) -> str:
    """Return a time of the stream as a day and a clock show it.

    >>> name_moment(DAY_S + 7 * HOUR_S + 5 * MINUTE_S)
    'Tue 07:05'
    """
    day, rest = divmod(time, DAY_S)
    return f"{DAYS[day % 7]} {rest // HOUR_S:02}:{rest % HOUR_S // MINUTE_S:02}"


def _choose(rng: random.Random, shares: dict[Any, int]) -> Any:
    return rng.choices(list(shares), list(shares.values()))[0]
