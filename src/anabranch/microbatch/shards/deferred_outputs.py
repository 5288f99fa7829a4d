"""Deferred outputs: outputs of leaves that need the state of the root."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_event, describe_output
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.store.state_store import Inventory, Store
from anabranch.model.events import Event
from anabranch.model.failures import Failed, attempt
from anabranch.model.order import OrderKey


class DeferredOutputs:
    """The second task of a shard's leaves: evaluate outputs that depend on the root's state.

    Leaves are independent of each other, so an output depends on the state after the last cut
    before its event, and on no later event (law C3).
    """

    def __init__(self, job: Job, store: Store) -> None:
        self.job = job
        data = store.read("ledger")
        counts = () if data is None else job.codec.decode(data)
        fields = len(Ledger._fields)
        self.ledger = Ledger(*counts[:fields])
        self.store = Inventory(store, *counts[fields:])
        self.emitted: list[ResultRow] = []

    def restore(self, state: Any) -> None:
        """Start with the state after the last cut."""
        self.store.write("state", self.job.codec.encode(state))
        counts = (*self.ledger, dict(self.store.held))
        self.store.write("ledger", self.job.codec.encode(counts))

    def process(
        self, deferred: Iterable[tuple[OrderKey, Event]], states: Iterable[tuple[OrderKey, Any]]
    ) -> None:
        """Emit the deferred outputs, each on the state before its event."""
        codec, state_type = self.job.codec, self.job.program.initial
        cuts = sorted(states, key=lambda pair: pair[0])
        data = self.store.read("state")
        state = self.job.program.init if data is None else codec.decode(data)
        place = rejected = 0
        types = self.job.program.output_types
        for key, event in sorted(deferred, key=lambda pair: pair[0]):
            while place < len(cuts) and cuts[place][0] < key:
                state = cuts[place][1]
                place += 1
            stepped = attempt(state_type.step, state, event)
            if isinstance(stepped, Failed):
                rejected += 1
                self.emitted.append(describe_event("rejected", event, stepped.describe(event)))
                continue
            self.emitted += [
                describe_output(v, event, i, key, types) for i, v in enumerate(stepped[1])
            ]
        known = set(self.store.held)
        if cuts:
            self.store.write("state", codec.encode(cuts[-1][1]))
        held = dict(self.store.held)
        if rejected or known != set(held):
            # The shard counted the event as processed when it folded it.
            self.ledger = self.ledger._replace(
                processed=self.ledger.processed - rejected, rejected=self.ledger.rejected + rejected
            )
            self.store.write("ledger", codec.encode((*self.ledger, held)))
