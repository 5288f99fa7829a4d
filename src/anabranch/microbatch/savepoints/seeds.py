"""Seeds: a savepoint as the input of the first batch of a run that continues from it.

Tasks read the tables of the savepoint and distribute them to the shards, whose number and path may be others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.microbatch.columns.arrow_columns import arrow_to_columns, describe_layout
from anabranch.microbatch.columns.window_slices import WindowSlices
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.job.window_plan import WindowPlan
from anabranch.microbatch.restore.shares import (
    Envelope,
    deal_columns,
    deal_heads,
    deal_objects,
    deal_pending,
    deal_slices,
    deal_state,
    keeps_book,
)
from anabranch.model.events import Event
from anabranch.model.values.maps import Map
from anabranch.plan.foldable_leaves import join_deltas
from anabranch.savepoints.file_names import STATE
from anabranch.savepoints.folders import Savepoint
from anabranch.savepoints.objects import place_deltas, place_events, read_pending
from anabranch.state.durable.kinds import STR, Record
from anabranch.state.durable.row_tables import from_table
from anabranch.state.evolution.changes import Rekey
from anabranch.state.evolution.migration import Migration
from anabranch.state.evolution.verdicts import SAME

if TYPE_CHECKING:
    import pyarrow as pa


class Seed(NamedTuple):
    """A savepoint, and the job whose shards it is distributed to."""

    job: Job
    savepoint: Savepoint
    migration: Migration

    @property
    def tables(self) -> list[str]:
        """Return the tables of the state."""
        return self.savepoint.list_tables(STATE)

    @property
    def holds_slices(self) -> bool:
        """Return whether the saved state is slices of windows."""
        made_by = self.savepoint.manifest.fingerprint
        return bool(made_by.get("windows")) and made_by.get("state") == "in columns"

    @property
    def is_dealt_by_table(self) -> bool:
        """Return whether each table can be distributed alone: if entries are neither rekeyed nor joined."""
        moved = any(isinstance(change, Rekey) for change in self.job.program.changes)
        deltas = read_names(self.savepoint, place_deltas(self.migration.old).values())
        return self.job.layout.way == "keyed" and not moved and not deltas

    @property
    def parts(self) -> list[str | None]:
        """Return the parts that tasks read: each table that can be distributed alone, and None for the rest."""
        apart = self.holds_slices or self.is_dealt_by_table
        return [None, *(self.tables if apart else [])]

    def deal(self, part: str | None) -> Iterator[Envelope]:
        """Yield the envelopes of a part."""
        return self.deal_rest() if part is None else self.deal_table(part)

    def deal_rest(self) -> Iterator[Envelope]:
        """Yield everything but the state's tables; and these, if they can't be distributed one by one."""
        manifest, job = self.savepoint.manifest, self.job
        yield from deal_heads(
            job, manifest.list_standings(), manifest.list_ledger(), manifest.clock_ms
        )
        yield from deal_pending(job, self.read_pending())
        if self.holds_slices or self.is_dealt_by_table:
            return
        yield from deal_state(job, self.read_state())

    def deal_table(self, relative: str) -> Iterator[Envelope]:
        """Yield the envelopes of one of the state's tables."""
        table = self.savepoint.read_table(relative)
        if self.holds_slices:
            yield from deal_slices(
                self.job, read_slices(table, self._window_plan), self._find_closed()
            )
        elif self._fits_columns():
            yield from deal_columns(self.job, *self._read_columns(table))
        else:
            old = self.migration.old.state
            pairs = from_table(
                old.key, old.entry, table, self.migration.records, self.migration.codec
            )
            state = self.migration.migrate_state(Map(pairs))
            yield from deal_objects(self.job, state.entries().items())

    def read_pending(self) -> Iterator[Event]:
        """Yield the pending events, migrated to the types of the program."""
        old, migration = self.migration.old, self.migration
        for event_type, place in place_events(old).items():
            for event in read_pending(
                self.savepoint, place, old.events[event_type], migration.codec
            ):
                yield event._replace(data=migration.migrate_event(event.data))

    def read_state(self) -> Any:
        """Return the whole state, joined with the deltas of leaves."""
        migration, program = self.migration, self.job.program
        state = migration.migrate_state(
            migration.read_state(self.savepoint.read_table(name) for name in self.tables)
        )
        for name, place in place_deltas(migration.old).items():
            for relative in self.savepoint.list_tables(place):
                delta = migration.read_delta(name, [self.savepoint.read_table(relative)])
                state = join_deltas(program, state, {name: migration.migrate_delta(name, delta)})
        return state

    @property
    def _window_plan(self) -> WindowPlan:
        assert self.job.columns is not None
        assert self.job.columns.windows is not None
        return self.job.columns.windows

    def _find_closed(self) -> int:
        # Every batch closes windows up to the watermark.
        return self.savepoint.manifest.watermark

    def _fits_columns(self) -> bool:
        """Return whether a table has the columns of the job, so that entries need no conversion."""
        if not keeps_book(self.job) or self.job.layout.hot_keys:
            return False
        assert self.job.columns is not None
        layout = self.job.columns.kernels[self.job.program.initial.name].layout
        same = all(verdict.status == SAME for verdict in self.migration.verdicts)
        return same and describe_layout(layout) == self.migration.old.state.entry

    def _read_columns(self, table: pa.Table) -> tuple[Any, Any, Any]:
        import numpy as np
        import pyarrow as pa

        assert self.job.columns is not None
        layout = self.job.columns.kernels[self.job.program.initial.name].layout
        table = table.combine_chunks()
        entry = self.migration.old.state.entry
        parts = [_one_chunk(table.column(name)) for name in table.column_names[1:]]
        array = parts[0]
        if isinstance(entry, Record) and entry.fields:
            array = pa.StructArray.from_arrays(parts, [name for name, _ in entry.fields])
        columns = arrow_to_columns(layout, array)
        line = _one_chunk(table.column(0))
        if self.migration.old.state.key == STR:
            return columns.strings.codes(line.to_pylist()), columns.strings, columns
        keys = line.to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(keys, np.int64), None, columns


def read_names(savepoint: Savepoint, places: Any) -> list[str]:
    """Return the tables below some folders of a savepoint."""
    return [name for place in places for name in savepoint.list_tables(place)]


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def read_slices(table: pa.Table, plan: WindowPlan) -> WindowSlices:
    """Return the slices of windows in a savepoint. Older savepoints have the complement of a minimum."""
    import numpy as np

    from anabranch.kernels.numpy_columns import Strings

    def read(name: str) -> Any:
        return np.ascontiguousarray(table.column(name).to_numpy(), np.int64)

    names = table.column_names
    keyed = names[0] == "key"
    starts, events, parts = read("start"), read("events"), []
    for part, name in zip(plan.parts, plan.columns, strict=True):
        older = f"{part.op} {part.field}"
        column = read(older if older in names else name)
        parts.append(~column if part.op == "min" and older not in names else column)
    if not keyed:
        return WindowSlices(np.zeros(len(table), np.int64), starts, events, tuple(parts))
    line = table.column("key").to_pylist()
    if any(isinstance(key, str) for key in line):
        strings = Strings()
        return WindowSlices(strings.codes(line), starts, events, tuple(parts), strings)
    return WindowSlices(np.array(line, np.int64), starts, events, tuple(parts))
