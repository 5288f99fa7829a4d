"""Flumina's greedy hybrid: the greedy tree, all of it on the central machine."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.program import Program
from anabranch.plan.optimizers.greedy import plan_greedily
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan, Worker


def plan_hybrid(program: Program, rates: Rates, machines: Sequence[str] = ()) -> Plan:
    """Return the greedy tree on the first machine, which is taken to be the central one."""
    central = (*machines, *rates.machines)[0]
    return Plan(_move(plan_greedily(program, rates, machines).root, central), "hybrid")


def _move(worker: Worker, machine: str) -> Worker:
    children = tuple(_move(child, machine) for child in worker.children)
    return Worker(*worker.slices, children=children, state=worker.state, machine=machine)
