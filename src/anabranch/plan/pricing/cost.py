"""The cost of a plan: network bytes, synchronization rounds, and the busiest node's load.

Each node is a process with a core of its own, and costs a little even when it is idle: its
heartbeats. Without that, keys with few events would never share a node. All figures are per second of
stream; the total is in seconds of work per second of stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd
from typing import NamedTuple

from anabranch.model.program import Program
from anabranch.model.slices import Equals, Shard, Slice
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode


@dataclass(frozen=True)
class Prices:
    """Unit costs. The defaults are those of a common machine: 100 MB/s, 0.1 ms a round."""

    event_bytes: float = 64.0
    state_bytes: float = 64.0
    request_bytes: float = 24.0
    seconds_per_byte: float = 1e-8
    seconds_per_round: float = 1e-4
    seconds_per_event: float = 1e-6
    seconds_per_join: float = 5e-6
    seconds_per_node: float = 1e-5

    @property
    def capacity(self) -> float:
        """Return the events per second that one node can take: seven tenths of its time."""
        return 0.7 / self.seconds_per_event


PRICES = Prices()


class Cost(NamedTuple):
    """The cost of a plan, per second of stream."""

    network_bytes: float
    rounds: float
    busiest: float
    total: float

    def __str__(self) -> str:
        return (
            f"{self.network_bytes:,.0f} B/s on the network, {self.rounds:,.1f} rounds/s, "
            f"busiest node {self.busiest:.1%}"
        )


def assign(program: Program, plan: Plan, rates: Rates) -> dict[str, list[Load]]:
    """Return the loads of each node, by path.

    An event goes to the lowest node whose slices contain it. So where nodes take parts of a load
    (lanes), each gets its share; the rest goes to a node above them that takes it, or to the root.
    """
    nodes = plan.nodes()
    exact = {part: path for path, node in nodes.items() for part in node.slices}
    assigned: dict[str, list[Load]] = {path: [] for path in nodes}
    for load in rates.loads:
        path = exact.get(load.slice)
        if path is None:
            shares = _share_out(nodes.items(), load)
        elif nodes[path].children:
            shares = _share_out(nodes[path].walk(path), load)
        else:
            shares = {path: 1.0}
        for name, share in shares.items():
            assigned[name].append(load if share == 1.0 else replace(load, rate=load.rate * share))
    return assigned


def _share_out(nodes: Iterable[tuple[str, PlanNode]], load: Load) -> dict[str, float]:
    """Return each node's share of a load: by shards where slices are cut into them, else equal parts."""
    shares: dict[str, float] = {}
    near = [
        (path, sum(_fraction(part, load.slice) for part in node.slices)) for path, node in nodes
    ]
    for path, fraction in reversed(near):  # lower nodes take their share first
        if fraction:
            below = sum(share for p, share in shares.items() if p.startswith(path + "."))
            shares[path] = max(0.0, min(fraction, 1.0) - below)
    total = sum(shares.values())
    if total < 1.0 - 1e-9:
        shares["0"] = shares.get("0", 0.0) + 1.0 - total
    return {path: share / max(total, 1.0) for path, share in shares.items() if share}


def _fraction(part: Slice, load: Slice) -> float:
    """Return the fraction of a load that a slice takes; 1 where it is unknown."""
    if not part.overlaps(load):
        return 0.0
    fraction = 1.0
    for name, choice in part.where:
        arriving = load.choice(name)
        if isinstance(choice, Shard) and not isinstance(arriving, Equals):
            # Of the hashes that are i modulo n, every m / gcd(n, m)th is also j modulo m.
            fraction *= gcd(arriving.count if arriving else 1, choice.count) / choice.count
    return fraction


def price(program: Program, plan: Plan, rates: Rates, prices: Prices = PRICES) -> Cost:
    """Return the cost of a plan at these rates."""
    assigned = assign(program, plan, rates)
    tally = _Tally(prices, {path: sum(x.rate for x in loads) for path, loads in assigned.items()})
    for path, node in plan.root.walk():
        for load in assigned[path]:
            if node.machine not in (None, load.machine):
                tally.network += load.rate * prices.event_bytes
    tally.descend("0", plan.root, 0.0)
    total = (
        tally.busiest
        + tally.network * prices.seconds_per_byte
        + tally.rounds * prices.seconds_per_round
        + len(assigned) * prices.seconds_per_node
    )
    return Cost(tally.network, tally.rounds, tally.busiest, total)


class _Tally:
    def __init__(self, prices: Prices, own: dict[str, float]) -> None:
        self.prices = prices
        self.own = own
        self.network = self.rounds = self.busiest = 0.0

    def descend(self, path: str, node: PlanNode, from_above: float) -> int:
        """Add the cost of a subtree; return its height. `from_above` is how often ancestors join it."""
        prices, own = self.prices, self.own[path]
        syncs = from_above + (own if node.children else 0.0)
        joins = syncs if node.children else from_above
        busy = own * prices.seconds_per_event + joins * prices.seconds_per_join
        self.busiest = max(self.busiest, busy)
        height = 0
        for side, child in enumerate(node.children):
            if node.machine != child.machine:
                self.network += syncs * (2 * prices.state_bytes + prices.request_bytes)
            height = max(height, self.descend(f"{path}.{side}", child, syncs))
        self.rounds += own * height
        return height + 1
