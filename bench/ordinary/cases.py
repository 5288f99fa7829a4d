"""A case of the corpus: a program as a user writes it, its input, the answer, and the textbook PySpark way."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from random import Random
from typing import Any

from anabranch import Program

Row = tuple[Any, ...]
Rows = list[dict[str, Any]]
Tables = dict[str, Rows]
"""The rows of each input, in the order in which they are written."""

START = datetime(2026, 7, 1, 12, tzinfo=UTC)
SPAN_US = 1_800_000_000
LATE_S, LATENESS, WATERMARK = 8, "10 s", "10 seconds"
"""How late events come at most, and what channels and Spark's watermarks allow."""

CLOSING = "~"
"""The key of closing events, which carry every channel past the last event that counts."""

TOLERANCE = 1e-9
"""Of floats: Spark adds them in any order. Everything else is compared exactly."""


@dataclass(frozen=True)
class Input:
    """One folder of files: its schema for Spark, its format, and what `Files` has to know of it."""

    schema: str
    format: str = "parquet"
    lateness: str = "0 s"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One program beside the textbook PySpark way.

    `columns` are the answer: fields of the outputs, as dotted names. The PySpark frame has the same
    columns in the same order. `draw(n, rng)` makes about `n` events in all inputs together; `answer` computes
    the expected rows from them, in plain Python. `choose` picks the rows that count, if there are others
    (early panes, updates of an aggregate that is not final).
    """

    name: str
    title: str
    program: Program
    inputs: Mapping[str, Input]
    columns: tuple[str, ...]
    draw: Callable[[int, Random], Tables]
    answer: Callable[[Tables], Iterable[Row]]
    pyspark: Callable[[Callable[[str], Any]], Any]
    mode: str = "append"
    choose: Callable[[list[Row]], list[Row]] = list
    note: str = ""


def at(seconds: float) -> datetime:
    """Return the time so many seconds after the start."""
    return START + timedelta(seconds=seconds)


def draw_times(n: int, rng: Random, *, late_s: float = 0) -> list[datetime]:
    """Return times over half an hour, however many; with `late_s`, each may come so many seconds late.

    Times never repeat, and have whole milliseconds up to a million of them.
    """
    step = max(1, SPAN_US // n // 1000) * 1000
    places = [number * step for number in range(n)]
    if late_s:
        places.sort(key=lambda place: place + rng.randrange(int(late_s * 1_000_000)))
    return [START + timedelta(microseconds=place) for place in places]


def after(rows: Rows, seconds: float, field_name: str = "time") -> datetime:
    """Return a time after all rows, for the closing event."""
    latest: datetime = max(row[field_name] for row in rows)
    return latest + timedelta(seconds=seconds)


def by_time(rows: Rows, field_name: str = "time") -> Rows:
    """Return the rows that count in order of time."""
    return sorted(
        (row for row in rows if CLOSING not in row.values()), key=lambda row: row[field_name]
    )


def list_windows(time: datetime, size: float, every: float) -> list[tuple[datetime, datetime]]:
    """Return the windows that hold a time, computed from seconds since 1970."""
    moment = time.timestamp()
    start = moment // every * every
    found = []
    while start > moment - size:
        found.append(start)
        start -= every
    return [(datetime.fromtimestamp(s, UTC), datetime.fromtimestamp(s + size, UTC)) for s in found]


def read_values(values: Iterable[Any], columns: tuple[str, ...]) -> list[Row]:
    """Return the answer rows of outputs as Python objects."""
    read = [attrgetter(column) for column in columns]
    return [tuple(get(value) for get in read) for value in values]


def tidy(rows: Iterable[Row]) -> list[Row]:
    """Return rows of plain values, sorted, without those that closing events caused."""
    plain = (tuple(_plain(cell) for cell in row) for row in rows)
    return sorted((row for row in plain if CLOSING not in row), key=_place)


def find_difference(expected: Iterable[Row], got: Iterable[Row]) -> str | None:
    """Return the first error of an answer, or None if it is right.

    >>> find_difference([("a", 1)], [("~", 9), ("a", 1)])
    >>> find_difference([("a", 1)], [("a", 2)])
    "1 of 1 rows are wrong, the first is ('a', 2) instead of ('a', 1)"
    >>> find_difference([("a", 1)], [("a", 1), ("a", 1)])
    "2 rows instead of 1; one more is ('a', 1)"
    """
    right, found = tidy(expected), tidy(got)
    if len(right) != len(found):
        word, extra = ("more", _first_extra(found, right))
        if extra is None:
            word, extra = ("missing", _first_extra(right, found))
        return f"{len(found)} rows instead of {len(right)}; one {word} is {extra}"
    wrong = [(a, b) for a, b in zip(right, found, strict=True) if not _same(a, b)]
    if wrong:
        a, b = wrong[0]
        return f"{len(wrong)} of {len(right)} rows are wrong, the first is {b} instead of {a}"
    return None


def _first_extra(rows: list[Row], others: list[Row]) -> Row | None:
    left = list(others)
    for row in rows[: len(others) + 1]:
        if left and _same(row, left[0]):
            left.pop(0)
        elif not any(_same(row, other) for other in left[:50]):
            return row
    return rows[-1] if len(rows) > len(others) else None


def _plain(cell: Any) -> Any:
    if isinstance(cell, Enum):
        return cell.value
    if isinstance(cell, datetime):
        return cell.replace(tzinfo=UTC) if cell.tzinfo is None else cell.astimezone(UTC)
    if isinstance(cell, Decimal):
        return cell.normalize() + 0
    if isinstance(cell, list | tuple):
        return tuple(_plain(one) for one in cell)
    return cell


def _place(row: Row) -> tuple[Any, ...]:
    return tuple((cell is not None, cell if cell is not None else 0) for cell in row)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(a == b)
