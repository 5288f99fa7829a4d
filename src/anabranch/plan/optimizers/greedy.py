"""Flumina's greedy optimizer: rare event types at the root, until the rest separates.

Slices are sorted by rate. The least frequent ones are moved to the root until the rest has two
components that do not depend on each other; each component is then planned in the same way. Each
node is placed on the machine where most of its own events arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.errors import PlanError
from anabranch.model.program import Program
from anabranch.plan.assembly import TypeNode, assemble_lowest, place_by_rate
from anabranch.plan.graph import Islands, bundle_up, connect
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan


def plan_greedily(program: Program, rates: Rates, machines: Sequence[str] = ()) -> Plan:
    """Return Flumina's greedy plan, with its nodes near the channels."""
    node = place_by_rate(grow_type_tree(program, rates.loads), machines or rates.machines)
    root = assemble_lowest(program, node)
    if root is None:
        raise PlanError(
            f"{program.name} has no forks that lead to the greedy plan",
            where=program.where,
            expected="forks from the first state type down to types that handle the slices separately",
            got=", ".join(f"{f.parent}->{f.left},{f.right}" for f in program.forks) or "no forks",
            cure="give the program a fork and join, or use the sequential plan",
        )
    return Plan(root, "greedy")


def grow_type_tree(program: Program, loads: Sequence[Load]) -> TypeNode:
    """Return the tree of event types: which slices are above which."""
    ascending = sorted(loads, key=lambda load: load.rate)
    bundles = bundle_up(program.dependence, [load.slice for load in ascending])
    # Deleting from the front one by one is adding from the back: count components after each.
    islands = Islands(len(ascending), bundles)
    components = [0] * (len(ascending) + 1)
    for number in range(len(ascending) - 1, -1, -1):
        components[number] = islands.add(number)
    cut = 0
    while cut < len(ascending) and components[cut] < 2:
        cut += 1
    rest = ascending[cut:]
    groups = connect(program.dependence, [load.slice for load in rest])
    children = tuple(grow_type_tree(program, [rest[n] for n in group]) for group in groups)
    return TypeNode(tuple(ascending[:cut]), children)
