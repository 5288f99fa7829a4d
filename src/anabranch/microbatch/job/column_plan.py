"""The column plan of a run, or the reason why it can't take the columnar path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from anabranch.eventtime.channels import Channel
from anabranch.kernels.column_layouts import Fields
from anabranch.kernels.kernel import Kernel, make_kernel
from anabranch.kernels.state_joins import add_join, is_exact
from anabranch.microbatch.job.column_types import carry_fields
from anabranch.microbatch.job.row_path_features import Use, folded_types, list_gaps
from anabranch.microbatch.job.window_plan import WindowPlan, plan_windows
from anabranch.model.events import EventType
from anabranch.model.program import Program
from anabranch.plan.foldable_leaves import find_leaf_types
from anabranch.plan.layouts import Layout
from anabranch.speculation.output_changes import Mode
from anabranch.state.durable.codec import make_codec


@dataclass(frozen=True)
class ColumnPlan:
    """The settings of the columnar path, beside the job.

    `names` are the channels in the order of their names; a channel's code is its place there. `layouts`
    are those of the event types, `kernels` those of the state types that shards fold. Events of the `early`
    event types may be folded in the task that reads them, between any two of the `stops`; `join` is the kernel
    that joins the delta of a key to its state at its place in the order. With `windows`, slices of them are
    folded instead of states.
    """

    names: tuple[str, ...]
    layouts: tuple[Fields, ...]
    kernels: Mapping[str, Kernel]
    early: frozenset[EventType] = frozenset()
    stops: frozenset[EventType] = frozenset()
    join: Kernel | None = None
    windows: WindowPlan | None = None

    @property
    def codes(self) -> dict[str, int]:
        """Return the code of each channel."""
        return {name: code for code, name in enumerate(self.names)}


def plan_columns(
    program: Program,
    shard_layout: Layout,
    channels: Mapping[str, Channel],
    *,
    numbered: bool,
    mode: Mode = "settled",
) -> ColumnPlan | str:
    """Return the plan of the columnar path, or the first reason why a run takes the row path."""
    use = Use(program, shard_layout, channels, numbered, mode)
    gap = next(list_gaps(use), None)
    if gap is not None:
        return gap.reason
    codec = make_codec(program)
    layouts = tuple(carry_fields(event_type, codec) for event_type in program.event_types)
    if program.timers:
        windows = plan_windows(program)
        assert isinstance(windows, WindowPlan), "timers that are not windows are a gap"
        early = frozenset({windows.event_type})
        return ColumnPlan(tuple(sorted(channels)), layouts, {}, early=early, windows=windows)
    names = folded_types(program, shard_layout)
    kernels = {name: make_kernel(program.state_type(name)) for name in names}
    plan = ColumnPlan(tuple(sorted(channels)), layouts, kernels)
    if shard_layout.way == "forked" and shard_layout.lanes is None:
        return replace(plan, early=frozenset(shard_layout.leaves), stops=shard_layout.cuts)
    return _plan_keyed(program, plan) if shard_layout.way == "keyed" else plan


def _plan_keyed(program: Program, plan: ColumnPlan) -> ColumnPlan:
    """Return the plan with the event types whose early folds give the same state of a key, to the bit."""
    initial = program.initial
    inner, kernel = initial.shape.inner, plan.kernels[initial.name]  # type: ignore[attr-defined]
    leaves = find_leaf_types(program)
    early = [t for t in leaves if leaves[t] == initial.name and initial.handlers[t].output is None]
    join = add_join(kernel, inner) if early and is_exact(inner, kernel.layout) else None
    if join is None or program.lanes is not None:
        return plan
    return replace(
        plan, early=frozenset(early), stops=frozenset(program.event_types) - {*early}, join=join
    )
