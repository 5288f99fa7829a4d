"""The laws that every state of one number keeps, whatever the numbers."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Slices
from anabranch.state import Count, Max, Min, Sum

integers = st.integers(-(2**70), 2**70)
optional = st.none() | integers
NUMBERS: dict[str, tuple[Any, st.SearchStrategy]] = {
    "sum": (Sum(), integers),
    "sum from ten": (Sum(10), integers),
    "sum of fractions": (Sum(Fraction(0)), st.fractions()),
    "count": (Count(), st.integers(0, 2**70)),
    "max": (Max(), optional),
    "max of text": (Max(), st.none() | st.text()),
    "max from zero": (Max(0), st.integers(0, 2**70)),
    "min": (Min(), optional),
}

every_number = pytest.mark.parametrize("name", NUMBERS)
nowhere = Slices()


@every_number
@given(data=st.data())
def test_joining_with_zero_changes_nothing(name, data):
    shape, states = NUMBERS[name]
    state = data.draw(states)
    assert shape.same(shape.join(state, shape.zero), state)
    assert shape.same(shape.join(shape.zero, state), state)


@every_number
@given(data=st.data())
def test_join_is_associative(name, data):
    shape, states = NUMBERS[name]
    a, b, c = (data.draw(states) for _ in range(3))
    assert shape.same(shape.join(shape.join(a, b), c), shape.join(a, shape.join(b, c)))


@every_number
@given(data=st.data())
def test_join_undoes_fork(name, data):
    shape, states = NUMBERS[name]
    state = data.draw(states)
    assert shape.same(shape.join(*shape.fork(state, nowhere, nowhere)), state)


@every_number
@given(data=st.data())
def test_adding_passes_through_join(name, data):
    shape, states = NUMBERS[name]
    a, b = data.draw(states), data.draw(states)
    value = data.draw(states.filter(lambda state: state is not None))
    assert shape.same(shape.join(shape.add(a, value), b), shape.add(shape.join(a, b), value))
    assert shape.same(shape.join(a, shape.add(b, value)), shape.add(shape.join(a, b), value))


@given(st.lists(integers))
def test_what_is_added_can_be_read(values):
    for shape, expected in [
        (Sum(), sum(values)),
        (Max(), max(values, default=None)),
        (Min(), min(values, default=None)),
    ]:
        state = shape.init
        for value in values:
            state = shape.add(state, value)
        assert shape.value(state) == expected


def test_a_count_counts_by_one():
    assert Count().add(Count().add(Count().init)) == 2


def test_zero_is_of_the_type_of_the_start():
    assert type(Sum(Decimal("1.5")).zero) is Decimal
    assert type(Sum(1.5).zero) is float
    assert (Sum(10).init, Sum(10).zero) == (10, 0)


def test_a_sum_is_left_on_one_side_and_a_maximum_on_both():
    assert Sum().fork(7, nowhere, nowhere) == (7, 0)
    assert Max().fork(7, nowhere, nowhere) == (7, 7)


def test_none_is_below_and_above_everything():
    assert Max().join(None, -5) == Max().join(-5, None) == -5
    assert Min().join(None, 5) == Min().join(5, None) == 5


def test_equal_shapes_are_the_same_shape():
    assert Sum() == Sum(0)
    assert Sum() != Count()
    assert Max() != Min()
    assert len({Sum(), Sum(0), Count(), Max(), Min()}) == 4


@pytest.mark.parametrize("shape", [Max(), Min()])
def test_a_nan_wins_on_either_side(shape):
    nan = float("nan")
    assert shape.same(shape.join(nan, 1.0), nan)
    assert shape.same(shape.join(1.0, nan), nan)
    assert not shape.same(1.0, nan)
