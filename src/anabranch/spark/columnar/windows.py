"""Windows by columns: events are folded into the slices that windows share, and slices into windows.

For sessions, and for windows of one size, that speak once, at their end, of whole numbers that are counted, added up or
compared. What an event does to its slice does not depend on any other event, so slices may be folded
where events are read, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anabranch.eventtime.sources import NEVER
from anabranch.kernels.columns import Columns, Strings
from anabranch.kernels.indexes import Index
from anabranch.kernels.layouts import Constant
from anabranch.kernels.sliding import add_up, find_largest, find_windows
from anabranch.model.events import FOREVER
from anabranch.spark.columnar.routes import hash_numbers, hash_texts
from anabranch.spark.columnar.sessions import find_pieces
from anabranch.spark.columnar.tables import (
    OutgrownStateError,
    Table,
    read_columns,
    write_columns,
)
from anabranch.spark.columnar.windowing import Part, WindowPlan
from anabranch.spark.stores import Store, read_known_page

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_NOTHING = Constant(None)
_DENSE = 1 << 22
"""Up to so many pairs of a key and a slice have a place each; of more, only those that occur."""

_BITS = 63
_FAR = 1 << 61


class Slices(NamedTuple):
    """What keys have in slices: a row for each key and start. Texts among keys are codes."""

    keys: Array
    starts: Array
    events: Array
    parts: tuple[Array, ...]
    strings: Strings | None = None

    def take(self, rows: Array) -> Slices:
        """Return some of the rows."""
        keys, starts, events = (array[rows] for array in self[:3])
        return Slices(keys, starts, events, tuple(a[rows] for a in self.parts), self.strings)


def fold_table(plan: WindowPlan, table: Table) -> Slices:
    """Fold events into slices."""
    if not len(table):
        nothing = np.empty(0, np.int64)
        return Slices(nothing, nothing, nothing, tuple(nothing for _ in plan.parts))
    keys = np.zeros(len(table), np.int64) if plan.key is None else table.field(plan.key)
    strings = table.columns.strings if _is_text(plan, table) else None
    if plan.gap is not None:
        _check_times(table.times)
        ones, parts = np.ones(len(table), np.int64), tuple(_read(p, table) for p in plan.parts)
        return join_slices([Slices(keys, table.times, ones, parts, strings)], plan)
    index = Index()
    slots = index.find(keys)
    numbers = _number_slices(plan, table.times)
    low = int(numbers.min())
    span = int(numbers.max()) - low + 1
    if index.count * span <= max(_DENSE, 4 * len(table)):
        cells, rows, count = None, slots * span + (numbers - low), index.count * span
    else:
        # Slices are numbered as they occur: a key and a place far away would leave 64 bits.
        slices, cells = Index(), Index()
        found = slices.find(numbers)
        span = slices.count
        rows = cells.find(slots * span + found)
        count = cells.count
    events = np.bincount(rows, minlength=count)
    there = np.flatnonzero(events)
    parts = tuple(_reduce(part, table, rows, count)[there] for part in plan.parts)
    places, numbered = np.divmod(there if cells is None else cells.keys[there], span)
    numbered = numbered + low if cells is None else slices.keys[numbered]
    starts = numbered * plan.width + plan.offset
    return Slices(index.keys[places], starts, events[there], parts, strings)


def _number_slices(plan: WindowPlan, times: Array) -> Array:
    _check_times(times)
    return (times - plan.offset) // plan.width


def _check_times(times: Array) -> None:
    low, high = int(times.min()), int(times.max())
    if not -_FAR < low <= high < _FAR:
        raise OutgrownStateError(
            "a time is too far away for windows by columns",
            expected=f"times between {-_FAR:,} and {_FAR:,}",
            got=f"{low:,} to {high:,}",
            cure="run with columns=False, where whole numbers have no limit",
        )


def _read(part: Part, table: Table) -> Array:
    """Return what each event adds to a part."""
    if part.field is None:
        return np.ones(len(table), np.int64)
    values = table.field(part.field)
    # The smallest is the largest from the other side; ~ turns whole numbers round, -2**63 too.
    return ~values if part.op == "min" else values


def _reduce(part: Part, table: Table, rows: Array, count: int) -> Array:
    if part.field is None:
        return np.bincount(rows, minlength=count)
    values = _read(part, table)
    if part.op == "sum":
        return _add_at(values, rows, count)
    found = np.full(count, NEVER, np.int64)
    np.maximum.at(found, rows, values)
    return found


def _add_at(values: Array, rows: Array, count: int) -> Array:
    largest = max(int(values.max()), -int(values.min())) if len(values) else 0
    if largest * len(values) < 1 << 53:
        # Floats hold these sums exactly, and NumPy adds them faster.
        return np.bincount(rows, weights=values, minlength=count).astype(np.int64)
    _check_reach(largest, len(values))
    found = np.zeros(count, np.int64)
    np.add.at(found, rows, values)
    return found


def _check_reach(largest: int, events: int) -> None:
    if largest * events >= 1 << _BITS:
        raise OutgrownStateError(
            "a sum of a window may not fit into 64 bits",
            expected=f"values whose sum stays below {1 << _BITS:,}",
            got=f"{events:,} values of up to {largest:,}",
            cure="run with columns=False, where whole numbers have no limit",
        )


def join_slices(several: Sequence[Slices], plan: WindowPlan) -> Slices:
    """Return all slices, each once, sorted by key and start; texts get the codes of one list."""
    strings = Strings() if any(one.strings is not None for one in several) else None
    keys = np.concatenate([_recode(one, strings) for one in several])
    starts = np.concatenate([one.starts for one in several])
    if not len(keys):
        return Slices(keys, starts, keys, tuple(keys for _ in plan.parts), strings)
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
            _check_reach(max(int(values.max()), -int(values.min())), int(most))
        join: Any = np.add if part.op in ("sum", "count") else np.maximum
        parts.append(join.reduceat(values, firsts))
    rows = order[firsts]
    return Slices(keys[rows], starts[rows], events, tuple(parts), strings)


def _find_slices(keys: Array, starts: Array, plan: WindowPlan) -> tuple[Array, Array]:
    """Return an order of slices, by key and start, and the places in it where another one begins."""
    order = _sort(keys, starts, plan)
    keys, starts = keys[order], starts[order]
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1])
    return order, np.flatnonzero(new)


def _sort(keys: Array, starts: Array, plan: WindowPlan) -> Array:
    """Return the places of slices by key and start; several parts in order are merged."""
    low, least = int(starts.min()), int(keys.min())
    span = (int(starts.max()) - low) // plan.width + 1
    if (int(keys.max()) - least + 1) * span >= 1 << _BITS:
        return np.lexsort((starts, keys))
    return np.argsort((keys - least) * span + (starts - low) // plan.width, kind="stable")


def _recode(one: Slices, strings: Strings | None) -> Array:
    if strings is None or one.strings is None:
        return one.keys
    used, places = np.unique(one.keys, return_inverse=True)
    return strings.codes(one.strings[code] for code in used.tolist())[places]


class Closed(NamedTuple):
    """Windows that are complete: their key, start, end, and parts."""

    keys: Array
    starts: Array
    ends: Array
    parts: tuple[Array, ...]
    strings: Strings | None


def close_windows(plan: WindowPlan, slices: Slices, after: int, upto: int) -> Closed:
    """Return the windows that end after one frontier and up to another, of slices in order."""
    if plan.gap is not None:
        return _close_sessions(plan, slices, upto)
    ranges = find_windows(
        slices.keys, slices.starts, (plan.size, plan.every, plan.offset), after, upto
    )
    parts: list[Array] = []
    most = int((ranges.highs - ranges.lows).max()) if len(ranges.starts) else 0
    for part, values in zip(plan.parts, slices.parts, strict=True):
        if part.op == "sum" and len(values):
            _check_reach(max(int(values.max()), -int(values.min())), most)
        slide = add_up if part.op in ("sum", "count") else find_largest
        found = slide(values, ranges)
        parts.append(found)
    keys, ends = slices.keys[ranges.lows], ranges.starts + plan.size
    return Closed(keys, ranges.starts, ends, _turn_back(plan, parts), slices.strings)


def _close_sessions(plan: WindowPlan, slices: Slices, upto: int) -> Closed:
    ends = slices.parts[-1] + plan.gap
    rows = np.flatnonzero(ends <= upto + 1) if upto < FOREVER else np.arange(len(ends))
    done = slices.take(rows)
    return Closed(done.keys, done.starts, ends[rows], _turn_back(plan, done.parts), done.strings)


def _turn_back(plan: WindowPlan, parts: Sequence[Array]) -> tuple[Array, ...]:
    pairs = zip(plan.parts, parts, strict=True)
    return tuple(~array if part.op == "min" else array for part, array in pairs)


def write_slices(slices: Slices, note: dict[str, Any]) -> bytes:
    """Return slices as bytes."""
    more = {"key": slices.keys, "start": slices.starts, "events": slices.events}
    more |= {f"part{number}": array for number, array in enumerate(slices.parts)}
    if slices.strings is not None:
        used, places = np.unique(slices.keys, return_inverse=True)
        note = {**note, "texts": [slices.strings[code] for code in used.tolist()]}
        more["key"] = places.astype(np.int64)
    return write_columns(Columns(_NOTHING, (), len(slices.keys)), more, note)


def read_slices(plan: WindowPlan, data: bytes) -> tuple[Slices, dict[str, Any]]:
    """Return what `write_slices` wrote."""
    _, more, note = read_columns(lambda _: _NOTHING, data)
    texts = note.pop("texts", None)
    parts = tuple(more[f"part{number}"] for number in range(len(plan.parts)))
    strings = None if texts is None else Strings(texts)
    return Slices(more["key"], more["start"], more["events"], parts, strings), note


def route_slices(slices: Slices, shards: int) -> Iterator[tuple[int, Slices]]:
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


class SliceBook:
    """The slices that a shard keeps, in pages: a batch adds one, and windows that close read them."""

    def __init__(self, plan: WindowPlan, store: Store, codec: Any) -> None:
        self._plan = plan
        self._store = store
        self._codec = codec
        data = store.read("windows")
        # How far windows have been closed, the first number that is free, and of each page there is
        # its first and last place and its rows.
        self._closed, self._next, self._pages = NEVER, 0, dict[int, tuple[int, int, int]]()
        if data is not None:
            self._closed, self._next, pages = codec.decode(data)
            self._pages = {number: tuple(reach) for number, reach in pages.items()}

    def close(self, new: Sequence[Slices], frontier: int) -> Closed | None:
        """Add slices, and return the windows that a frontier completes."""
        fresh = join_slices(new, self._plan) if new else None
        places = [low for low, _, _ in self._pages.values()]
        if fresh is not None and len(fresh.keys):
            places.append(self._find_reach(fresh)[0])
        closed = None
        if places and self._find_first_end(min(places)) <= frontier:
            kept = [self._read(number) for number in sorted(self._pages)]
            held = kept if fresh is None else [*kept, fresh]
            whole = join_slices(held, self._plan)
            closed = close_windows(self._plan, whole, self._closed, frontier)
            fresh = self._forget(whole, fresh, frontier)
        if fresh is not None and len(fresh.keys):
            self._add(fresh)
        self._closed = max(self._closed, frontier)
        self._keep()
        return closed

    def restore(self, slices: Sequence[Slices], closed: int) -> None:
        """Begin with slices of windows that were closed so far elsewhere."""
        whole = join_slices(slices, self._plan)
        if len(whole.keys):
            self._add(whole)
        self._closed = closed
        self._keep()

    def _keep(self) -> None:
        self._store.write(
            "windows", self._codec.encode((self._closed, self._next, dict(self._pages)))
        )

    def _find_first_end(self, place: int) -> int:
        """Return the last time of the first open window of a page."""
        plan = self._plan
        if plan.gap is not None:
            return place + plan.gap - 1
        start = max(place - plan.size + 1, self._closed - plan.size + 2)
        start += (plan.offset - start) % plan.every
        return start + plan.size - 1

    def _forget(self, whole: Slices, fresh: Slices | None, frontier: int) -> Slices | None:
        """Drop the pages that no open window needs; return what is to be written anew."""
        plan = self._plan
        if frontier >= FOREVER or plan.gap is not None:
            self._remove(list(self._pages))
            if frontier >= FOREVER or plan.gap is None:
                return None
            return whole.take(np.flatnonzero(whole.parts[-1] + plan.gap > frontier + 1))
        # The earliest window that is still open begins here; earlier slices are of no use to it.
        open_from = frontier - plan.size + 2
        open_from += (plan.offset - open_from) % plan.every
        self._remove([n for n, (_, high, _) in self._pages.items() if high < open_from])
        return None if fresh is None else fresh.take(np.flatnonzero(fresh.starts >= open_from))

    def _remove(self, numbers: list[int]) -> None:
        for number in numbers:
            self._store.write_page("slices", str(number), None)
            del self._pages[number]

    def _add(self, fresh: Slices) -> None:
        """Write a page; the last ones become one with it unless they are larger by far."""
        last = max(self._pages, default=None)
        while last is not None and self._pages[last][2] <= 2 * len(fresh.keys):
            fresh = join_slices([self._read(last), fresh], self._plan)
            self._remove([last])
            last = max(self._pages, default=None)
        self._store.write_page("slices", str(self._next), write_slices(fresh, {}))
        self._pages[self._next] = self._find_reach(fresh)
        self._next += 1

    def _find_reach(self, fresh: Slices) -> tuple[int, int, int]:
        """Return the first and last place of a page, starts of slices or ends of sessions, and its rows."""
        places = fresh.starts if self._plan.gap is None else fresh.parts[-1]
        return int(places.min()), int(places.max()), len(places)

    def _read(self, number: int) -> Slices:
        return read_slices(self._plan, read_known_page(self._store, "slices", str(number)))[0]


def _is_text(plan: WindowPlan, table: Table) -> bool:
    if plan.key is None:
        return False
    layout: Any = table.columns.layout
    return bool(layout.parts[layout.cls._fields.index(plan.key)].kind == "str")


def count_events(several: Iterable[Slices]) -> int:
    """Return how many events were folded into slices."""
    return sum(int(one.events.sum()) for one in several)
