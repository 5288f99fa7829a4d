"""Snapshots: a run between two batches, whatever ran it and in however many parts."""

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
    """All that a run has to know to go on.

    `state` is that of the program's first state type, with everything folded that was stable.
    `deltas` are what leaves folded from zero and nobody has joined to it yet, by state type.
    `pending` are the events that came and are not stable yet. Timers are not kept: the state names them.
    """

    state: Any
    deltas: Mapping[str, Any] = field(default_factory=dict)
    pending: tuple[Event, ...] = ()
    standings: Mapping[str, Standing] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    clock_ms: int | None = None

    @property
    def watermark(self) -> int:
        """Return how far time has come: the least of the channels' watermarks."""
        return min((standing.watermark for standing in self.standings.values()), default=FOREVER)

    @property
    def floor(self) -> int:
        """Return where a channel begins that comes later: what lies before has been folded."""
        return self.watermark if self.standings else NEVER
