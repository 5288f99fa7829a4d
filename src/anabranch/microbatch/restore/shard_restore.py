"""Restoring a shard: it starts from its part of a savepoint, in place of a batch.

The envelopes of the first batch contain a shard's entries, its pending events, and the standings of the
channels. After it the shard is in the state of having folded all events before. Independent of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.timers import find_set
from anabranch.microbatch.columns.event_tables import make_table
from anabranch.microbatch.columns.window_slices import read_slices
from anabranch.microbatch.exchange.envelope_kinds import Kind, is_restore
from anabranch.microbatch.ingest.channel_verdicts import Standing
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.shards.columnar_shard import ColumnShard
from anabranch.microbatch.shards.row_shard import RowShard
from anabranch.microbatch.store.column_entries import ColumnEntries, unpack_all
from anabranch.microbatch.store.hashed_book import HashedBook
from anabranch.microbatch.store.slice_book import SliceBook
from anabranch.microbatch.store.state_store import Store
from anabranch.model.events import Event
from anabranch.model.shapes import EntryShape
from anabranch.model.values.maps import Map
from anabranch.state.sharing import Held

AnyShard = RowShard | ColumnShard


class Restored(NamedTuple):
    """A shard after its first batch, and the states that it got for roots, by their numbers."""

    shard: AnyShard
    spines: dict[int, Any]


def restore_shard(
    job: Job, number: int, store: Store, envelopes: Iterable[tuple[str, bytes]]
) -> Restored:
    """Return a new shard, restored from its part of a savepoint; envelopes may be in any order."""
    shard: AnyShard = (RowShard if job.columns is None else ColumnShard)(job, number, store)
    parts: dict[str, list[Any]] = {}
    entries = _Entries(job, number, shard.store)
    for kind, payload in envelopes:
        assert is_restore(kind), f"a restoring batch contains only parts of a savepoint, not {kind}"
        data = job.codec.decode(payload)
        if kind == Kind.RESTORE_ENTRIES:
            entries.take(data)
        else:
            parts.setdefault(kind, []).append(data)
    entries.keep()
    ((standings, ledger, clock_ms),) = parts.get(Kind.RESTORE_HEAD, [({}, tuple(Ledger()), None)])
    shard.note_standings({name: Standing(*standing) for name, standing in standings.items()})
    for state in parts.get(Kind.RESTORE_STATE, []):
        shard.store.write("state", job.codec.encode(state))
    if Kind.RESTORE_DELTAS in parts:
        shard.store.write("deltas", job.codec.encode(_join_deltas(job, parts[Kind.RESTORE_DELTAS])))
    _take_slices(job, shard.store, parts.get(Kind.RESTORE_SLICES, []))
    waiting = [Event(*event) for part in parts.get(Kind.RESTORE_PENDING, []) for event in part]
    state = _put_together(job, next(iter(parts.get(Kind.RESTORE_STATE, [])), None), entries.found)
    wakes = _find_wakes(job, state, shard.watermark)
    pages = _put_off(shard, waiting, wakes)
    if isinstance(shard, RowShard) and job.mode == "speculative":
        shard.recall(waiting, wakes)
    pending = sum(counted for _, counted in pages.values())
    # Each shard counts its own pending events; one shard has all the other counts.
    counts = Ledger(*ledger)
    balance = counts._replace(input=counts.input - counts.pending + pending, pending=pending)
    shard.keep_head(dict(standings), tuple(balance), pages, clock_ms)
    return Restored(shard, _join_spines(parts.get(Kind.RESTORE_SPINE, [])))


def _put_together(job: Job, state: Any, entries: Any) -> Any:
    """Return the part of the state that a shard keeps."""
    if job.layout.way == "keyed":
        return entries
    if job.layout.way == "shared":
        return Held(state, Map() if entries is None else entries)
    return state


def _join_spines(parts: Iterable[tuple[int, Any]]) -> dict[int, Any]:
    """Return the state of each root; several envelopes to one root have different keys."""
    spines: dict[int, Any] = {}
    for root, spine in parts:
        known = spines.get(root)
        spines[root] = spine if known is None else Map({**known, **spine})
    return spines


def _join_deltas(job: Job, several: list[dict[str, Any]]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for deltas in several:
        for name, delta in deltas.items():
            join = job.program.state_type(name).shape.join
            assert join is not None
            joined[name] = join(joined[name], delta) if name in joined else delta
    return joined


def _find_wakes(job: Job, state: Any, watermark: int) -> list[Event]:
    if not job.program.timers or job.columns is not None or state is None:
        return []
    return find_set(job.program, state, watermark)


def _put_off(
    shard: AnyShard, waiting: list[Event], wakes: list[Event]
) -> dict[int, tuple[int, int]]:
    """Write pending events, and timers, into pages, as a batch does."""
    if isinstance(shard, RowShard):
        return shard.put_off([*waiting, *wakes])
    by_type: dict[type, list[Event]] = {}
    for event in waiting:
        by_type.setdefault(type(event.data), []).append(event)
    pages: dict[int, tuple[int, int]] = {}
    for number, event_type in enumerate(shard.job.program.event_types):
        if event_type in by_type:
            layout = shard.plan.layouts[number]
            shard.put_off(make_table(number, layout, by_type[event_type], shard.plan.codes), pages)
    return pages


def _take_slices(job: Job, store: Store, parts: list[tuple[bytes, int]]) -> None:
    plan = None if job.columns is None else job.columns.windows
    if plan is not None and parts:
        slices = [read_slices(plan, data)[0] for data, _ in parts]
        SliceBook(plan, store).restore(slices, parts[0][1])


class _Entries:
    """The entries of a shard, while they arrive."""

    def __init__(self, job: Job, number: int, store: Store) -> None:
        self._job = job
        self._number = number
        self._store = store
        self._pages: list[bytes] = []
        self.found: Any = None

    def take(self, data: Any) -> None:
        """Add some entries: a map of objects, or a page of columns."""
        if self._job.columns is None:
            self.found = Map(data) if self.found is None else Map({**self.found, **data})
        else:
            self._pages.append(data)

    def keep(self) -> None:
        """Write all entries at once: page by page, they would be rewritten many times."""
        if self._pages:
            self._keep_columns()
        if self.found is not None:
            entries = HashedBook(self._store, self._job.codec, self._job.layout.shards)
            for key, entry in self.found.entries().items():
                entries.set(key, entry)
            entries.flush()

    def _keep_columns(self) -> None:
        plan, initial = self._job.columns, self._job.program.initial
        assert plan is not None
        layout, shape = plan.kernels[initial.name].layout, cast("EntryShape", initial.shape)
        keys, texts, states = unpack_all(layout, self._pages)
        book = ColumnEntries(self._store, layout, shape.inner.init, self._number)
        book.keep(book.find(keys, texts), states)
