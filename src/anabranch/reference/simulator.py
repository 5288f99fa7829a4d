"""The simulator: run a program under a plan; a seed decides deliveries, repeated messages and crashes.

Nodes, mailboxes and eager join requests are as in Flumina. Under every other seed, a node without
children folds its leaf events from zero into a delta, as shards do, and joins the delta with its state
when the state is requested. A snapshot is a request that depends on all events, so it contains exactly
the events before it. After a crash all nodes restart from the last snapshot, and the channels replay
the events after it. The sink keeps an output once, by its id, and checks that a repeated one is equal:
for a deterministic program, this is sufficient for exactly-once outputs.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from anabranch.eventtime.channels import Channel, Late, Rejected, check_units, follow, read_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.timers import TIMERS, find_wakes
from anabranch.model.events import FOREVER, Event, Item
from anabranch.model.failures import Failed, attempt
from anabranch.model.order import OrderKey, bound_after, sort_events
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.model.step import Outputs
from anabranch.plan.foldable_leaves import find_silent_leaves
from anabranch.plan.transitions import Transition, carry, transition
from anabranch.plan.tree import Plan
from anabranch.reference.mailboxes import Mailbox
from anabranch.reference.network import Network
from anabranch.reference.node_assignment import CONTROL, NodeAssignment, Seat, Stream, lay_out
from anabranch.reference.sequential import Output

_CONTROL_STREAM: Stream = (0, CONTROL)
_END: OrderKey = (FOREVER, -1)
_DEADLINE_STEPS = 50_000_000


@dataclass(frozen=True)
class Faults:
    """Limits of faults: the maximum of crashes and snapshots, and the probability of a repeated message."""

    crashes: int = 2
    snapshots: int = 3
    repeat: float = 0.05


NO_FAULTS = Faults(crashes=0, snapshots=0, repeat=0.0)


class Counts(NamedTuple):
    """Counts of the steps, messages and faults of a simulation."""

    steps: int
    messages: int
    duplicates: int
    crashes: int
    snapshots: int
    joins: int


@dataclass(frozen=True)
class Simulation:
    """The result of one seed. `state` is None if the input has not ended."""

    seed: int
    outputs: list[Output]
    state: Any
    ended: bool
    ledger: Ledger
    late: list[Late]
    rejected: list[Rejected]
    counts: Counts
    trace: list[str]


@dataclass(frozen=True)
class Emission:
    """The messages of one channel: its events in the total order, and its watermarks.

    Each entry is (key, event) or, for a watermark, (key, None).
    """

    channel: str
    entries: tuple[tuple[OrderKey, Event | None], ...]


@dataclass(frozen=True)
class Rehearsal:
    """A program, a plan and an input, ready to be run under many seeds."""

    program: Program
    layout: NodeAssignment
    emissions: tuple[Emission, ...]
    keys: tuple[OrderKey, ...]
    unsent: int
    late: tuple[Late, ...]
    rejected: tuple[Rejected, ...]
    ended: bool
    later: tuple[tuple[Transition, NodeAssignment], ...] = ()

    def run(self, seed: int, faults: Faults = Faults(), *, trace: bool = False) -> Simulation:  # noqa: B008 - frozen
        """Return the simulation of one seed."""
        return Run(self, seed, faults, trace=trace).finish()


def rehearse(
    program: Program,
    plan: Plan,
    items: Iterable[Item],
    channels: Iterable[Channel] = (),
    *,
    then: Sequence[Plan] = (),
) -> Rehearsal:
    """Return a rehearsal: the judged items of each channel, and the plan assigned to them.

    An invalid plan raises an error. With `then`, the run switches to these plans one after the other,
    in mid-stream, at moments that the seed picks.
    """
    known, brought, rejected = read_channels(items, channels)
    check_units(program, known.values())
    late: list[Late] = []
    emissions: list[Emission] = []
    unsent = 0
    followed_channels = {
        name: follow(known[name], brought[name], program.inputs) for name in sorted(brought)
    }
    watermark = min(
        (followed.watermark for followed in followed_channels.values()), default=FOREVER
    )
    for name, followed in followed_channels.items():
        late += followed.late
        rejected += followed.rejected
        # Events after the program's watermark wait for a channel that may send nothing more. A channel
        # sends its events only when its own watermark has passed them, since they may be out of order.
        stable = [event for event in followed.good if event.time <= watermark]
        sent = sort_events(program.ranks, stable)
        promises = [(bound_after(promise), None) for promise in followed.promises]
        unsent += len(followed.good) - len(sent)
        emissions.append(Emission(name, tuple(sorted([*sent, *promises], key=_first))))
    if program.timers:
        emissions.append(_emit_timers(program, emissions, watermark))
    everything = [(k, e) for emission in emissions for k, e in emission.entries if e is not None]
    names = [emission.channel for emission in emissions]
    layout = lay_out(program, plan, everything, names)
    later = tuple(
        (transition(program, old, new), lay_out(program, new, everything, names))
        for old, new in pairwise((plan, *then))
    )
    return Rehearsal(
        program,
        layout,
        tuple(emissions),
        tuple(sorted(key for key, _ in everything)),
        unsent,
        tuple(late),
        tuple(rejected),
        watermark == FOREVER,
        later,
    )


def _emit_timers(program: Program, emissions: list[Emission], watermark: int) -> Emission:
    """Return the timers that the sequential fold sets, as a separate channel.

    The simulation tests how plans process timers; the sequential fold defines which timers there are.
    """
    events = [(k, e) for emission in emissions for k, e in emission.entries if e is not None]
    stable = sorted(((k, e) for k, e in events if e.time <= watermark), key=_first)
    wakes = find_wakes(program, stable, watermark)
    promise = (bound_after(watermark), None)
    return Emission(TIMERS, (*wakes, promise))


def _first(entry: tuple[OrderKey, Event | None]) -> OrderKey:
    return entry[0]


def simulate(
    program: Program,
    plan: Plan,
    items: Iterable[Item],
    channels: Iterable[Channel] = (),
    *,
    seed: int = 0,
    faults: Faults = Faults(),  # noqa: B008 - frozen
) -> Simulation:
    """Run a program under a plan once. For many seeds, `rehearse` once and run that."""
    return rehearse(program, plan, items, channels).run(seed, faults)


class _Node:
    """A seat with its mailbox, the released requests not yet processed, and the state while it has it."""

    __slots__ = ("delta", "given", "inbox", "mailbox", "seat", "state", "waiting_for_parent")

    def __init__(self, seat: Seat, mailbox: Mailbox) -> None:
        self.seat = seat
        self.mailbox = mailbox
        self.inbox: deque[tuple[Stream, OrderKey, Any]] = deque()
        self.state: Any = None
        self.delta: Any = MISSING
        self.given: dict[int, Any] = {}
        self.waiting_for_parent = False

    def fold_apart(self, event: Event) -> Outputs:
        """Add an event to the delta; return the outputs."""
        kind = self.seat.kind
        delta = kind.begin_delta() if self.delta is MISSING else self.delta
        self.delta, outputs = kind.step_delta(delta, event)
        return outputs

    def fold_in(self, event: Event) -> Outputs:
        """Let an event change the state; return the outputs."""
        self.state, outputs = self.seat.kind.step(self.state, event)
        return outputs

    def settle(self) -> None:
        """Join the delta with the state."""
        if self.delta is not MISSING:
            self.state = self.seat.kind.add_delta(self.state, self.delta)
            self.delta = MISSING


class Run:
    """The state of a running simulation."""

    def __init__(
        self,
        rehearsal: Rehearsal,
        seed: int,
        faults: Faults,
        *,
        network: Network | None = None,
        trace: bool = False,
    ) -> None:
        self.rehearsal = rehearsal
        self.layout = rehearsal.layout
        self.seed = seed
        self.rng = random.Random(seed)
        repeat = faults.repeat if self.rng.random() < 0.5 else 0.0
        self.network = network or Network(self.rng, repeat)
        # Share of the watermarks between events that a channel sends; its last one is always sent.
        self.watermark_share = self.rng.choice((0.0, 0.2, 1.0))
        self.trace: list[str] | None = [] if trace else None
        self.log: dict[tuple[OrderKey, int], Output] = {}
        self.done: set[OrderKey] = set()
        self.faulty: dict[OrderKey, Rejected] = {}
        self.steps = self.crashes = self.taken = self.joins = 0
        self.final: tuple[Any] | None = None
        self.snapshot: tuple[OrderKey, Any] = ((), rehearsal.program.init)
        count = len(rehearsal.keys)
        wanted = min(self.rng.randint(0, faults.snapshots) + len(rehearsal.later), count)
        moments = [(key[0], -1, *key[1:]) for key in self.rng.sample(rehearsal.keys, wanted)]
        self.requests = sorted(moments)
        # With fewer events than changes of plan, some changes are left out.
        self.changes = dict(
            zip(sorted(moments[: len(rehearsal.later)]), rehearsal.later, strict=False)
        )
        self.cut: dict[str, Any] = {}
        self.leaves = find_silent_leaves(rehearsal.program) if seed % 2 else {}
        # A run takes several messages per event; most crashes should happen before its end.
        horizon = (count + 2) * (len(self.layout.seats) + 2)
        self.crash_at = sorted(
            self.rng.randrange(1, horizon) for _ in range(self.rng.randint(0, faults.crashes))
        )
        self.start()

    def note(self, text: str) -> None:
        """Add a line to the trace, if one is kept."""
        if self.trace is not None:
            self.trace.append(f"{self.steps:>6}  {text}")

    def start(self, states: dict[str, Any] | None = None) -> None:
        """Start all nodes from the last snapshot, and let the channels replay."""
        self.nodes = [
            _Node(seat, Mailbox(conflicts))
            for seat, conflicts in zip(self.layout.seats, self.layout.conflicts, strict=True)
        ]
        since, state = self.snapshot
        if states is None:
            self.hand_down(self.nodes[0], state, local=True)
        else:
            for node in self.nodes:
                node.state = states.get(node.seat.path)
        for key in (*(k for k in self.requests if k > since), _END):
            self.pass_on(_CONTROL_STREAM, key, ())
        self.beat(_CONTROL_STREAM, bound_after(FOREVER))
        for number, emission in enumerate(self.rehearsal.emissions):
            self.emit(-1 - number, emission, since)

    def emit(self, sender: int, emission: Emission, since: OrderKey) -> None:
        """Send the events and watermarks of a channel after a position in the order."""
        send, owners, channel = self.network.send, self.layout.owners, emission.channel
        last = emission.entries[-1] if emission.entries else None
        for entry in emission.entries:
            key, event = entry
            if event is not None:
                if key > since:
                    owner = owners[key]
                    send(sender, owner, ("event", (owner, channel), key, event))
            elif entry is last or self.rng.random() < self.watermark_share:
                for owner in self.layout.heirs[channel]:
                    send(sender, owner, ("beat", (owner, channel), key))

    def finish(self) -> Simulation:
        """Deliver messages until none are in transit, crash where the seed decides, and return the result."""
        while True:
            if self.crash_at and self.steps >= self.crash_at[0]:
                self.crash_at.pop(0)
                self.crash()
            delivered = self.network.deliver()
            if delivered is None:
                break
            self.steps += 1
            assert self.steps < _DEADLINE_STEPS, f"seed {self.seed} does not terminate"
            receiver, message = delivered
            self.receive(self.nodes[receiver], message)
        return self.sum_up()

    def crash(self) -> None:
        """Drop everything except the snapshot and the sink, and restart."""
        self.crashes += 1
        self.note(f"crash; back to the snapshot at {self.snapshot[0][:1] or 'the start'}")
        self.network.lose_everything()
        self.start()

    def change(self, change: Transition, layout: NodeAssignment) -> None:
        """Carry the states over to another plan; messages in transit are sent again under it."""
        self.note(f"change of plan: {change.old.name} -> {change.new.name}")
        self.layout = layout
        self.network.lose_everything()
        self.start(carry(self.rehearsal.program, change, self.cut))
        self.cut = {}

    def receive(self, node: _Node, message: tuple[Any, ...]) -> None:
        """Process one message."""
        kind = message[0]
        if kind == "event":
            self.pass_on(message[1], message[2], message[3])
        elif kind == "beat":
            self.beat(message[1], message[2])
        elif kind == "request":
            node.mailbox.put(message[1], message[2], None)
            self.let_pass(node, message[1])
        elif kind == "advance":
            node.mailbox.advance(message[1], message[2])
            self.let_pass(node, message[1])
        elif kind == "up":
            node.given[message[1]] = message[2]
            self.work(node)
        else:
            assert kind == "down"
            self.hand_down(node, message[1])
            self.work(node)

    def pass_on(self, stream: Stream, key: OrderKey, event: Any) -> None:
        """Queue an event at its owner, and request the states of all nodes below at once."""
        owner = self.nodes[stream[0]]
        for below in owner.seat.descendants:
            self.network.send(stream[0], below, ("request", stream, key))
        owner.mailbox.put(stream, key, event)
        self.let_pass(owner, stream)

    def beat(self, stream: Stream, key: OrderKey) -> None:
        """Send a channel's watermark to the owner and to all nodes below."""
        owner = self.nodes[stream[0]]
        for below in owner.seat.descendants:
            self.network.send(stream[0], below, ("advance", stream, key))
        owner.mailbox.advance(stream, key)
        self.let_pass(owner, stream)

    def let_pass(self, node: _Node, stream: Stream) -> None:
        """Move released requests from the mailbox to the node's inbox, and process them."""
        inbox = node.inbox
        before = len(inbox)
        inbox.extend(node.mailbox.release(stream))
        if len(inbox) > before:
            self.work(node)

    def work(self, node: _Node) -> None:
        """Process the inbox as far as the available state allows."""
        inbox, seat = node.inbox, node.seat
        while inbox and not node.waiting_for_parent:
            if seat.children:
                if len(node.given) < len(seat.children):
                    return
                self.join(node)
            stream, key, event = inbox.popleft()
            if event is None or stream == _CONTROL_STREAM or not self.is_apart(node, event):
                node.settle()
            if key in self.changes and not seat.children:
                self.cut[seat.path] = node.state
            if event is None:
                self.hand_up(node)
                return
            if stream == _CONTROL_STREAM:
                self.keep(key, node.state)
                if key in self.changes:
                    self.change(*self.changes.pop(key))
                    return
            else:
                self.apply(node, key, event)
            if seat.children:
                self.hand_down(node, node.state)

    def is_apart(self, node: _Node, event: Event) -> bool:
        """Return whether a node folds an event into its delta instead of its state."""
        seat = node.seat
        inside = seat.parent is not None and not seat.children
        return inside and self.leaves.get(type(event.data)) == seat.kind.name

    def join(self, node: _Node) -> None:
        """Join the states of both children."""
        seat = node.seat
        assert seat.fork is not None
        left, right = (node.given.pop(child) for child in seat.children)
        node.state = seat.fork.join(left, right)
        self.joins += 1

    def hand_up(self, node: _Node) -> None:
        """Send the state to the parent, and wait until it is returned."""
        seat = node.seat
        assert seat.parent is not None
        node.waiting_for_parent = True
        self.network.send(seat.number, seat.parent, ("up", seat.number, node.state))
        node.state = None

    def hand_down(self, node: _Node, state: Any, *, local: bool = False) -> None:
        """Set a node's state, or fork it to its children if there are any."""
        seat = node.seat
        node.waiting_for_parent = False
        if not seat.children:
            node.state = state
            return
        assert seat.fork is not None
        node.state = None
        halves = seat.fork.fork(state, *seat.sides)
        for child, half in zip(seat.children, halves, strict=True):
            if local:
                self.hand_down(self.nodes[child], half, local=True)
            else:
                self.network.send(seat.number, child, ("down", half))

    def apply(self, node: _Node, key: OrderKey, event: Event) -> None:
        """Fold an event into the state, and add its outputs to the sink once."""
        apart = self.is_apart(node, event)
        fold = node.fold_apart if apart else node.fold_in
        outputs = attempt(fold, event)
        if isinstance(outputs, Failed):
            self.faulty[key] = Rejected(event, outputs.describe(event))
            if not apart:
                node.state = node.seat.kind.set_aside(node.state, event)
            return
        self.done.add(key)
        for index, value in enumerate(outputs):
            output = Output(value, event, index, key)
            first = self.log.setdefault(output.id, output)
            assert first == output, f"a replay emitted {value!r} instead of {first.value!r}"
            self.note(f"node {node.seat.path} emits {value!r} on {event.data!r}")

    def keep(self, key: OrderKey, state: Any) -> None:
        """Keep the joined state: a snapshot, or the end."""
        if key == _END:
            self.final = (state,)
            return
        self.taken += 1
        self.snapshot = (key, state)
        self.note(f"snapshot before time {key[0]}")

    def sum_up(self) -> Simulation:
        """Check the ledger, and return the simulation."""
        rehearsal = self.rehearsal
        rejected = [*rehearsal.rejected, *self.faulty.values()]
        pending = rehearsal.unsent + sum(
            node.mailbox.waiting() + sum(1 for _, _, event in node.inbox if event)
            for node in self.nodes
        )
        wakes = {k for e in rehearsal.emissions if e.channel == TIMERS for k, _ in e.entries}
        inputs = sum(key not in wakes or key in self.faulty for key in rehearsal.keys)
        counted = rehearsal.unsent + inputs + len(rehearsal.late) + len(rehearsal.rejected)
        processed = sum(key not in wakes for key in self.done)
        ledger = Ledger(counted, processed, len(rehearsal.late), len(rejected), 0, pending).check(
            f"{rehearsal.program.name}, seed {self.seed}"
        )
        network = self.network
        counts = Counts(
            self.steps, network.messages, network.duplicates, self.crashes, self.taken, self.joins
        )
        state = self.final[0] if self.final else None
        return Simulation(
            self.seed,
            list(self.log.values()),
            state,
            self.final is not None,
            ledger,
            list(rehearsal.late),
            rejected,
            counts,
            self.trace or [],
        )
