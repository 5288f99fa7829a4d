"""Sketches keep their laws to the bit, and err by no more than they say."""

import math
import random
import statistics

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.model.values.hashing import hash_widely
from anabranch.state import ApproxDistinct, ApproxQuantile, Distinct, Quantile
from tests.state.laws import check_laws, fold, read

numbers = (
    st.integers(-(10**9), 10**9)
    | st.floats(1e-300, 1.7e308)
    | st.floats(-1.7e308, -1e-300)
    | st.sampled_from([0.0, -0.0, math.inf, -math.inf, 1.0, 2.0, 0.5, 1.7976931348623157e308])
)
three = lambda of: st.lists(st.lists(of, max_size=6), min_size=3, max_size=3)  # noqa: E731


@given(parts=three(st.integers(-9, 9) | st.floats() | st.text(max_size=2)), seed=st.integers())
@example(parts=[[1], [1.0], [True]], seed=0)
def test_few_hashes_keep_the_laws(parts, seed):
    check_laws(ApproxDistinct(k=4), parts, seed)


@given(parts=three(numbers), seed=st.integers())
def test_buckets_keep_the_laws(parts, seed):
    check_laws(ApproxQuantile(0.5), parts, seed)


# --- distinct -----------------------------------------------------------------------------------


def test_few_values_are_counted_exactly():
    shape = ApproxDistinct(k=100)
    assert read(shape, [n % 99 for n in range(1000)]) == 99


def test_the_answer_to_one_input_is_always_the_same():
    # If this fails, sketches in old state say something else than they did.
    assert read(ApproxDistinct(), range(100_000)) == 99628
    assert read(ApproxDistinct(k=64), [f"user {n}" for n in range(5000)]) == 5418
    assert fold(ApproxDistinct(k=3), ["a", "b", "c", "d"]) == (
        2246349613187418373,
        5142503794095544484,
        6146056380680008148,
    )


def test_errors_are_as_large_as_they_are_said_to_be():
    k, size = 66, 3000
    errors = []
    for seed in range(150):
        # Numbers in a row are the hardest for a hash that is not as good as random.
        found = read(ApproxDistinct(k=k), range(seed * size, (seed + 1) * size))
        errors.append(found / size - 1)
    emitted = 1 / math.sqrt(k - 2)
    assert abs(statistics.mean(errors)) < 3 * emitted / math.sqrt(150)
    assert 0.8 * emitted < statistics.pstdev(errors) < 1.2 * emitted
    assert max(map(abs, errors)) < 4 * emitted


@given(st.lists(st.integers(-5, 5) | st.text(max_size=2) | st.sampled_from([1.0, 0.5, None])))
def test_below_k_it_is_the_exact_number(values):
    assert read(ApproxDistinct(k=100), values) == read(Distinct(), values)


def test_a_sketch_never_holds_more_than_k():
    assert len(fold(ApproxDistinct(k=8), range(1000))) == 8


# --- quantile -----------------------------------------------------------------------------------


@given(
    st.lists(numbers, min_size=1),
    st.integers(0, 20).map(lambda n: n / 20),
    st.sampled_from([0.3, 0.1, 0.01, 0.001, 0.99]),
)
@example([1.0], 0.5, 0.01)
@example([1.02], 0.5, 0.01)
@example([1.9999999999999998], 0.5, 0.01)
def test_an_answer_is_within_its_accuracy(values, q, accuracy):
    exact = float(read(Quantile(q, interpolate=False), values))
    found = read(ApproxQuantile(q, accuracy), values)
    if exact == 0 or math.isinf(exact):
        assert found == exact
    else:
        # The last bits of a division are not in the bound.
        assert abs(found / exact - 1) <= accuracy * (1 + 1e-9)


def test_the_bound_is_used_up():
    # A bucket from 1 to 1.02 is answered by its middle, as far from either end as it may be.
    assert read(ApproxQuantile(0.5, 0.01), [1.0]) == pytest.approx(1 + 1 / 101)
    assert ApproxQuantile(0.5, 0.01).buckets == 50


def test_the_quantile_of_one_input_is_always_the_same():
    rng = random.Random(7)
    values = [1 / (rng.random() + 1e-6) for _ in range(20_000)]
    assert [read(ApproxQuantile(q), values) for q in (0.01, 0.5, 0.99)] == [
        1.00990099009901,
        2.01980198019802,
        101.75597484276732,
    ]
    assert read(Quantile(0.99, interpolate=False), values) == 102.0944072875639


def test_the_number_of_buckets_is_bounded_by_the_range():
    rng = random.Random(1)
    values = [10 ** rng.uniform(-3, 9) for _ in range(20_000)]
    assert len(fold(ApproxQuantile(0.5), values)) <= 50 * 40


@given(numbers, numbers)
def test_buckets_are_in_the_order_of_numbers(a, b):
    shape = ApproxQuantile(0.5)
    if a < b:
        assert shape.find_bucket(float(a)) <= shape.find_bucket(float(b))


def test_nothing_has_no_quantile():
    assert ApproxQuantile(0.5).value(()) is None
    assert ApproxDistinct().value(()) == 0


def test_nan_has_no_bucket():
    with pytest.raises(ValueError, match="ApproxQuantile needs numbers that have an order"):
        ApproxQuantile(0.5).add((), math.nan)


# --- the hash -----------------------------------------------------------------------------------


def test_different_values_are_spelled_differently():
    values = ["a", b"a", ("a",), (("a",),), 1, "1", (1, 2), (12,), ("1", 2), None, "None", (), "",
              frozenset({1}), (1,), 0.5, -1, 1 << 70, float("nan"), math.inf]  # fmt: skip
    assert len({hash_widely(value) for value in values}) == len(values)
