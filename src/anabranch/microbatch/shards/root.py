"""The root: joins the deltas of shards before each event that it runs, and runs these events in order.

Deferred outputs get the root's states after its batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.deltas import Delta
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_event, describe_output
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.speculative.forked_root import ForkedRootSpeculation
from anabranch.microbatch.store.state_store import Store, report_missing
from anabranch.model.failures import Failed, attempt
from anabranch.model.order import OrderKey
from anabranch.plan.foldable_leaves import join_deltas


class Root:
    """A root during one batch.

    All shards have the same watermark, so the deltas that an event waits for arrive together with it.
    `states` contains the state after each cut, if leaves have deferred outputs.
    """

    def __init__(self, job: Job, store: Store) -> None:
        self.job = job
        self.store = store
        data = store.read("ledger")
        self._begun = data is not None
        if not self._begun and store.read("spine") is not None:  # They are written together.
            raise report_missing(store, "ledger")
        self.ledger = Ledger() if data is None else Ledger(*job.codec.decode(data))
        self._restored = False
        self.emitted: list[ResultRow] = []
        self.states: list[tuple[OrderKey, Any]] = []

    def restore(self, spine: Any) -> None:
        """Start with a state from a savepoint."""
        self._restored = True
        self._begin(spine)

    def _begin(self, spine: Any) -> None:
        self.store.write("spine", self.job.codec.encode(spine))
        self.store.write("ledger", self.job.codec.encode(tuple(self.ledger)))

    def process(self, deltas: Iterable[Delta], ahead: Iterable[Delta] = ()) -> None:
        """Run the events of a batch on the joined state; `ahead` are the changed deltas of pending segments."""
        waiting: dict[OrderKey, list[Delta]] = {}
        for delta in deltas:
            waiting.setdefault(delta.key, []).append(delta)
        if waiting:
            self._run(waiting)
        if self.job.mode == "speculative":
            program, codec = self.job.program, self.job.codec
            speculation = ForkedRootSpeculation(program, codec, self.store, begun=self._begun)
            if not self._begun and not waiting and not self._restored:
                self._begin(program.init)
            self.emitted = speculation.correct(self.emitted, waiting, ahead)
            if self._restored:  # They were emitted before the savepoint.
                self.emitted = []

    def _run(self, waiting: dict[OrderKey, list[Delta]]) -> None:
        job = self.job
        program, codec = job.program, job.codec
        data = self.store.read("spine")
        if data is None and self._begun:
            raise report_missing(self.store, "spine")
        state = program.init if data is None else codec.decode(data)
        processed = rejected = 0
        types = program.output_types
        for key in sorted(waiting):
            # In order of shards: floats in lanes do not depend on it, and others are exact.
            parts = sorted(waiting[key], key=lambda delta: delta.shard)
            for part in parts:
                state = join_deltas(program, state, part.states)
            (event,) = [part.event for part in parts if part.event is not None]
            stepped = attempt(program.initial.step, state, event)
            if isinstance(stepped, Failed):
                rejected += 1
                self.emitted.append(describe_event("rejected", event, stepped.describe(event)))
                state = program.initial.set_aside(state, event)
            else:
                processed += 1
                state, outputs = stepped
                self.emitted += [
                    describe_output(v, event, i, key, types) for i, v in enumerate(outputs)
                ]
            if job.layout.deferring and type(event.data) in job.layout.cuts:
                self.states.append((key, state))
        self.ledger = self.ledger._replace(
            processed=self.ledger.processed + processed, rejected=self.ledger.rejected + rejected
        )
        self.store.write("spine", codec.encode(state))
        self.store.write("ledger", codec.encode(tuple(self.ledger)))
