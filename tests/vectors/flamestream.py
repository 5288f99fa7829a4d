"""The published cases of FlameStream, as data.

Grouping, FlameStream's only stateful operation, is here a program whose state is the last items
of a key and whose output is the group. How many outputs are said and taken back on the way (the
tombstones), and a tombstone that comes as input, are tested in `tests/speculation`.
"""

from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from anabranch import Event, Program, Shard, depends, on, take
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.events import Item
from anabranch.plan.tree import Plan, PlanNode
from anabranch.state import MapOf, Replicated
from tests.vectors.flumina import Vector

PATIENT = (Channel("input", lateness=100),)
"""A channel that may bring its events in any order."""


class Number(NamedTuple):
    time: int
    parity: str
    value: int


class Front(NamedTuple):
    """What comes from outside."""

    time: int
    name: str


class Derived(NamedTuple):
    """What an operation made of an item: it has the item's time, and comes after it."""

    time: int
    name: str


def extend(group: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
    return (*group, item.value)


def group_by_parity(window: int) -> Program:
    return Program(
        on(Number, output=extend, update=lambda group, item: extend(group, item)[1 - window :]),
        depends(Number, Number, same="parity"),
        state=MapOf(Replicated(()), by="parity"),
        name=f"groups_of_{window}",
    )


groups_of_two, groups_of_three = group_by_parity(2), group_by_parity(3)

pairs = Program(
    on(Front, output=lambda last, item: (*last, item.name), update=lambda _, item: (item.name,)),
    on(Derived, output=lambda last, item: (*last, item.name), update=lambda _, item: (item.name,)),
    depends(Front, Front, Derived),
    depends(Derived, Derived),
    init=(),
    rank=(Front, Derived),
)

drifting_sum = Program(
    on(
        Number,
        output=lambda total, number: total + number.value,
        update=lambda total, number: total + number.value,
    ),
    depends(Number, Number),
    init=0,
)

in_sequence = {"sequential": Plan(PlanNode(Number))}
by_parity = {
    **in_sequence,
    "by parity": Plan(
        PlanNode(
            children=(PlanNode(take(Number, parity="odd")), PlanNode(take(Number, parity="even")))
        )
    ),
    "by hash of parity": Plan(
        PlanNode(children=[PlanNode(take(Number, parity=Shard(n, 2))) for n in (0, 1)])
    ),
}
pairs_in_sequence = {"sequential": Plan(PlanNode(Front, Derived))}


def bring(*data: Any) -> list[Item]:
    """Bring events without a sequence, which is how FlameStream's inputs are."""
    return end_channels([Event(fields) for fields in data], channels=PATIENT)


def number(*values: int) -> list[Number]:
    return [Number(v, "even" if v % 2 == 0 else "odd", v) for v in values]


def number_alike(*values: int) -> list[Number]:
    return [Number(v, "any", v) for v in values]


def patient(
    program: Program, data: Sequence[Any], expected: list[Any], plans: dict[str, Plan]
) -> Vector:
    return Vector(program, lambda: bring(*data), PATIENT, expected, plans)


def derive_twice() -> list[Item]:
    return end_channels(
        [
            Event(Front(2, "x5"), "front", 1),
            Event(Derived(2, "x5State"), "cycle", 1),
            Event(Front(1, "x0"), "front", 0),
            Event(Derived(1, "x0State"), "cycle", 0),
            Event(Derived(2, "theState"), "cycle", 2),
        ]
    )


DRIFT = [Random(7).randrange(-100, 100) for _ in range(5000)]


def drift_far() -> list[Item]:
    """Bring five thousand numbers on four fronts, in no order of their arrival."""
    items: list[Item] = [
        Event(Number(time, "any", value), f"front {time % 4}", time // 4)
        for time, value in enumerate(DRIFT)
    ]
    ended = end_channels(items)
    Random(7).shuffle(ended)
    return ended


VECTORS: dict[str, Vector] = {
    "groups of two": patient(
        groups_of_two, number_alike(1, 3, 2), [(1,), (1, 2), (2, 3)], in_sequence
    ),
    "groups of three": patient(
        groups_of_three,
        number_alike(1, 2, 3, 4),
        [(1,), (1, 2), (1, 2, 3), (2, 3, 4)],
        in_sequence,
    ),
    "groups of three by parity": patient(
        groups_of_three,
        number(3, 1, 2, 8, 5, 6, 7, 4),
        [(1,), (2,), (1, 3), (2, 4), (1, 3, 5), (2, 4, 6), (3, 5, 7), (4, 6, 8)],
        by_parity,
    ),
    "a derivative": patient(
        pairs,
        [Derived(1, "state"), Front(2, "x2"), Front(1, "x1")],
        [("x1",), ("x1", "state"), ("state", "x2")],
        pairs_in_sequence,
    ),
    "derivatives of derivatives": Vector(
        pairs,
        derive_twice,
        (Channel("front"), Channel("cycle")),
        [("x0",), ("x0", "x0State"), ("x0State", "x5"), ("x5", "x5State"), ("x5State", "theState")],
        pairs_in_sequence,
    ),
    "drifting sum": patient(
        drifting_sum, [Number(2, "any", 3), Number(1, "any", 4)], [4, 7], in_sequence
    ),
    "drifting sum of five thousand": Vector(
        drifting_sum,
        drift_far,
        tuple(Channel(f"front {n}") for n in range(4)),
        list(accumulate(DRIFT)),
        in_sequence,
    ),
}
