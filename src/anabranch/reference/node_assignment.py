"""The layout of a plan for a run: who answers for which event, and who must wait for whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.model.events import Event, Tag
from anabranch.model.order import OrderKey
from anabranch.model.program import ForkJoin, Program, StateType
from anabranch.model.slices import Slice, Slices
from anabranch.plan.tree import Plan, Worker
from anabranch.plan.validity import check_plan

CONTROL = "@control"
"""The source of snapshot requests; they stand above every worker and depend on everything."""

Stream = tuple[int, str]
"""An owner (a worker's number) and a source: what travels one way, in order."""


@dataclass(frozen=True)
class Seat:
    """A worker in its place."""

    number: int
    path: str
    worker: Worker
    kind: StateType
    parent: int | None
    children: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]
    fork: ForkJoin | None
    sides: tuple[Slices, ...]


@dataclass(frozen=True)
class NodeAssignment:
    """Everything about a plan that does not change during a run.

    `heirs[source]` are the workers that answer for events of a source. `conflicts[seat][stream]`
    are the streams whose events this seat's mailbox must have seen off before it lets an event of
    `stream` pass.
    """

    program: Program
    seats: tuple[Seat, ...]
    owners: dict[OrderKey, int]
    heirs: dict[str, tuple[int, ...]]
    conflicts: tuple[dict[Stream, tuple[Stream, ...]], ...]


def lay_out(
    program: Program, plan: Plan, events: Iterable[tuple[OrderKey, Event]], sources: Iterable[str]
) -> NodeAssignment:
    """Check a plan and lay it out for these events."""
    check_plan(program, plan)
    paths = plan.workers()
    numbers = {path: number for number, path in enumerate(paths)}
    seats = tuple(_seat(program, path, worker, numbers) for path, worker in paths.items())
    owners: dict[OrderKey, int] = {}
    carried: dict[Stream, set[Tag]] = {}
    for key, event in events:
        owner = owners[key] = _find_owner(program, seats, event)
        carried.setdefault((owner, event.source), set()).add(event.tag)
    heirs = {
        source: tuple(sorted(owner for owner, carrying in carried if carrying == source))
        for source in sources
    }
    conflicts = tuple(_conflicts(program, seats, seat, carried) for seat in seats)
    return NodeAssignment(program, seats, owners, heirs, conflicts)


def _seat(program: Program, path: str, worker: Worker, numbers: dict[str, int]) -> Seat:
    parent = path.rpartition(".")[0]
    children = tuple(numbers[f"{path}.{side}"] for side in range(len(worker.children)))
    ancestors = tuple(n for p, n in numbers.items() if path.startswith(p + "."))
    descendants = tuple(n for p, n in numbers.items() if p.startswith(path + "."))
    fork = None
    if worker.children:
        left, right = worker.children
        fork = program.find_fork(worker.state, left.state, right.state)
    return Seat(
        numbers[path],
        path,
        worker,
        program.state_type(worker.state),
        numbers[parent] if parent else None,
        children,
        ancestors,
        descendants,
        fork,
        tuple(child.subtree() for child in worker.children),
    )


def _answers(program: Program, seat: Seat, event: Event) -> bool:
    return seat.worker.slices.covers(event, program.lanes)


def _find_owner(program: Program, seats: tuple[Seat, ...], event: Event) -> int:
    """Return the lowest worker that answers for an event; the root, if none does."""
    found = 0
    for seat in seats:
        if len(seat.ancestors) >= len(seats[found].ancestors) and _answers(program, seat, event):
            found = seat.number
    return found


def _conflicts(
    program: Program, seats: tuple[Seat, ...], seat: Seat, carried: dict[Stream, set[Tag]]
) -> dict[Stream, tuple[Stream, ...]]:
    """Return, for each stream that reaches a mailbox, the streams it is ordered with there.

    A worker with children, and everything that comes from above, is kept in the total order: all
    mailboxes on one way down must see the same requests in the same order, or the workers would
    wait for each other. Only a leaf's own events are ordered as little as dependence asks for.
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
    seats: tuple[Seat, ...], stream: Stream, carried: dict[Stream, set[Tag]]
) -> list[Slice]:
    """Return what a stream carries: its owner's slices, or whole tags where nobody answers."""
    owner, source = stream
    own = [s for s in seats[owner].worker.slices if s.source in (None, source)]
    answered = {own_slice.tag for own_slice in own}
    # The root also gets what no worker answers for, of which no slice says anything.
    orphans = carried[stream] if owner == 0 else carried[stream] - answered
    return [*own, *(Slice(tag) for tag in orphans)]
