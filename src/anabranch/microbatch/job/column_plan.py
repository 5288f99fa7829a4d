"""Fitness: whether a run can go by columns, and the reason if it can't."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from anabranch.eventtime.channels import Source
from anabranch.kernels.column_layouts import Fields, read_record
from anabranch.kernels.kernel import Kernel, make_kernel
from anabranch.kernels.state_joins import add_join, is_exact
from anabranch.microbatch.job.row_path_features import Use, folded_types, list_gaps
from anabranch.microbatch.job.window_plan import WindowPlan, plan_windows
from anabranch.model.events import Tag
from anabranch.model.program import Program
from anabranch.plan.foldable_leaves import find_leaf_types
from anabranch.plan.layouts import Layout
from anabranch.speculation.spoken import Mode


@dataclass(frozen=True)
class ColumnPlan:
    """What a run by columns needs to know, beside its job.

    `names` are the sources in the order of their names; a source's code is its place there. `layouts`
    are those of the tags, `kernels` those of the state types that shards fold. Events of the `early`
    tags may be folded where they are read, between any two of the `stops`; `join` is the kernel that puts
    what was folded of a key into its turn. With `windows`, slices of them are folded instead of states.
    """

    names: tuple[str, ...]
    layouts: tuple[Fields, ...]
    kernels: Mapping[str, Kernel]
    early: frozenset[Tag] = frozenset()
    stops: frozenset[Tag] = frozenset()
    join: Kernel | None = None
    windows: WindowPlan | None = None

    @property
    def codes(self) -> dict[str, int]:
        """Return the code of each source."""
        return {name: code for code, name in enumerate(self.names)}


def plan_columns(
    program: Program,
    wiring: Layout,
    sources: Mapping[str, Source],
    *,
    numbered: bool,
    mode: Mode = "settled",
) -> ColumnPlan | str:
    """Return how a run takes the columnar path, or the first reason why it takes the row path."""
    use = Use(program, wiring, sources, numbered, mode)
    gap = next(list_gaps(use), None)
    if gap is not None:
        return gap.reason
    layouts = tuple(map(read_record, program.tags))
    if program.timers:
        windows = plan_windows(program)
        assert isinstance(windows, WindowPlan), "timers that are no windows are a gap"
        early = frozenset({windows.tag})
        return ColumnPlan(tuple(sorted(sources)), layouts, {}, early=early, windows=windows)
    names = folded_types(program, wiring)
    kernels = {name: make_kernel(program.state_type(name)) for name in names}
    plan = ColumnPlan(tuple(sorted(sources)), layouts, kernels)
    if wiring.way == "forked" and wiring.lanes is None:
        return replace(plan, early=frozenset(wiring.leaves), stops=wiring.cuts)
    return _plan_keyed(program, plan) if wiring.way == "keyed" else plan


def _plan_keyed(program: Program, plan: ColumnPlan) -> ColumnPlan:
    """Find the tags that a key's state can be folded from apart, to the bit."""
    initial = program.initial
    inner, kernel = initial.shape.inner, plan.kernels[initial.name]  # type: ignore[attr-defined]
    leaves = find_leaf_types(program)
    early = [t for t in leaves if leaves[t] == initial.name and initial.handlers[t].output is None]
    join = add_join(kernel, inner) if early and is_exact(inner, kernel.layout) else None
    if join is None or program.lanes is not None:
        return plan
    return replace(
        plan, early=frozenset(early), stops=frozenset(program.tags) - {*early}, join=join
    )
