"""Medians, quantiles, modes and distinct values, held to Python's own and to their laws."""

import math
import statistics
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.state import Distinct, Median, Mode, Quantile
from tests.state.laws import check_laws, fold, read

floats = st.floats(allow_nan=False)
values = st.integers(-3, 3) | st.integers() | floats | st.booleans()
three = lambda of: st.lists(st.lists(of, max_size=6), min_size=3, max_size=3)  # noqa: E731
shares = st.integers(0, 20).map(lambda n: n / 20)

COUNTED: list[Any] = [Median(), Quantile(0.9), Quantile(0.1, interpolate=False), Mode()]


@pytest.mark.parametrize("shape", [*COUNTED, Distinct()], ids=repr)
@given(parts=three(values), seed=st.integers())
@example(parts=[[1], [1.0], [True, 0.0, -0.0]], seed=0)
def test_laws(shape, parts, seed):
    check_laws(shape, parts, seed)


@given(parts=three(floats | st.just(math.nan) | st.text(max_size=2)), seed=st.integers())
def test_distinct_keeps_its_laws_for_values_without_an_order(parts, seed):
    check_laws(Distinct(), parts, seed)


# --- median and quantile ------------------------------------------------------------------------


@given(st.lists(st.integers(-(2**60), 2**60) | st.floats(-1e300, 1e300), min_size=1))
def test_a_median_is_the_middle_rounded_once(numbers):
    assert read(Median(), numbers) == float(statistics.median(map(Fraction, numbers)))


@given(st.lists(st.integers(-100, 100), min_size=2), st.integers(1, 19))
def test_a_quantile_is_that_of_the_standard_library(numbers, twentieths):
    cuts = statistics.quantiles(map(Fraction, numbers), n=20, method="inclusive")
    assert read(Quantile(twentieths / 20), numbers) == float(cuts[twentieths - 1])


@given(st.lists(st.text(), min_size=1), shares)
def test_a_discrete_quantile_is_the_first_with_that_share_at_or_below_it(texts, q):
    found = read(Quantile(q, interpolate=False), texts)
    assert sum(text <= found for text in texts) >= Fraction(str(q)) * len(texts)
    below = [text for text in texts if text < found]
    assert not below or len(below) < Fraction(str(q)) * len(texts)


@pytest.mark.parametrize(("q", "smooth", "one"), [
    # By the definitions of quantile_cont and quantile_disc, worked out by hand.
    (0, 1.0, 1), (0.1, 1.9, 1), (0.25, 3.25, 3), (0.5, 5.5, 5), (0.9, 9.1, 9), (1, 10.0, 10),
])  # fmt: skip
def test_quantiles_of_one_to_ten(q, smooth, one):
    numbers = range(1, 11)
    assert read(Quantile(q), numbers) == smooth
    assert read(Quantile(q, interpolate=False), numbers) == one


def test_a_share_means_what_it_spells():
    # The float 0.07 is more than seven hundredths; of a hundred values it would be the eighth.
    assert read(Quantile(0.07, interpolate=False), range(1, 101)) == 7


def test_each_kind_of_number_stays_what_it_is():
    assert repr(read(Median(), [1, 2])) == "1.5"
    assert repr(read(Median(), [2, 2])) == "2.0"
    assert repr(read(Median(), [Decimal("1.10"), Decimal("2.30")])) == "Decimal('1.7')"
    assert read(Median(), [Fraction(1, 3), Fraction(2, 3)]) == Fraction(1, 2)
    assert read(Quantile(0.5, interpolate=False), [date(2024, 1, 2), date(2023, 1, 2)]) == date(
        2023, 1, 2
    )


INF = math.inf


@pytest.mark.parametrize(
    ("numbers", "median"),
    [([INF, 1.0], INF), ([-INF, 1.0], -INF), ([INF, INF], INF), ([-INF, 1.0, INF], 1.0)],
)
def test_infinities_have_their_place(numbers, median):
    assert read(Median(), numbers) == median


def test_there_is_no_middle_between_the_infinities():
    assert math.isnan(read(Median(), [-INF, INF]))


@pytest.mark.parametrize("shape", COUNTED, ids=repr)
def test_nothing_has_no_quantile(shape):
    assert shape.value(shape.zero) is None


def test_a_state_grows_with_distinct_values_only():
    assert fold(Median(), [3, 1, 3, 3]) == ((1, 1), (3, 3))


@given(st.lists(st.integers(0, 4)))
def test_a_mode_is_the_smallest_of_the_most_frequent(numbers):
    assert read(Mode(), numbers) == min(statistics.multimode(numbers), default=None)


@given(st.lists(values | st.text(max_size=1) | st.just(math.nan)))
def test_distinct_counts_equal_values_once(mixed):
    nans = any(x != x for x in mixed)  # noqa: PLR0124
    assert read(Distinct(), mixed) == len({x for x in mixed if x == x}) + nans  # noqa: PLR0124


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [math.nan, Decimal("NaN")])
def test_nan_has_no_place_in_an_order(number):
    with pytest.raises(
        ValueError, match=r"Median needs values that have an order, got .*[nN]a[nN]"
    ):
        Median().add((), number)


def test_there_is_nothing_halfway_between_two_texts():
    with pytest.raises(TypeError, match="give interpolate=False"):
        read(Median(), ["a", "b"])
    assert read(Quantile(0.5, interpolate=False), ["a", "b"]) == "a"


def test_shapes_are_values_that_say_how_they_were_made():
    assert Quantile(0.9) == Quantile(0.9) != Quantile(0.9, interpolate=False)
    assert repr(Median()) == "Median(interpolate=True)"
