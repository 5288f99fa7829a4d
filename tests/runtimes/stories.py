"""What every runtime is told: the published vectors, the examples among them, and cases of our own.

Ours are about what a published case never has: late events, events that can't be used, several
outputs of one event, and fields of every type.
"""

import random
from dataclasses import dataclass
from typing import NamedTuple

from anabranch import Program, Shard, depends, on, take
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.events import Item
from anabranch.plan.tree import Plan, PlanNode
from anabranch.state import MapOf, Sum
from tests.vectors import flamestream, flumina
from tests.vectors.flumina import Barrier, Value, Vector, brought, value_barrier

# --- late, and too far ahead --------------------------------------------------------------------

LATE_CHANNELS = (
    Channel("a1", lateness=2, max_ahead=30),
    Channel("a2", lateness=None),
    Channel("b"),
)


def come_late() -> list[Item]:
    """Bring values that lag and jump: some are late by one, some lie too far ahead."""
    rng = random.Random(3)
    times = [max(1, t + rng.randint(-4, 2) + 100 * (t % 17 == 0)) for t in range(1, 60)]
    values = [Value(time, 1) for time in times]
    barriers = [Barrier(time) for time in range(5, 60, 5)]
    steady = [Value(time, 100) for time in range(1, 60, 6)]
    return end_channels(
        [*brought("a1", values), *brought("a2", steady), *brought("b", barriers)],
        channels=LATE_CHANNELS,
    )


# --- an update and an output that raise ---------------------------------------------------------


class Dose(NamedTuple):
    time: int
    patient: str
    amount: int


def add_dose(total: int, dose: Dose) -> int:
    if dose.amount < 0:
        raise ValueError("a dose can't be taken back")
    return total + dose.amount


def say_share(total: int, dose: Dose) -> float:
    return total / dose.amount


doses = Program(
    on(Dose, update=add_dose, output=say_share),
    depends(Dose, Dose, same="patient"),
    state=MapOf(Sum(), by="patient"),
    name="doses",
)


def give_doses() -> list[Item]:
    amounts = [4, 1, 0, 3, -2, 5, 0, 8]
    given = [Dose(n + 1, "AB"[n % 2], amount) for n, amount in enumerate(amounts)]
    return end_channels([*brought("ward", given[::2]), *brought("night", given[1::2])])


# --- outputs of several types, and of others ----------------------------------------------------


class Share(NamedTuple):
    patient: str
    total: int
    half: int | None


def say_types(total: int, dose: Dose) -> list[Share | int]:
    half = None if total < 4 else dose.amount // 2 if dose.amount < 8 else dose.amount / 2
    return [Share(dose.patient, total, half), "three" if dose.amount == 3 else dose.amount]


typed_doses = Program(
    on(Dose, update=add_dose, output=say_types),
    depends(Dose, Dose, same="patient"),
    state=MapOf(Sum(), by="patient"),
    name="typed doses",
)


# --- several outputs of one event ---------------------------------------------------------------


def say_twice(total: int, barrier: Barrier):
    yield ("total", total)
    if total > 3:
        yield ("above three", total - 3)


loud = Program(
    on(Value, update=lambda total, value: total + value.value),
    on(Barrier, output=say_twice, update=lambda total, barrier: 0),
    depends(Barrier, Value, Barrier),
    state=Sum(),
    name="loud",
)


def speak_up() -> list[Item]:
    values = [Value(time, time % 3) for time in range(1, 13)]
    return end_channels(
        [*brought("a1", values), *brought("b", [Barrier(t) for t in (3, 3, 8, 13)])]
    )


# --- two event types that cut each other's folds, and neither is a marker --------------------------------


class Glance(NamedTuple):
    time: int


glances = Program(
    on(Glance, output=lambda top, glance: top),
    on(Value, update=lambda top, value: max(top, value.value)),
    depends(Glance, Value),
    init=0,
    zero=0,
    fork=lambda top, left, right: (top, top),
    join=max,
    name="glances",
)


def glance_around() -> list[Item]:
    values = [Value(time, time * 7 % 31) for time in range(1, 30, 2)]
    looks = [Glance(time) for time in (1, 4, 4, 9, 10, 17, 30)]
    return end_channels([*brought("a1", values), *brought("looks", looks)])


# --- fields of every type -----------------------------------------------------------------------


@dataclass(frozen=True)
class Visit:
    time: int
    place: str
    cost: float
    paid: bool


visits = Program(
    on(
        Visit,
        output=lambda seen, visit: [(visit.place, seen, visit.cost / 3, visit.paid)],
        update=lambda seen, visit: seen + (visit.cost if visit.paid else 0),
    ),
    depends(Visit, Visit, same="place"),
    state=MapOf(Sum(), by="place"),
    name="visits",
)


def go_visiting() -> list[Item]:
    places = ["Zürich", "", "naïve café ☕", "a\tb"]
    costs = [0.1, 1e300, -0.0, 2.5, 1 / 3, 7.0]
    seen = [Visit(-9 + n, places[n % 4], costs[n % 6], n % 3 > 0) for n in range(24)]
    return end_channels([*brought("one", seen[::2]), *brought("two", seen[1::2])])


def tell(program: Program, make, channels, plans: dict[str, Plan]) -> Vector:
    """Return a case whose answer is the fold's own: nobody published another."""
    from anabranch.reference.sequential import run

    return Vector(program, make, channels, run(program, make(), channels).values, plans)


by_channel = Plan(
    PlanNode(Barrier, children=[PlanNode(take(Value, channel=s)) for s in ("a1", "a2")])
)
by_lane = Plan(
    PlanNode(Barrier, children=[PlanNode(take(Value, lane=Shard(n, 2))) for n in (0, 1)])
)


by_lane_of_glances = Plan(
    PlanNode(Value, children=[PlanNode(take(Glance, lane=Shard(n, 2))) for n in (0, 1)])
)


def by_key(event_type: type, name: str) -> dict[str, Plan]:
    halves = [PlanNode(take(event_type, **{name: Shard(n, 2)})) for n in (0, 1)]
    return {"sequential": Plan(PlanNode(event_type)), f"by {name}": Plan(PlanNode(children=halves))}


TOLD = ("click_through", "energy_forecast", "exchange", "outlier_detection", "trending_words")
"""Examples that are no published case."""


def tell_example(name: str) -> Vector:
    module = flumina.example(name)
    return flumina.vector_of(module, getattr(module, name))


OURS = {
    "late and far ahead": tell(
        value_barrier, come_late, LATE_CHANNELS, {"by channel": by_channel, "by lane": by_lane}
    ),
    "functions that raise": tell(
        doses, give_doses, (Channel("ward"), Channel("night")), by_key(Dose, "patient")
    ),
    "several outputs of one event": tell(
        loud,
        speak_up,
        (Channel("a1"), Channel("b")),
        {"sequential": Plan(PlanNode(Value, Barrier)), "by lane": by_lane},
    ),
    "glances at the highest value": tell(
        glances,
        glance_around,
        (Channel("a1"), Channel("looks")),
        {"sequential": Plan(PlanNode(Glance, Value)), "by lane": by_lane_of_glances},
    ),
    "fields of every type": tell(
        visits, go_visiting, (Channel("one"), Channel("two")), by_key(Visit, "place")
    ),
    **{name.replace("_", " "): tell_example(name) for name in TOLD},
    "outputs of other types": tell(
        typed_doses, give_doses, (Channel("ward"), Channel("night")), by_key(Dose, "patient")
    ),
}

EXAMPLES = sorted(file.stem for file in flumina.EXAMPLES.glob("*.py"))
STORIES: dict[str, Vector] = {**flumina.VECTORS, **flamestream.VECTORS, **OURS}
