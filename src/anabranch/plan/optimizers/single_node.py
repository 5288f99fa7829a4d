"""The sequential plan: one node for everything, on the machine where most events arrive."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.program import Program
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan, PlanNode


def plan_sequentially(program: Program, rates: Rates, machines: Sequence[str] = ()) -> Plan:
    """Return the sequential plan, the reference for the results of all others."""
    arriving: dict[str, float] = {}
    for load in rates.loads:
        arriving[load.machine] = arriving.get(load.machine, 0.0) + load.rate
    machine = max(arriving, key=lambda name: arriving[name]) if arriving else None
    root = PlanNode(*program.event_types, state=program.initial.name, machine=machine)
    return Plan(root, "sequential")
