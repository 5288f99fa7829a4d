"""Answers: what is right, by a loop over all events in the order of their times.

An answer is a table, as arrays by column: the columns that name a row, then what it says.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.workloads import Kind, Workload, draw_input, list_asked

Answer = dict[str, Any]
COLUMNS: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "fold": (("key",), ("top", "seen")),
    "barrier": (("time",), ("total",)),
    "pages": (("page", "version"), ("seen",)),
    "ewma": (("key",), ("average",)),
}
"""The columns that name a row, and those that are compared."""

ALPHA = 0.1
TOLERANCE = 1e-12
"""Of a moving average: an engine may round a product and a sum at once. The rest is exact."""


def find_answer(cache: Path, workload: Workload) -> Answer:
    """Return the right answer, computed once."""
    file = cache / "inputs" / workload.label / "answer.npz"
    if not file.exists():
        answer = compute_answer(workload)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **answer)
    with np.load(file) as kept:
        return dict(kept)


def compute_answer(workload: Workload) -> Answer:
    """Fold the whole input in order."""
    sources = {s.name: s.columns for s in draw_input(workload).sources if s.name != "asks"}
    if workload.kind == "barrier":
        return _sum_segments(sources)
    if workload.kind == "pages":
        return _count_views(sources)
    time = np.concatenate([columns["time"] for columns in sources.values()])
    order = np.argsort(time)
    key = np.concatenate([columns["key"] for columns in sources.values()])[order]
    value = np.concatenate([columns["value"] for columns in sources.values()])[order]
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


def _sum_segments(sources: Mapping[str, Mapping[str, Any]]) -> Answer:
    values = [columns for name, columns in sources.items() if name != "barriers"]
    time = np.concatenate([columns["time"] for columns in values])
    order = np.argsort(time)
    running = np.cumsum(np.concatenate([columns["value"] for columns in values])[order])
    barriers = sources["barriers"]["time"]
    before = running[np.searchsorted(time[order], barriers) - 1]
    return {"time": barriers, "total": np.diff(before, prepend=0)}


def _count_views(sources: Mapping[str, Mapping[str, Any]]) -> Answer:
    views = [columns for name, columns in sources.items() if name != "updates"]
    time = np.concatenate([columns["time"] for columns in views])
    page = np.concatenate([columns["page"] for columns in views])
    updates = sources["updates"]
    answer: dict[str, list[Any]] = {"page": [], "version": [], "seen": []}
    for number in (0, 1):
        changes = updates["time"][updates["page"] == number]
        seen = np.histogram(time[page == number], bins=changes)[0]
        answer["page"].append(np.full(len(seen), number))
        answer["version"].append(np.arange(len(seen)))
        answer["seen"].append(seen)
    whole = {name: np.concatenate(parts) for name, parts in answer.items()}
    return _drop_unseen(whole, whole["seen"] > 0)


def find_difference(kind: Kind, expected: Answer, got: Answer) -> str | None:
    """Say where an answer is wrong, or None if it is right.

    Rows that nobody asked for do not count: what the closing events leave open.
    """
    names, said = COLUMNS[kind]
    right, answer = _index(names, said, expected), _index(names, said, got)
    said_twice = len(np.asarray(got[names[0]])) - len(answer)
    if said_twice:
        return f"{said_twice:,} rows are said twice"
    missing = [row for row in right if row not in answer]
    if missing:
        return f"{len(missing):,} of {len(right):,} rows are missing, the first is {missing[0]}"
    wrong = [row for row, value in right.items() if not _is_same(kind, value, answer[row])]
    if wrong:
        first = wrong[0]
        return (
            f"{len(wrong):,} of {len(right):,} rows are wrong, the first is {first}: "
            f"{answer[first]} instead of {right[first]}"
        )
    return None


def _index(names: tuple[str, ...], said: tuple[str, ...], answer: Answer) -> dict[Any, Any]:
    keys = zip(*(np.asarray(answer[name]).astype(np.int64).tolist() for name in names), strict=True)
    values = zip(*(np.asarray(answer[name]).tolist() for name in said), strict=True)
    return dict(zip(keys, values, strict=True))


def _is_same(kind: Kind, expected: Any, got: Any) -> bool:
    if kind == "ewma":
        return bool(np.allclose(expected, got, rtol=TOLERANCE, atol=0))
    return bool(expected == got)
