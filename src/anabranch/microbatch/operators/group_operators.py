"""Operators of shards and roots: each processes a batch's rows of one group, and returns rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow as pa

from anabranch.eventtime.held_back import ChannelStatus, name_holders
from anabranch.microbatch.columns.allocator import keep_freed
from anabranch.microbatch.exchange.deltas import Delta
from anabranch.microbatch.exchange.envelope_kinds import Kind, is_restore
from anabranch.microbatch.exchange.envelopes import CLOCK
from anabranch.microbatch.exchange.packed_rows import make_table, pack, summarize
from anabranch.microbatch.exchange.partition_keys import find_numbers
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_ledger
from anabranch.microbatch.ingest.channel_verdicts import describe_standings
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.restore.shard_restore import (
    AnyShard,
    Restored,
    restore_shard,
)
from anabranch.microbatch.shards.columnar_shard import ColumnShard
from anabranch.microbatch.shards.deferred_outputs import DeferredOutputs
from anabranch.microbatch.shards.root import Root
from anabranch.microbatch.shards.row_shard import RowShard
from anabranch.microbatch.speculative.row_barrier import RowBarrier
from anabranch.microbatch.store.handle_store import SparkStore
from anabranch.microbatch.store.state_store import MemoryStore, Store, StorePart
from anabranch.model.events import Event

MAIL_SCHEMA = "to int, kind string, payload binary"
"""The messages between operators, by `Kind`. A negative number is a relay: messages that need no root bypass
it, shard by shard, instead of queueing there."""


_Message = tuple[int, str, Any]


class GroupOperator:
    """Base class of operators: the job, a store, and messages between operators."""

    role = "shard"

    def __init__(self, store: SparkStore | MemoryStore, job: Job) -> None:
        keep_freed()
        self._store = store
        self._job = job

    def handle(self, key: int, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        """Process a batch's rows of one group."""
        number = self._find_number(key)
        self._store.owner = f"{self.role} {number}"
        return self.work(number, rows)

    def _find_number(self, key: int) -> int:
        """Return the number of the shard, or of the root, with a key."""
        return key

    @abstractmethod
    def work(self, number: int, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        """Process a batch's rows for a shard or a root; return messages or result rows."""

    def _send(self, messages: list[_Message]) -> pd.DataFrame:
        encode = self._job.codec.encode
        rows = [(to, kind, encode(data)) for to, kind, data in messages]
        return pd.DataFrame(rows, columns=["to", "kind", "payload"]).astype({"to": "int32"})

    def _write_rows(
        self, result_rows: list[ResultRow], tables: Sequence[pa.Table] = ()
    ) -> pd.DataFrame:
        """Return result rows, and tables of them, in packs."""
        table = make_table(result_rows, tables)
        packs = list(pack(table))
        summaries = [summarize(table), *([None] * (len(packs) - 1))] if packs else []
        return pd.DataFrame({"pack": packs, "ledger": pd.Series(summaries, dtype=object)})

    def _read(self, rows: Iterator[pd.DataFrame]) -> Iterator[tuple[str, Any]]:
        decode = self._job.codec.decode
        for frame in rows:
            for kind, payload in zip(frame["kind"], frame["payload"], strict=True):
                yield kind, decode(bytes(payload))


class LeafOperator(GroupOperator):
    """Run one shard per group."""

    def _find_number(self, key: int) -> int:
        return find_numbers(self._job.layout.shards)[key]

    def work(self, number: int, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        """Process a batch's envelopes."""
        shard, spines = _run_shard(self._job, number, self._store, rows)
        result_rows = [*shard.emitted, _describe_shard(shard)]
        if not self._job.layout.has_root:
            return self._write_rows(result_rows, shard.tables)
        relay = -1 - shard.number
        messages: list[_Message] = [(relay, Kind.RESULT_ROWS, [tuple(row) for row in result_rows])]
        messages += [(root, Kind.RESTORE_SPINE, spine) for root, spine in spines.items()]
        if shard.deferred:
            messages.append(
                (relay, Kind.DEFERRED, [(key, tuple(event)) for key, event in shard.deferred])
            )
        # A root without a message in a batch would be missing from its ledger; so one shard always sends one.
        own = {shard.number} if self._job.layout.way == "keyed" or shard.number == 0 else set()
        for root in sorted({delta.root for delta in shard.deltas} | own):
            deltas = [_lower(delta) for delta in shard.deltas if delta.root == root]
            messages.append((root, Kind.DELTAS, deltas))
        if shard.ahead:
            messages.append((0, Kind.PENDING_DELTAS, [_lower(delta) for delta in shard.ahead]))
        return self._send(messages)


class RootOperator(GroupOperator):
    """Run a root or a relay."""

    role = "root"

    def work(self, number: int, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        """Join a batch's deltas and run its markers."""
        received = list(self._read(rows))
        deferring = bool(self._job.layout.deferring)
        if number < 0:
            if deferring:
                return self._send([(-1 - number, kind, data) for kind, data in received])
            return self._write_rows([ResultRow(*row) for _, rows in received for row in rows])
        root = Root(self._job, self._store)
        spines = [spine for kind, spine in received if kind == Kind.RESTORE_SPINE]
        for spine in spines:
            root.restore(spine)
        deltas, ahead = (
            [_lift(row) for kind, rows in received if kind == wanted for row in rows]
            for wanted in (Kind.DELTAS, Kind.PENDING_DELTAS)
        )
        root.process(deltas, ahead)
        result_rows = [*root.emitted, describe_ledger("root", number, root.ledger, {})]
        if not deferring:
            return self._write_rows(result_rows)
        messages: list[_Message] = [(number, Kind.RESULT_ROWS, [tuple(row) for row in result_rows])]
        for spine in spines:
            messages += [
                (shard, Kind.RESTORE_SPINE, spine) for shard in range(self._job.layout.shards)
            ]
        if root.states:
            messages += [
                (shard, Kind.ROOT_STATES, root.states) for shard in range(self._job.layout.shards)
            ]
        return self._send(messages)


class DeferredOutputOperator(GroupOperator):
    """Evaluate the deferred outputs of a shard's leaves on the root's state."""

    role = "deferred_outputs"

    def work(self, number: int, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        """Emit the deferred outputs of a batch."""
        found: dict[str, list[Any]] = {
            Kind.RESULT_ROWS: [],
            Kind.DEFERRED: [],
            Kind.ROOT_STATES: [],
        }
        deferred_outputs = DeferredOutputs(self._job, self._store)
        for kind, data in self._read(rows):
            if kind == Kind.RESTORE_SPINE:
                deferred_outputs.restore(data)
            else:
                found[kind] += data
        deferred = ((place, Event(*event)) for place, event in found[Kind.DEFERRED])
        deferred_outputs.process(deferred, found[Kind.ROOT_STATES])
        result_rows = [ResultRow(*row) for row in found[Kind.RESULT_ROWS]]
        counts = describe_ledger("deferred_outputs", number, deferred_outputs.ledger, {})
        return self._write_rows([*result_rows, *deferred_outputs.emitted, counts])


class SingleShardOperator(GroupOperator):
    """Run the only shard, the root and the deferred outputs, without messages between them."""

    def _find_number(self, key: int) -> int:
        return find_numbers(self._job.layout.shards)[key]

    def work(self, number: int, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        """Process a batch's envelopes, join the deltas, and emit deferred outputs."""
        job = self._job
        shard, spines = _run_shard(job, number, StorePart(self._store, "shard"), rows)
        root = Root(job, StorePart(self._store, "root"))
        for spine in spines.values():
            root.restore(spine)
            if job.layout.deferring:
                DeferredOutputs(job, StorePart(self._store, "deferred_outputs")).restore(spine)
        root.process(shard.deltas, shard.ahead)
        result_rows = [
            *shard.emitted,
            *root.emitted,
            _describe_shard(shard),
            describe_ledger("root", number, root.ledger, {}),
        ]
        if job.layout.deferring:
            deferred_outputs = DeferredOutputs(job, StorePart(self._store, "deferred_outputs"))
            deferred_outputs.process(shard.deferred, root.states)
            result_rows += [
                *deferred_outputs.emitted,
                describe_ledger("deferred_outputs", number, deferred_outputs.ledger, {}),
            ]
        return self._write_rows(result_rows)


class BarrierOperator(GroupOperator):
    """Hold back the rows of a speculative query until they are settled."""

    role = "barrier"

    def __init__(self, store: SparkStore | MemoryStore) -> None:
        """Make a barrier, which needs no job: rows contain all that it uses."""
        self._store = store

    def work(self, number: int, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        """Process a batch's rows, in which `time`, `seq` and `distance` are texts."""
        taken = [ResultRow(*row) for frame in rows for row in _read_result_rows(frame)]
        return self._write_rows(RowBarrier(self._store).process(taken))


def _run_shard(job: Job, number: int, store: Store, rows: Iterator[pd.DataFrame]) -> Restored:
    """Run a shard on a batch, or on a savepoint, which alone contains states for the roots."""
    first = next(rows, None)
    clock_ms = None if first is None or CLOCK not in first else int(first[CLOCK].iloc[0])
    envelopes = (
        (kind, bytes(payload))
        for frame in chain(() if first is None else (first,), rows)
        for kind, payload in zip(frame["kind"], frame["payload"], strict=True)
    )
    if first is not None and is_restore(first["kind"].iloc[0]):
        return restore_shard(job, number, store, envelopes)
    shard = (RowShard if job.columns is None else ColumnShard)(job, number, store)
    shard.process(envelopes, clock_ms)
    return Restored(shard, {})


def _describe_shard(shard: AnyShard) -> ResultRow:
    more: dict[str, Any] = {"watermark": shard.watermark, "channels": shard.watermarks}
    more["input_events"] = shard.input_events
    if shard.number == 0:  # All shards have the same standings; one reports them.
        about = describe_standings(shard.job.channels, shard.standings)
        statuses = {
            name: ChannelStatus(time, **about[name]) for name, time in shard.watermarks.items()
        }
        holders = name_holders(shard.watermark, statuses)
        more |= {"about": about} | ({"held_back_by": holders} if holders else {})
    return describe_ledger("shard", shard.number, shard.ledger, more)


def _read_result_rows(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    plain = frame[list(ResultRow._fields)].astype(object)
    for row in plain.where(plain.notna(), None).itertuples(index=False, name=None):
        kind, name, time, event_type, channel, seq, *rest, distance, form = row
        numbers = (None if text is None else int(text) for text in (time, seq, distance))
        time, seq, distance = numbers
        yield (kind, name, time, event_type, channel, seq, *rest, distance, form)


def _lower(delta: Delta) -> tuple[Any, ...]:
    event = delta.event
    return (*delta[:3], None if event is None else tuple(event), delta.root)


def _lift(data: tuple[Any, ...]) -> Delta:
    key, shard, states, event, root = data
    return Delta(key, shard, states, None if event is None else Event(*event), root)
