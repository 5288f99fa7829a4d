"""The laws that every state of one number keeps, whatever the numbers."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Slices
from anabranch.state import Count, Max, Mean, Min, Sum
from anabranch.state.numbers import Average
from tests.state.laws import check_laws, read

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


# --- mean ---------------------------------------------------------------------------------------

decimals = st.decimals(allow_nan=False, allow_infinity=False, places=40, min_value=-9, max_value=9)


@pytest.mark.parametrize(
    "numbers", [integers, st.fractions(), decimals], ids=["int", "Fraction", "Decimal"]
)
@given(data=st.data(), seed=st.integers())
def test_a_mean_keeps_its_laws(numbers, data, seed):
    parts = data.draw(st.lists(st.lists(numbers, max_size=5), min_size=3, max_size=3))
    check_laws(Mean(), parts, seed, [Average])


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1))
def test_the_mean_of_integers_is_rounded_once(values):
    assert read(Mean(), values) == float(Fraction(sum(values), len(values)))


def test_a_mean_is_of_the_kind_of_its_numbers():
    assert repr(read(Mean(), [1, 2])) == "1.5"
    assert repr(read(Mean(), [Fraction(1), Fraction(1, 2)])) == "Fraction(3, 4)"
    assert repr(read(Mean(), [Decimal("0.10"), Decimal("0.20")])) == "Decimal('0.15')"
    assert read(Mean(), [Decimal(1), Decimal(1), Decimal(2)]) == Decimal(
        "1.333333333333333333333333333"
    )
    assert read(Mean(), []) is None


def test_the_sum_of_decimals_is_not_rounded():
    tiny = Decimal("1e-40")
    assert read(Mean(), [Decimal(1), tiny, Decimal(-1), tiny]) == Decimal("5e-41")


@pytest.mark.parametrize("number", [0.5, float("nan")])
def test_floats_are_sent_to_the_exact_mean(number):
    with pytest.raises(TypeError, match="use ExactMean"):
        Mean().add(Mean().zero, number)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "sNaN"])
def test_what_is_no_finite_decimal_is_refused(number):
    with pytest.raises(ValueError, match="a Mean takes finite numbers"):
        Mean().add(Mean().zero, Decimal(number))
