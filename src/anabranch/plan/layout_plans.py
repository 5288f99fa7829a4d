"""Layouts as plans: the tree of plan nodes that a layout over shards realises.

A layout (`Layout`) maps an event to a shard; a plan maps it to a plan node. This module converts a
layout to a plan, so that one check, `plan.validity`, decides whether either is right: every job is
checked by it before it starts, `explain` draws this plan, and `simulate` runs it.

The machines of such a plan are the shards (`shard 3`) and the machine above them: `root`, or for a hot
key the root in one of the shards (`root 3`). A layout in which `every shard` follows the markers itself
realises the plan with the markers at the root: each shard holds the state that the root would send it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.errors import PlanError
from anabranch.model.events import LANE, EventType
from anabranch.model.program import Program
from anabranch.model.slices import Equals, Shard, Slice
from anabranch.model.values.hashing import hash_stably
from anabranch.plan.foldable_leaves import find_branches
from anabranch.plan.implied_forks import add_copies
from anabranch.plan.layouts import Layout
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import find_faults

ROOT = "root"
"""The machine of nodes in the root operator."""

EVERY_SHARD = "every shard"
"""The machine of markers that each shard follows itself."""

Parts = Callable[[EventType, int], list[Slice]]
"""A function that returns the slices of an event type in a shard."""


def plan_layout(program: Program, layout: Layout) -> tuple[Program, Plan]:
    """Return the plan that a layout realises, and the program with the forks that the plan needs.

    The program is unchanged, unless shards copy a state that declares no fork.
    """
    name = f"on Spark, {layout.shards} shard{'s' if layout.shards > 1 else ''}"
    if layout.shards == 1:
        alone = PlanNode(*program.event_types, state=program.initial.name, machine=_name_shard(0))
        return program, Plan(alone, name)
    if layout.way == "replicated":
        program = add_copies(program)
    grow = {"keyed": _grow_keyed, "forked": _grow_forked}.get(layout.way, _grow_below_markers)
    return program, Plan(grow(program, layout), name)


def check_layout(program: Program, layout: Layout) -> None:
    """Raise PlanError for a layout whose plan is not valid: its results could be wrong.

    No program should get such a layout, so this is a defect of Anabranch and not of the program.
    """
    forked, plan = plan_layout(program, layout)
    faults = find_faults(forked, plan)
    if faults:
        raise PlanError(
            f"{program.name} has no valid {layout.way} layout over {layout.shards} shards: this is a "
            "defect of Anabranch, nothing was run",
            where=program.where,
            expected="V1 (state types fit) and V2 (shards side by side are independent)",
            got="; ".join(map(str, faults[:3])) + (" …" if len(faults) > 3 else ""),
            cure="run it with shards=1, and report the program",
        )


def _grow_keyed(program: Program, layout: Layout) -> PlanNode:
    """Return one node per shard of keys, and a separate tree for each hot key."""
    state = program.initial.name
    (key,) = layout.keys

    def cut(event_type: EventType, number: int) -> list[Slice]:
        return [_take(event_type, {key: Shard(number, layout.shards, layout.hot_keys)})]

    shards = _make_leaves(layout, program.event_types, cut, state)
    hot_keys = [
        _grow_hot(program, layout, key, value) for value in sorted(layout.hot_keys, key=repr)
    ]
    return _join([*shards, *hot_keys], state, None)


def _grow_hot(program: Program, layout: Layout, key: str, value: Any) -> PlanNode:
    """Return the tree of a hot key: its free events in every shard, the others at the key's own root."""

    def cut(event_type: EventType, number: int) -> list[Slice]:
        return [_take(event_type, {key: value, LANE: Shard(number, layout.shards)})]

    machine = f"{ROOT} {hash_stably(value) % layout.shards}"
    others = [event_type for event_type in program.event_types if event_type not in layout.leaves]
    top = [_take(event_type, {key: value}) for event_type in others]
    return _grow(program, layout, program.initial.name, cut, machine, top)


def _grow_below_markers(program: Program, layout: Layout) -> PlanNode:
    """Return a root with the events that all shards follow, and below it one node per shard."""

    def cut(event_type: EventType, number: int) -> list[Slice]:
        field = layout.keys[0] if layout.keys else LANE
        return [_take(event_type, {field: Shard(number, layout.shards)})]

    others = [event_type for event_type in program.event_types if event_type not in layout.cuts]
    leaves = _make_leaves(layout, others, cut, program.initial.name)
    top = [Slice(event_type) for event_type in program.event_types if event_type in layout.cuts]
    return _join(leaves, program.initial.name, EVERY_SHARD, top)


def _grow_forked(program: Program, layout: Layout) -> PlanNode:
    """Return a root with the events of the root operator, and below it a leaf per shard and state type."""

    def cut(event_type: EventType, number: int) -> list[Slice]:
        lane = Shard(number, layout.shards)
        by = layout.entries.get(event_type)
        if by is None or layout.lanes is not None:
            return [_take(event_type, {LANE: lane})]
        cold = _take(event_type, {by: Shard(number, layout.shards, layout.hot_keys)})
        return [cold, *(_take(event_type, {by: value, LANE: lane}) for value in layout.hot_keys)]

    others = [
        Slice(event_type) for event_type in program.event_types if event_type not in layout.leaves
    ]
    return _grow(program, layout, program.initial.name, cut, ROOT, others)


def _grow(
    program: Program,
    layout: Layout,
    state: str,
    cut: Parts,
    machine: str,
    top: Sequence[Slice] = (),
) -> PlanNode:
    """Return a node of a state type that runs `top` itself, above the leaves of its event types.

    Where leaves hold smaller state types, forks lead down to them. A side without leaves runs where its
    parent does, with its own events: they are independent of the other side.
    """
    own = [event_type for event_type, name in layout.leaves.items() if name == state]
    if own:
        return _join(_make_leaves(layout, own, cut, state), state, machine, top)
    branch = find_branches(program)[state]
    taken: list[Slice] = []
    children: list[PlanNode] = []
    for name, side in ((branch.fork.left, branch.left), (branch.fork.right, branch.right)):
        if any(_leads_to(program, name, leaf) for leaf in layout.leaves.values()):
            children.append(_grow(program, layout, name, cut, machine))
            continue
        here = [part for part in top if part.event_type in side.event_types()] or [*side]
        taken += here
        children.append(PlanNode(*here, state=name, machine=machine))
    rest = [part for part in top if part not in taken]
    return PlanNode(*rest, children=children, state=state, machine=machine)


def _leads_to(program: Program, name: str, leaf: str) -> bool:
    if name == leaf:
        return True
    branch = find_branches(program).get(name)
    below = () if branch is None else (branch.fork.left, branch.fork.right)
    return any(_leads_to(program, side, leaf) for side in below)


def _make_leaves(
    layout: Layout, event_types: Sequence[EventType], cut: Parts, state: str
) -> list[PlanNode]:
    return [
        PlanNode(
            *(part for event_type in event_types for part in cut(event_type, number)),
            state=state,
            machine=_name_shard(number),
        )
        for number in range(layout.shards)
    ]


def _join(
    nodes: Sequence[PlanNode], state: str, machine: str | None, top: Sequence[Slice] = ()
) -> PlanNode:
    """Return a node above all of these, in the same order, in a tree of the least height."""
    half = len(nodes) // 2
    children = [
        side[0] if len(side) == 1 else _join(side, state, machine)
        for side in (nodes[:half], nodes[half:])
    ]
    return PlanNode(*top, children=children, state=state, machine=machine)


def _take(event_type: EventType, fields: dict[str, Any]) -> Slice:
    # Not by `take`: a user's field may have the name of one of its arguments.
    cuts = {name: v if isinstance(v, Shard) else Equals(v) for name, v in fields.items()}
    return Slice(event_type, tuple(sorted(cuts.items())))


def _name_shard(number: int) -> str:
    return f"shard {number}"
