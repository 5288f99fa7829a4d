"""Flows: graphs of operations, which may have cycles, and a runner that delivers in any order.

Only what travels on one edge keeps its order, as between two machines. Everything else is up to a
seed. What reaches the barrier is released when nothing in flight could still change it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from anabranch.errors import InputError
from anabranch.model.events import FOREVER
from anabranch.speculation.barrier import Barrier
from anabranch.speculation.output_changes import Amount
from tests.speculation.flamestream.items import DataItem, GlobalTime
from tests.speculation.flamestream.operations import Broadcast, Merge, Operation

BARRIER = "barrier"
"""Where a flow ends."""


@dataclass(frozen=True)
class Flow:
    """Operations by name, and edges between them; items come in at `entry`, and leave at a barrier."""

    operations: Mapping[str, Operation]
    edges: tuple[tuple[str, str], ...]
    entry: str

    def __post_init__(self) -> None:
        for edge in self.edges:
            for name in edge:
                if name not in self.operations and name != BARRIER:
                    raise _refuse(f"an edge leads to or from {name!r}, which is no operation")
        if self.entry not in self.operations:
            raise _refuse(f"the entry {self.entry!r} is no operation")
        for name, operation in self.operations.items():
            if not self.exits(name):
                raise _refuse(f"nothing comes after {name!r}; let it lead to {BARRIER!r}")
            if len(self.exits(name)) > 1 and not isinstance(operation, Broadcast):
                raise _refuse(f"{name!r} leads to several; put a Broadcast between")
            entered = sum(end == name for _, end in self.edges) + (name == self.entry)
            if entered > 1 and not isinstance(operation, Merge):
                raise _refuse(f"several lead to {name!r}; put a Merge between")

    def exits(self, name: str) -> list[tuple[str, str]]:
        """Return the edges that leave an operation."""
        return [edge for edge in self.edges if edge[0] == name]


def _refuse(what: str) -> InputError:
    return InputError(what, expected="a flow in which every item knows its way")


class Runner:
    """A flow at work, one delivery after the other, chosen by a random number generator."""

    def __init__(self, flow: Flow, rng: Random) -> None:
        self._flow = flow
        self._rng = rng
        self._running = {
            name: operation.start(len(flow.exits(name)))
            for name, operation in flow.operations.items()
        }
        self._exits = {name: flow.exits(name) for name in flow.operations}
        self._ways: dict[tuple[str, str], deque[DataItem]] = {e: deque() for e in flow.edges}
        self._door = ("", flow.entry)
        self._ways[self._door] = deque()
        self._busy: list[tuple[str, str]] = []
        self._barrier = Barrier()
        self.arrived = 0
        self.released: list[Any] = []

    def source(self, item: DataItem) -> None:
        """Let an item come in; it waits at the door."""
        self._send(self._door, item)

    @property
    def is_idle(self) -> bool:
        """Say whether nothing is in flight."""
        return not self._busy

    def deliver(self) -> None:
        """Deliver the first item of some edge."""
        number = self._rng.randrange(len(self._busy))
        edge = self._busy[number]
        item = self._ways[edge].popleft()
        if not self._ways[edge]:
            self._busy[number] = self._busy[-1]
            self._busy.pop()
        if edge[1] == BARRIER:
            self.arrived += 1
            self._barrier.take(item.op, item.meta, item.payload)
            return
        for way, made in self._running[edge[1]].take(item):
            self._send(self._exits[edge[1]][way], made)

    def release(self, promised: int) -> None:
        """Release what is settled, given that nothing more comes in at or before a time."""
        flying = (item.meta.time.time for way in self._ways.values() for item in way)
        watermark = min((time - 1 for time in flying), default=FOREVER)
        bound = GlobalTime(min(promised, watermark) + 1)
        self.released += [payload for _, payload in self._barrier.release((bound,))]

    @property
    def amount(self) -> Amount:
        """Return how much came to the barrier, and how much was let through."""
        return Amount(self.arrived, len(self.released))

    def _send(self, edge: tuple[str, str], item: DataItem) -> None:
        if not self._ways[edge]:
            self._busy.append(edge)
        self._ways[edge].append(item)


def run_flow(flow: Flow, items: Iterable[DataItem], seed: int) -> Runner:
    """Run a flow on items in the order of their arrival, which is any; a seed chooses the rest."""
    rng = Random(seed)
    runner = Runner(flow, rng)
    arriving = list(items)
    # No item comes in below the least of those that are still to arrive.
    promises = [FOREVER] * (len(arriving) + 1)
    for place in range(len(arriving) - 1, -1, -1):
        promises[place] = min(promises[place + 1], arriving[place].meta.time.time - 1)
    # A flow that is far behind sees more of the order before it speaks, and corrects itself less.
    haste = rng.uniform(0, 0.3)
    place = 0
    while place < len(arriving) or not runner.is_idle:
        if place < len(arriving) and (runner.is_idle or rng.random() < haste):
            runner.source(arriving[place])
            place += 1
        else:
            runner.deliver()
        if rng.random() < 0.02:
            runner.release(promises[place])
    runner.release(FOREVER)
    return runner
