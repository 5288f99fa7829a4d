"""Fitness: whether a run can go by columns, and the reason if it can't."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.eventtime.channels import Source
from anabranch.eventtime.disorder import Estimated
from anabranch.kernels.column_layouts import (
    OBJECT,
    ColumnLayout,
    Constant,
    Fields,
    OptionalColumn,
    list_columns,
    read_record,
)
from anabranch.kernels.joins import add_join, is_exact
from anabranch.kernels.kernel import Kernel, make_kernel
from anabranch.microbatch.job.column_types import fits_columns
from anabranch.microbatch.job.window_plan import WindowPlan, plan_windows
from anabranch.model.events import LANE, SOURCE, Tag, field_names, field_types
from anabranch.model.program import Program, StateType
from anabranch.model.step import find_limit, has_ages
from anabranch.plan.foldable_leaves import find_leaf_types
from anabranch.plan.layouts import Layout
from anabranch.state.exact import MeanState, SumState, VarianceState
from anabranch.state.sharing import Shared

_WIDE = (SumState, MeanState, VarianceState)


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
    program: Program, wiring: Layout, sources: Mapping[str, Source], *, numbered: bool
) -> ColumnPlan | str:
    """Return how a run goes by columns, or why it goes event by event instead."""
    reason = (
        _find_odd_source(sources, numbered=numbered)
        or _find_odd_tag(program)
        or _find_odd_shape(program.initial.shape)
    )
    if reason is not None:
        return reason
    layouts = tuple(map(read_record, program.tags))
    if program.timers:
        windows = plan_windows(program)
        if isinstance(windows, str):
            return windows
        names = tuple(sorted(sources))
        return ColumnPlan(names, layouts, {}, early=frozenset({windows.tag}), windows=windows)
    reason = _find_odd_state(program, wiring)
    if reason is not None:
        return reason
    kernels = {name: make_kernel(program.state_type(name)) for name in _folded(program, wiring)}
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


def _folded(program: Program, wiring: Layout) -> list[str]:
    """Return the state types that shards fold."""
    return sorted({*wiring.leaves.values()} if wiring.way == "forked" else {program.initial.name})


def _find_odd_source(sources: Mapping[str, Source], *, numbered: bool) -> str | None:
    if not numbered:
        return "some source has no sequence"
    for name, source in sources.items():
        if source.ahead is not None:
            return f"source {name!r} has a bound ahead"
        if isinstance(source.lateness, Estimated):
            return f"the lateness of source {name!r} is estimated"
        if source.in_turn:
            return f"events of source {name!r} come in turn"
    return None


def _find_odd_tag(program: Program) -> str | None:
    for tag in program.inputs:
        if not fits_columns(tag):
            return f"{tag.__name__} has fields that are not plain ints, floats, bools or texts"
    return None


def _find_odd_shape(shape: Any) -> str | None:
    if has_ages(shape):
        return "entries have a time to live"
    while shape.by is not None:
        if isinstance(shape, Shared):
            return "keys share a part of the state"
        shape = shape.inner
    return None


def _find_odd_state(program: Program, wiring: Layout) -> str | None:
    if wiring.speaking:
        return "what leaves say depends on the state"
    if wiring.hot:
        return "some keys are spread"
    for name in _folded(program, wiring):
        state_type = program.state_type(name)
        tags = [tag for tag in program.tags if wiring.leaves.get(tag) == name]
        reason = _find_odd_type(program, wiring, state_type, tags or list(program.tags))
        if reason is not None:
            return reason
    return None


def _find_odd_type(
    program: Program, wiring: Layout, state_type: StateType, tags: list[Tag]
) -> str | None:
    shape: Any = state_type.shape
    if find_limit(shape) is not None:
        return "the state has a limit"
    if shape.by == SOURCE:
        return "the state has entries per source"
    if shape.by is not None and shape.inner.by is not None:
        return "the state has entries within entries"
    if shape.by == LANE:
        return None if wiring.way == "forked" else "the state has lanes"
    if shape.by is None:
        return None
    for tag in tags:
        if shape.by not in state_type.handlers[tag].enters:
            return f"{tag.__name__} sees all entries at once"
        if field_types(tag)[shape.by] not in (int, str, bool):
            return f"{tag.__name__} has a key that is neither an int nor a text"
    kinds = {field_types(tag)[shape.by] for tag in tags}
    if len(kinds) > 1:
        return "keys are of several types"
    if wiring.way == "forked":
        return _find_odd_cut(program, wiring, shape.by)
    return _find_odd_entry(state_type)


def _find_odd_entry(state_type: StateType) -> str | None:
    kernel = make_kernel(state_type)
    if _is_wide(kernel.layout):
        return "exact sums of floats need more than 64 bits"
    objects = any(column.kind == OBJECT for column in list_columns(kernel.layout))
    # Of a function that could not be read, nobody knows what it makes of a state that begins empty.
    if objects or (any(kernel.reasons) and _begins_empty(kernel.layout)):
        return "the state of an entry does not lie in columns"
    return None


def _is_wide(layout: ColumnLayout) -> bool:
    """Say whether a state holds whole numbers in units of the smallest float, as exact sums do."""
    if isinstance(layout, OptionalColumn):
        return _is_wide(layout.inner)
    if isinstance(layout, Fields):
        return layout.cls in _WIDE or any(map(_is_wide, layout.parts))
    return False


def _begins_empty(layout: ColumnLayout) -> bool:
    if isinstance(layout, OptionalColumn):
        return _begins_empty(layout.inner)
    if isinstance(layout, Fields):
        return not layout.parts or any(map(_begins_empty, layout.parts))
    return isinstance(layout, Constant)


def _find_odd_cut(program: Program, wiring: Layout, by: str) -> str | None:
    handlers = program.initial.handlers
    single = [tag.__name__ for tag in wiring.cuts if by in field_names(tag)]
    if any(by in handlers[tag].enters for tag in wiring.cuts):
        return f"{', '.join(sorted(single))} cuts one entry only"
    return None
