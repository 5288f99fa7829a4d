"""Explanations of runs on Spark: the layout of a program as a plan, its path, and the reasons for both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from anabranch.eventtime.channels import Channel
from anabranch.kernels.kernel import explain_kernel
from anabranch.microbatch.job.column_plan import ColumnPlan, plan_columns
from anabranch.microbatch.job.row_path_features import Gap, Use, list_gaps
from anabranch.microbatch.job.shard_counts import SHARDS, choose_shards
from anabranch.microbatch.job.speculative_layout import choose_speculative_layout
from anabranch.model.program import Program
from anabranch.plan.layout_plans import plan_layout
from anabranch.plan.layout_reasons import (
    Whereabouts,
    draw_layout,
    explain_fields,
    locate_types,
    name_types,
)
from anabranch.plan.layouts import Layout, choose_layout
from anabranch.plan.tree import Plan


@dataclass(frozen=True)
class RunExplanation:
    """The layout of a run, the plan that it implements, where event types run, and on which path.

    `program` has the forks that the plan uses. `gaps` are the features that keep the run on the row path.
    Without gaps, `columns` is the plan of the columnar path.
    """

    program: Program
    layout: Layout
    plan: Plan
    types: tuple[Whereabouts, ...]
    fields: tuple[str, ...]
    reasons: tuple[str, ...]
    columns: ColumnPlan | None
    gaps: tuple[Gap, ...]
    path: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the reasons for the layout, and the path that events take."""
        return [*self.reasons, *self.path]

    def __str__(self) -> str:
        wide = max(len(found.event_type) for found in self.types)
        far = max(len(found.place) for found in self.types)
        rows = [f"{t.event_type:<{wide}}  {t.place:<{far}}  {t.why}" for t in self.types]
        sections = [
            (self.plan.name, draw_layout(self.plan)),
            ("where event types run", rows),
            ("fields", self.fields),
            ("layout and path", self.lines()),
        ]
        return "\n\n".join(
            "\n".join([title, *(f"  {line}" for line in found)])
            for title, found in sections
            if found
        )

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as data that JSON can encode."""
        return {
            "layout": self.layout.way,
            "shards": self.layout.shards,
            "reasons": list(self.reasons),
            "nodes": [
                {
                    "path": path,
                    "slices": [str(part) for part in node.slices],
                    "state": node.state,
                    "machine": node.machine,
                }
                for path, node in self.plan.root.walk()
            ],
            "event_types": [found._asdict() for found in self.types],
            "fields": list(self.fields),
            "path": "row" if self.columns is None else "columnar",
            "row_path_only": [
                {"feature": gap.feature.name, "reason": gap.reason, "why": gap.feature.why}
                for gap in self.gaps
            ],
            "notes": list(self.path),
        }


def describe_run(
    program: Program,
    channels: Iterable[Channel] = (),
    *,
    shards: int | None = None,
    hot_keys: Iterable[Any] = (),
) -> RunExplanation:
    """Return the layout and path of a program on Spark, with these channels or default ones."""
    shards = SHARDS if shards is None else shards
    shard_layout = choose_layout(program, shards, hot_keys=hot_keys)
    reasons = [
        f"{shard_layout.way}: {reason}" if n == 0 else reason
        for n, reason in enumerate(shard_layout.reasons)
    ]
    if shard_layout.has_root or shard_layout.way == "shared":
        ahead = choose_speculative_layout(program, shards).reasons
        reasons += [reason for reason in ahead if reason not in shard_layout.reasons]
    known = {channel.name: channel for channel in channels}
    gaps = tuple(list_gaps(Use(program, shard_layout, known)))
    planned = plan_columns(program, shard_layout, known, numbered=True)
    columns = None if isinstance(planned, str) else planned
    forked, plan = plan_layout(program, shard_layout)
    return RunExplanation(
        forked,
        shard_layout,
        plan,
        tuple(locate_types(program, shard_layout)),
        tuple(explain_fields(program)),
        tuple(reasons),
        columns,
        gaps,
        tuple(_explain_path(program, shard_layout, columns, gaps)),
    )


def explain_run(program: Program, channels: Iterable[Channel] = ()) -> list[str]:
    """Return the reasons for the layout of a program on Spark, and the path that its events take."""
    return describe_run(program, channels).lines()


def _explain_path(
    program: Program, shard_layout: Layout, columns: ColumnPlan | None, gaps: Iterable[Gap]
) -> list[str]:
    if columns is None:
        return [f"row path: {gap.reason} ({gap.feature.why})" for gap in gaps]
    lines = ["columnar path: events are never looked at one by one"]
    if columns.early:
        names = name_types(columns.early, program)
        lines.append(f"early fold: {names} from files are folded where they are read, to deltas")
        few = choose_shards(shard_layout, columns)
        if few != SHARDS:
            named = "1 shard" if few == 1 else f"{few} shards"
            lines.append(f"of Parquet or Arrow files alone, `run` takes {named} by default")
    elif shard_layout.way in ("keyed", "forked"):
        lines.append("no early fold: " + _explain_late(program, shard_layout))
    if columns.windows is not None and columns.windows.gap is None:
        share = columns.windows.size // columns.windows.width
        lines.append(f"windows are joined from slices, {share} to a window, which they share")
    folded = set(columns.kernels)
    verdicts = [v for v in explain_kernel(program) if _is_folded(shard_layout, v, folded)]
    return [*lines, *(f"{v.event_type}: {v}" for v in verdicts)]


def _explain_late(program: Program, shard_layout: Layout) -> str:
    if program.lanes is not None:
        return "events of one lane are folded in order"
    return "no event type commutes with all others of its key, to the bit and without an output"


def _is_folded(shard_layout: Layout, verdict: Any, folded: set[str]) -> bool:
    if verdict.state not in folded:
        return False
    leaves = {event_type.__name__ for event_type in shard_layout.leaves}
    return shard_layout.way != "forked" or verdict.event_type in leaves
