"""Collapse: replace a subtree with little work by one node."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.model.program import Program
from anabranch.plan.pricing.cost import PRICES, Prices, assign
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan, PlanNode

_SHARE = 0.25
"""A subtree that is busy for less than this share of a node's time is not worth its joins."""


def collapse(program: Program, plan: Plan, rates: Rates, prices: Prices = PRICES) -> Iterator[Plan]:
    """Yield the plan with every idle subtree as one node, and, for a small plan, each one separately."""
    assigned = assign(program, plan, rates)
    busy = {p: sum(x.rate for x in loads) / prices.capacity for p, loads in assigned.items()}
    everything = _add_up(busy)
    inner = [path for path, node in plan.root.walk() if node.children]
    idle = {path for path in inner if everything[path] < _SHARE}
    if idle:
        yield Plan(_collapse(program, plan.root, "0", idle), plan.name)
    if len(inner) <= 16:
        for path in inner:
            yield Plan(_collapse(program, plan.root, "0", {path}), plan.name)


def _add_up(busy: dict[str, float]) -> dict[str, float]:
    """Return how busy each node is, including all nodes below it."""
    everything = dict(busy)
    for path in sorted(busy, key=lambda path: path.count("."), reverse=True):
        parent = path.rpartition(".")[0]
        if parent:
            everything[parent] += everything[path]
    return everything


def _collapse(program: Program, node: PlanNode, path: str, chosen: set[str]) -> PlanNode:
    if path in chosen and program.state_type(node.state).handles(node.subtree().event_types()):
        return PlanNode(*node.subtree(), state=node.state, machine=node.machine)
    children = tuple(
        _collapse(program, child, f"{path}.{side}", chosen)
        for side, child in enumerate(node.children)
    )
    return PlanNode(*node.slices, children=children, state=node.state, machine=node.machine)
