"""Flumina's greedy hybrid: the greedy tree, all of it on the central machine."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.program import Program
from anabranch.plan.optimizers.greedy import plan_greedily
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan, PlanNode


def plan_hybrid(program: Program, rates: Rates, machines: Sequence[str] = ()) -> Plan:
    """Return the greedy tree on the first machine, which is assumed to be the central one."""
    central = (*machines, *rates.machines)[0]
    return Plan(_move(plan_greedily(program, rates, machines).root, central), "hybrid")


def _move(node: PlanNode, machine: str) -> PlanNode:
    children = tuple(_move(child, machine) for child in node.children)
    return PlanNode(*node.slices, children=children, state=node.state, machine=machine)
