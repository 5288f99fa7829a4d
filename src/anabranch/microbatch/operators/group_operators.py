"""Operators of shards and roots: each processes the messages of one group in a batch.

Independent of the runtime: a message is a kind and its payload, and the result is messages to the next operator,
or result rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.eventtime.held_back import ChannelStatus, name_holders
from anabranch.microbatch.columns.allocator import keep_freed
from anabranch.microbatch.exchange.deltas import Delta
from anabranch.microbatch.exchange.envelope_kinds import Kind, is_restore
from anabranch.microbatch.exchange.packed_rows import make_table
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
from anabranch.microbatch.store.state_store import Store, StorePart
from anabranch.model.events import Event

if TYPE_CHECKING:
    import pyarrow as pa

Message = tuple[int, str, bytes]
"""A message between operators: the number of the next group, the `Kind`, and the payload. A negative number is
a relay: messages that need no root bypass it, shard by shard, instead of queueing there."""

_Letter = tuple[int, str, Any]
"""A message before it is encoded."""


class Emitted(NamedTuple):
    """The result of an operator in a batch: messages to the next operator, or a table of result rows."""

    messages: list[Message]
    rows: pa.Table | None = None


class GroupOperator:
    """Base class of operators, which process the messages of a batch for one group: a shard, or a root."""

    role = "shard"

    def __init__(self, store: Store, job: Job) -> None:
        keep_freed()
        self._store = store
        self._job = job

    @abstractmethod
    def work(
        self, number: int, messages: Iterable[tuple[str, bytes]], clock_ms: int | None = None
    ) -> Emitted:
        """Process a batch's messages for a shard or a root; `clock_ms` is the recorded time of the batch."""

    def _send(self, letters: list[_Letter]) -> Emitted:
        encode = self._job.codec.encode
        return Emitted([(to, kind, encode(data)) for to, kind, data in letters])

    def _write_rows(self, result_rows: list[ResultRow], tables: Sequence[pa.Table] = ()) -> Emitted:
        return Emitted([], make_table(result_rows, tables))

    def _read(self, messages: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, Any]]:
        decode = self._job.codec.decode
        for kind, payload in messages:
            yield kind, decode(payload)


class LeafOperator(GroupOperator):
    """Run one shard per group."""

    def work(
        self, number: int, messages: Iterable[tuple[str, bytes]], clock_ms: int | None = None
    ) -> Emitted:
        """Process a batch's envelopes."""
        shard, spines = _run_shard(self._job, number, self._store, messages, clock_ms)
        result_rows = [*shard.emitted, _describe_shard(shard)]
        if not self._job.layout.has_root:
            return self._write_rows(result_rows, shard.tables)
        relay = -1 - shard.number
        letters: list[_Letter] = [(relay, Kind.RESULT_ROWS, [tuple(row) for row in result_rows])]
        letters += [(root, Kind.RESTORE_SPINE, spine) for root, spine in spines.items()]
        if shard.deferred:
            letters.append(
                (relay, Kind.DEFERRED, [(key, tuple(event)) for key, event in shard.deferred])
            )
        # A root without a message in a batch would be missing from its ledger; so one shard always sends one.
        own = {shard.number} if self._job.layout.way == "keyed" or shard.number == 0 else set()
        for root in sorted({delta.root for delta in shard.deltas} | own):
            deltas = [_lower(delta) for delta in shard.deltas if delta.root == root]
            letters.append((root, Kind.DELTAS, deltas))
        if shard.ahead:
            letters.append((0, Kind.PENDING_DELTAS, [_lower(delta) for delta in shard.ahead]))
        return self._send(letters)


class RootOperator(GroupOperator):
    """Run a root or a relay."""

    role = "root"

    def work(
        self, number: int, messages: Iterable[tuple[str, bytes]], clock_ms: int | None = None
    ) -> Emitted:
        """Join a batch's deltas and run its markers."""
        received = list(self._read(messages))
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
        letters: list[_Letter] = [(number, Kind.RESULT_ROWS, [tuple(row) for row in result_rows])]
        for spine in spines:
            letters += [
                (shard, Kind.RESTORE_SPINE, spine) for shard in range(self._job.layout.shards)
            ]
        if root.states:
            letters += [
                (shard, Kind.ROOT_STATES, root.states) for shard in range(self._job.layout.shards)
            ]
        return self._send(letters)


class DeferredOutputOperator(GroupOperator):
    """Evaluate the deferred outputs of a shard's leaves on the root's state."""

    role = "deferred_outputs"

    def work(
        self, number: int, messages: Iterable[tuple[str, bytes]], clock_ms: int | None = None
    ) -> Emitted:
        """Emit the deferred outputs of a batch."""
        found: dict[str, list[Any]] = {
            Kind.RESULT_ROWS: [],
            Kind.DEFERRED: [],
            Kind.ROOT_STATES: [],
        }
        deferred_outputs = DeferredOutputs(self._job, self._store)
        for kind, data in self._read(messages):
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

    def work(
        self, number: int, messages: Iterable[tuple[str, bytes]], clock_ms: int | None = None
    ) -> Emitted:
        """Process a batch's envelopes, join the deltas, and emit deferred outputs."""
        job = self._job
        part = StorePart(self._store, "shard")
        shard, spines = _run_shard(job, number, part, messages, clock_ms)
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


def list_operators(job: Job) -> tuple[type[GroupOperator], ...]:
    """Return the operators of a job, in the order in which messages pass through them."""
    layout = job.layout
    if layout.has_root and layout.shards == 1:
        return (SingleShardOperator,)
    root = (RootOperator,) if layout.has_root else ()
    return (LeafOperator, *root, *((DeferredOutputOperator,) if layout.deferring else ()))


def _run_shard(
    job: Job,
    number: int,
    store: Store,
    envelopes: Iterable[tuple[str, bytes]],
    clock_ms: int | None,
) -> Restored:
    """Run a shard on a batch, or on a savepoint, which alone contains states for the roots."""
    found = iter(envelopes)
    first = next(found, None)
    everything = found if first is None else chain((first,), found)
    if first is not None and is_restore(first[0]):
        return restore_shard(job, number, store, everything)
    shard = (RowShard if job.columns is None else ColumnShard)(job, number, store)
    shard.process(everything, clock_ms)
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


def _lower(delta: Delta) -> tuple[Any, ...]:
    event = delta.event
    return (*delta[:3], None if event is None else tuple(event), delta.root)


def _lift(data: tuple[Any, ...]) -> Delta:
    key, shard, states, event, root = data
    return Delta(key, shard, states, None if event is None else Event(*event), root)
