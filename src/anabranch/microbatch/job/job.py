"""The job: everything about a run that does not change, shipped to every task once."""

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
    """Everything about a run that does not change: shipped to every task once.

    `folders` are the `spark.folders.Folder`s whose files it reads itself. A job is made on the driver, where
    its layout is checked as a plan; a task that unpacks it does not check again.
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
    """Why the run takes the row path, if it could not take the columnar one."""
    frames: int = 0
    """How many of the sources are frames: Spark knows each by its place among them."""
    mixed: frozenset[str] = frozenset()
    """The channels that a column tells apart, in rows that were read before they were declared."""

    def __post_init__(self) -> None:
        check_layout(self.program, self.layout)

    def fingerprint(self) -> dict[str, str]:
        """Return what the state depends on. It is found out once, where the job is made, and shipped."""
        return self._made_by

    @cached_property
    def _made_by(self) -> dict[str, str]:
        found = fingerprint(self.program, self.layout, self.channels)
        state = "in objects" if self.columns is None else "in columns"
        # What is kept for a key that is pending has not always been kept.
        mode = self.mode if self.mode == "settled" else "speculative, by segments and keys"
        return found | {"state": state, "mode": mode, "frames": str(self.frames)}
