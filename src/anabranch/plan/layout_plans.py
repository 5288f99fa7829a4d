"""Layouts as plans: the tree of workers that a program laid over shards realises.

A layout (`Layout`) says which shard an event goes to; a plan says which worker answers for it. This
module writes the first as the second, so that one rule, `plan.validity`, decides whether either is
right: every job is checked by it before it starts, `explain` draws this plan, and `simulate` runs it.

The machines of such a plan are the shards (`shard 3`) and what stands above them: `root`, or of a hot key
the root in one of the shards (`root 3`). A layout that lets `every shard` follow the markers itself
realises the plan in which they stand at the root: each shard holds what the root would hand it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.errors import PlanError
from anabranch.model.events import LANE, Tag
from anabranch.model.program import Program
from anabranch.model.slices import Equals, Shard, Slice
from anabranch.model.values.hashing import hash_stably
from anabranch.plan.foldable_leaves import find_branches
from anabranch.plan.implied_forks import add_copies
from anabranch.plan.layouts import Layout
from anabranch.plan.tree import Plan, Worker
from anabranch.plan.validity import find_faults

ROOT = "root"
"""The machine of what runs in the root operator."""

EVERY_SHARD = "every shard"
"""The machine of markers that each shard follows itself."""

Parts = Callable[[Tag, int], list[Slice]]
"""Return the slices of a tag that a shard answers for."""


def plan_layout(program: Program, wiring: Layout) -> tuple[Program, Plan]:
    """Return the plan that a layout realises, and the program with the forks that it takes.

    The program is the one that was given, unless shards copy a state that declares no fork.
    """
    name = f"on Spark, {wiring.shards} shard{'s' if wiring.shards > 1 else ''}"
    if wiring.shards == 1:
        alone = Worker(*program.tags, state=program.initial.name, machine=_name_shard(0))
        return program, Plan(alone, name)
    if wiring.way == "replicated":
        program = add_copies(program)
    grow = {"keyed": _grow_keyed, "forked": _grow_forked}.get(wiring.way, _grow_below_markers)
    return program, Plan(grow(program, wiring), name)


def check_layout(program: Program, wiring: Layout) -> None:
    """Refuse to run a layout whose plan is not valid: it could give another answer than the program.

    No program should get such a layout, so this is a defect of Anabranch and not of the program.
    """
    forked, plan = plan_layout(program, wiring)
    faults = find_faults(forked, plan)
    if faults:
        raise PlanError(
            f"{program.name} can't be laid over {wiring.shards} shards as {wiring.way}: this is a "
            "defect of Anabranch, nothing was run",
            where=program.where,
            expected="V1 (state types fit) and V2 (shards side by side are independent)",
            got="; ".join(map(str, faults[:3])) + (" …" if len(faults) > 3 else ""),
            cure="run it with shards=1, and report the program",
        )


def _grow_keyed(program: Program, wiring: Layout) -> Worker:
    """Return one worker per shard of keys, and beside them a tree of its own for each hot key."""
    state = program.initial.name
    (key,) = wiring.keys

    def cut(tag: Tag, number: int) -> list[Slice]:
        return [_take(tag, {key: Shard(number, wiring.shards, wiring.hot)})]

    shards = _make_leaves(wiring, program.tags, cut, state)
    hot = [_grow_hot(program, wiring, key, value) for value in sorted(wiring.hot, key=repr)]
    return _join([*shards, *hot], state, None)


def _grow_hot(program: Program, wiring: Layout, key: str, value: Any) -> Worker:
    """Return the tree of a hot key: its free events in every shard, the others at a root of its own."""

    def cut(tag: Tag, number: int) -> list[Slice]:
        return [_take(tag, {key: value, LANE: Shard(number, wiring.shards)})]

    machine = f"{ROOT} {hash_stably(value) % wiring.shards}"
    others = [tag for tag in program.tags if tag not in wiring.leaves]
    top = [_take(tag, {key: value}) for tag in others]
    return _grow(program, wiring, program.initial.name, cut, machine, top)


def _grow_below_markers(program: Program, wiring: Layout) -> Worker:
    """Return what all shards follow at the root, and below it one worker per shard."""

    def cut(tag: Tag, number: int) -> list[Slice]:
        field = wiring.keys[0] if wiring.keys else LANE
        return [_take(tag, {field: Shard(number, wiring.shards)})]

    others = [tag for tag in program.tags if tag not in wiring.cuts]
    leaves = _make_leaves(wiring, others, cut, program.initial.name)
    top = [Slice(tag) for tag in program.tags if tag in wiring.cuts]
    return _join(leaves, program.initial.name, EVERY_SHARD, top)


def _grow_forked(program: Program, wiring: Layout) -> Worker:
    """Return what the root operator runs, and below it the leaves, one per shard and state type."""

    def cut(tag: Tag, number: int) -> list[Slice]:
        lane = Shard(number, wiring.shards)
        by = wiring.entries.get(tag)
        if by is None or wiring.lanes is not None:
            return [_take(tag, {LANE: lane})]
        cold = _take(tag, {by: Shard(number, wiring.shards, wiring.hot)})
        return [cold, *(_take(tag, {by: value, LANE: lane}) for value in wiring.hot)]

    others = [Slice(tag) for tag in program.tags if tag not in wiring.leaves]
    return _grow(program, wiring, program.initial.name, cut, ROOT, others)


def _grow(
    program: Program,
    wiring: Layout,
    state: str,
    cut: Parts,
    machine: str,
    top: Sequence[Slice] = (),
) -> Worker:
    """Return a worker of a state type that runs `top` itself, above the leaves of its tags.

    Where leaves hold smaller state types, forks lead down to them. A side without leaves runs where its
    parent does, with the events that it answers for: they are independent of the other side.
    """
    own = [tag for tag, name in wiring.leaves.items() if name == state]
    if own:
        return _join(_make_leaves(wiring, own, cut, state), state, machine, top)
    branch = find_branches(program)[state]
    taken: list[Slice] = []
    children: list[Worker] = []
    for name, side in ((branch.fork.left, branch.left), (branch.fork.right, branch.right)):
        if any(_leads_to(program, name, leaf) for leaf in wiring.leaves.values()):
            children.append(_grow(program, wiring, name, cut, machine))
            continue
        here = [part for part in top if part.tag in side.tags()] or [*side]
        taken += here
        children.append(Worker(*here, state=name, machine=machine))
    rest = [part for part in top if part not in taken]
    return Worker(*rest, children=children, state=state, machine=machine)


def _leads_to(program: Program, name: str, leaf: str) -> bool:
    if name == leaf:
        return True
    branch = find_branches(program).get(name)
    below = () if branch is None else (branch.fork.left, branch.fork.right)
    return any(_leads_to(program, side, leaf) for side in below)


def _make_leaves(wiring: Layout, tags: Sequence[Tag], cut: Parts, state: str) -> list[Worker]:
    return [
        Worker(
            *(part for tag in tags for part in cut(tag, number)),
            state=state,
            machine=_name_shard(number),
        )
        for number in range(wiring.shards)
    ]


def _join(
    workers: Sequence[Worker], state: str, machine: str | None, top: Sequence[Slice] = ()
) -> Worker:
    """Return a worker above all of these, which stay in their order, in a tree as low as can be."""
    half = len(workers) // 2
    children = [
        side[0] if len(side) == 1 else _join(side, state, machine)
        for side in (workers[:half], workers[half:])
    ]
    return Worker(*top, children=children, state=state, machine=machine)


def _take(tag: Tag, fields: dict[str, Any]) -> Slice:
    # Not by `take`, where a field of the user's may be called as an argument is.
    cuts = {name: v if isinstance(v, Shard) else Equals(v) for name, v in fields.items()}
    return Slice(tag, tuple(sorted(cuts.items())))


def _name_shard(number: int) -> str:
    return f"shard {number}"
