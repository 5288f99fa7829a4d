"""The job: the constants of a run, sent to every task once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from anabranch.eventtime.channels import Channel
from anabranch.microbatch.job.column_plan import ColumnPlan
from anabranch.microbatch.job.fingerprint import fingerprint
from anabranch.model.program import Program
from anabranch.plan.layout_plans import check_layout
from anabranch.plan.layouts import Layout
from anabranch.speculation.output_changes import Mode
from anabranch.state.durable.codec import Codec


@dataclass(frozen=True)
class Job:
    """The constants of a run, sent to every task once.

    `folders` are the `spark.folders.Folder`s whose files the run reads itself. A job is made on the driver,
    which checks its layout as a plan; a task that unpacks the job does not check it again.
    """

    program: Program
    layout: Layout
    channels: dict[str, Channel]
    codec: Codec
    ended: bool = False
    columns: ColumnPlan | None = None
    folders: tuple[Any, ...] = ()
    mode: Mode = "settled"
    row_reason: str | None = None
    """The reason why the run takes the row path, if it can't take the columnar path."""
    frames: int = 0
    """The number of frames among the sources: Spark identifies each by its place among them."""
    mixed: frozenset[str] = frozenset()
    """The channels of a channel column, in rows that were read before the channels were declared."""

    def __post_init__(self) -> None:
        check_layout(self.program, self.layout)

    def fingerprint(self) -> dict[str, str]:
        """Return the properties that the state depends on, computed once on the driver."""
        return self._made_by

    @cached_property
    def _made_by(self) -> dict[str, str]:
        found = fingerprint(self.program, self.layout, self.channels)
        state = "in objects" if self.columns is None else "in columns"
        # Older versions did not store the events of a pending key.
        mode = self.mode if self.mode == "settled" else "speculative, by segments and keys"
        return found | {"state": state, "mode": mode, "frames": str(self.frames)}
