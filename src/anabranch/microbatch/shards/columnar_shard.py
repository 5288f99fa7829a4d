"""The columnar path: a shard that folds columns, without Python objects for events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.windows.window_types import check_reach
from anabranch.kernels.numpy_columns import Strings
from anabranch.microbatch.columns.event_tables import (
    EventTable,
    concatenate,
    read_columns,
    write_columns,
)
from anabranch.microbatch.columns.routing import find_homes
from anabranch.microbatch.columns.window_slices import WindowSlices, count_events, read_slices
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import Chunk
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_event
from anabranch.microbatch.fold.column_folds import Counting, Folds
from anabranch.microbatch.fold.early_deltas import EarlyDelta, Gathered
from anabranch.microbatch.fold.window_folds import fold_table, is_near
from anabranch.microbatch.fold.window_rows import describe_windows
from anabranch.microbatch.ingest.channel_verdicts import Standing, follow_chunks
from anabranch.microbatch.ingest.early_folds import (
    Claim,
    EarlyFold,
    holds,
    read_again,
    read_claim,
    read_early_fold,
    read_gathered,
)
from anabranch.microbatch.ingest.row_reader import describe_repeated
from anabranch.microbatch.job.column_plan import ColumnPlan
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.job.window_plan import WindowPlan
from anabranch.microbatch.shards.shard_base import Pages, ShardBase
from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.shard_head import add_pending, rewrite_pending, take_pending
from anabranch.microbatch.store.slice_book import SliceBook
from anabranch.microbatch.store.state_store import Store
from anabranch.model.events import Event, EventType
from anabranch.model.failures import Failed, attempt, note_place

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class _ReceivedTable(NamedTuple):
    """A table from an envelope, the chunk it belongs to, and, for late events, the bounds they are behind.

    A chunk is identified by its first sequence and the place of its task.
    """

    table: EventTable
    first: int
    place: int
    behind: Array | None


Before = dict[tuple[str, int | None, int], Standing]
"""The standing of a channel before each chunk, by channel, first sequence and place."""


class _Received(NamedTuple):
    """The input of a shard in a batch; the deltas of keys with the number of events in them."""

    tables: list[_ReceivedTable]
    claims: list[Claim]
    early_folds: list[EarlyFold]
    gathered: list[tuple[Gathered, int]]
    slices: list[WindowSlices]


class ColumnShard(ShardBase):
    """A shard whose events and states are columns."""

    def __init__(self, job: Job, number: int, store: Store) -> None:
        super().__init__(job, number, store)
        assert job.columns is not None
        self.plan = job.columns
        self._received = _Received([], [], [], [], [])
        self._before: Before = {}
        self._chunks: dict[tuple[str, int], list[tuple[int, Standing]]] = {}

    def _admit(self, added: list[str]) -> None:
        """Add channels; the code of a channel is its place among all names, so codes change."""
        known = [name for name in self.plan.names if name not in added]
        super()._admit(added)
        rewrite_pending(self.store, self.head.pages, partial(self._recode, known))

    def _recode(self, known: list[str], page: bytes) -> bytes:
        import numpy as np

        codes = self.plan.codes
        table, _, _ = read_table(self.plan, page)
        places = np.array([codes[name] for name in known], np.int64)
        return write_table(replace(table, channels=places[table.channels]))

    def _receive(self, kind: str, payload: bytes) -> None:
        job, batch = self.job, self._received
        if kind in (Kind.TABLE, Kind.LATE_TABLE):
            batch.tables.append(self._open(payload))
        elif kind == Kind.CLAIM:
            batch.claims.append(read_claim(job, payload))
        elif kind == Kind.EARLY_DELTAS:
            batch.early_folds.append(read_early_fold(job, payload))
        elif kind == Kind.EARLY_ENTRIES:
            batch.gathered.append(read_gathered(job, payload))
        else:
            assert kind == Kind.SLICES, f"a columnar shard does not accept {kind}"
            assert self.plan.windows is not None
            batch.slices.append(read_slices(self.plan.windows, payload)[0])

    def _judge(
        self, before: dict[str, Standing], chunks: list[Chunk], counts: dict[str, int]
    ) -> dict[str, Standing]:
        after, followed = follow_chunks(self.job.channels, before, chunks)
        self._chunks = {}
        for name, found in followed.items():
            for chunk, standing in found:
                mine = self._chunks.setdefault((name, chunk.place), [])
                mine.append((chunk.first or 0, standing))
        self._before = {
            (name, chunk.first, chunk.place): standing
            for name, found in followed.items()
            for chunk, standing in found
        }
        return after

    def _fold(self, counts: dict[str, int]) -> Pages:
        pages = dict(self.head.pages)
        stable, ahead, gathered = self._settle(self._received, self._before, pages, counts)
        if self.plan.windows is None:
            self._fold_stable(stable, ahead, gathered, counts)
        else:
            self._fold_windows(self.plan.windows, stable, self._received.slices, counts)
        return pages

    def _settle(
        self,
        batch: _Received,
        before: Before,
        pages: dict[int, tuple[int, int]],
        counts: dict[str, int],
    ) -> tuple[dict[int, list[EventTable]], list[EarlyDelta], list[Gathered]]:
        """Return the stable events, and the early folds if all their assumptions are true."""
        claimed = {(claim.channel, claim.first, claim.place) for claim in batch.claims}
        apart = [received for received in batch.tables if self._key(received) in claimed]
        plain = [received for received in batch.tables if self._key(received) not in claimed]
        stable = self._release(self._sort_out(plain, counts), pages)
        early_folds, gathered = batch.early_folds, batch.gathered
        if not self._bears_out(batch.claims, [part for part, _ in gathered], before, stable):
            # The look-ahead was wrong, so the events themselves are needed.
            early_folds, gathered = [], []
            batch.slices.clear()
            apart = [self._open(p) for p in read_again(self.job, batch.claims, self.number)]
        for event_type, tables in self._release(self._sort_out(apart, counts), pages).items():
            stable.setdefault(event_type, []).extend(tables)
        for early_fold in early_folds:
            self.emitted += early_fold.emitted
            for name, count in early_fold.counts.items():
                counts[name] += count
        for _, events in gathered:
            counts["input"] += events
            counts["processed"] += events
        folded = count_events(batch.slices)
        counts["input"] += folded
        counts["processed"] += folded
        ahead = [delta for early_fold in early_folds for delta in early_fold.deltas]
        return stable, ahead, [part for part, _ in gathered]

    def _open(self, payload: bytes) -> _ReceivedTable:
        # The event type determines the layout; it is in the note, which is read with the rest.
        table, note, more = read_table(self.plan, payload)
        return _ReceivedTable(table, note["first"], note["place"], more.get("behind"))

    def _key(self, received: _ReceivedTable) -> tuple[str, int, int]:
        """Return the key of a table's chunk."""
        return self.plan.names[int(received.table.channels[0])], received.first, received.place

    def _list_cuts(
        self, stable: dict[int, list[EventTable]], low: int, high: int
    ) -> list[tuple[int, int]]:
        """Return the times and ranks of the stable events that early folds must not pass, between two times."""
        import numpy as np

        program = self.job.program
        cuts: set[tuple[int, int]] = set()
        for number, tables in stable.items():
            event_type = program.event_types[number]
            if event_type in self.plan.stops:
                rank = program.ranks[event_type]
                for table in tables:
                    near = table.times[(table.times >= low) & (table.times <= high)]
                    cuts.update((time, rank) for time in np.unique(near).tolist())
        return sorted(cuts)

    def _bears_out(
        self,
        claims: list[Claim],
        gathered: list[Gathered],
        before: Before,
        stable: dict[int, list[EventTable]],
    ) -> bool:
        """Return whether all claims are true."""
        if not claims:
            return True
        # Only cuts among the folded events matter; markers may be many.
        low, high = min(claim.low for claim in claims), max(claim.high for claim in claims)
        if gathered:
            low, high = NEVER, max(high, *(part.until - 1 for part in gathered))
        lined = self._list_cuts(stable, low, high)
        for part in gathered:
            # A delta is placed before the next cut of the look-ahead, so there must be no other cut.
            known = {*part.cuts}
            if any(cut[0] < part.until and cut not in known for cut in lined):
                return False
        return all(
            holds(
                claim,
                before[claim.channel, claim.first, claim.place],
                self.watermark,
                lined,
            )
            for claim in claims
        )

    def _sort_out(
        self, tables: Iterable[_ReceivedTable], counts: dict[str, int]
    ) -> list[EventTable]:
        """Return the events of tables that are on time; count all, and emit rows for late ones."""
        good = (self._judge_table(received, counts) for received in tables)
        return [table for table in good if len(table)]

    def _judge_table(self, received: _ReceivedTable, counts: dict[str, int]) -> EventTable:
        import numpy as np

        watermark, repeated = self._find_standings(received)
        received = self._drop_repeated(received, repeated, counts)
        table, watermark = received.table, watermark[~repeated]
        counted = self._counts_here(table)
        counts["input"] += _count(counted, len(table))
        if received.behind is None:
            late = table.times <= watermark
            if not late.any():
                return table
            bounds = watermark
        else:
            late = np.ones(len(table), np.bool_)
            bounds = np.maximum(received.behind, watermark)
        shown = late if counted is None else late & counted
        counts["late"] += int(shown.sum())
        events = table.take(shown).events(self.plan.names)
        for event, bound in zip(events, bounds[shown].tolist(), strict=True):
            self.emitted.append(self._describe_late(event, bound - event.time))
        return table.take(~late)

    def _find_standings(self, received: _ReceivedTable) -> tuple[Array, Array]:
        """Return the watermark before the chunk of each event, and which events' numbers came before."""
        import numpy as np

        seqs = received.table.seqs
        name, _, place = self._key(received)
        mine = self._chunks[name, place]
        firsts = np.array([first for first, _ in mine], np.int64)
        chunks = np.searchsorted(firsts, seqs, "right") - 1
        watermarks = np.array([standing.watermark for _, standing in mine], np.int64)
        last = [standing.last for _, standing in mine]
        known = np.array([number is not None for number in last], np.bool_)
        numbers = np.array([number or 0 for number in last], np.int64)
        return watermarks[chunks], known[chunks] & (seqs <= numbers[chunks])

    def _drop_repeated(
        self, received: _ReceivedTable, repeated: Array, counts: dict[str, int]
    ) -> _ReceivedTable:
        """Reject the events of a table whose numbers were read before its chunk."""
        table = received.table
        if not repeated.any():
            return received
        counted = self._counts_here(table)
        shown = repeated if counted is None else repeated & counted
        for event in table.take(shown).events(self.plan.names):
            counts["input"] += 1
            counts["rejected"] += 1
            self.emitted.append(ResultRow("rejected", *describe_repeated(event)))
        behind = None if received.behind is None else received.behind[~repeated]
        return received._replace(table=table.take(~repeated), behind=behind)

    def _counts_here(self, table: EventTable) -> Array | None:
        """Return which events of a table this shard counts; None if all."""
        layout = self.job.layout
        event_type: EventType = self.job.program.event_types[table.event_type]
        if (
            layout.way in ("sequential", "keyed")
            or event_type not in layout.cuts
            or layout.shards == 1
        ):
            return None
        here: Array = find_homes(layout, table, self.plan.names) == self.number
        return here

    def _release(
        self, good: list[EventTable], pages: dict[int, tuple[int, int]]
    ) -> dict[int, list[EventTable]]:
        """Return the stable events, by event type; write the others into pages, by time."""
        kept = take_pending(self.store, pages, self.watermark)
        tables = [*good, *(read_table(self.plan, data)[0] for data in kept)]
        stable: dict[int, list[EventTable]] = {}
        for table in tables:
            ripe = table.times <= self.watermark
            if ripe.all():
                stable.setdefault(table.event_type, []).append(table)
                continue
            if ripe.any():
                stable.setdefault(table.event_type, []).append(table.take(ripe))
            self.put_off(table.take(~ripe), pages)
        return stable

    def put_off(self, waiting: EventTable, pages: dict[int, tuple[int, int]]) -> None:
        """Write pending events into pages, by time."""
        import numpy as np

        waiting = waiting.take(np.argsort(waiting.times, kind="stable"))
        for start in range(0, len(waiting), page_sizes.PENDING_ROWS):
            part = waiting.take(slice(start, start + page_sizes.PENDING_ROWS))
            counted = _count(self._counts_here(part), len(part))
            add_pending(self.store, pages, write_table(part), int(part.times[0]), counted)

    def _fold_stable(
        self,
        stable: dict[int, list[EventTable]],
        ahead: list[EarlyDelta],
        gathered: list[Gathered],
        counts: dict[str, int],
    ) -> None:
        if not stable and not ahead and not gathered:
            return
        # A relay of a root forwards rows.
        outputs = None if self.job.layout.has_root else self.tables
        counting = Counting(
            self.number, self.emitted, counts, self.plan.names, self._counts_here, outputs
        )
        strings = Strings()
        tables = {event_type: concatenate(group, strings) for event_type, group in stable.items()}
        self.deltas = Folds(self.job, self.store, counting).fold(tables, ahead, gathered)

    def _fold_windows(
        self,
        windows: WindowPlan,
        stable: dict[int, list[EventTable]],
        slices: list[WindowSlices],
        counts: dict[str, int],
    ) -> None:
        """Fold stable events into slices, and emit the rows of complete windows."""
        strings = Strings()
        for tables in stable.values():
            table = self._set_far_aside(concatenate(tables, strings), counts)
            counts["processed"] += len(table)
            slices.append(fold_table(windows, table))
        closed = SliceBook(windows, self.store).close(slices, self.watermark)
        if closed is not None and len(closed.starts):
            rank = self.job.program.ranks[windows.timer]
            self.tables.append(describe_windows(windows, rank, closed))

    def _set_far_aside(self, table: EventTable, counts: dict[str, int]) -> EventTable:
        """Return the events whose windows fit into 64 bits; reject the others, as the program does."""
        near = is_near(table.times)
        if near.all():
            return table
        for event in table.take(~near).events(self.plan.names):
            counts["rejected"] += 1
            failed = attempt(self._check_reach, event)
            assert isinstance(failed, Failed), "windows accept this time"
            self.emitted.append(describe_event("rejected", event, failed.describe(event)))
        return table.take(near)

    def _check_reach(self, event: Event) -> None:
        """Raise if a time is out of range for windows, as the handler of the event does."""
        try:
            check_reach(event.time)
        except InputError as error:
            note_place(error, self.job.program.initial.handlers[event.event_type].where)
            raise


def write_table(table: EventTable) -> bytes:
    """Return a table as bytes."""
    more = {"channel": table.channels, "seq": table.seqs}
    return write_columns(table.columns, more, {"type": table.event_type})


def read_table(
    plan: ColumnPlan, data: bytes
) -> tuple[EventTable, dict[str, Any], dict[str, Array]]:
    """Return a table, its note, and its additional arrays."""
    columns, more, note = read_columns(lambda note: plan.layouts[note["type"]], data)
    table = EventTable(note["type"], more.pop("channel"), more.pop("seq"), columns)
    return table, note, more


def _count(counted: Array | None, everything: int) -> int:
    return everything if counted is None else int(counted.sum())
