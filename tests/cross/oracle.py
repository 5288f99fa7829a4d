"""What programs must say, in plain Python: lists, sorting and arithmetic, and nothing of the library.

An input is a list of `Row`s. Every function here looks at all of them at once; it knows no batches, shards,
states or watermarks. Values are as JSON has them: tuples and sets are lists.
"""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

Summary = Callable[[list[Any]], Any]
"""What a state says of the values that it was given, in the order of the log."""


class Row(NamedTuple):
    """An event: its type by name, and its fields. A `marker` has neither key nor value."""

    kind: str
    time: int
    channel: str
    seq: int
    key: Any = None
    value: Any = None


class Emitted(NamedTuple):
    """An output, and the event that said it."""

    time: int
    channel: str
    seq: int
    value: Any


class Pane(NamedTuple):
    """What a window held at its end."""

    key: Any
    start: int
    end: int
    value: Any


def sort_log(rows: list[Row]) -> list[Row]:
    """Return the one order of all events: by time, markers first, then by channel and sequence."""
    return sorted(rows, key=lambda r: (r.time, r.kind == "item", r.channel, r.seq))


def say_per_key(rows: list[Row], sum_up: Summary) -> list[Emitted]:
    """Each item says what its key held before it."""
    held: dict[Any, list[Any]] = {}
    emitted = []
    for row in sort_log(rows):
        before = held.setdefault(row.key, [])
        emitted.append(Emitted(row.time, row.channel, row.seq, sum_up(before)))
        before.append(row.value)
    return emitted


def say_in_order(rows: list[Row], sum_up: Summary) -> list[Emitted]:
    """Each item says what all items before it came to."""
    return say_per_key([row._replace(key=None) for row in rows], sum_up)


def say_at_markers(rows: list[Row], sum_up: Summary) -> list[Emitted]:
    """Each marker says what all items before it came to."""
    held: list[Any] = []
    emitted = []
    for row in sort_log(rows):
        if row.kind == "item":
            held.append(row.value)
        else:
            emitted.append(Emitted(row.time, row.channel, row.seq, sum_up(held)))
    return emitted


def say_keys_at_markers(rows: list[Row], sum_up: Summary) -> list[Emitted]:
    """Each marker says, for every key so far, what its items came to."""
    held: dict[Any, list[Any]] = {}
    emitted = []
    for row in sort_log(rows):
        if row.kind == "item":
            held.setdefault(row.key, []).append(row.value)
        else:
            value = [[key, sum_up(held[key])] for key in sorted(held)]
            emitted.append(Emitted(row.time, row.channel, row.seq, value))
    return emitted


def say_with_shared(rows: list[Row], sum_up: Summary) -> list[Emitted]:
    """Each item says what its key held before it; a marker's value is added to all items after it."""
    held: dict[Any, list[Any]] = {}
    emitted, common = [], 0
    for row in sort_log(rows):
        if row.kind != "item":
            common = row.value
            continue
        before = held.setdefault(row.key, [])
        emitted.append(Emitted(row.time, row.channel, row.seq, [common, sum_up(before)]))
        before.append(row.value + common)
    return emitted


def fill_windows(rows: list[Row], size: int, every: int, sum_up: Summary) -> list[Pane]:
    """Return every window [start, start + size) of a key that holds an item; starts are `every` apart."""
    held: dict[tuple[Any, int], list[Any]] = {}
    for row in sort_log(rows):
        first = (row.time - size) // every * every + every
        for start in range(first, row.time + 1, every):
            held.setdefault((row.key, start), []).append(row.value)
    return [Pane(key, start, start + size, sum_up(v)) for (key, start), v in held.items()]


def fill_sessions(rows: list[Row], gap: int, sum_up: Summary) -> list[Pane]:
    """Return the stretches of a key's items in which each comes less than `gap` after the one before."""
    found: list[Pane] = []
    for key in {row.key for row in rows}:
        stretch: list[Row] = []
        for row in [*(r for r in sort_log(rows) if r.key == key), None]:
            if stretch and (row is None or row.time >= stretch[-1].time + gap):
                values = [one.value for one in stretch]
                found.append(Pane(key, stretch[0].time, stretch[-1].time + gap, sum_up(values)))
                stretch = []
            if row is not None:
                stretch.append(row)
    return found


# --- what states say of values -------------------------------------------------------------------


def average(values: list[int]) -> float | None:
    return float(Fraction(sum(values), len(values))) if values else None


def variance(values: list[int]) -> float | None:
    if not values:
        return None
    middle = Fraction(sum(values), len(values))
    return float(sum((value - middle) ** 2 for value in values) / len(values))


def quantile(values: list[int], share: Fraction) -> float | None:
    if not values:
        return None
    ranked = sorted(values)
    place = (len(ranked) - 1) * share
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return float(ranked[low] + (ranked[high] - ranked[low]) * (place - low))


def mode(values: list[int]) -> int | None:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value), default=None)


def count_each(values: list[int]) -> list[list[int]]:
    return [[value, count] for value, count in sorted(Counter(values).items())]
