import math

import pytest

from anabranch import Map
from anabranch.laws.rounding import is_close, is_identical

TENTHS = 0.1 + 0.2


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (TENTHS, 0.3),
        ((1, (TENTHS,)), (1, (0.3,))),
        ({"a": [TENTHS]}, {"a": [0.3]}),
        (Map({1: TENTHS}), Map({1: 0.3})),
        (frozenset({TENTHS, 1.0}), frozenset({0.3, 1.0})),
        (math.nan, math.nan),
        (1, 1.0000000000000002),
    ],
)
def test_values_that_differ_by_rounding_are_close(a, b):
    assert is_close(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.1, 0.2),
        ((0.1,), (0.1, 0.0)),
        ({"a": 0.1}, {"b": 0.1}),
        (frozenset({0.1}), frozenset({0.2})),
        ("a", "b"),
        (1, 2),
        (math.inf, 1.0),
        (None, 0.0),
    ],
)
def test_values_that_differ_otherwise_are_not_close(a, b):
    assert not is_close(a, b)


def test_what_cancels_is_measured_by_what_was_added():
    assert not is_close(TENTHS - 0.3, 0.0)
    assert is_close(TENTHS - 0.3, 0.0, scale=0.3)


def test_nan_is_identical_to_nan_and_rounding_is_not_identical():
    assert is_identical((math.nan, 1), (math.nan, 1))
    assert not is_identical(TENTHS, 0.3)
