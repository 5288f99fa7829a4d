"""A state that grows too large is refused by name, at the same event whoever runs it."""

from typing import NamedTuple

import pytest

from anabranch import Event, Map, Program, depends, on
from anabranch.errors import StateTooLargeError
from anabranch.eventtime.channels import end_channels
from anabranch.model.shapes import MISSING, Shape
from anabranch.reference.sequential import run
from anabranch.state import (
    Bag,
    Count,
    Dictionary,
    Limited,
    ListOf,
    MapOf,
    SetOf,
    Several,
    Struct,
    Value,
)
from anabranch.state.value_order import write_canonically


class Note(NamedTuple):
    time: int
    key: str
    text: str


class Reset(NamedTuple):
    time: int
    size: int


def notes(*texts):
    return end_channels([Event(Note(n, "a", text), "s", n) for n, text in enumerate(texts)])


def per_key(entry, update):
    return Program(
        on(Note, update=update), depends(Note, Note, same="key"), state=MapOf(entry, "key")
    )


def test_a_limited_state_is_what_it_limits_but_can_not_be_cut():
    limited = Limited(SetOf(), items=3)
    assert isinstance(limited, Shape)
    assert limited.add(frozenset(), 1) == limited.value(frozenset({1})) == {1}
    assert (limited.init, limited.zero, limited.fork, limited.join) == (
        frozenset(),
        MISSING,
        None,
        None,
    )
    assert limited.same(frozenset({1}), frozenset({1}))


@pytest.mark.parametrize(
    ("shape", "fits", "grows"),
    [
        (Limited(ListOf(), items=2), (1, 2), (1, 2, 3)),
        (Limited(SetOf(), items=1), frozenset({1}), frozenset({1, 2})),
        (Limited(Bag(), items=3), (("a", 3), ("b", -9)), (("a", 4),)),
        (Limited(Dictionary(Count()), items=1), Map({"a": 9}), Map({"a": 1, "b": 1})),
        (Limited(Value(""), bytes=4), "abc", "abcd"),
        (Limited(Limited(ListOf(), items=2), bytes=100), (1, 2), (1, 2, 3)),
        (Limited(ListOf(), bytes=6, items=9), ("a",), ("abcd",)),
        (Dictionary(Limited(ListOf(), items=1)), Map({"a": (1,)}), Map({"a": (1, 2)})),
        (Struct(n=Count(), all=Limited(ListOf(), items=1)), (5, (1,)), (0, (1, 2))),
        (Several(n=Count(), all=Limited(ListOf(), items=1)), (5, (1,)), (0, (1, 2))),
    ],
)
def test_a_state_at_its_limit_fits_and_one_beyond_does_not(shape, fits, grows):
    shape.check_size(fits)
    with pytest.raises(StateTooLargeError) as caught:
        shape.check_size(grows)
    assert caught.value.size > caught.value.most


def test_states_without_a_limit_check_nothing():
    assert Struct(n=Count()).check_size is None
    assert Several(n=Count()).check_size is None
    assert Dictionary(Count()).check_size is None


def test_the_event_too_many_is_rejected_and_the_state_stays():
    program = per_key(Limited(ListOf(), items=2), lambda s, e: (*s, e.text))
    answer = run(program, notes("x", "y", "z"))
    assert answer.state == Map({"a": ("x", "y")})
    assert (answer.ledger.processed, answer.ledger.rejected) == (2, 1)
    assert [r.reason for r in answer.rejected] == [
        "on Note: StateTooLargeError: the state of 'a' would grow to 3 items; its limit is 2"
    ]


def test_bytes_are_those_that_the_state_is_written_as():
    most = len(write_canonically(("x", "yy")))
    program = per_key(Limited(ListOf(), bytes=most), lambda s, e: (*s, e.text)[-2:])
    answer = run(program, notes("x", "yy", "yy", "zzz", "x"))
    assert [r.item.data.text for r in answer.rejected] == ["yy", "zzz"]
    assert answer.state == Map({"a": ("yy", "x")})


def test_a_run_may_stop_instead():
    limited = Limited(ListOf(), items=2, on_overflow="stop")
    program = Program(
        on(Note, update=lambda s, e: (*s, e.text)),
        depends(Note, Note, same=("key", "text")),
        state=MapOf(MapOf(limited, by="text"), by="key"),
    )
    with pytest.raises(StateTooLargeError) as caught:
        run(program, notes("x", "x", "y", "x"))
    error = caught.value
    assert (error.key, error.size, error.most, error.unit) == (("a", "x"), 3, 2, "items")


def test_an_event_that_sees_all_entries_can_not_make_one_too_large():
    program = Program(
        on(Note, update=lambda s, e: (*s, e.text)),
        on(Reset, update=lambda whole, e: dict.fromkeys(("a", "b"), ("",) * e.size)),
        depends(Reset, Note, Reset),
        depends(Note, Note, same="key"),
        state=MapOf(Limited(ListOf(), items=2), by="key"),
    )
    items = [
        Event(Note(1, "a", "x"), "s", 1),
        Event(Reset(2, 3), "s", 2),
        Event(Reset(3, 2), "s", 3),
    ]
    answer = run(program, end_channels(items))
    assert answer.state == Map({"a": ("", ""), "b": ("", "")})
    assert [r.reason for r in answer.rejected] == [
        "on Reset: StateTooLargeError: the state of 'a' would grow to 3 items; its limit is 2"
    ]


def test_an_event_that_changes_nothing_is_not_held_against_the_state():
    program = Program(
        on(Note, output=lambda s, e: len(s)),
        depends(Note, Note),
        state=Limited(Value((1, 2, 3)), items=2),
    )
    assert run(program, notes("x")).values == [3]


def test_the_name_in_a_dictionary_is_part_of_the_key():
    with pytest.raises(StateTooLargeError) as caught:
        Dictionary(Limited(ListOf(), items=1)).check_size(Map({"a": (1,), "b": (1, 2)}))
    assert caught.value.key == ("b",)
