"""Timing: the simulator with a clock, to estimate how a plan scales before it is deployed.

The protocol is the simulator's, message for message. Only the network differs: the delay of a message
depends on its distance and size, and a busy node receives it later.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch.model.events import Event
from anabranch.model.order import OrderKey
from anabranch.plan.pricing.cost import Prices
from anabranch.reference.network import Address, Message, Network
from anabranch.reference.simulator import NO_FAULTS, Rehearsal, Run

FLUMINA = Prices(seconds_per_event=6.5e-6, seconds_per_round=1e-4, seconds_per_join=2e-5)
"""Prices of Flumina's published runs: 155 events per millisecond on one node, and a LAN."""


class Timing(NamedTuple):
    """The duration of a run, and its network traffic."""

    seconds: float
    events: int
    network_bytes: float
    network_messages: int

    @property
    def throughput(self) -> float:
        """Return events per second."""
        return self.events / self.seconds


@dataclass(frozen=True)
class _Map:
    """The machine of each address."""

    seats: tuple[str | None, ...]
    channels: tuple[str | None, ...]

    def of(self, address: Address) -> str | None:
        return self.seats[address] if address >= 0 else self.channels[-1 - address]


class TimedNetwork(Network):
    """Deliver every message once, at its time, when its receiver is not busy."""

    def __init__(self, machines: _Map, prices: Prices) -> None:
        super().__init__(random.Random(0), 0.0)
        self.machines = machines
        self.prices = prices
        self.clocks: dict[Address, float] = {}
        self.bytes = 0.0
        self.crossings = 0
        self._last: dict[tuple[Address, Address], float] = {}
        self._heap: list[tuple[float, int, Address, Message]] = []

    def send(self, sender: Address, receiver: Address, message: Message) -> None:
        """Send a message; within one machine it arrives at once."""
        prices = self.prices
        arrival = self.clocks.get(sender, 0.0)
        if self.machines.of(sender) != self.machines.of(receiver):
            size = _size(message, prices)
            self.bytes += size
            self.crossings += 1
            arrival += prices.seconds_per_round + size * prices.seconds_per_byte
        # A small message must not overtake a large one on the same channel.
        pair = (sender, receiver)
        arrival = self._last[pair] = max(arrival, self._last.get(pair, 0.0))
        self.messages += 1
        heapq.heappush(self._heap, (arrival, self.messages, receiver, message))

    def deliver(self) -> tuple[Address, Message] | None:
        """Deliver the earliest message, and advance its receiver's clock to it."""
        if not self._heap:
            return None
        arrival, _, receiver, message = heapq.heappop(self._heap)
        self.clocks[receiver] = max(self.clocks.get(receiver, 0.0), arrival)
        return receiver, message

    def spend(self, node: Address, seconds: float) -> None:
        """Advance a node's clock by its work."""
        self.clocks[node] = self.clocks.get(node, 0.0) + seconds


class TimedRun(Run):
    """A run whose work takes time."""

    network: TimedNetwork

    def apply(self, node: Any, key: OrderKey, event: Event) -> None:
        """Spend an event's time, then process it."""
        self.network.spend(node.seat.number, self.network.prices.seconds_per_event)
        super().apply(node, key, event)

    def join(self, node: Any) -> None:
        """Spend a join's time, then join."""
        self.network.spend(node.seat.number, self.network.prices.seconds_per_join)
        super().join(node)


def time_run(
    rehearsal: Rehearsal, machines: Mapping[str, str] | None = None, prices: Prices = FLUMINA
) -> Timing:
    """Return the timing of a plan for an input that is available at once.

    `machines` is the machine of each channel; by default each channel is on a machine of its name.
    """
    where = machines or {}
    seats = tuple(seat.node.machine for seat in rehearsal.layout.seats)
    channels = tuple(where.get(e.channel, e.channel) for e in rehearsal.emissions)
    network = TimedNetwork(_Map(seats, channels), prices)
    simulation = TimedRun(rehearsal, 0, NO_FAULTS, network=network).finish()
    assert simulation.ledger.pending == 0, "the input must end, or it can't be timed"
    seconds = max(network.clocks.values(), default=0.0)
    return Timing(seconds, simulation.ledger.processed, network.bytes, network.crossings)


def _size(message: Message, prices: Prices) -> float:
    kind = message[0]
    if kind == "event":
        return prices.event_bytes
    return prices.state_bytes if kind in ("up", "down") else prices.request_bytes
