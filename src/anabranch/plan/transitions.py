"""Transitions: the joins and forks that move live state from one plan to another.

Where both plans assign the same slices to the same nodes, states stay where they are. Where they
differ, the old subtree is joined and forked anew; nodes above and beside it are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from anabranch.model.program import Program
from anabranch.model.slices import Shard, Slice, Slices
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import check_plan


@dataclass(frozen=True)
class TransitionStep:
    """A join of a node's two children in the old plan, or a fork of a node in the new one."""

    action: Literal["join", "fork"]
    path: str

    def __str__(self) -> str:
        where = "old" if self.action == "join" else "new"
        return f"{self.action} at {where} node {self.path}"


@dataclass(frozen=True)
class Transition:
    """The steps from one plan to another.

    `steps` are executed in order. `moved` pairs the top of each old subtree with its new one; `kept`
    pairs leaves whose state stays where it is.
    """

    old: Plan
    new: Plan
    steps: tuple[TransitionStep, ...]
    moved: tuple[tuple[str, str], ...]
    kept: tuple[tuple[str, str], ...]

    def describe(self) -> str:
        """Return the steps as text."""
        lines = [f"{self.old.name} -> {self.new.name}"]
        lines += [f"  {step}" for step in self.steps] or ["  nothing to do"]
        lines.append(f"  {len(self.kept)} leaf states stay, {len(self.moved)} subtrees move")
        return "\n".join(lines)


def transition(program: Program, old: Plan, new: Plan) -> Transition:
    """Return the fewest joins and forks from one valid plan to another."""
    check_plan(program, old)
    check_plan(program, new)
    moved: list[tuple[str, str]] = []
    kept: list[tuple[str, str]] = []
    _compare("0", old.root, "0", new.root, moved, kept)
    steps: list[TransitionStep] = []
    for old_path, new_path in moved:
        a, b = old.nodes()[old_path], new.nodes()[new_path]
        inner_old = [path for path, node in a.walk(old_path) if node.children]
        inner_new = [path for path, node in b.walk(new_path) if node.children]
        steps += [
            TransitionStep("join", path) for path in sorted(inner_old, key=_depth, reverse=True)
        ]
        steps += [TransitionStep("fork", path) for path in sorted(inner_new, key=_depth)]
    return Transition(old, new, tuple(steps), tuple(moved), tuple(kept))


def carry(program: Program, change: Transition, states: Mapping[str, Any]) -> dict[str, Any]:
    """Return the leaf states of the new plan, given those of the old one, by path.

    All states must be snapshots after the same events.
    """
    old, new = change.old.nodes(), change.new.nodes()
    carried = {new_path: states[old_path] for old_path, new_path in change.kept}
    gathered = dict(states)
    for step in change.steps:
        if step.action == "join":
            left, right = (gathered.pop(f"{step.path}.{side}") for side in (0, 1))
            gathered[step.path] = _fork_of(program, old[step.path]).join(left, right)
    for old_path, new_path in change.moved:
        carried[new_path] = gathered[old_path]
    for step in change.steps:
        if step.action == "fork":
            node = new[step.path]
            sides = [child.subtree() for child in node.children]
            halves = _fork_of(program, node).fork(carried.pop(step.path), *sides)
            carried.update({f"{step.path}.{side}": half for side, half in enumerate(halves)})
    return carried


def _compare(
    old_path: str,
    old: PlanNode,
    new_path: str,
    new: PlanNode,
    moved: list[tuple[str, str]],
    kept: list[tuple[str, str]],
) -> None:
    """Walk both trees while they agree; record the subtrees that differ and the leaves they share."""
    if old.state == new.state and not old.children and not new.children:
        kept.append((old_path, new_path))
    elif old.state == new.state and _sides_agree(old, new):
        for side in (0, 1):
            a, b = old.children[side], new.children[side]
            _compare(f"{old_path}.{side}", a, f"{new_path}.{side}", b, moved, kept)
    else:
        moved.append((old_path, new_path))


def _sides_agree(old: PlanNode, new: PlanNode) -> bool:
    return bool(old.children and new.children) and all(
        a.state == b.state and normalise(a.subtree()) == normalise(b.subtree())
        for a, b in zip(old.children, new.children, strict=True)
    )


def normalise(slices: Slices) -> Slices:
    """Merge shards that together cover the whole, so that equal coverage compares equal."""
    parts = set(slices)
    while family := _find_family(parts):
        whole, members = family
        parts = (parts - members) | {whole}
    return Slices(parts)


def _find_family(parts: Iterable[Slice]) -> tuple[Slice, set[Slice]] | None:
    families: dict[tuple[Slice, str, int], set[Slice]] = {}
    for part in parts:
        for field, choice in part.where:
            if isinstance(choice, Shard) and not choice.but:
                rest = tuple(entry for entry in part.where if entry[0] != field)
                whole = Slice(part.event_type, rest, channel=part.channel)
                members = families.setdefault((whole, field, choice.count), set())
                members.add(part)
                if len(members) == choice.count:
                    return whole, members
    return None


def _fork_of(program: Program, node: PlanNode) -> Any:
    left, right = node.children
    return program.find_fork(node.state, left.state, right.state)


def _depth(path: str) -> int:
    return path.count(".")
