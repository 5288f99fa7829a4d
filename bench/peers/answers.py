"""Correct answers, computed by a loop over all events in the order of their times.

An answer is a table, as arrays by column: the columns that identify a row, then its values.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.peers.workloads import Kind, Workload, draw_input, list_asked

Answer = dict[str, Any]
COLUMNS: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "fold": (("key",), ("top", "seen")),
    "barrier": (("time",), ("total",)),
    "pages": (("page", "version"), ("seen",)),
    "windows": (("auction", "end"), ("total", "seen")),
    "ewma": (("key",), ("average",)),
}
"""The columns that identify a row, and those that are compared. An average is its sum and its count."""

ALPHA = 0.1
TOLERANCE = 1e-12
"""Of a moving average: an engine may round a product and a sum at once. The rest is exact."""


def find_answer(cache: Path, workload: Workload) -> Answer:
    """Return the correct answer, computed once."""
    file = cache / "inputs" / workload.label / "answer.npz"
    if not file.exists():
        answer = compute_answer(workload)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **answer)
    with np.load(file) as kept:
        return dict(kept)


def compute_answer(workload: Workload) -> Answer:
    """Fold the whole input in order."""
    channels = {s.name: s.columns for s in draw_input(workload).channels if s.name != "asks"}
    if workload.kind == "barrier":
        return _sum_segments(channels)
    if workload.kind == "pages":
        return _count_views(channels)
    if workload.kind == "windows":
        return _sum_windows(workload, channels)
    time = np.concatenate([columns["time"] for columns in channels.values()])
    order = np.argsort(time)
    key = np.concatenate([columns["key"] for columns in channels.values()])[order]
    value = np.concatenate([columns["value"] for columns in channels.values()])[order]
    asked = list_asked(workload)
    if workload.kind == "ewma":
        average = np.full(workload.keys + 1, np.nan)
        _smooth(key, value, average)
        return _drop_unseen({"key": asked, "average": average[asked]}, ~np.isnan(average[asked]))
    top, seen = np.full(workload.keys + 1, -np.inf), np.zeros(workload.keys + 1, np.int64)
    np.maximum.at(top, key, value)
    np.add.at(seen, key, 1)
    return _drop_unseen({"key": asked, "top": top[asked], "seen": seen[asked]}, seen[asked] > 0)


def _drop_unseen(answer: Answer, is_seen: Any) -> Answer:
    return {name: column[is_seen] for name, column in answer.items()}


def _smooth(key: Any, value: Any, average: Any) -> None:
    from numba import njit

    @njit
    def fold(key: Any, value: Any, average: Any) -> None:
        for i in range(len(key)):
            last = average[key[i]]
            average[key[i]] = value[i] if np.isnan(last) else ALPHA * value[i] + (1 - ALPHA) * last

    fold(key, value, average)


def _sum_segments(channels: Mapping[str, Mapping[str, Any]]) -> Answer:
    values = [columns for name, columns in channels.items() if name != "barriers"]
    time = np.concatenate([columns["time"] for columns in values])
    order = np.argsort(time)
    running = np.cumsum(np.concatenate([columns["value"] for columns in values])[order])
    barriers = channels["barriers"]["time"]
    before = running[np.searchsorted(time[order], barriers) - 1]
    return {"time": barriers, "total": np.diff(before, prepend=0)}


def _count_views(channels: Mapping[str, Mapping[str, Any]]) -> Answer:
    views = [columns for name, columns in channels.items() if name != "updates"]
    time = np.concatenate([columns["time"] for columns in views])
    page = np.concatenate([columns["page"] for columns in views])
    updates = channels["updates"]
    answer: dict[str, list[Any]] = {"page": [], "version": [], "seen": []}
    for number in (0, 1):
        changes = updates["time"][updates["page"] == number]
        seen = np.histogram(time[page == number], bins=changes)[0]
        answer["page"].append(np.full(len(seen), number))
        answer["version"].append(np.arange(len(seen)))
        answer["seen"].append(seen)
    whole = {name: np.concatenate(parts) for name, parts in answer.items()}
    return _drop_unseen(whole, whole["seen"] > 0)


def _sum_windows(workload: Workload, channels: Mapping[str, Mapping[str, Any]]) -> Answer:
    time, auction, price = (
        np.concatenate([columns[name] for columns in channels.values()])
        for name in ("time", "auction", "price")
    )
    counted = auction < workload.keys
    pane = time[counted] // workload.every
    first, width = pane.min(), workload.size // workload.every
    panes = int(pane.max() - first) + 1
    # A window ends after pane 0, or 1, …: what it holds is the difference of two running sums.
    end = np.arange(1, panes + width)
    upper, lower = np.minimum(end, panes), np.maximum(end - width, 0)
    emitted = []
    for amount in (price[counted], 1):
        running = np.zeros((panes + 1, workload.keys), np.int64)
        np.add.at(running, (pane - first + 1, auction[counted]), amount)
        running = running.cumsum(axis=0)
        emitted.append(running[upper] - running[lower])
    total, seen = emitted
    place, key = np.nonzero(seen)
    ends = (first + end[place]) * workload.every
    return {"auction": key, "end": ends, "total": total[place, key], "seen": seen[place, key]}


def find_difference(kind: Kind, expected: Answer, got: Answer) -> str | None:
    """Return the first error of an answer, or None if it is correct.

    Additional rows do not count: closing events may cause them.
    """
    names, values = (list(columns) for columns in COLUMNS[kind])
    right, answer = _tabulate(kind, expected), _tabulate(kind, got)
    repeated = int(answer.duplicated(names).sum())
    if repeated:
        return f"{repeated:,} rows are repeated"
    both = right.merge(answer, on=names, how="left", suffixes=("", " got"), indicator="found")
    missing = both[both["found"] == "left_only"]
    if len(missing):
        return (
            f"{len(missing):,} of {len(right):,} rows are missing, "
            f"the first is {_read_first(missing[names])}"
        )
    answered = [f"{name} got" for name in values]
    wrong = both[~_find_same(kind, both[values].to_numpy(), both[answered].to_numpy())]
    if len(wrong):
        return (
            f"{len(wrong):,} of {len(right):,} rows are wrong, the first is "
            f"{_read_first(wrong[names])}: {_read_first(wrong[answered])} "
            f"instead of {_read_first(wrong[values])}"
        )
    return None


def _tabulate(kind: Kind, answer: Answer) -> Any:
    names, emitted = COLUMNS[kind]
    columns = {name: np.asarray(answer[name]).astype(np.int64) for name in names}
    return pd.DataFrame(columns | {name: np.asarray(answer[name]) for name in emitted})


def _read_first(rows: Any) -> tuple[Any, ...]:
    return tuple(next(rows.itertuples(index=False, name=None)))


def _find_same(kind: Kind, expected: Any, got: Any) -> Any:
    tolerance = TOLERANCE if kind == "ewma" else 0
    return np.isclose(got, expected, rtol=tolerance, atol=0).all(axis=1)
