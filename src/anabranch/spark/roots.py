"""The root: joins what the shards folded between markers, and runs the markers in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.eventtime.ledger import Ledger
from anabranch.model.step import describe_failure
from anabranch.spark.said import Said, describe_event, describe_output
from anabranch.spark.shards import Delta, Job
from anabranch.spark.stores import Store


class Root:
    """The root at work on one batch.

    All shards share one frontier, so the deltas of a marker arrive together, with the marker.
    """

    def __init__(self, job: Job, store: Store) -> None:
        self.job = job
        self.store = store
        data = store.read("ledger")
        self.ledger = Ledger() if data is None else Ledger(*job.codec.decode(data))
        self.said: list[Said] = []

    def process(self, deltas: Iterable[Delta]) -> None:
        """Run the markers of a batch on the joined state."""
        job = self.job
        program, codec = job.program, job.codec
        join = program.initial.shape.join
        assert join is not None
        waiting: dict[Any, list[Delta]] = {}
        for delta in deltas:
            waiting.setdefault(delta.key, []).append(delta)
        if not waiting:
            return
        data = self.store.read("spine")
        state = program.init if data is None else codec.decode(data)
        processed = rejected = 0
        for key in sorted(waiting):
            parts = sorted(waiting[key], key=lambda delta: delta.shard)
            assert len(parts) == job.wiring.shards, f"{len(parts)} shards know of marker {key}"
            for part in parts:
                state = join(state, part.state)
            event = next(part.marker for part in parts if part.marker is not None)
            try:
                state, outputs = program.initial.step(state, event)
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises
                rejected += 1
                self.said.append(describe_event("rejected", event, describe_failure(event, error)))
                continue
            processed += 1
            self.said += [describe_output(v, event, i, key) for i, v in enumerate(outputs)]
        self.ledger = self.ledger._replace(
            processed=self.ledger.processed + processed, rejected=self.ledger.rejected + rejected
        )
        self.store.write("spine", codec.encode(state))
        self.store.write("ledger", codec.encode(tuple(self.ledger)))
