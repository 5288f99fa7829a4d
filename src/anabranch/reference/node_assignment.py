"""The assignment of a plan for a run: which node owns which event, and which streams wait for which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.model.events import Event, EventType
from anabranch.model.order import OrderKey
from anabranch.model.program import ForkJoin, Program, StateType
from anabranch.model.slices import Slice, Slices
from anabranch.plan.tree import Plan, PlanNode
from anabranch.plan.validity import check_plan

CONTROL = "@control"
"""The channel of snapshot requests, which depend on all events of all nodes."""

Stream = tuple[int, str]
"""An owner (a node's number) and a channel: messages between them stay in order."""


@dataclass(frozen=True)
class Seat:
    """A plan node with its number, parent and children."""

    number: int
    path: str
    node: PlanNode
    kind: StateType
    parent: int | None
    children: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]
    fork: ForkJoin | None
    sides: tuple[Slices, ...]


@dataclass(frozen=True)
class NodeAssignment:
    """The parts of a plan that do not change during a run.

    `heirs[channel]` are the nodes that own events of a channel. `conflicts[seat][stream]` are the
    streams whose earlier events this seat's mailbox must have released before an event of `stream`.
    """

    program: Program
    seats: tuple[Seat, ...]
    owners: dict[OrderKey, int]
    heirs: dict[str, tuple[int, ...]]
    conflicts: tuple[dict[Stream, tuple[Stream, ...]], ...]


def lay_out(
    program: Program, plan: Plan, events: Iterable[tuple[OrderKey, Event]], channels: Iterable[str]
) -> NodeAssignment:
    """Check a plan, and return its assignment for these events."""
    check_plan(program, plan)
    paths = plan.nodes()
    numbers = {path: number for number, path in enumerate(paths)}
    seats = tuple(_seat(program, path, node, numbers) for path, node in paths.items())
    owners: dict[OrderKey, int] = {}
    carried: dict[Stream, set[EventType]] = {}
    for key, event in events:
        owner = owners[key] = _find_owner(program, seats, event)
        carried.setdefault((owner, event.channel), set()).add(event.event_type)
    heirs = {
        channel: tuple(sorted(owner for owner, carrying in carried if carrying == channel))
        for channel in channels
    }
    conflicts = tuple(_conflicts(program, seats, seat, carried) for seat in seats)
    return NodeAssignment(program, seats, owners, heirs, conflicts)


def _seat(program: Program, path: str, node: PlanNode, numbers: dict[str, int]) -> Seat:
    parent = path.rpartition(".")[0]
    children = tuple(numbers[f"{path}.{side}"] for side in range(len(node.children)))
    ancestors = tuple(n for p, n in numbers.items() if path.startswith(p + "."))
    descendants = tuple(n for p, n in numbers.items() if p.startswith(path + "."))
    fork = None
    if node.children:
        left, right = node.children
        fork = program.find_fork(node.state, left.state, right.state)
    return Seat(
        numbers[path],
        path,
        node,
        program.state_type(node.state),
        numbers[parent] if parent else None,
        children,
        ancestors,
        descendants,
        fork,
        tuple(child.subtree() for child in node.children),
    )


def _answers(program: Program, seat: Seat, event: Event) -> bool:
    return seat.node.slices.covers(event, program.lanes)


def _find_owner(program: Program, seats: tuple[Seat, ...], event: Event) -> int:
    """Return the lowest node that owns an event; the root, if none does."""
    found = 0
    for seat in seats:
        if len(seat.ancestors) >= len(seats[found].ancestors) and _answers(program, seat, event):
            found = seat.number
    return found


def _conflicts(
    program: Program, seats: tuple[Seat, ...], seat: Seat, carried: dict[Stream, set[EventType]]
) -> dict[Stream, tuple[Stream, ...]]:
    """Return, for each stream of a mailbox, the streams that it is ordered with there.

    Events of a node with children, and all requests from above, are in the total order: all mailboxes
    on a path from the root must see the same requests in the same order, or the nodes would deadlock.
    Only a leaf's own events are ordered as far as dependence requires, and no further.
    """
    control: Stream = (0, CONTROL)
    above = (*seat.ancestors, seat.number)
    reaching = [control, *sorted(stream for stream in carried if stream[0] in above)]

    def ordered(a: Stream, b: Stream) -> bool:
        if control in (a, b) or seat.children:
            return True
        if seat.number not in (a[0], b[0]):
            return True
        return any(
            program.dependence.depend(x, y)
            for x in _slices_of(seats, a, carried)
            for y in _slices_of(seats, b, carried)
        )

    return {a: tuple(b for b in reaching if b != a and ordered(a, b)) for a in reaching}


def _slices_of(
    seats: tuple[Seat, ...], stream: Stream, carried: dict[Stream, set[EventType]]
) -> list[Slice]:
    """Return the slices of a stream: those of its owner, or whole event types for events without owner."""
    owner, channel = stream
    own = [s for s in seats[owner].node.slices if s.channel in (None, channel)]
    answered = {own_slice.event_type for own_slice in own}
    # The root also gets the events that no node owns, which no slice describes.
    orphans = carried[stream] if owner == 0 else carried[stream] - answered
    return [*own, *(Slice(event_type) for event_type in orphans)]
