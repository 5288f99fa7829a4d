"""One batch of a shard: the steps that the row path and the columnar path share.

Independent of Spark: a shard is a function of its store and the envelopes of a batch, so that
tests can cut the input into batches in any way without a cluster.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.joining import Taking, join_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.deltas import Delta
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import Chunk, unpack_chunks
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_late
from anabranch.microbatch.ingest.channel_verdicts import Standing, pass_over
from anabranch.microbatch.job.description import describe_job
from anabranch.microbatch.job.fingerprint import check_fingerprint, find_added, name_part
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.store.shard_head import Head
from anabranch.microbatch.store.state_store import Inventory, Store, report_missing
from anabranch.model.events import FOREVER, Event
from anabranch.model.order import OrderKey

if TYPE_CHECKING:
    import pyarrow as pa

Pages = dict[int, tuple[int, int]]
"""For each page of pending events, its earliest time, and the number of its events counted here."""


class ShardBase:
    """A shard during one batch, on either path.

    `process` calls the steps in order; each path implements three of them: `_receive` an envelope, `_judge`
    its events, and `_fold` the stable ones. `emitted` are the result rows. `ahead` are the changed deltas of
    pending segments: those that `deltas` would contain if no more events arrived. `deferred` are events of
    leaves whose outputs need the root's state. `tables` are rows of outputs that were made as columns.
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
        self._added = find_added(self.head.made_by, job.channels)
        self.store = Inventory(store, self.head.held)
        if data is None:
            self.store.write("description", describe_job(job).write())
        self.emitted: list[ResultRow] = []
        self.tables: list[pa.Table] = []
        self.deltas: list[Delta] = []
        self.ahead: list[Delta] = []
        self.deferred: list[tuple[OrderKey, Event]] = []
        self.standings: dict[str, Standing] = {}
        self.watermarks: dict[str, int] = {}
        self.watermark = NEVER
        self._begun: dict[str, Standing] = {}
        self.input_events = 0

    def process(self, envelopes: Iterable[tuple[str, bytes]], clock_ms: int | None = None) -> None:
        """Process a batch; set `emitted`, `tables`, `deltas`, `ahead` and `deferred` to its results."""
        job = self.job
        chunks: list[Chunk] = []
        counts = dict.fromkeys(Ledger._fields, 0)
        for kind, payload in envelopes:
            if kind == Kind.CHUNKS:
                chunks += unpack_chunks(job.codec, payload)
            elif kind == Kind.REJECTED:
                self._reject_raw(payload, counts)
            else:
                self._receive(kind, payload)
        if self._added:
            self._admit(self._added)
        self._begun, announced = self._take_part({chunk.channel for chunk in chunks})
        after = self._pass_over(self._judge(self._begun, chunks, counts), chunks, clock_ms)
        self.note_standings(after)
        if job.ended:
            self.watermark = FOREVER
        pages = self._fold(counts)
        counts["pending"] = sum(n for _, n in pages.values()) - self.ledger.pending
        ledger = (a + counts[f] for a, f in zip(self.head.ledger, Ledger._fields, strict=True))
        kept = {name: tuple(standing) for name, standing in after.items()}
        self.input_events = counts["input"]
        self.keep_head(kept, tuple(ledger), pages, clock_ms, announced)

    def _admit(self, added: list[str]) -> None:
        """Record that the state is made with some more channels from now on."""
        current = self.job.fingerprint()
        parts = {part: current[part] for part in map(name_part, added)}
        self.head = self.head._replace(made_by={**self.head.made_by, **parts})
        self.store.write("description", describe_job(self.job).write())

    def _take_part(self, present: set[str]) -> Taking:
        """Return the standings of a batch's channels before it; added channels join here."""
        stored, announced = self.head.standings, self.head.announced
        known = {
            name: Standing(*stored.get(name, ()))
            for name in self.job.channels
            if name not in self._added and name not in announced
        }
        return join_channels(known, self._added, announced, present)

    @abstractmethod
    def _receive(self, kind: str, payload: bytes) -> None:
        """Store an envelope of events."""

    @abstractmethod
    def _judge(
        self, before: dict[str, Standing], chunks: list[Chunk], counts: dict[str, int]
    ) -> dict[str, Standing]:
        """Check the events against their channels; return the standings of these."""

    @abstractmethod
    def _fold(self, counts: dict[str, int]) -> Pages:
        """Fold the stable events, keep the others; return the pages of pending events."""

    def note_standings(self, standings: Mapping[str, Standing]) -> None:
        """Set the standings of the channels that take part."""
        self.standings = {name: standings[name] for name in self.job.channels if name in standings}
        self.watermarks = {name: standing.watermark for name, standing in self.standings.items()}
        self.watermark = min(self.watermarks.values(), default=0)

    def keep_head(
        self,
        standings: dict[str, tuple[Any, ...]],
        ledger: tuple[int, ...],
        pages: Pages,
        clock_ms: int | None,
        announced: tuple[str, ...] = (),
    ) -> None:
        """Write the head, which the next batch starts from."""
        held = dict(self.store.held)
        self.head = Head(standings, ledger, pages, self.head.made_by, clock_ms, held, announced)
        self.store.write("head", self.job.codec.encode(tuple(self.head)))

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of the events that this shard counts."""
        return Ledger(*self.head.ledger)

    def _pass_over(
        self, standings: dict[str, Standing], chunks: list[Chunk], clock_ms: int | None
    ) -> dict[str, Standing]:
        """Return the standings without waiting for idle channels, if the batch has a recorded time."""
        if clock_ms is None:
            return standings
        before = self.head.clock_ms
        elapsed = 0 if before is None else clock_ms - before
        channels = {name: self.job.channels[name] for name in standings}
        return pass_over(channels, standings, chunks, elapsed)

    def _describe_late(self, event: Event, distance: int) -> ResultRow:
        """Return the row of a late event; the reason depends on when its channel joined or was silent."""
        begun = self._begun.get(event.channel, Standing())
        behind = event.time + distance
        return describe_late(
            event, distance, waived=behind == begun.waived, joined=behind == begun.joined
        )

    def _reject_raw(self, payload: bytes, counts: dict[str, int]) -> None:
        for rejected in self.job.codec.decode(payload):
            counts["input"] += 1
            counts["rejected"] += 1
            self.emitted.append(ResultRow("rejected", *rejected))
