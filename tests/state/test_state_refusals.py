"""A state that can't be what it is asked to be is refused, in words that help."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from anabranch import ForkJoin, Program, State, depends, on
from anabranch.errors import AnabranchError, StateTooLargeError
from anabranch.state import (
    Count,
    Dictionary,
    Latest,
    Limited,
    ListOf,
    MapOf,
    Replicated,
    Sum,
    Value,
)


class Rule(NamedTuple):
    time: int
    shop: str
    most: int


class Sale(NamedTuple):
    time: int
    shop: str
    price: int


class Close(NamedTuple):
    time: int


def set_most(most: int, rule: Rule) -> int:
    return rule.most


def is_over(most: int, sale: Sale) -> bool:
    return sale.price > most


def add(total: int, sale: Sale) -> int:
    return total + sale.price


rule, sale = on(Rule, update=set_most), on(Sale, output=is_over)
limited = Limited(Value(0), bytes=10)

REFUSED: dict[str, Callable[[], Any]] = {
    "replicated_changed_by_free_events": lambda: Program(
        rule, sale, depends(Rule, Sale), state=Replicated(10)
    ),
    "replicated_changed_beside_who_looks": lambda: Program(
        rule, sale, depends(Rule, Rule), state=Replicated(10)
    ),
    "replicated_changed_in_another_entry": lambda: Program(
        rule,
        sale,
        depends(Rule, Rule, Sale, same=("shop", "time")),
        state=MapOf(Replicated(10), by="shop"),
    ),
    "limited_and_cut": lambda: Program(
        State("all", on(Sale, update=add), on(Close), state=limited),
        State("sales", on(Sale, update=add)),
        ForkJoin("all", "sales", "sales", lambda s, a, b: (s, 0), lambda a, b: a + b),
        depends(Close, Sale, Close),
    ),
    "limited_of_a_map": lambda: Limited(MapOf(Count(), by="shop"), items=3),
    "limited_of_a_class": lambda: Limited(ListOf, items=3),
    "limited_without_a_limit": lambda: Limited(ListOf()),
    "limited_to_nothing": lambda: Limited(ListOf(), bytes=0),
    "limited_items_of_a_number": lambda: Limited(Count(), items=3),
    "limited_and_then": lambda: Limited(ListOf(), items=3, on_overflow="drop"),
    "dictionary_of_a_class": lambda: Dictionary(Count),
    "dictionary_of_a_builtin": lambda: Dictionary(set()),
    "dictionary_of_a_map": lambda: Dictionary(MapOf(Count(), by="shop")),
    "dictionary_that_begins_twice": lambda: Dictionary(Sum(start=7)),
    "list_of_nothing": lambda: ListOf(last=0),
    "list_ordered_by_a_number": lambda: ListOf(ordered_by=3),
    "latest_by_a_sentence": lambda: Latest("its time"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_is_refused(name, message):
    with pytest.raises(AnabranchError) as refusal:
        REFUSED[name]()
    message(name, str(refusal.value))


def test_a_state_that_is_too_large_says_how_large_it_would_be(message):
    message("state_too_large", str(StateTooLargeError(12, 10, "items").within("x").within(3)))
    message("state_too_large_and_stops", str(StateTooLargeError(99, 10, "bytes", stops=True)))


@pytest.mark.parametrize("state", [Replicated(10), MapOf(Replicated(10), by="shop")])
def test_a_replicated_state_may_be_changed_by_who_depends_on_all_that_see_it(state):
    assert Program(rule, sale, depends(Rule, Rule, Sale), state=state)
    assert Program(rule, on(Sale), depends(Rule, Rule), state=state), "a sale that sees nothing"


def test_a_replicated_state_per_key_is_changed_per_key():
    state = MapOf(Replicated(10), by="shop")
    assert Program(rule, sale, depends(Rule, Rule, Sale, same="shop"), state=state)
