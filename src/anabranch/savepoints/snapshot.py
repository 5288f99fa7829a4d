"""Snapshots: the state of a run between two batches, independent of the runtime and its shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER, Event


@dataclass(frozen=True)
class Snapshot:
    """All data that a run needs to continue.

    `state` is that of the program's first state type, with all settled events folded. `deltas` are the
    deltas of leaves that are not joined to it yet, by state type. `pending` are the events that are not
    settled yet. Timers are not stored: they are computed from the state.
    """

    state: Any
    deltas: Mapping[str, Any] = field(default_factory=dict)
    pending: tuple[Event, ...] = ()
    standings: Mapping[str, Standing] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    clock_ms: int | None = None

    @property
    def watermark(self) -> int:
        """Return the least of the channels' watermarks."""
        return min((standing.watermark for standing in self.standings.values()), default=FOREVER)

    @property
    def floor(self) -> int:
        """Return the first watermark of a channel that is added later: earlier events have been folded."""
        return self.watermark if self.standings else NEVER
