"""What a plan costs: network bytes, synchronization rounds, and the busiest worker's load.

Each worker is a process with a core of its own. All figures are per second of stream; the total is
in seconds of work per second of stream, so a total above 1 can't keep up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from anabranch.model.program import Program
from anabranch.model.slices import Slices
from anabranch.plan.rates import Load, Rates
from anabranch.plan.tree import Plan, Worker


@dataclass(frozen=True)
class Prices:
    """What things cost. The defaults are a plain machine's: 100 MB/s, 0.1 ms a round."""

    event_bytes: float = 64.0
    state_bytes: float = 64.0
    request_bytes: float = 24.0
    seconds_per_byte: float = 1e-8
    seconds_per_round: float = 1e-4
    seconds_per_event: float = 1e-6
    seconds_per_join: float = 5e-6

    @property
    def capacity(self) -> float:
        """Return how many events per second are plenty for one worker: seven tenths of its time."""
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
            f"busiest worker {self.busiest:.1%}"
        )


def assign(program: Program, plan: Plan, rates: Rates) -> dict[str, list[Load]]:
    """Return the loads each worker answers for, by path: the lowest that covers, else the root."""
    workers = plan.workers()
    depth = {path: path.count(".") for path in workers}
    exact = {part: path for path, worker in workers.items() for part in worker.slices}
    assigned: dict[str, list[Load]] = {path: [] for path in workers}
    for load in rates.loads:
        path = exact.get(load.slice)
        if path is None:
            covering = [p for p, worker in workers.items() if _covers(worker.slices, load)]
            path = max(covering, key=lambda p: depth[p], default="0")
        assigned[path].append(load)
    return assigned


def _covers(slices: Slices, load: Load) -> bool:
    return any(own.overlaps(load.slice) for own in slices)


def price(program: Program, plan: Plan, rates: Rates, prices: Prices = PRICES) -> Cost:
    """Return what a plan costs at these rates."""
    assigned = assign(program, plan, rates)
    tally = _Tally(prices, {path: sum(x.rate for x in loads) for path, loads in assigned.items()})
    for path, worker in plan.root.walk():
        for load in assigned[path]:
            if worker.machine not in (None, load.machine):
                tally.network += load.rate * prices.event_bytes
    tally.descend("0", plan.root, 0.0)
    total = (
        tally.busiest
        + tally.network * prices.seconds_per_byte
        + tally.rounds * prices.seconds_per_round
    )
    return Cost(tally.network, tally.rounds, tally.busiest, total)


class _Tally:
    def __init__(self, prices: Prices, own: dict[str, float]) -> None:
        self.prices = prices
        self.own = own
        self.network = self.rounds = self.busiest = 0.0

    def descend(self, path: str, worker: Worker, from_above: float) -> int:
        """Add up a subtree; return its height. `from_above` is how often ancestors ask for it."""
        prices, own = self.prices, self.own[path]
        asked = from_above + (own if worker.children else 0.0)
        joins = asked if worker.children else from_above
        busy = own * prices.seconds_per_event + joins * prices.seconds_per_join
        self.busiest = max(self.busiest, busy)
        height = 0
        for side, child in enumerate(worker.children):
            if worker.machine != child.machine:
                self.network += asked * (2 * prices.state_bytes + prices.request_bytes)
            height = max(height, self.descend(f"{path}.{side}", child, asked))
        self.rounds += own * height
        return height + 1
