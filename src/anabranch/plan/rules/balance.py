"""Balance: turn a ladder of nodes without slices into a tree of the least height."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.model.program import Program
from anabranch.plan.pricing.cost import PRICES, Prices
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan, PlanNode, pair_up


def balance(program: Program, plan: Plan, rates: Rates, prices: Prices = PRICES) -> Iterator[Plan]:
    """Yield the plan with every ladder balanced.

    The nodes below a ladder are independent of each other, so they may be forked in a tree of any
    shape, as long as all states are of one type.
    """
    root = _balance(plan.root)
    if root != plan.root:
        yield Plan(root, plan.name)


def _balance(node: PlanNode) -> PlanNode:
    if not node.children:
        return node
    hanging = [_balance(branch) for branch in _collect(node)]
    children = pair_up(hanging, node.state, node.machine)
    return PlanNode(*node.slices, children=children, state=node.state, machine=node.machine)


def _collect(node: PlanNode) -> list[PlanNode]:
    """Return the nodes below the rungs of a ladder."""
    alike = all(child.state == node.state for child in node.children)
    found: list[PlanNode] = []
    for child in node.children:
        rung = alike and child.children and not len(child.slices)
        if rung and all(below.state == node.state for below in child.children):
            found += _collect(child)
        else:
            found.append(child)
    return found
