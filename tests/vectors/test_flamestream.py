"""Hold the sequential reference to the published cases of FlameStream.

Grouping, FlameStream's only stateful operation, is here a program whose state is the last items
of a key and whose output is the group. What survives, the settled answer, must be the same in
every order of arrival. How many outputs are said and taken back on the way (the tombstones), and
a tombstone that comes as input, belong to the speculative mode and are not tested here.
"""

from itertools import accumulate, permutations
from random import Random
from typing import Any, NamedTuple

import pytest

from anabranch import Event, Program, depends, on
from anabranch.eventtime.sources import Source, end_sources
from anabranch.model.events import Item
from anabranch.reference.sequential import run
from anabranch.state import MapOf, Replicated

PATIENT = (Source("input", lateness=100),)
"""A source that may bring its events in any order."""


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


def say(program: Program, data: list[Any]) -> list[Any]:
    items: list[Item] = [Event(fields) for fields in data]
    answer = run(program, end_sources(items, PATIENT), PATIENT)
    assert answer.ledger.processed == len(data)
    return answer.values


def number(*values: int) -> list[Number]:
    return [Number(v, "even" if v % 2 == 0 else "odd", v) for v in values]


def number_alike(*values: int) -> list[Number]:
    return [Number(v, "any", v) for v in values]


@pytest.mark.parametrize("order", [*permutations([1, 2, 3])])
def test_groups_of_two_are_the_same_in_every_order_of_arrival(order):
    assert say(group_by_parity(2), number_alike(*order)) == [(1,), (1, 2), (2, 3)]


def test_groups_of_three_slide_over_the_input():
    assert say(group_by_parity(3), number_alike(1, 2, 3, 4)) == [(1,), (1, 2), (1, 2, 3), (2, 3, 4)]


@pytest.mark.parametrize("seed", range(20))
def test_parities_are_grouped_apart(seed):
    order = Random(seed).sample(range(1, 9), 8)
    assert say(group_by_parity(3), number(*order)) == [
        (1,),
        (2,),
        (1, 3),
        (2, 4),
        (1, 3, 5),
        (2, 4, 6),
        (3, 5, 7),
        (4, 6, 8),
    ]


@pytest.mark.parametrize(
    "order", [*permutations([Front(1, "x1"), Front(2, "x2"), Derived(1, "state")])]
)
def test_a_derivative_comes_after_its_source_and_before_the_next_input(order):
    assert say(pairs, list(order)) == [("x1",), ("x1", "state"), ("state", "x2")]


@pytest.mark.parametrize("seed", range(20))
def test_derivatives_of_derivatives_keep_their_sequence(seed):
    items: list[Item] = [
        Event(Front(2, "x5"), "front", 1),
        Event(Derived(2, "x5State"), "cycle", 1),
        Event(Front(1, "x0"), "front", 0),
        Event(Derived(1, "x0State"), "cycle", 0),
        Event(Derived(2, "theState"), "cycle", 2),
    ]
    ended = end_sources(items)
    Random(seed).shuffle(ended)
    assert run(pairs, ended).values == [
        ("x0",),
        ("x0", "x0State"),
        ("x0State", "x5"),
        ("x5", "x5State"),
        ("x5State", "theState"),
    ]


@pytest.mark.parametrize("order", [*permutations([Number(1, "any", 4), Number(2, "any", 3)])])
def test_a_drifting_sum_says_every_prefix(order):
    assert say(drifting_sum, list(order)) == [4, 7]


def test_five_thousand_numbers_on_four_fronts_give_each_prefix_once():
    rng = Random(7)
    values = [rng.randrange(-100, 100) for _ in range(5000)]
    items: list[Item] = [
        Event(Number(time, "any", value), f"front {time % 4}", time // 4)
        for time, value in enumerate(values)
    ]
    ended = end_sources(items)
    rng.shuffle(ended)
    assert run(drifting_sum, ended).values == list(accumulate(values))
