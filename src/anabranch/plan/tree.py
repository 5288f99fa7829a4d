"""Plans as data: an immutable tree of workers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anabranch.errors import PlanError
from anabranch.model.events import Tag
from anabranch.model.slices import Slice, Slices


@dataclass(frozen=True, init=False)
class Worker:
    """A node of a plan: a state of one type, the slices it answers for, and none or two children.

    `Worker(Barrier, children=(Worker(take(Value, source="a1")), Worker(take(Value, source="a2"))))`
    """

    slices: Slices
    children: tuple[Worker, ...]
    state: str
    machine: str | None

    def __init__(
        self,
        *slices: Slice | Tag,
        children: Iterable[Worker] = (),
        state: str = "state",
        machine: str | None = None,
    ) -> None:
        object.__setattr__(self, "slices", Slices(slices))
        object.__setattr__(self, "children", tuple(children))
        object.__setattr__(self, "state", state)
        object.__setattr__(self, "machine", machine)
        if len(self.children) not in (0, 2):
            raise PlanError(
                f"worker {self.slices} has {len(self.children)} children",
                expected="none or two: a fork has two sides",
                got=str(len(self.children)),
                cure="nest workers with no slices of their own to fork more than once",
            )
        if not self.children and not len(self.slices):
            raise PlanError(
                "a worker without children has nothing to do",
                expected="at least one slice: Worker(take(Value, source='a1'))",
                got="no slices",
                cure="leave the worker out and give its parent's state to the other side",
            )

    def subtree(self) -> Slices:
        """Return everything that this worker and those below it answer for."""
        everything = self.slices
        for child in self.children:
            everything |= child.subtree()
        return everything

    def walk(self, path: str = "0") -> Iterator[tuple[str, Worker]]:
        """Yield this worker and all below it, each with its path (0, 0.0, 0.1, 0.0.0)."""
        yield path, self
        for side, child in enumerate(self.children):
            yield from child.walk(f"{path}.{side}")

    @property
    def height(self) -> int:
        """Return the number of workers on the longest way down."""
        return 1 + max((child.height for child in self.children), default=0)

    def __repr__(self) -> str:
        inner = [str(own) for own in self.slices]
        if self.children:
            inner.append("[" + ", ".join(map(repr, self.children)) + "]")
        return f"Worker({', '.join(inner)})"


@dataclass(frozen=True)
class Plan:
    """A tree of workers. Whether it is valid is for a program to say: `plan.validity`."""

    root: Worker
    name: str = "plan"

    def workers(self) -> dict[str, Worker]:
        """Return every worker by its path."""
        return dict(self.root.walk())

    @property
    def height(self) -> int:
        """Return the number of workers on the longest way down."""
        return self.root.height


def pair_up(workers: Sequence[Worker], state: str, machine: str | None) -> tuple[Worker, ...]:
    """Join the two lowest trees, again and again, until two are left: no pairing is lower."""
    heap = [(worker.height, number, worker) for number, worker in enumerate(workers)]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 2:
        (low, _, a), (high, _, b) = heapq.heappop(heap), heapq.heappop(heap)
        joined = Worker(children=(a, b), state=state, machine=machine)
        heapq.heappush(heap, (max(low, high) + 1, number, joined))
        number += 1
    return tuple(worker for _, _, worker in sorted(heap, key=lambda entry: entry[1]))
