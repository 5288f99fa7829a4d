"""The cheapest plan: an exhaustive search for a small program, rewrite rules for a large one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.model.program import Program
from anabranch.plan.assembly import assemble_balanced, place_by_rate
from anabranch.plan.optimizers.enumeration import enumerate_plans
from anabranch.plan.optimizers.greedy import grow_type_tree
from anabranch.plan.optimizers.keyed import plan_by_key
from anabranch.plan.optimizers.single_node import plan_sequentially
from anabranch.plan.pricing.cost import PRICES, Prices, price
from anabranch.plan.pricing.machine_placement import place
from anabranch.plan.pricing.rates import Rates, spread_hot
from anabranch.plan.rules import RULES
from anabranch.plan.tree import Plan

FEW = 5
"""Up to this many slices, the cost of every plan is computed."""


def plan_best(
    program: Program, rates: Rates, machines: Sequence[str] = (), prices: Prices = PRICES
) -> Plan:
    """Return the plan of least cost.

    Slices with too many events for one node are spread over lanes first; slices with few events share
    a node, because a node that is hardly busy is not worth its joins.
    """
    best: tuple[float, Plan] | None = None
    for candidate in _propose(program, rates, machines, prices):
        placed = place(program, candidate, rates, machines, prices)
        total = price(program, placed, rates, prices).total
        if best is None or total < best[0]:
            best = (total, placed)
    assert best is not None, "the sequential plan is always proposed"
    improved = _improve(program, best, rates, machines, prices)
    return Plan(improved.root, "best")


def _propose(
    program: Program, rates: Rates, machines: Sequence[str], prices: Prices
) -> Iterator[Plan]:
    yield plan_sequentially(program, rates, machines)
    yield plan_by_key(program, rates, machines)
    spread = spread_hot(program, rates, prices.capacity)
    for version in dict.fromkeys((rates, spread)):
        if len(version.loads) <= FEW:
            yield from enumerate_plans(program, [load.slice for load in version.loads])
        else:
            node = place_by_rate(grow_type_tree(program, version.loads), version.machines)
            root = assemble_balanced(program, node)
            if root is not None:
                yield Plan(root)


def _improve(
    program: Program,
    best: tuple[float, Plan],
    rates: Rates,
    machines: Sequence[str],
    prices: Prices,
) -> Plan:
    """Apply the rules while one of them makes the plan cheaper."""
    total, plan = best
    better = True
    while better:
        better = False
        for rule in RULES:
            for candidate in rule(program, plan, rates, prices):
                placed = place(program, candidate, rates, machines, prices)
                cost = price(program, placed, rates, prices).total
                if cost < total:
                    total, plan, better = cost, placed, True
                    break
    return plan
