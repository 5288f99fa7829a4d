"""Slices of windows in columns: joined, written, routed and closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anabranch.kernels.arrays.sliding import add_up, find_largest, find_windows
from anabranch.kernels.column_layouts import Constant
from anabranch.kernels.numpy_columns import Columns, Strings
from anabranch.microbatch.columns.event_tables import (
    OutgrownStateError,
    read_columns,
    write_columns,
)
from anabranch.microbatch.columns.routing import hash_numbers, hash_texts
from anabranch.microbatch.columns.session_pieces import find_pieces
from anabranch.microbatch.job.window_plan import WindowPlan
from anabranch.model.events import FOREVER

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_NOTHING = Constant(None)


_BITS = 63


class WindowSlices(NamedTuple):
    """The states of keys in slices: a row for each key and start. Keys that are texts are codes."""

    keys: Array
    starts: Array
    events: Array
    parts: tuple[Array, ...]
    strings: Strings | None = None

    def take(self, rows: Array | slice) -> WindowSlices:
        """Return some of the rows."""
        keys, starts, events = (array[rows] for array in self[:3])
        return WindowSlices(keys, starts, events, tuple(a[rows] for a in self.parts), self.strings)


def check_reach(largest: int, events: int) -> None:
    """Raise if a sum may exceed 64 bits."""
    if largest * events >= 1 << _BITS:
        raise OutgrownStateError(
            "a sum of a window may not fit into 64 bits",
            expected=f"values whose sum stays below {1 << _BITS:,}",
            got=f"{events:,} values of up to {largest:,}",
            cure='run with columnar="never", where integers have no limit',
        )


def join_slices(several: Sequence[WindowSlices], plan: WindowPlan) -> WindowSlices:
    """Return all slices, each once, sorted by key and start; texts get the codes of one list."""
    strings = Strings() if any(one.strings is not None for one in several) else None
    keys = np.concatenate([_recode(one, strings) for one in several])
    starts = np.concatenate([one.starts for one in several])
    if not len(keys):
        return WindowSlices(keys, starts, keys, tuple(keys for _ in plan.parts), strings)
    if plan.gap is None:
        order, firsts = _find_slices(keys, starts, plan)
    else:
        lasts = np.concatenate([one.parts[-1] for one in several])
        order, firsts = find_pieces(keys, starts, lasts, plan.gap)
    events = np.add.reduceat(np.concatenate([one.events for one in several])[order], firsts)
    parts: list[Array] = []
    for number, part in enumerate(plan.parts):
        values = np.concatenate([one.parts[number] for one in several])[order]
        if part.op == "sum":
            most = np.diff(firsts, append=len(keys)).max()
            check_reach(max(int(values.max()), -int(values.min())), int(most))
        join: Any = np.add if part.op in ("sum", "count") else np.maximum
        parts.append(join.reduceat(values, firsts))
    rows = order[firsts]
    return WindowSlices(keys[rows], starts[rows], events, tuple(parts), strings)


def _find_slices(keys: Array, starts: Array, plan: WindowPlan) -> tuple[Array, Array]:
    """Return an order of slices, by key and start, and the places in it where a new slice begins."""
    order = _sort(keys, starts, plan)
    keys, starts = keys[order], starts[order]
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1])
    return order, np.flatnonzero(new)


def _sort(keys: Array, starts: Array, plan: WindowPlan) -> Array:
    """Return the places of slices by key and start; sorted parts are merged."""
    low, least = int(starts.min()), int(keys.min())
    span = (int(starts.max()) - low) // plan.width + 1
    if (int(keys.max()) - least + 1) * span >= 1 << _BITS:
        return np.lexsort((starts, keys))
    return np.argsort((keys - least) * span + (starts - low) // plan.width, kind="stable")


def _recode(one: WindowSlices, strings: Strings | None) -> Array:
    if strings is None or one.strings is None:
        return one.keys
    used, places = np.unique(one.keys, return_inverse=True)
    return strings.codes(one.strings[code] for code in used.tolist())[places]


class Closed(NamedTuple):
    """Complete windows: their key, start, end, and parts."""

    keys: Array
    starts: Array
    ends: Array
    parts: tuple[Array, ...]
    strings: Strings | None


def close_windows(plan: WindowPlan, slices: WindowSlices, after: int, upto: int) -> Closed:
    """Return the windows that end after one watermark and up to another, from slices in order."""
    if plan.gap is not None:
        return _close_sessions(plan, slices, upto)
    ranges = find_windows(
        slices.keys, slices.starts, (plan.size, plan.every, plan.offset), after, upto
    )
    parts: list[Array] = []
    most = int((ranges.highs - ranges.lows).max()) if len(ranges.starts) else 0
    for part, values in zip(plan.parts, slices.parts, strict=True):
        if part.op == "sum" and len(values):
            check_reach(max(int(values.max()), -int(values.min())), most)
        slide = add_up if part.op in ("sum", "count") else find_largest
        found = slide(values, ranges)
        parts.append(found)
    keys, ends = slices.keys[ranges.lows], ranges.starts + plan.size
    return Closed(keys, ranges.starts, ends, _turn_back(plan, parts), slices.strings)


def _close_sessions(plan: WindowPlan, slices: WindowSlices, upto: int) -> Closed:
    ends = slices.parts[-1] + plan.gap
    rows = np.flatnonzero(ends <= upto + 1) if upto < FOREVER else np.arange(len(ends))
    done = slices.take(rows)
    return Closed(done.keys, done.starts, ends[rows], _turn_back(plan, done.parts), done.strings)


def _turn_back(plan: WindowPlan, parts: Sequence[Array]) -> tuple[Array, ...]:
    pairs = zip(plan.parts, parts, strict=True)
    return tuple(~array if part.op == "min" else array for part, array in pairs)


def write_slices(slices: WindowSlices, note: dict[str, Any]) -> bytes:
    """Return slices as bytes."""
    more = {"key": slices.keys, "start": slices.starts, "events": slices.events}
    more |= {f"part{number}": array for number, array in enumerate(slices.parts)}
    if slices.strings is not None:
        used, places = np.unique(slices.keys, return_inverse=True)
        note = {**note, "texts": [slices.strings[code] for code in used.tolist()]}
        more["key"] = places.astype(np.int64)
    return write_columns(Columns(_NOTHING, (), len(slices.keys)), more, note)


def read_slices(plan: WindowPlan, data: bytes) -> tuple[WindowSlices, dict[str, Any]]:
    """Return the slices that `write_slices` wrote."""
    _, more, note = read_columns(lambda _: _NOTHING, data)
    texts = note.pop("texts", None)
    parts = tuple(more[f"part{number}"] for number in range(len(plan.parts)))
    strings = None if texts is None else Strings(texts)
    return WindowSlices(more["key"], more["start"], more["events"], parts, strings), note


def route_slices(slices: WindowSlices, shards: int) -> Iterator[tuple[int, WindowSlices]]:
    """Yield each shard with the slices of its keys."""
    if shards == 1:
        yield 0, slices
        return
    if slices.strings is None:
        homes = hash_numbers(slices.keys) % shards
    else:
        homes = hash_texts(slices.strings)[slices.keys] % shards
    for shard in range(shards):
        rows = np.flatnonzero(homes == shard)
        if len(rows):
            yield shard, slices.take(rows)


def count_events(several: Iterable[WindowSlices]) -> int:
    """Return the number of events that were folded into slices."""
    return sum(int(one.events.sum()) for one in several)
