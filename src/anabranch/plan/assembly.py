"""Assembly: turn a tree of event types into a typed binary tree of plan nodes.

An optimizer decides which slices are above which. A program forks in two, and only between state
types that fit, so a node with many children becomes several nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.model.program import Program
from anabranch.plan.pricing.rates import Load
from anabranch.plan.tree import PlanNode, pair_up

_LONGEST_LADDER = 64
"""More children than this are balanced: a ladder of a thousand rungs is of no use."""

_MOST_TRIED = 7
"""With more children than this, forks between unlike types are tried in order of height only."""


@dataclass(frozen=True)
class TypeNode:
    """Loads of one node, and the nodes below it."""

    loads: tuple[Load, ...] = ()
    children: tuple[TypeNode, ...] = ()
    machine: str = ""

    def event_types(self) -> frozenset[type]:
        """Return the event types of this node and all below."""
        own = frozenset(load.slice.event_type for load in self.loads)
        return own.union(*(child.event_types() for child in self.children))


Known = dict[tuple[TypeNode, str], PlanNode | None]
"""The result of assembling a node in a state type."""


def place_by_rate(node: TypeNode, machines: Sequence[str]) -> TypeNode:
    """Place each node where most of its own events arrive; an empty one on the first machine."""
    arriving: dict[str, float] = {}
    for load in node.loads:
        arriving[load.machine] = arriving.get(load.machine, 0.0) + load.rate
    machine = max(arriving, key=lambda name: arriving[name]) if arriving else machines[0]
    children = tuple(place_by_rate(child, machines) for child in node.children)
    return TypeNode(node.loads, children, machine)


def place_at(node: TypeNode, machine: str) -> TypeNode:
    """Place every node on one machine."""
    return TypeNode(node.loads, tuple(place_at(c, machine) for c in node.children), machine)


def assemble_lowest(
    program: Program, node: TypeNode, state: str | None = None, known: Known | None = None
) -> PlanNode | None:
    """Return the lowest node tree in which one child at a time is forked off, as Flumina does.

    None if no chain of the program's forks leads from the state type to the leaves' event types. Results
    are cached in `known`: many choices lead to the same remaining children.
    """
    state = state or program.initial.name
    known = {} if known is None else known
    if (node, state) not in known:
        known[node, state] = _assemble_lowest(program, node, state, known)
    return known[node, state]


def _assemble_lowest(program: Program, node: TypeNode, state: str, known: Known) -> PlanNode | None:
    if not program.state_type(state).handles(node.event_types()):
        return None
    if not node.children:
        return _plan_node(node, state, ())
    if len(node.children) == 1:
        merged = TypeNode(
            node.loads + node.children[0].loads, node.children[0].children, node.machine
        )
        return assemble_lowest(program, merged, state, known)
    if len(node.children) > _LONGEST_LADDER and program.find_fork(state, state, state):
        return assemble_balanced(program, node, state)
    best: PlanNode | None = None
    for fork in program.forks:
        if fork.parent != state:
            continue
        alike = fork.left == fork.right
        for first, rest in _choose_first(node):
            sides = [(first, rest)] if alike else [(first, rest), (rest, first)]
            found = False
            for left, right in sides:
                a = assemble_lowest(program, left, fork.left, known)
                b = assemble_lowest(program, right, fork.right, known) if a else None
                if a and b:
                    found = True
                    candidate = _plan_node(node, state, (a, b))
                    if best is None or candidate.height < best.height:
                        best = candidate
            if alike and found:
                break  # The highest child is the first choice, and no other choice is lower.
    return best


def _choose_first(node: TypeNode) -> list[tuple[TypeNode, TypeNode]]:
    """Return the choices of one child and the remaining ones, the highest child first.

    Where both sides are of one type, that is best: the sides' heights are then as even as a
    one-by-one split allows. Of equal children, one is tried.
    """
    ordered = sorted(node.children, key=_type_height, reverse=True)
    tried: list[tuple[TypeNode, TypeNode]] = []
    seen: set[tuple[frozenset[type], bool]] = set()
    for place, child in enumerate(ordered):
        signature = (child.event_types(), not child.children)
        if signature in seen:
            continue
        seen.add(signature)
        rest = ordered[:place] + ordered[place + 1 :]
        together = rest[0] if len(rest) == 1 else TypeNode((), tuple(rest), node.machine)
        tried.append((child, together))
        if len(ordered) > _MOST_TRIED and len(tried) > 1:
            break
    return tried


def assemble_balanced(
    program: Program, node: TypeNode, state: str | None = None
) -> PlanNode | None:
    """Return a node tree whose forks are balanced, where the state type forks into its own kind.

    Children on one machine are grouped first, so that their states are joined before they are sent.
    Where types differ, children are forked off one at a time.
    """
    state = state or program.initial.name
    if not program.state_type(state).handles(node.event_types()):
        return None
    if len(node.children) < 2 or program.find_fork(state, state, state) is None:
        return assemble_lowest(program, node, state)
    below = [assemble_balanced(program, child, state) for child in node.children]
    plan_nodes = [plan_node for plan_node in below if plan_node is not None]
    if len(plan_nodes) < len(below):
        return assemble_lowest(program, node, state)
    by_machine: dict[str | None, list[PlanNode]] = {}
    for plan_node in plan_nodes:
        by_machine.setdefault(plan_node.machine, []).append(plan_node)
    if len(by_machine) > 1:
        plan_nodes = [_merge(group, state, machine) for machine, group in by_machine.items()]
    return _merge(plan_nodes, state, node.machine, node.loads)


def _merge(
    plan_nodes: list[PlanNode], state: str, machine: str | None, loads: tuple[Load, ...] = ()
) -> PlanNode:
    """Return one node above all of these, as low as it can be."""
    children = pair_up(plan_nodes, state, machine)
    if len(children) == 1 and not loads:
        return children[0]
    return PlanNode(
        *(load.slice for load in loads), children=children, state=state, machine=machine
    )


def _plan_node(node: TypeNode, state: str, children: tuple[PlanNode, ...]) -> PlanNode:
    slices = [load.slice for load in node.loads]
    return PlanNode(*slices, children=children, state=state, machine=node.machine or None)


def _type_height(node: TypeNode) -> int:
    # A node with many children becomes a ladder: each rung adds a level.
    heights = sorted((_type_height(child) for child in node.children), reverse=True)
    return 1 + max((place + height for place, height in enumerate(heights)), default=0)
