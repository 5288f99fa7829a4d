"""The plan of a key-by: one node per group of keys, nothing in parallel within a key.

This is how Spark and Flink cut a program; it serves as a baseline.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.program import Program
from anabranch.plan.assembly import TypeNode, assemble_balanced, place_by_rate
from anabranch.plan.graph import connect
from anabranch.plan.optimizers.single_node import plan_sequentially
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan


def plan_by_key(program: Program, rates: Rates, machines: Sequence[str] = ()) -> Plan:
    """Return the plan that separates independent slices; a sequential plan if all are connected."""
    groups = connect(program.dependence, [load.slice for load in rates.loads])
    if len(groups) < 2:
        return Plan(plan_sequentially(program, rates, machines).root, "keyed")
    leaves = tuple(TypeNode(tuple(rates.loads[n] for n in group)) for group in groups)
    node = place_by_rate(TypeNode((), leaves), machines or rates.machines)
    root = assemble_balanced(program, node)
    if root is None:
        return Plan(plan_sequentially(program, rates, machines).root, "keyed")
    return Plan(root, "keyed")
