"""Placement: the machine for each node that sends the fewest bytes over the network."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.program import Program
from anabranch.plan.pricing.cost import PRICES, Prices, assign
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode


def place(
    program: Program,
    plan: Plan,
    rates: Rates,
    machines: Sequence[str] = (),
    prices: Prices = PRICES,
) -> Plan:
    """Return the plan with each node on its best machine.

    Bytes add up over nodes and edges, so one pass from the leaves up finds the optimum: for each
    node and each machine, the least cost of its subtree if the node is there.
    """
    places = tuple(dict.fromkeys((*rates.machines, *machines))) or ("local",)
    assigned = assign(program, plan, rates)
    best = _Choice(assigned, places, prices)
    costs = best.weigh("0", plan.root, 0.0)
    machine = min(places, key=lambda name: (costs[name], places.index(name)))
    return Plan(best.settle("0", plan.root, machine), plan.name)


class _Choice:
    def __init__(
        self, assigned: dict[str, list[Load]], places: tuple[str, ...], prices: Prices
    ) -> None:
        self.assigned = assigned
        self.places = places
        self.prices = prices
        self.follow: dict[tuple[str, str], list[str]] = {}

    def weigh(self, path: str, node: PlanNode, from_above: float) -> dict[str, float]:
        """Return the least bytes of a subtree for each machine that its root could be on."""
        loads, prices = self.assigned[path], self.prices
        arriving: dict[str, float] = {}
        for load in loads:
            arriving[load.machine] = arriving.get(load.machine, 0.0) + load.rate
        own = sum(arriving.values())
        syncs = from_above + (own if node.children else 0.0)
        edge = syncs * (2 * prices.state_bytes + prices.request_bytes)
        below = [self.weigh(f"{path}.{s}", c, syncs) for s, c in enumerate(node.children)]
        nearest = [min(self.places, key=lambda n, c=costs: c[n]) for costs in below]  # type: ignore[misc]
        result = {}
        for machine in self.places:
            bytes_in = (own - arriving.get(machine, 0.0)) * prices.event_bytes
            follow = []
            for costs, near in zip(below, nearest, strict=True):
                stay = costs[machine] <= costs[near] + edge
                follow.append(machine if stay else near)
                bytes_in += costs[machine] if stay else costs[near] + edge
            self.follow[path, machine] = follow
            result[machine] = bytes_in
        return result

    def settle(self, path: str, node: PlanNode, machine: str) -> PlanNode:
        """Return the subtree with the best machine for each node."""
        follow = self.follow[path, machine]
        children = tuple(
            self.settle(f"{path}.{side}", child, follow[side])
            for side, child in enumerate(node.children)
        )
        return PlanNode(*node.slices, children=children, state=node.state, machine=machine)
