"""The root: joins what the shards folded before each event that it runs, and runs these in order.

Whoever had something to say of the root's state hears of it last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import Event
from anabranch.model.order import OrderKey
from anabranch.model.step import describe_failure
from anabranch.plan.leaves import join_deltas
from anabranch.spark.outlook import Outlook
from anabranch.spark.said import Said, describe_event, describe_output
from anabranch.spark.shards import Delta, Job
from anabranch.spark.stores import Inventory, Store, report_missing


class Root:
    """A root at work on one batch.

    All shards share one frontier, so the deltas that an event waits for arrive together with it.
    `states` holds the state after each cut, if leaves have something to say of it.
    """

    def __init__(self, job: Job, store: Store) -> None:
        self.job = job
        self.store = store
        data = store.read("ledger")
        self._begun = data is not None
        if not self._begun and store.read("spine") is not None:  # They are written together.
            raise report_missing(store, "ledger")
        self.ledger = Ledger() if data is None else Ledger(*job.codec.decode(data))
        self.said: list[Said] = []
        self.states: list[tuple[OrderKey, Any]] = []

    def restore(self, spine: Any) -> None:
        """Begin with a state that was folded elsewhere."""
        self.store.write("spine", self.job.codec.encode(spine))
        self.store.write("ledger", self.job.codec.encode(tuple(self.ledger)))

    def process(self, deltas: Iterable[Delta], ahead: Iterable[Delta] = ()) -> None:
        """Run the events of a batch on the joined state; `ahead` is what is pending and has changed."""
        waiting: dict[OrderKey, list[Delta]] = {}
        for delta in deltas:
            waiting.setdefault(delta.key, []).append(delta)
        if waiting:
            self._run(waiting)
        if self.job.mode == "speculative":
            program, codec = self.job.program, self.job.codec
            outlook = Outlook(program, codec, self.store, begun=self._begun)
            if not self._begun and not waiting:
                self.restore(program.init)
            self.said = outlook.correct(self.said, waiting, ahead)

    def _run(self, waiting: dict[OrderKey, list[Delta]]) -> None:
        job = self.job
        program, codec = job.program, job.codec
        data = self.store.read("spine")
        if data is None and self._begun:
            raise report_missing(self.store, "spine")
        state = program.init if data is None else codec.decode(data)
        processed = rejected = 0
        for key in sorted(waiting):
            # In order of shards: floats in lanes do not mind, and others are exact.
            parts = sorted(waiting[key], key=lambda delta: delta.shard)
            for part in parts:
                state = join_deltas(program, state, part.states)
            (event,) = [part.event for part in parts if part.event is not None]
            try:
                state, outputs = program.initial.step(state, event)
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises
                rejected += 1
                self.said.append(describe_event("rejected", event, describe_failure(event, error)))
                state = program.initial.set_aside(state, event)
            else:
                processed += 1
                self.said += [describe_output(v, event, i, key) for i, v in enumerate(outputs)]
            if job.wiring.speaking and type(event.data) in job.wiring.cuts:
                self.states.append((key, state))
        self.ledger = self.ledger._replace(
            processed=self.ledger.processed + processed, rejected=self.ledger.rejected + rejected
        )
        self.store.write("spine", codec.encode(state))
        self.store.write("ledger", codec.encode(tuple(self.ledger)))


class Speaker:
    """A shard's leaves at their second task: to say what depends on the root's state.

    Leaves are independent of each other, so what one says depends on the state after the last cut
    before it, and on nothing that came since (law C3).
    """

    def __init__(self, job: Job, store: Store) -> None:
        self.job = job
        data = store.read("ledger")
        counts = () if data is None else job.codec.decode(data)
        fields = len(Ledger._fields)
        self.ledger = Ledger(*counts[:fields])
        self.store = Inventory(store, *counts[fields:])
        self.said: list[Said] = []

    def restore(self, state: Any) -> None:
        """Begin with the state after the last cut."""
        self.store.write("state", self.job.codec.encode(state))
        counts = (*self.ledger, dict(self.store.held))
        self.store.write("ledger", self.job.codec.encode(counts))

    def process(
        self, unsaid: Iterable[tuple[OrderKey, Event]], states: Iterable[tuple[OrderKey, Any]]
    ) -> None:
        """Say what is unsaid, each event on the state that it met."""
        codec, state_type = self.job.codec, self.job.program.initial
        cuts = sorted(states, key=lambda pair: pair[0])
        data = self.store.read("state")
        state = self.job.program.init if data is None else codec.decode(data)
        place = rejected = 0
        for key, event in sorted(unsaid, key=lambda pair: pair[0]):
            while place < len(cuts) and cuts[place][0] < key:
                state = cuts[place][1]
                place += 1
            try:
                _, outputs = state_type.step(state, event)
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises
                rejected += 1
                self.said.append(describe_event("rejected", event, describe_failure(event, error)))
                continue
            self.said += [describe_output(v, event, i, key) for i, v in enumerate(outputs)]
        known = set(self.store.held)
        if cuts:
            self.store.write("state", codec.encode(cuts[-1][1]))
        held = dict(self.store.held)
        if rejected or known != set(held):
            # The shard had counted it, when it folded it.
            self.ledger = self.ledger._replace(
                processed=self.ledger.processed - rejected, rejected=self.ledger.rejected + rejected
            )
            self.store.write("ledger", codec.encode((*self.ledger, held)))
