"""The row path: a shard that folds Python objects, one event at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.eventtime.channels import set_time
from anabranch.eventtime.timers import Timetable, is_timer
from anabranch.microbatch.exchange.deltas import Delta
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import (
    Carried,
    Chunk,
    pack_events,
    unpack_events,
)
from anabranch.microbatch.exchange.result_rows import (
    describe_event,
    describe_output,
)
from anabranch.microbatch.ingest.channel_verdicts import BatchVerdicts, Standing, judge
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.shards.shard_base import Pages, ShardBase
from anabranch.microbatch.speculative.forked_shard import ForkedShardSpeculation
from anabranch.microbatch.speculative.keyed_shard import PendingOutputs
from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.hashed_book import HashedBook
from anabranch.microbatch.store.shard_head import add_pending, take_pending
from anabranch.microbatch.store.state_store import Store
from anabranch.model.events import Event
from anabranch.model.failures import Failed, attempt
from anabranch.model.order import OrderKey, sort_events
from anabranch.model.program import Program
from anabranch.model.shapes import EntryShape
from anabranch.model.slices import field_value
from anabranch.model.values.event_times import time_of
from anabranch.model.values.maps import Map
from anabranch.state.sharing import Held


class RowShard(ShardBase):
    """A shard whose events and states are Python objects."""

    def __init__(self, job: Job, number: int, store: Store) -> None:
        super().__init__(job, number, store)
        self._carried: list[Carried] = []
        self._good: list[Event] = []

    def _receive(self, kind: str, payload: bytes) -> None:
        assert kind == Kind.EVENTS, f"a row shard does not accept {kind}"
        self._carried += unpack_events(self.job.codec, self.job.program.event_types, payload)

    def _judge(
        self, before: dict[str, Standing], chunks: list[Chunk], counts: dict[str, int]
    ) -> dict[str, Standing]:
        judgement = judge(self.job.channels, before, chunks, self._carried)
        self._good = list(self._sort_out(self._carried, judgement, counts))
        return judgement.standings

    def _fold(self, counts: dict[str, int]) -> Pages:
        good = self._good
        stable, wakes, waiting = self._release(good, self.watermark)
        timers = self._fold_stable(stable, wakes, self.watermark, counts)
        pages = self.put_off(waiting + timers)
        if self.job.mode == "speculative":
            self._speculate(good, stable, wakes, timers)
        return pages

    def _counts_here(self, event: Event) -> bool:
        # A marker is sent to every shard and counted in one; a timer is not input.
        program = self.job.program
        if program.timers and is_timer(program, event):
            return False
        return self.job.layout.counts(event, self.number)

    def _sort_out(
        self, carried: list[Carried], judgement: BatchVerdicts, counts: dict[str, int]
    ) -> Iterator[Event]:
        channels, counts_here = self.job.channels, self._counts_here
        for (event, _, _, _), verdict in zip(carried, judgement.verdicts, strict=True):
            here = counts_here(event)
            counts["input"] += here
            if verdict is None:
                if channels[event.channel].in_arrival_order:
                    yield set_time(event, judgement.times[event.channel, event.seq or 0])
                else:
                    yield event
            elif here and isinstance(verdict, str):
                counts["rejected"] += 1
                self.emitted.append(describe_event("rejected", event, verdict))
            elif here:
                counts["late"] += 1
                self.emitted.append(self._describe_late(event, int(verdict)))

    def _release(
        self, good: list[Event], watermark: int
    ) -> tuple[list[tuple[OrderKey, Event]], list[Event], list[Event]]:
        """Return the stable events, in order, the stable timers, and the events that have to wait."""
        job, store, pages = self.job, self.store, self.head.pages
        events = list(good)
        for data in take_pending(store, pages, watermark):
            events += [
                carried.event for carried in unpack_events(job.codec, job.program.event_types, data)
            ]
        stable: list[Event] = []
        wakes: list[Event] = []
        waiting: list[Event] = []
        timers = {timer.event_type for timer in job.program.timers}
        for event in events:
            data = event.data
            if time_of(data) > watermark:
                waiting.append(event)
            elif timers and type(data) in timers:
                wakes.append(event)
            else:
                stable.append(event)
        return sort_events(job.program.ranks, stable), wakes, waiting

    def put_off(self, waiting: list[Event]) -> dict[int, tuple[int, int]]:
        """Write pending events into pages, by time; return all pages."""
        pages = self.head.pages
        self._ends: dict[int, int] = {}
        waiting = sorted(waiting, key=lambda event: event.time)
        for start in range(0, len(waiting), page_sizes.PENDING_OBJECTS):
            part = waiting[start : start + page_sizes.PENDING_OBJECTS]
            counted = sum(self._counts_here(event) for event in part)
            number = add_pending(self.store, pages, self._pack(part), part[0].time, counted)
            self._ends[number] = part[-1].time
        return pages

    def recall(self, waiting: list[Event], timers: list[Event]) -> None:
        """Fold restored pending events and timers ahead, whose outputs were emitted before the savepoint.

        These outputs depend only on the settled state and the pending events, so that they are the ones that were
        emitted. They are kept, to be retracted if they turn out wrong, and not emitted again.
        """
        self._speculate([*waiting, *timers], [], [], [])
        self.emitted = []

    def _speculate(
        self,
        good: list[Event],
        stable: list[tuple[OrderKey, Event]],
        wakes: list[Event],
        timers: list[Event],
    ) -> None:
        """Emit the outputs of pending events, and corrections of earlier ones; or leave that to the root."""
        job, pages, watermark = self.job, self.head.pages, self.watermark
        if job.layout.has_root:
            ahead = ForkedShardSpeculation(
                job.program, job.layout, job.codec, self.store, self.number
            )
            changed = ahead.take(good, watermark, pages, self._ends)
            self.ahead = [Delta(key, self.number, found, home, 0) for key, found, home in changed]
            self.emitted = ahead.correct(self.emitted, good, stable)
            return
        memory = PendingOutputs(job.program, job.codec, job.layout, self.store)
        fresh = [event for event in good if event.time > watermark]
        self.emitted = memory.correct(
            self.emitted,
            touched={memory.name(event) for event in good},
            settled={memory.name(event) for event in [*wakes, *(event for _, event in stable)]},
            waiting=[*fresh, *timers] if memory.by_key or not good else memory.read_pending(pages),
            state=self._load_state() if good else None,
            watermark=watermark,
            counts_here=self._counts_here,
        )

    def _pack(self, events: list[Event]) -> bytes:
        carried = (Carried(event, None, None) for event in events)
        return pack_events(self.job.codec, self.job.program.event_types, carried)

    def _fold_stable(
        self,
        stable: list[tuple[OrderKey, Event]],
        wakes: list[Event],
        watermark: int,
        counts: dict[str, int],
    ) -> list[Event]:
        """Fold stable events and timers; return the timers that states have set beyond the watermark."""
        layout = self.job.layout
        rooted = layout.way == "forked"
        apart: list[tuple[OrderKey, Event]] = []
        if layout.has_root:
            apart = [pair for pair in stable if rooted or layout.is_hot(pair[1])]
            self._fold_deltas(apart, counts)
        if rooted:
            return []
        here = [pair for pair in stable if not layout.is_hot(pair[1])] if apart else stable
        return self._fold_state(here, wakes, watermark, counts)

    def _fold_state(
        self,
        stable: list[tuple[OrderKey, Event]],
        wakes: list[Event],
        watermark: int,
        counts: dict[str, int],
    ) -> list[Event]:
        program = self.job.program
        timetable = Timetable(program, self._load_state(), stable, watermark, wakes)
        timers = {timer.event_type for timer in program.timers}
        types, step, counts_here = program.output_types, timetable.step, self._counts_here
        for key, event in timetable:
            woken = type(event.data) in timers
            here = woken or counts_here(event)
            outputs = attempt(step, event)
            if isinstance(outputs, Failed):
                timetable.set_aside(event)
                if here:
                    # A timer is not input; only one that fails is counted.
                    counts["input"] += woken
                    self._set_aside(event, outputs, counts)
                continue
            if here:
                counts["processed"] += not woken
                if outputs:
                    self.emitted += [
                        describe_output(v, event, i, key, types) for i, v in enumerate(outputs)
                    ]
        self._keep_state(timetable.state, changed=bool(stable or wakes))
        return timetable.left

    def _set_aside(self, event: Event, failed: Failed, counts: dict[str, int]) -> None:
        counts["rejected"] += 1
        self.emitted.append(describe_event("rejected", event, failed.describe(event)))

    def _load_state(self) -> Any:
        job = self.job
        if job.layout.way == "keyed":
            shape = job.program.initial.shape
            assert isinstance(shape, EntryShape)
            return HashedBook(self.store, job.codec, job.layout.shards)
        data = self.store.read("state")
        if job.layout.way == "shared":
            common = job.program.init.common if data is None else job.codec.decode(data)
            return Held(common, HashedBook(self.store, job.codec, job.layout.shards))
        return job.program.init if data is None else job.codec.decode(data)

    def _keep_state(self, state: Any, *, changed: bool) -> None:
        if isinstance(state, Held) and isinstance(state.each, HashedBook):
            self._keep_state(state.each, changed=changed)
            state = state.common
        if isinstance(state, HashedBook):
            state.flush()
        elif changed:
            self.store.write("state", self.job.codec.encode(state))

    def _fold_deltas(self, stable: list[tuple[OrderKey, Event]], counts: dict[str, int]) -> None:
        """Fold leaves from zero; send the deltas before a cut, and events that are not leaves, to the root."""
        if not stable:
            return
        program, codec, layout = self.job.program, self.job.codec, self.job.layout
        data = self.store.read("deltas")
        deltas: dict[str, Any] = {} if data is None else codec.decode(data)
        types = program.output_types
        for key, event in stable:
            event_type = type(event.data)
            if event_type not in layout.leaves:
                before = _take(program, deltas, event) if event_type in layout.cuts else {}
                # The root counts the event when it has run it.
                home = event if self._counts_here(event) else None
                if before or home:
                    self.deltas.append(Delta(key, self.number, before, home, layout.root(event)))
                continue
            state_type = program.state_type(layout.leaves[event_type])
            delta = deltas.get(state_type.name, state_type.begin_delta())
            stepped = attempt(state_type.step_delta, delta, event)
            if isinstance(stepped, Failed):
                self._set_aside(event, stepped, counts)
                continue
            deltas[state_type.name], outputs = stepped
            counts["processed"] += 1
            if event_type in layout.deferring:
                self.deferred.append((key, event))
            else:
                self.emitted += [
                    describe_output(v, event, i, key, types) for i, v in enumerate(outputs)
                ]
        self.store.write("deltas", codec.encode(deltas))


def _take(program: Program, deltas: dict[str, Any], event: Event) -> dict[str, Any]:
    """Remove from a shard's deltas those that an event waits for, and return them."""
    taken: dict[str, Any] = {}
    for name in list(deltas):
        shape = program.state_type(name).shape
        if shape.by is None or shape.by not in program.initial.handlers[event.event_type].enters:
            taken[name] = deltas.pop(name)
            continue
        # A marker of one entry leaves the other entries unchanged.
        value = field_value(event, shape.by, None)
        if value in deltas[name]:
            taken[name] = Map({value: deltas[name][value]})
            deltas[name] = deltas[name].remove(value)
    return taken
