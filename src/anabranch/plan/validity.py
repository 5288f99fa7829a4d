"""Validity: the two rules that make a plan valid for a program. Part of the trusted kernel.

**V1** (typing): a node's state type exists and handles its event types; the root's is the type that a
run starts from; a node with children has a fork and join to their types.

**V2** (independence): nodes that are not above one another have disjoint and independent slices.

No other rule is needed. An event that is in no node's slices goes to the root, which handles every
event type and is above every other node, so V1 and V2 hold for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from anabranch.errors import PlanError
from anabranch.model.program import Program
from anabranch.model.slices import Slice
from anabranch.plan.graph import connect
from anabranch.plan.tree import Plan, PlanNode

FEW_PAIRS = 4000
"""Up to this many pairs of slices are all compared; of more, only those that the graph connects."""

Owned = tuple[str, Slice]
"""A slice, and the path of its node."""

Pair = tuple[Owned, Owned]


@dataclass(frozen=True)
class Fault:
    """A reason why a plan is not valid."""

    rule: str
    node: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule} at node {self.node}: {self.reason}"


def find_faults(program: Program, plan: Plan) -> list[Fault]:
    """Return every reason why a plan is not valid for a program; none if it is."""
    faults = [*_check_root(program, plan.root)]
    for path, node in plan.root.walk():
        faults += _check_types(program, path, node)
    _check_independence(program, "0", plan.root, faults)
    return faults


def check_plan(program: Program, plan: Plan) -> Plan:
    """Return the plan if it is valid for the program, or raise PlanError with every reason."""
    faults = find_faults(program, plan)
    if faults:
        raise PlanError(
            f"plan {plan.name!r} is not valid for {program.name}",
            where=program.where,
            expected="V1 (state types fit) and V2 (nodes side by side are independent)",
            got="; ".join(map(str, faults)),
            cure="move dependent slices to one node, or to one above the other",
        )
    return plan


def _check_root(program: Program, root: PlanNode) -> Iterator[Fault]:
    if root.state != program.initial.name:
        yield Fault(
            "V1", "0", f"the root's state type is {root.state!r}, not {program.initial.name!r}"
        )


def _check_types(program: Program, path: str, node: PlanNode) -> Iterator[Fault]:
    if node.state not in {known.name for known in program.state_types}:
        yield Fault("V1", path, f"the program has no state type {node.state!r}")
        return
    handled = program.state_type(node.state).handlers
    for event_type in sorted(node.slices.event_types(), key=lambda event_type: event_type.__name__):
        if event_type not in handled:
            yield Fault(
                "V1", path, f"state type {node.state!r} does not handle {event_type.__name__}"
            )
    if node.children:
        left, right = (child.state for child in node.children)
        if program.find_fork(node.state, left, right) is None:
            yield Fault("V1", path, f"there is no fork {node.state} -> {left}, {right}")


def _check_independence(
    program: Program, path: str, node: PlanNode, faults: list[Fault]
) -> list[Owned]:
    """Check a subtree from the leaves up; return all its slices.

    Two nodes that are not above one another have exactly one lowest common ancestor, and are compared
    there: all slices on its left with all slices on its right.
    """
    below = [
        _check_independence(program, f"{path}.{side}", child, faults)
        for side, child in enumerate(node.children)
    ]
    if below:
        for (left_path, x), (right_path, y) in _list_pairs(program, *below):
            if x.overlaps(y):
                faults.append(Fault("V2", left_path, f"{x} is also at node {right_path} as {y}"))
            elif program.dependence.depend(x, y):
                faults.append(Fault("V2", left_path, f"{x} depends on {y} at node {right_path}"))
    own = [(path, part) for part in node.slices]
    return own + [entry for side in below for entry in side]


def _list_pairs(program: Program, left: list[Owned], right: list[Owned]) -> Iterator[Pair]:
    """Yield the pairs of two sides that may overlap or depend; of few slices, all pairs.

    Two such slices are neighbours in the dependence graph, and so in one of its components.
    """
    if len(left) * len(right) <= FEW_PAIRS:
        yield from product(left, right)
        return
    everything = [*left, *right]
    for group in connect(program.dependence, [part for _, part in everything]):
        here = [everything[number] for number in group if number < len(left)]
        there = [everything[number] for number in group if number >= len(left)]
        yield from product(here, there)
