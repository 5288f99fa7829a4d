"""What every shard keeps from batch to batch, whichever way it folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.deltas import Delta
from anabranch.microbatch.exchange.envelopes import (
    Chunk,
)
from anabranch.microbatch.exchange.result_rows import (
    ResultRow,
    describe_late,
)
from anabranch.microbatch.ingest.channel_verdicts import Standing, pass_over
from anabranch.microbatch.job.description import describe_job
from anabranch.microbatch.job.fingerprint import check_fingerprint
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.store.shard_head import Head
from anabranch.microbatch.store.state_store import Inventory, Store, report_missing
from anabranch.model.events import Event
from anabranch.model.order import OrderKey

if TYPE_CHECKING:
    import pyarrow as pa


class ShardBase:
    """What a shard keeps from batch to batch, and what comes of one, however it folds.

    `ahead` is what `deltas` would be if nothing more came, as far as it has changed. Unsaid is what leaves
    have to say of a state that only the root knows. `tables` are rows of outputs that were made as columns.
    """

    def __init__(self, job: Job, number: int, store: Store) -> None:
        self.job = job
        self.number = number
        data = store.read("head")
        if data is None:
            if not store.is_empty():
                raise report_missing(store, "head")
            self.head = Head({}, tuple(Ledger()), {}, job.fingerprint())
        else:
            self.head = Head(*job.codec.decode(data))
            check_fingerprint(self.head.made_by, job.fingerprint())
        self.store = Inventory(store, self.head.held)
        if data is None:
            self.store.write("description", describe_job(job).write())
        self.said: list[ResultRow] = []
        self.tables: list[pa.Table] = []
        self.deltas: list[Delta] = []
        self.ahead: list[Delta] = []
        self.unsaid: list[tuple[OrderKey, Event]] = []

    @property
    def ledger(self) -> Ledger:
        """Return what became of the events that this shard counts."""
        return Ledger(*self.head.ledger)

    def _pass_over(
        self, standings: dict[str, Standing], chunks: list[Chunk], clock_ms: int | None
    ) -> dict[str, Standing]:
        """Go on without idle sources, if the batch has a recorded time to tell them by."""
        if clock_ms is None:
            return standings
        before = self.head.clock_ms
        elapsed = 0 if before is None else clock_ms - before
        return pass_over(self.job.sources, standings, chunks, elapsed)

    def _describe_late(self, event: Event, distance: int) -> ResultRow:
        """Say how late an event is, and if it is so because the others had gone on without it."""
        waived = Standing(*self.head.standings.get(event.source, ())).waived
        return describe_late(event, distance, waived=event.time + distance == waived)

    def _reject_raw(self, payload: bytes, counts: dict[str, int]) -> None:
        for rejected in self.job.codec.decode(payload):
            counts["input"] += 1
            counts["rejected"] += 1
            self.said.append(ResultRow("rejected", *rejected))
