from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Program, depends, on
from anabranch.model.order import bound_after


class Value(NamedTuple):
    time: int
    value: int


class Barrier(NamedTuple):
    time: int


class Rent(NamedTuple):
    time: int


class Month(NamedTuple):
    time: int


class Day(NamedTuple):
    time: int


def nothing(state, event):
    return state


program = Program(
    on(Value, update=nothing), on(Barrier, update=nothing), depends(Barrier, Value, Barrier), init=0
)

times = st.integers(-(2**63) + 1, 2**63 - 2)
data = st.builds(Value, times, st.integers()) | st.builds(Barrier, times)
numbered = st.builds(Event, data, st.sampled_from("ab"), st.integers(0, 2**63 - 1))
unnumbered = st.builds(Event, data, st.sampled_from("cd"))


def test_marker_comes_first_at_equal_time():
    assert program.order(Event(Barrier(5))) < program.order(Event(Value(5, 1)))
    assert program.order(Event(Value(4, 1))) < program.order(Event(Barrier(5)))


def test_rank_can_put_the_marker_last():
    reversed_rank = program.changed(rank=(Value, Barrier))
    assert reversed_rank.order(Event(Value(5, 1))) < reversed_rank.order(Event(Barrier(5)))


def test_rank_of_one_event_type_may_be_given_alone():
    assert program.changed(rank=Value).rank == (Value, Barrier)


def test_channel_breaks_ties_and_then_the_sequence():
    third, first, second = (
        Event(Value(5, 1), "b", 0),
        Event(Value(5, 3), "a", 1),
        Event(Value(5, 2), "a", 2),
    )
    assert sorted([third, second, first], key=program.order) == [first, second, third]


def test_content_breaks_ties_where_there_is_no_sequence():
    one, two = Event(Value(5, 1)), Event(Value(5, 2))
    assert program.order(one) < program.order(two)


def calendar(*statements):
    handlers = [on(event_type, update=nothing) for event_type in (Value, Rent, Day, Month)]
    return Program(*handlers, *statements, init=0)


def test_the_marker_that_orders_more_event_types_comes_first():
    program = calendar(depends(Day, Value, Day), depends(Month, Value, Rent, Day, Month))
    assert program.markers == (Month, Day)
    assert program.rank == (Month, Day, Value, Rent)


def test_markers_that_order_as_much_come_as_written():
    program = calendar(depends(Day, Value, Day), depends(Month, Value, Day, Month))
    assert program.markers == (Day, Month)


def test_a_event_type_in_order_with_itself_alone_is_no_marker():
    program = calendar(depends(Rent, Rent), depends(Month, Rent, Month))
    assert program.markers == ()


def test_what_depends_on_all_orders_what_depends_per_field():
    program = calendar(depends(Value, Value, same="value"), depends(Month, Value, Month))
    assert program.markers == (Month,)


@given(st.lists(numbered | unnumbered, max_size=8))
def test_any_two_events_have_an_order(events):
    keys = [program.order(event) for event in events]
    assert all((a < b) + (a == b) + (a > b) == 1 for a in keys for b in keys)


@given(numbered, numbered)
def test_only_one_event_has_a_place_in_its_channel(a, b):
    if program.order(a) == program.order(b):
        assert (a.time, a.event_type, a.channel, a.seq) == (b.time, b.event_type, b.channel, b.seq)


@given(numbered | unnumbered, times)
def test_a_bound_lies_after_every_event_at_its_time_and_before_every_later_one(event, time):
    assert (program.order(event) < bound_after(time)) == (event.time <= time)


@pytest.mark.parametrize("event_type", [Value, Barrier])
def test_a_rank_is_a_place_in_the_rank(event_type):
    assert program.rank[program.ranks[event_type]] is event_type
