"""Folds of the columnar path: how a shard folds the events of a batch that have become stable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.kernels.arrays.ordering import group, sort_order
from anabranch.kernels.batches import EventBatch, Folded
from anabranch.kernels.kernel import Kernel
from anabranch.kernels.numpy_columns import Columns, Strings, fill, pack_or_keep
from anabranch.kernels.state_joins import as_events
from anabranch.microbatch.columns.event_tables import (
    EventTable,
    OutgrownStateError,
    concatenate_columns,
)
from anabranch.microbatch.columns.routing import spread_channels
from anabranch.microbatch.exchange.deltas import Delta
from anabranch.microbatch.exchange.result_columns import describe_outputs, write_outputs
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_event
from anabranch.microbatch.fold.early_deltas import EarlyDelta, Gathered
from anabranch.microbatch.job.column_types import lay_out_fields
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.store.column_entries import ColumnEntries
from anabranch.microbatch.store.state_store import Store
from anabranch.model.events import LANE, Event, field_names
from anabranch.model.order import OrderKey, sort_events
from anabranch.model.program import StateType
from anabranch.model.step import begin_delta
from anabranch.model.values.maps import Map

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]


class Counting(NamedTuple):
    """Where a shard's counts and rows are added, and which events it counts (None: all of a table).

    Without `tables`, all rows are added to `emitted`.
    """

    shard: int
    emitted: list[ResultRow]
    counts: dict[str, int]
    names: tuple[str, ...]
    counts_here: Callable[[EventTable], Array | None]
    tables: list[pa.Table] | None = None

    def add_rows(self, rows: pa.Table) -> None:
        """Add rows of outputs."""
        if self.tables is not None:
            self.tables.append(rows)
        else:
            self.emitted.extend(ResultRow(**row) for row in rows.to_pylist())


class Folds:
    """The folds of one shard."""

    def __init__(self, job: Job, store: Store, counting: Counting) -> None:
        assert job.columns is not None
        self.job = job
        self.kernels: Mapping[str, Kernel] = job.columns.kernels
        self.store = store
        self.counting = counting

    def fold(
        self,
        stable: dict[int, EventTable],
        folded: Sequence[EarlyDelta] = (),
        gathered: Sequence[Gathered] = (),
    ) -> list[Delta]:
        """Fold stable events; return the deltas for the root.

        `folded` are deltas of early folds, each with its place among the cuts, and `gathered` the
        deltas of keys.
        """
        if self.job.layout.way == "forked":
            return self._fold_leaves(stable, folded)
        if self.job.program.initial.shape.by is None:
            self._fold_single(stable)
        else:
            self._fold_entries(stable, gathered)
        return []

    def fold_early(self, table: EventTable, states: Columns, slots: Array) -> Columns | None:
        """Fold events of one type in the task that reads them; None if one of them fails."""
        kernel = self.kernels[self.job.program.initial.name]
        lined = _line_up(self.job, kernel, {table.event_type: table}, ordered=False)
        folded = kernel.fold(states, lined.batch(slots))
        return None if folded.failures or folded.states.layout != kernel.layout else folded.states

    # --- keyed, replicated, sequential: every event, in order ------------------------------------

    def _fold_single(self, stable: dict[int, EventTable]) -> None:
        state_type = self.job.program.initial
        kernel = self.kernels[state_type.name]
        lined = _line_up(self.job, kernel, stable)
        states = self._load_single(kernel, state_type, lined.strings)
        folded = kernel.fold(states, lined.batch(0))
        self.store.write("state", self.job.codec.encode(folded.states.unpack()[0]))
        self._add_outputs(lined, folded)

    def _fold_entries(self, stable: dict[int, EventTable], gathered: Sequence[Gathered]) -> None:
        import numpy as np

        state_type, plan = self.job.program.initial, self.job.columns
        kernel = self.kernels[state_type.name]
        shape: Any = state_type.shape
        entries = ColumnEntries(self.store, kernel.layout, shape.inner.init, self.counting.shard)
        deltas = [entries.find(part.keys, part.texts) for part in gathered]
        lined = _line_up(self.job, kernel, stable)
        places: Array = np.empty(0, np.int64)
        found = places
        if stable:
            places, distinct = group(lined.field(shape.by))
            texts = lined.strings if lined.is_text(shape.by) else None
            found = entries.find(distinct, texts)
        slots = np.unique(np.concatenate([*deltas, found]))
        states = entries.states(slots, lined.strings)
        entered = np.searchsorted(slots, found)[places]
        batch = lined.batch(entered)
        if gathered:
            assert plan is not None
            assert plan.join is not None
            turns = np.concatenate([lined.find_turns(part) for part in gathered])
            order = np.argsort(turns, kind="stable")
            joined = concatenate_columns([part.states for part in gathered], lined.strings)
            own = np.searchsorted(slots, np.concatenate(deltas))
            batch = _insert(batch, turns[order], order, as_events(joined), own[order])
            folded = _leave_out(plan.join.fold(states, batch), turns[order])
        else:
            folded = kernel.fold(states, batch)
        _check_layout(folded.states, kernel, state_type)
        self._add_outputs(lined, folded)
        handled = folded.find_handled(entered, len(slots))
        if handled is not None:
            handled[np.searchsorted(slots, np.concatenate([*deltas, slots[:0]]))] = True
            slots, folded = slots[handled], replace(folded, states=folded.states.take(handled))
        entries.keep(slots, folded.states)

    def _load_single(self, kernel: Kernel, state_type: StateType, strings: Strings) -> Columns:
        data = self.store.read("state")
        state = state_type.shape.init if data is None else self.job.codec.decode(data)
        return pack_or_keep(kernel.layout, [state], strings)

    # --- forked: leaves from zero, the rest to the root ------------------------------------------

    def _fold_leaves(
        self, stable: dict[int, EventTable], folded: Sequence[EarlyDelta]
    ) -> list[Delta]:
        job, shard_layout = self.job, self.job.layout
        event_types = job.program.event_types
        others = [
            t
            for event_type, t in stable.items()
            if event_types[event_type] not in shard_layout.leaves
        ]
        at_root = self._list_others(others)
        cuts = [key for key, event, _ in at_root if type(event.data) in shard_layout.cuts]
        data = self.store.read("deltas")
        open_deltas: dict[str, Any] = {} if data is None else job.codec.decode(data)
        taken: list[dict[str, Any]] = [{} for _ in cuts]
        for name in sorted({*shard_layout.leaves.values()}):
            mine = {
                event_type: t
                for event_type, t in stable.items()
                if shard_layout.leaves.get(event_types[event_type]) == name
            }
            opened = open_deltas.pop(name, None)
            for place, delta in self.fold_type(name, mine, cuts, opened):
                (taken[place] if place < len(cuts) else open_deltas)[name] = delta
        marks = [(time, rank) for time, rank, *_ in cuts]
        for ahead in folded:
            place = ahead.find_place(marks)
            self._add(taken[place] if place < len(cuts) else open_deltas, ahead.name, ahead.delta)
        self.store.write("deltas", job.codec.encode(open_deltas))
        return self._pair(at_root, taken)

    def _add(self, deltas: dict[str, Any], name: str, delta: Any) -> None:
        join = self.job.program.state_type(name).shape.join
        assert join is not None
        deltas[name] = join(deltas[name], delta) if name in deltas else delta

    def _list_others(self, tables: Sequence[EventTable]) -> list[tuple[OrderKey, Event, bool]]:
        """Return the events that are not leaves, in order, and whether this shard counts them."""
        here: dict[tuple[str, int | None, Any], bool] = {}
        events: list[Event] = []
        for table in tables:
            found = table.events(self.counting.names)
            counted = self.counting.counts_here(table)
            marks = [True] * len(found) if counted is None else counted.tolist()
            for event, mark in zip(found, marks, strict=True):
                here[event.channel, event.seq, event.event_type] = mark
            events += found
        ordered = sort_events(self.job.program.ranks, events)
        return [
            (key, event, here[event.channel, event.seq, event.event_type]) for key, event in ordered
        ]

    def _pair(
        self, at_root: list[tuple[OrderKey, Event, bool]], taken: list[dict[str, Any]]
    ) -> list[Delta]:
        """Return the root's input: each event with the deltas before it."""
        shard_layout, shard = self.job.layout, self.counting.shard
        found = []
        waiting = iter(taken)
        for key, event, here in at_root:
            before = next(waiting) if type(event.data) in shard_layout.cuts else {}
            if before or here:
                home = event if here else None
                found.append(Delta(key, shard, before, home, shard_layout.root(event)))
        return found

    def fold_type(
        self,
        name: str,
        tables: dict[int, EventTable],
        cuts: Sequence[tuple[Any, ...]],
        opened: Any,
    ) -> list[tuple[int, Any]]:
        """Fold the leaves of one state type; return (segment, delta) for each segment with a delta.

        `cuts` are order keys, of which only time and rank are used.
        """
        state_type, kernel = self.job.program.state_type(name), self.kernels[name]
        if not tables:
            return [] if opened is None else [(0, opened)]
        shape: Any = state_type.shape
        lined = _line_up(self.job, kernel, tables, ordered=shape.by == LANE)
        if shape.by is None:
            places, touched = lined.number_segments(cuts)
        else:
            entry = (
                self._find_lanes(lined, shape.lanes) if shape.by == LANE else lined.field(shape.by)
            )
            number, distinct = group(entry)
            places, touched = group(lined.find_segments(cuts) * len(distinct) + number)
        zero = begin_delta(shape if shape.by is None else shape.inner)
        starts = fill(kernel.layout, zero, len(touched), lined.strings)
        if shape.by is None:
            if opened is not None:
                starts = _start_from(starts, touched, {0: opened}, kernel)
            folded = kernel.fold(starts, lined.batch(places))
            self._add_outputs(lined, folded)
            deltas = dict(zip(touched.tolist(), folded.states.unpack(), strict=True))
            if opened is not None:
                deltas.setdefault(0, opened)
            assert all(place <= len(cuts) for place in deltas)
            return sorted(deltas.items())
        values = lined.values(distinct, text=shape.by != LANE and lined.is_text(shape.by))
        before = (
            {}
            if opened is None
            else {n: opened[value] for n, value in enumerate(values) if value in opened}
        )
        folded = kernel.fold(_start_from(starts, touched, before, kernel), lined.batch(places))
        self._add_outputs(lined, folded)
        handled = folded.find_handled(places, len(touched))
        if handled is not None:
            touched, folded = (
                touched[handled],
                replace(folded, states=folded.states.take(handled)),
            )
        return _put_together(touched, folded, values, opened)

    def _find_lanes(self, lined: _Lined, lanes: int) -> Array:
        return spread_channels(lined.channels, lined.seqs, self.counting.names, lanes)

    # --- outputs ---------------------------------------------------------------------------------

    def _add_outputs(self, lined: _Lined, folded: Folded) -> None:
        """Add rows of outputs and failures, and count."""
        import numpy as np
        import pyarrow as pa

        counting = self.counting
        here = lined.find_counted(counting.counts_here)
        failed = [place for place, _ in folded.failures]
        mine = [p for p in failed if here is None or here[p]]
        total = len(lined.rows) if here is None else int(here.sum())
        counting.counts["processed"] += total - len(mine)
        counting.counts["rejected"] += len(mine)
        for place, one in folded.failures:
            if here is None or here[place]:
                event = lined.event(place, counting.names)
                reason = one.describe(event)
                counting.emitted.append(describe_event("rejected", event, reason))
        if not len(folded.places):
            return
        texts, types = write_outputs(self.job.program.output_types, folded.values, folded.forms)
        shown = slice(None) if here is None else np.flatnonzero(here[folded.places])
        places, indexes = folded.places[shown], folded.indexes[shown]
        if here is not None:
            texts, types = texts.take(pa.array(shown)), types[shown]
        for table in lined.describe(places, indexes, texts, types, counting.names):
            counting.add_rows(table)


class _Lined(NamedTuple):
    """The events of a batch in the order of the fold.

    `event_types` are the kernel's numbers of event types, `tables` the tables by that number. They are
    `as_read` if there is one table, and rows are numbered from 0.
    """

    tables: tuple[EventTable | None, ...]
    columns: tuple[Columns, ...]
    ranks: tuple[int, ...]
    strings: Strings
    event_types: Array
    rows: Array
    channels: Array
    seqs: Array
    as_read: bool

    def batch(self, slots: Any) -> EventBatch:
        """Return the events for a kernel."""
        import numpy as np

        if isinstance(slots, int):
            slots = np.full(len(self.rows), slots, np.int64)
        return EventBatch(self.columns, self.event_types, self.rows, slots)

    def field(self, name: str) -> Array:
        """Return the values of a field that all event types have, in order."""
        return self._pick(lambda table: table.field(name))

    def _pick(self, read: Callable[[EventTable], Array]) -> Array:
        import numpy as np

        found = [(n, t) for n, t in enumerate(self.tables) if t is not None]
        if len(found) == 1:
            array = read(found[0][1])
            return array if self.as_read else array[self.rows]
        picked = np.empty(len(self.rows), np.int64)
        for number, table in found:
            mask = self.event_types == number
            picked[mask] = read(table)[self.rows[mask]]
        return picked

    def is_text(self, name: str) -> bool:
        """Return whether the values of a field are texts."""
        table = next(table for table in self.tables if table is not None)
        layout: Any = table.columns.layout
        return layout.parts[field_names(layout.cls).index(name)].kind == "str"  # type: ignore[no-any-return]

    def values(self, keys: Array, *, text: bool) -> list[Any]:
        """Return keys as values of the program."""
        return [self.strings[code] for code in keys.tolist()] if text else keys.tolist()

    def event(self, place: int, names: tuple[str, ...]) -> Event:
        """Return one event."""
        table = self.tables[int(self.event_types[place])]
        assert table is not None
        row = int(self.rows[place])
        data = table.columns.value(row)
        return Event(data, names[int(table.channels[row])], int(table.seqs[row]))

    def find_turns(self, part: Gathered) -> Array:
        """Return the number of events before each delta."""
        import numpy as np

        times = self._pick(lambda table: table.times)
        ranks = np.array(self.ranks, np.int64)[self.event_types]
        # Cuts that had not been read when the deltas were made are after all of these.
        last = np.searchsorted(times, part.until)
        turns = np.full(len(part.cuts) + 1, last)
        for number in np.unique(part.segments).tolist():
            if number < len(part.cuts):
                time, rank = part.cuts[number]
                low, high = np.searchsorted(times, time), np.searchsorted(times, time, "right")
                turns[number] = min(last, low + np.searchsorted(ranks[low:high], rank))
        return turns[part.segments]

    def describe(
        self, places: Array, indexes: Array, texts: pa.Array, types: Array, names: tuple[str, ...]
    ) -> Iterator[pa.Table]:
        """Yield the rows of outputs by event type: each with its event's place, number, text and type."""
        import numpy as np
        import pyarrow as pa

        event_types = self.event_types[places]
        for number in np.unique(event_types).tolist():
            table = self.tables[number]
            assert table is not None
            mine = np.flatnonzero(event_types == number)
            events, rank = table.take(self.rows[places[mine]]), self.ranks[number]
            values = texts if len(mine) == len(event_types) else texts.take(pa.array(mine))
            yield describe_outputs(events, rank, names, indexes[mine], values, types[mine])

    def number_segments(self, cuts: Sequence[tuple[Any, ...]]) -> tuple[Array, Array]:
        """Return the number of each event's segment among those with events, and the list of these segments."""
        import numpy as np

        present = [number for number, table in enumerate(self.tables) if table is not None]
        if len(present) == 1:
            times = self._pick(lambda table: table.times)
            lengths = _measure_segments(times, cuts, self.ranks[present[0]])
            if lengths is not None:
                touched = np.flatnonzero(lengths)
                return np.repeat(np.arange(len(touched)), lengths[touched]), touched
        return group(self.find_segments(cuts))

    def find_segments(self, cuts: Sequence[tuple[Any, ...]]) -> Array:
        """Return the number of cuts before each event."""
        import numpy as np

        times = self._pick(lambda table: table.times)
        present = [number for number, table in enumerate(self.tables) if table is not None]
        if len(present) == 1:
            return count_cuts(times, cuts, self.ranks[present[0]])
        segments = np.zeros(len(times), np.int64)
        for number in present:
            mask = self.event_types == number
            segments[mask] = count_cuts(times[mask], cuts, self.ranks[number])
        return segments

    def find_counted(self, counts_here: Callable[[EventTable], Array | None]) -> Array | None:
        """Return which events this shard counts; None if all."""
        import numpy as np

        masks = [None if table is None else counts_here(table) for table in self.tables]
        if all(mask is None for mask in masks):
            return None
        here = np.ones(len(self.rows), np.bool_)
        for number, mask in enumerate(masks):
            if mask is not None:
                mine = self.event_types == number
                here[mine] = mask[self.rows[mine]]
        return here


def count_cuts(times: Array, cuts: Sequence[tuple[Any, ...]], rank: int) -> Array:
    """Return the number of cuts before each event of one event type."""
    import numpy as np

    lengths = _measure_segments(times, cuts, rank)
    if lengths is not None:
        return np.repeat(np.arange(len(lengths)), lengths)
    sooner, later = _part_cuts(cuts, rank)
    found = np.searchsorted(sooner, times, side="right")
    return found + np.searchsorted(later, times, side="left")


def _measure_segments(times: Array, cuts: Sequence[tuple[Any, ...]], rank: int) -> Array | None:
    """Return the numbers of events of one event type before, between and after cuts; None if out of order.

    With few cuts among many events, it is faster to look up the cuts.
    """
    import numpy as np

    if bool((times[1:] < times[:-1]).any()):
        return None
    sooner, later = _part_cuts(cuts, rank)
    bounds = [np.searchsorted(times, sooner), np.searchsorted(times, later, "right")]
    return np.diff(np.sort(np.concatenate(bounds)), prepend=0, append=len(times))


def _part_cuts(cuts: Sequence[tuple[Any, ...]], rank: int) -> tuple[Array, Array]:
    """Return the times of cuts before an event of the same time, and of those after it."""
    import numpy as np

    sooner = np.array([key[0] for key in cuts if key[1] < rank], np.int64)
    return sooner, np.array([key[0] for key in cuts if key[1] > rank], np.int64)


def _line_up(
    job: Job, kernel: Kernel, stable: dict[int, EventTable], *, ordered: bool = True
) -> _Lined:
    import numpy as np

    program = job.program
    strings = next((table.columns.strings for table in stable.values()), Strings())
    tables = tuple(
        stable.get(program.event_types.index(event_type)) for event_type in kernel.event_types
    )
    columns = tuple(
        pack_or_keep(lay_out_fields(event_type), [], strings) if table is None else table.columns
        for event_type, table in zip(kernel.event_types, tables, strict=True)
    )
    ranks = tuple(program.ranks[event_type] for event_type in kernel.event_types)
    present = [(number, table) for number, table in enumerate(tables) if table is not None]
    event_types = _concatenate([np.full(len(t), n, np.uint8) for n, t in present])
    rows = _concatenate([np.arange(len(t)) for _, t in present])
    channels = _concatenate([t.channels for _, t in present])
    seqs = _concatenate([t.seqs for _, t in present])
    as_read = len(present) == 1
    if ordered:
        times = _concatenate([t.times for _, t in present])
        order = sort_order(times, np.array(ranks, np.int64)[event_types], channels, seqs)
        if not _is_range(order):
            event_types, rows, channels, seqs = (
                part[order] for part in (event_types, rows, channels, seqs)
            )
            as_read = False
    return _Lined(tables, columns, ranks, strings, event_types, rows, channels, seqs, as_read)


def _concatenate(parts: list[Array]) -> Array:
    import numpy as np

    if not parts:
        return np.empty(0, np.int64)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _insert(
    batch: EventBatch, turns: Array, order: Array, deltas: Columns, slots: Array
) -> EventBatch:
    """Return a batch with deltas at their places, as events of one more event type."""
    import numpy as np

    return EventBatch(
        (*batch.events, deltas),
        np.insert(batch.event_types, turns, len(batch.events)).astype(np.uint8),
        np.insert(batch.rows, turns, order),
        np.insert(batch.slots, turns, slots),
    )


def _leave_out(folded: Folded, turns: Array) -> Folded:
    """Return the result of a batch, by the places of its events without the deltas."""
    import numpy as np

    inserted = turns + np.arange(len(turns))

    def find(places: Array) -> Array:
        return places - np.searchsorted(inserted, places)

    failed = [place for place, _ in folded.failures]
    for place, one in folded.failures:
        if place in set(inserted.tolist()):
            raise one.error  # A failing join breaks the user's promise: no event could be rejected for it.
    moved = find(np.array(failed, np.int64)).tolist()
    failures = tuple(zip(moved, (one for _, one in folded.failures), strict=True))
    return replace(folded, places=find(folded.places), failures=failures)


def _is_range(rows: Array) -> bool:
    """Return whether places are the numbers from 0."""
    import numpy as np

    return bool(len(rows) == 0 or (rows[0] == 0 and np.array_equal(rows, np.arange(len(rows)))))


def _start_from(
    starts: Columns, touched: Array, before: Mapping[int, Any], kernel: Kernel
) -> Columns:
    """Return the initial states, with the deltas folded before the batch."""
    if not before:
        return starts
    held = starts.unpack()
    for place, key in enumerate(touched.tolist()):
        if key in before:
            held[place] = before[key]
    return pack_or_keep(kernel.layout, held, starts.strings)


def _put_together(
    touched: Array, folded: Folded, values: list[Any], opened: Any
) -> list[tuple[int, Any]]:
    """Return a map of entries for each segment."""
    segments: dict[int, dict[Any, Any]] = {}
    for key, state in zip(touched.tolist(), folded.states.unpack(), strict=True):
        segment, number = divmod(key, len(values))
        segments.setdefault(segment, {})[values[number]] = state
    if opened is not None:
        segments[0] = {**opened.entries(), **segments.get(0, {})}
    return [(segment, Map(entries)) for segment, entries in sorted(segments.items())]


def _check_layout(states: Columns, kernel: Kernel, state_type: StateType) -> None:
    if states.layout != kernel.layout:
        raise OutgrownStateError(
            f"a state of {state_type.name!r} no longer fits its columns",
            expected="ints of 64 bits, and fields that keep their types",
            got="a larger int, or another type",
            cure='run with columnar="never", on a new checkpoint; any Python value fits there',
        )
