"""The published cases of Flumina (dependency-guided synchronization), as data.

Each `Vector` is an input with the answer that the sequential fold must give, and that every valid
plan must give under every schedule: `tests/runtimes` holds every runtime to them. Where a case is
also an example, its program and input are the example's own.

Left out: the taxi sliding window and the taxi distance, of which only the shape was published.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import add
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from anabranch import Event, Heartbeat, Map, Program, Shard, Slice, depends, on, take
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.events import EventType, Item
from anabranch.model.shapes import MISSING
from anabranch.model.targets import load_module
from anabranch.plan.tree import Plan, PlanNode

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, eq=False)
class Vector:
    """An input, the answer to it, and some valid plans that must give the same one.

    A long one has a cut: the same case, shorter, for a runtime on which the whole takes minutes.
    """

    program: Program
    make: Callable[[], Sequence[Item]]
    channels: tuple[Channel, ...]
    expected: list[Any]
    plans: dict[str, Plan] = field(default_factory=dict)
    state: Any = MISSING
    cut: "Vector | None" = None

    @cached_property
    def items(self) -> list[Item]:
        """The input, with the heartbeats that end it if it ends."""
        return list(self.make())


class Invalid(NamedTuple):
    """A plan that must be refused, with every reason."""

    program: Program
    plan: Plan
    reasons: list[str]


def example(name: str) -> ModuleType:
    return load_module(str(EXAMPLES / f"{name}.py"))


def vector_of(module: ModuleType, program: Program, state: Any = MISSING) -> Vector:
    items = end_channels(module.events, channels=module.channels)
    return Vector(
        program, lambda: items, module.channels, module.expected, module.plans, state=state
    )


def brought(channel: str, data: Iterable[Any], start: int = 0) -> list[Item]:
    """Number what one channel brings."""
    return [Event(fields, channel, n) for n, fields in enumerate(data, start)]


def balance(slices: Sequence[Slice], *own: EventType) -> PlanNode:
    """Build a balanced tree over slices, under the markers."""
    if len(slices) == 1:
        return PlanNode(slices[0], *own)
    half = len(slices) // 2
    return PlanNode(*own, children=(balance(slices[:half]), balance(slices[half:])))


def lean(slices: Sequence[Slice], *own: EventType) -> PlanNode:
    """Build a tree over slices that leans to the right, as deep as there are slices."""
    if len(slices) == 1:
        return PlanNode(slices[0], *own)
    return PlanNode(*own, children=(PlanNode(slices[0]), lean(slices[1:])))


def plan_markers(marker: EventType, event_type: EventType, names: Sequence[str]) -> dict[str, Plan]:
    """Return plans for one event type under one marker: by channel, by lane, balanced, leaning."""
    by_channel = [take(event_type, channel=name) for name in names]
    by_lane = [take(event_type, lane=Shard(n, 3)) for n in range(3)]
    last = names[-1]
    tail = [*by_channel[:-1], *(take(event_type, channel=last, lane=Shard(n, 2)) for n in (0, 1))]
    return {
        "sequential": Plan(PlanNode(marker, event_type)),
        "by channel": Plan(balance(by_channel, marker)),
        "by lane, leaning": Plan(lean(by_lane, marker)),
        "by channel and lane": Plan(balance(tail, marker)),
        "root works too": Plan(
            PlanNode(marker, by_channel[0], children=(lean(tail[1:-1]), PlanNode(tail[-1])))
        ),
    }


# --- key counter ------------------------------------------------------------------------------

counter = example("key_counter")
Inc, Read, key_counter = counter.Inc, counter.Read, counter.key_counter


def read_count_read() -> list[Item]:
    incs = [Event(Inc(t, 1), s, n) for t, s, n in [(2, "a", 0), (3, "b", 0), (4, "a", 1)]]
    return end_channels(
        [*incs, *brought("reads", [Read(1, 1), Read(5, 1)])], channels=counter.channels
    )


KEY_COUNTER = {
    "key counter": vector_of(counter, key_counter, state=Map({1: 0, 2: 2})),
    "key counter, read first": Vector(
        key_counter,
        read_count_read,
        counter.channels,
        [(1, 0), (1, 3)],
        counter.plans,
        state=Map({1: 0}),
    ),
}

# --- value and barrier ------------------------------------------------------------------------

barrier = example("value_barrier")
Value, Barrier, value_barrier = barrier.Value, barrier.Barrier, barrier.value_barrier

with_reset = Program(
    on(Value, update=lambda total, value: total + value.value),
    on(Barrier, output=lambda total, barrier: total, update=lambda total, barrier: 0),
    depends(Barrier, Value, Barrier),
    init=0,
    zero=0,
    fork=lambda total, left, right: (total, 0),
    join=add,
    name="value_barrier_with_reset",
)
values_first = with_reset.changed(rank=(Value, Barrier), name="value_barrier_values_first")


def name_streams(count: int) -> tuple[str, ...]:
    return tuple(f"a{n}" for n in range(1, count + 1))


def declare(count: int) -> tuple[Channel, ...]:
    return tuple(Channel(name, unique_times=True) for name in (*name_streams(count), "b"))


def split_in_two() -> list[Item]:
    """Split the values 1..1000 and 1002..2000 at random over two streams."""
    rng = random.Random(1)
    streams: dict[str, list[Any]] = {"a1": [], "a2": []}
    for time in (*range(1, 1001), *range(1002, 2001)):
        streams[rng.choice(["a1", "a2"])].append(Value(time, time))
    values = [item for name, data in streams.items() for item in brought(name, data)]
    ends = [Heartbeat(2005, name, len(data)) for name, data in streams.items()]
    barriers = brought("b", [Barrier(1001), Barrier(2001)])
    return [*values, *ends, *barriers, Heartbeat(2005, "b", 2)]


def count_odd_numbers(streams: int, last: int) -> list[Item]:
    """Bring 1, 3, 5 … on each of several streams, and a barrier at every 1000."""
    items = [
        item
        for name in name_streams(streams)
        for item in brought(name, (Value(t, t) for t in range(1, last, 2)))
    ]
    return end_channels([*items, *brought("b", map(Barrier, range(1000, last + 1, 1000)))])


def count_to_a_hundred() -> list[Item]:
    """Bring t + 1 at t = 0..99 on three streams, and a barrier at 9, 19 …"""
    items = [
        item
        for name in name_streams(3)
        for item in brought(name, [Value(t, t + 1) for t in range(100)])
    ]
    return end_channels([*items, *brought("b", [Barrier(t) for t in range(9, 100, 10)])])


def tell_of_sums() -> list[Item]:
    """Bring the stream of DiffStream's tutorial: 1 7 -2 5 -10 B 3 -1 2 4 -6 B."""
    values = [1, 7, -2, 5, -10, None, 3, -1, 2, 4, -6, None]
    data = list(enumerate(values, 1))
    odd = [Value(t, v) for t, v in data if v is not None and t % 2]
    even = [Value(t, v) for t, v in data if v is not None and not t % 2]
    barriers = [Barrier(t) for t, v in data if v is None]
    return end_channels([*brought("a1", odd), *brought("a2", even), *brought("b", barriers)])


two, three, four = (plan_markers(Barrier, Value, name_streams(n)) for n in (2, 3, 4))


def count_on_two(last: int, cut: Vector | None = None) -> Vector:
    sums = [b * b // 2 for b in range(1000, last + 1, 1000)]
    return Vector(value_barrier, lambda: count_odd_numbers(2, last), declare(2), sums, two, cut=cut)


def count_on_four(last: int, cut: Vector | None = None) -> Vector:
    sums = [b * b for b in range(1000, last + 1, 1000)]
    return Vector(
        value_barrier, lambda: count_odd_numbers(4, last), declare(4), sums, four, cut=cut
    )


VALUE_BARRIER = {
    "value-barrier, cumulative": vector_of(barrier, value_barrier, state=51),
    "value-barrier, two thousand": Vector(
        value_barrier, split_in_two, declare(2), [500_500, 1_999_999], two, state=1_999_999
    ),
    "value-barrier, a million on two streams": count_on_two(1_000_000, cut=count_on_two(6000)),
    "value-barrier, four streams": count_on_four(40_000, cut=count_on_four(3000)),
    "value-barrier with reset": Vector(
        with_reset, count_to_a_hundred, declare(3), [*range(135, 2836, 300)], three, state=300
    ),
    "value-barrier with reset, values first": Vector(
        values_first, count_to_a_hundred, declare(3), [*range(165, 2866, 300)], three, state=0
    ),
    "sum of the DiffStream tutorial": Vector(
        value_barrier, tell_of_sums, declare(2), [1, 3], two, state=3
    ),
}

# --- fraud ------------------------------------------------------------------------------------

fraud = example("fraud")


def trade_twelve_times() -> list[Item]:
    """Bring t + 1 at t = 0..11 on two streams, and a rule at 5 and 11."""
    txns = [fraud.Txn(t, t + 1) for t in range(12)]
    rules = brought("rules", [fraud.Rule(5), fraud.Rule(11)])
    return end_channels([*brought("north", txns), *brought("south", txns), *rules])


class Watched(NamedTuple):
    total: int
    digits: int | None


modulo = Program(
    on(
        Value,
        output=lambda watched, v: ("a", v.value) if v.value % 100 == watched.digits else None,
        update=lambda watched, v: watched._replace(total=watched.total + v.value),
    ),
    on(
        Barrier,
        output=lambda watched, b: ("b", watched.total),
        update=lambda watched, b: watched._replace(digits=(b.time + 1) % 100),
    ),
    depends(Barrier, Value, Barrier),
    init=Watched(0, None),
    fork=lambda watched, left, right: (watched, watched._replace(total=0)),
    join=lambda a, b: Watched(a.total + b.total, a.digits),
    name="fraud_modulo",
)


def count_to_forty() -> list[Item]:
    values = [Value(t, t) for t in range(1, 41)]
    barriers = brought("b", [Barrier(t) for t in (10, 20, 30, 40)])
    return end_channels([*brought("a1", values), *brought("a2", values), *barriers])


FRAUD = {
    "fraud, previous sum": vector_of(fraud, fraud.fraud, state=fraud.Totals(1031, 0)),
    "fraud, previous sum, twelve": Vector(
        fraud.fraud,
        trade_twelve_times,
        fraud.channels,
        [("rule", 30), ("rule", 102)],
        fraud.plans,
        state=fraud.Totals(102, 24),
    ),
    "fraud, modulo": Vector(
        modulo,
        count_to_forty,
        declare(2),
        [
            *[("b", 90), ("a", 11), ("a", 11)],
            *[("b", 380), ("a", 21), ("a", 21)],
            *[("b", 870), ("a", 31), ("a", 31)],
            ("b", 1560),
        ],
        two,
        state=Watched(1640, 41),
    ),
}

# --- the other examples -----------------------------------------------------------------------

page_view, taxi, temps = example("page_view"), example("taxi_tips"), example("max_temperature")
inc_dec, home, ewma = example("inc_dec"), example("smart_home"), example("ewma")
airports, cards = example("busy_airports"), example("card_watch")


def tell_taxi_tips() -> list[Item]:
    """The heartbeats until 650 are part of the case: they alone must release the last hour."""
    return list(taxi.events)


OTHERS = {
    "page view": vector_of(page_view, page_view.page_view, state=Map({1: 10003, 2: 10002})),
    "taxi tips": Vector(
        taxi.taxi_tips, tell_taxi_tips, taxi.channels, taxi.expected, taxi.plans, state=Map()
    ),
    "max temperature": vector_of(temps, temps.max_temperature, state=0),
    "increment and decrement": vector_of(inc_dec, inc_dec.inc_dec, state=inc_dec.Level()),
    "smart home": vector_of(home, home.smart_home),
    "exponentially weighted moving average": vector_of(ewma, ewma.ewma),
    "busy airports": vector_of(airports, airports.busy_airports, state=Map()),
    "card watch": vector_of(cards, cards.card_watch),
}

# --- progress ---------------------------------------------------------------------------------

only_heartbeats = tuple(Channel(name, lateness=None) for name in ("a1", "b"))
one_value: list[Item] = [Event(Value(1, 5), "a1", 0), Event(Barrier(2), "b", 0)]
one_stream = {
    "sequential": Plan(PlanNode(Value, Barrier)),
    "by lane": Plan(balance([take(Value, lane=Shard(n, 2)) for n in (0, 1)], Barrier)),
}

PROGRESS = {
    "progress, nothing without a heartbeat": Vector(
        value_barrier, lambda: one_value, declare(1), [], one_stream, state=5
    ),
    "progress, nothing where only heartbeats count": Vector(
        value_barrier, lambda: one_value, only_heartbeats, [], one_stream, state=0
    ),
    "progress, a heartbeat lets it out": Vector(
        value_barrier,
        lambda: [*one_value, Heartbeat(2, "a1", 1)],
        declare(1),
        [5],
        one_stream,
        state=5,
    ),
}

VECTORS: dict[str, Vector] = {**KEY_COUNTER, **VALUE_BARRIER, **FRAUD, **OTHERS, **PROGRESS}

# --- what must be found wrong -----------------------------------------------------------------

broken_fork = Program(
    on(Value, update=lambda total, value: total + value.value),
    on(Barrier, output=lambda total, barrier: total),
    depends(Barrier, Value, Barrier),
    init=0,
    fork=lambda total, left, right: (total, total),
    join=add,
    name="broken_fork",
)


def count_to_twelve() -> list[Item]:
    a1 = brought("a1", [Value(1, 1), Value(3, 5)])
    return end_channels(
        [*a1, *brought("a2", [Value(2, 6)]), *brought("b", [Barrier(4), Barrier(5)])]
    )


BROKEN_FORK = Vector(
    broken_fork, count_to_twelve, declare(2), [12, 12], {"sequential": two["sequential"]}, state=12
)
"""A fork that breaks C2. Only the sequential plan gives the answer."""

BROKEN_FORK_PLAN = two["by channel"]
BROKEN_FORK_IN_PARALLEL = [12, 24]
"""What the broken fork makes of it on two nodes."""

INVALID: dict[str, Invalid] = {
    "increment beside read of one key": Invalid(
        key_counter,
        Plan(PlanNode(children=(PlanNode(take(Inc, key=1)), PlanNode(take(Read, key=1))))),
        ["V2 at node 0.0: Inc[key=1] depends on Read[key=1] at node 0.1"],
    ),
    "one event type on two siblings": Invalid(
        key_counter,
        Plan(PlanNode(Read, children=(PlanNode(take(Inc, key=1)), PlanNode(Inc)))),
        ["V2 at node 0.0: Inc[key=1] is also at node 0.1 as Inc"],
    ),
    "an event type that the state does not handle": Invalid(
        home.smart_home,
        Plan(
            PlanNode(
                home.Minute,
                state="home",
                children=(
                    PlanNode(home.Pressure, state="rooms"),
                    PlanNode(home.Temp, state="gauge"),
                ),
            )
        ),
        [
            "V1 at node 0.0: state type 'rooms' does not handle Pressure",
            "V1 at node 0.1: state type 'gauge' does not handle Temp",
        ],
    ),
    "a fork that there is not": Invalid(
        home.smart_home,
        Plan(
            PlanNode(
                home.Minute,
                state="home",
                children=(
                    PlanNode(home.Pressure, state="gauge"),
                    PlanNode(home.Temp, state="rooms"),
                ),
            )
        ),
        ["V1 at node 0: there is no fork home -> gauge, rooms"],
    ),
    "a root of the wrong type": Invalid(
        home.smart_home,
        Plan(PlanNode(home.Temp, state="rooms")),
        ["V1 at node 0: the root's state type is 'rooms', not 'home'"],
    ),
}

# --- the optimizer's case ---------------------------------------------------------------------

OPTIMIZER_RATES: dict[tuple[Slice, str], int] = {
    (take(Read, key=2), "E0"): 10,
    (take(Read, key=1), "E1"): 15,
    (take(Inc, key=1), "E1"): 100,
    (take(Inc, key=2, channel="a"), "E2"): 200,
    (take(Inc, key=2, channel="b"), "E3"): 300,
}
"""Events per second of each slice on each machine."""

OPTIMIZER_PLAN = Plan(
    PlanNode(
        machine="E0",
        children=(
            PlanNode(take(Read, key=1), take(Inc, key=1), machine="E1"),
            PlanNode(
                take(Read, key=2),
                machine="E0",
                children=(
                    PlanNode(take(Inc, key=2, channel="a"), machine="E2"),
                    PlanNode(take(Inc, key=2, channel="b"), machine="E3"),
                ),
            ),
        ),
    ),
    name="greedy",
)
"""The plan that greedy optimization makes of the rates."""
