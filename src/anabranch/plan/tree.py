"""Plans as data: an immutable tree of plan nodes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anabranch.errors import PlanError
from anabranch.html_tables import show_line, show_table
from anabranch.model.events import EventType
from anabranch.model.slices import Slice, Slices


@dataclass(frozen=True, init=False)
class PlanNode:
    """A node of a plan: a state of one type, the slices it handles, and none or two children.

    `PlanNode(Barrier, children=(PlanNode(take(Value, channel="a1")), PlanNode(take(Value, channel="a2"))))`
    """

    slices: Slices
    children: tuple[PlanNode, ...]
    state: str
    machine: str | None

    def __init__(
        self,
        *slices: Slice | EventType,
        children: Iterable[PlanNode] = (),
        state: str = "state",
        machine: str | None = None,
    ) -> None:
        object.__setattr__(self, "slices", Slices(slices))
        object.__setattr__(self, "children", tuple(children))
        object.__setattr__(self, "state", state)
        object.__setattr__(self, "machine", machine)
        if len(self.children) not in (0, 2):
            raise PlanError(
                f"node {self.slices} has {len(self.children)} children",
                expected="none or two: a fork has two sides",
                got=str(len(self.children)),
                cure="nest nodes with no slices of their own to fork more than once",
            )
        if not self.children and not len(self.slices):
            raise PlanError(
                "a node without children has nothing to do",
                expected="at least one slice: PlanNode(take(Value, channel='a1'))",
                got="no slices",
                cure="leave the node out and give its parent's state to the other side",
            )

    def subtree(self) -> Slices:
        """Return all slices of this node and of the nodes below it."""
        everything = self.slices
        for child in self.children:
            everything |= child.subtree()
        return everything

    def walk(self, path: str = "0") -> Iterator[tuple[str, PlanNode]]:
        """Yield this node and all below it, each with its path (0, 0.0, 0.1, 0.0.0)."""
        yield path, self
        for side, child in enumerate(self.children):
            yield from child.walk(f"{path}.{side}")

    @property
    def height(self) -> int:
        """Return the number of nodes on the longest path down."""
        return 1 + max((child.height for child in self.children), default=0)

    def __repr__(self) -> str:
        inner = [str(own) for own in self.slices]
        if self.children:
            inner.append("[" + ", ".join(map(repr, self.children)) + "]")
        return f"PlanNode({', '.join(inner)})"


@dataclass(frozen=True)
class Plan:
    """A tree of plan nodes. `plan.validity` checks whether it is valid for a program."""

    root: PlanNode
    name: str = "plan"

    def nodes(self) -> dict[str, PlanNode]:
        """Return every node by its path."""
        return dict(self.root.walk())

    @property
    def height(self) -> int:
        """Return the number of nodes on the longest path down."""
        return self.root.height

    def _repr_html_(self) -> str:
        rows = [
            (path, node.state, ", ".join(map(str, node.slices)), node.machine or "")
            for path, node in self.nodes().items()
        ]
        table = show_table(("node", "state", "handles", "machine"), rows)
        return show_line("plan", self.name) + table


def pair_up(nodes: Sequence[PlanNode], state: str, machine: str | None) -> tuple[PlanNode, ...]:
    """Join the two lowest trees repeatedly, until two are left: no pairing is lower."""
    heap = [(node.height, number, node) for number, node in enumerate(nodes)]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 2:
        (low, _, a), (high, _, b) = heapq.heappop(heap), heapq.heappop(heap)
        joined = PlanNode(children=(a, b), state=state, machine=machine)
        heapq.heappush(heap, (max(low, high) + 1, number, joined))
        number += 1
    return tuple(node for _, _, node in sorted(heap, key=lambda entry: entry[1]))
