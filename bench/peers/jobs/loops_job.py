"""Without an engine: a loop in plain Python, and the limit, a Numba loop that reads the same files.

Both are one process and keep no state. `plain` reads columns, makes tuples of them and merges the
channels with `heapq`; `limit` reads columns and merges them in the loop. Steady leaves out the load of a
growing state; the limit is compiled before the clock starts.
"""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from hopping import Hopping, begin_hops, hop_plain, keep_emitted, keep_hops, step_hops
from numba import njit
from protocol import Task, keep_answer, keep_pages, keep_sampled, read_task, tell

ALPHA = 0.1
COLUMNS = {
    "fold": ("time", "key", "value"),
    "ewma": ("time", "key", "value"),
    "barrier": ("time", "value"),
    "pages": ("time", "page", "version"),
    "windows": ("time", "auction", "price"),
}


def read_columns(file: Path, kind: str) -> list[Any]:
    """Return the columns of a file that the question needs; one core reads, as one core folds."""
    opened = pq.ParquetFile(file)
    names = [name for name in COLUMNS[kind] if name in opened.schema_arrow.names]
    table = opened.read(columns=names, use_threads=False)
    return [table[name].to_numpy() for name in names]


def read_events(task: Task, channel: str, number: int) -> Iterator[tuple[Any, ...]]:
    """Yield a channel's events of one slice, each with the number of its channel after its time."""
    columns = [
        column.tolist() for column in read_columns(task.list_files(channel)[number], task.kind)
    ]
    marks = [number_of(task, channel)] * len(columns[0])
    return zip(columns[0], marks, *columns[1:], strict=True)


def number_of(task: Task, channel: str) -> int:
    """Return 0 for values, views, readings and bids, and 1 for what marks them."""
    return int(channel in ("barriers", "updates"))


def run_plain(task: Task) -> None:
    """Fold slice by slice, all channels merged by time."""
    read_columns(
        task.list_files(task.channels[0])[0], task.kind
    )  # Arrow loads its parts when used.
    started = time.time()
    slices = len(task.manifest["slices"])
    fold, keep = PLAIN[task.kind]
    state: dict[Any, Any] = {}
    if task.kind == "windows":
        state["windows"] = Hopping(task.manifest["size"], task.manifest["every"])
    loaded = started
    for number in range(slices):
        parts = [read_events(task, channel, number) for channel in task.channels]
        fold(state, heapq.merge(*parts))
        if number == 0:
            loaded = time.time()
    ended = time.time()
    keep(task, state)
    tell_loop(task, started, loaded, ended)


def tell_loop(task: Task, started: float, loaded: float, ended: float) -> None:
    """Print the figures; only a state that was loaded first has a time that is not the whole."""
    steady = {}
    if task.manifest["loaded"]:
        steady = {"steady_s": ended - loaded, "steady_events": sum(task.manifest["slices"][1:])}
    tell(task, total_s=ended - started, ready=started, first=loaded, **steady)


def fold_plain(state: dict[Any, Any], events: Iterable[Any]) -> None:
    """Keep the largest value and the count of each key."""
    for _, _, key, value in events:
        old = state.get(key)
        if old is None:
            state[key] = (value, 1)
        else:
            state[key] = (max(old[0], value), old[1] + 1)


def smooth_plain(state: dict[Any, Any], events: Iterable[Any]) -> None:
    """Keep the moving average of each key."""
    for _, _, key, value in events:
        old = state.get(key)
        state[key] = value if old is None else ALPHA * value + (1 - ALPHA) * old


def sum_plain(state: dict[Any, Any], events: Iterable[Any]) -> None:
    """Keep the sum of each segment, under the time of the barrier that closed it."""
    total = state.get("open", 0)
    for event in events:
        if event[1]:
            state[event[0]] = total
            total = 0
        else:
            total += event[2]
    state["open"] = total


def count_plain(state: dict[Any, Any], events: Iterable[Any]) -> None:
    """Count the views of each version of a page."""
    versions = state.setdefault("versions", {})
    for event in events:
        if event[1]:
            versions[event[2]] = event[3]
        else:
            place = (event[2], versions[event[2]])
            state[place] = state.get(place, 0) + 1


def keep_fold(task: Task, state: dict[Any, Any]) -> None:
    """Write the largest values and the counts."""
    top, seen = zip(*state.values(), strict=True)
    keep_sampled(task, key=list(state), top=top, seen=seen)


def keep_averages(task: Task, state: dict[Any, Any]) -> None:
    """Write the moving averages."""
    keep_sampled(task, key=list(state), average=list(state.values()))


def keep_sums(task: Task, state: dict[Any, Any]) -> None:
    """Write the sums of the segments that were closed."""
    state.pop("open")
    keep_answer(task, time=list(state), total=list(state.values()))


def keep_counts(task: Task, state: dict[Any, Any]) -> None:
    """Write the counts of views."""
    state.pop("versions")
    keep_pages(task, [p for p, _ in state], [v for _, v in state], list(state.values()))


PLAIN: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {
    "fold": (fold_plain, keep_fold),
    "ewma": (smooth_plain, keep_averages),
    "barrier": (sum_plain, keep_sums),
    "pages": (count_plain, keep_counts),
    "windows": (hop_plain, keep_hops),
}


@njit
def fold_limit(key: Any, value: Any, top: Any, seen: Any) -> None:
    """Keep the largest value and the count of each key."""
    for i in range(len(key)):
        seen[key[i]] += 1
        top[key[i]] = max(top[key[i]], value[i])


@njit
def smooth_limit(
    a: Any, a_key: Any, a_value: Any, b: Any, b_key: Any, b_value: Any, average: Any
) -> None:
    """Keep the moving average of each key, two channels merged by time."""
    i = j = 0
    while i < len(a) or j < len(b):
        if j >= len(b) or (i < len(a) and a[i] < b[j]):
            key, value = a_key[i], a_value[i]
            i += 1
        else:
            key, value = b_key[j], b_value[j]
            j += 1
        last = average[key]
        average[key] = value if np.isnan(last) else 0.1 * value + 0.9 * last


@njit
def sum_limit(a: Any, a_value: Any, b: Any, b_value: Any, marks: Any, sums: Any, total: int) -> int:
    """Sum the values before each mark, two channels merged by time; return what is open."""
    i = j = 0
    for place in range(len(marks)):
        while i < len(a) and a[i] < marks[place]:
            total += a_value[i]
            i += 1
        while j < len(b) and b[j] < marks[place]:
            total += b_value[j]
            j += 1
        sums[place] = total
        total = 0
    while i < len(a):
        total += a_value[i]
        i += 1
    while j < len(b):
        total += b_value[j]
        j += 1
    return total


@njit
def count_limit(views: Any, pages: Any, marks: Any, versions: Any, seen: Any) -> None:
    """Count the views of each version of a page, channels merged by time."""
    changed, page, version = marks
    places = [0, 0]
    for place in range(len(changed) + 1):
        until = changed[place] if place < len(changed) else np.int64(1 << 62)
        for channel in range(2):
            time_, page_ = views[channel], pages[channel]
            i = places[channel]
            while i < len(time_) and time_[i] < until:
                seen[page_[i], versions[page_[i]]] += 1
                i += 1
            places[channel] = i
        if place < len(changed):
            versions[page[place]] = version[place]


def run_limit(task: Task, *, writes: bool = True, slices: int | None = None) -> None:
    """Read a slice, fold it, read the next."""
    started = time.time()
    last = len(task.manifest["slices"]) if slices is None else slices
    state = begin_limit(task)
    loaded = started
    for number in range(last):
        parts = [read_columns(task.list_files(s)[number], task.kind) for s in task.channels]
        step_limit(task.kind, state, parts)
        if number == 0:
            loaded = time.time()
    ended = time.time()
    if writes:
        keep_limit(task, state)
        tell_loop(task, started, loaded, ended)


def begin_limit(task: Task) -> dict[str, Any]:
    """Return empty arrays; keys are small integers, so they are places."""
    keys = task.manifest["keys"] + 1
    if task.kind == "fold":
        return {"top": np.full(keys, -np.inf), "seen": np.zeros(keys, np.int64)}
    if task.kind == "ewma":
        return {"average": np.full(keys, np.nan)}
    if task.kind == "barrier":
        return {"open": 0, "time": [], "total": []}
    if task.kind == "windows":
        return begin_hops(task)
    files = task.list_files("updates")
    most = sum(pq.read_metadata(file).num_rows for file in files)
    return {"versions": np.zeros(2, np.int64), "seen": np.zeros((2, most + 1), np.int64)}


def step_limit(kind: str, state: dict[str, Any], parts: list[list[Any]]) -> None:
    """Fold one slice."""
    if kind == "fold":
        for _, key, value in parts:
            fold_limit(key, value, state["top"], state["seen"])
    elif kind == "ewma":
        smooth_limit(*chain(*parts), state["average"])
    elif kind == "barrier":
        (marks,) = parts[2]
        sums = np.zeros(len(marks), np.int64)
        state["open"] = sum_limit(*parts[0], *parts[1], marks, sums, state["open"])
        state["time"].append(marks)
        state["total"].append(sums)
    elif kind == "windows":
        step_hops(state, parts)
    else:
        times, pages = zip(*parts[:2], strict=True)
        count_limit(times, pages, tuple(parts[2]), state["versions"], state["seen"])


def keep_limit(task: Task, state: dict[str, Any]) -> None:
    """Write the answer."""
    if task.kind == "fold":
        keys = np.flatnonzero(state["seen"])
        keep_sampled(task, key=keys, top=state["top"][keys], seen=state["seen"][keys])
    elif task.kind == "ewma":
        keys = np.flatnonzero(~np.isnan(state["average"]))
        keep_sampled(task, key=keys, average=state["average"][keys])
    elif task.kind == "barrier":
        times, totals = np.concatenate(state["time"]), np.concatenate(state["total"])
        keep_answer(task, time=times, total=totals)
    elif task.kind == "windows":
        keep_emitted(task, state)
    else:
        page, version = np.nonzero(state["seen"])
        keep_pages(task, page, version, state["seen"][page, version])


if __name__ == "__main__":
    the_task = read_task()
    if the_task.how == "plain":
        run_plain(the_task)
    else:
        run_limit(the_task, writes=False, slices=1)
        run_limit(the_task)
