"""Hold the exact accumulators to rational arithmetic and to the laws of join, to the bit."""

import math
import random
import struct
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.state.exact import ExactMean, ExactSum, ExactVariance

SHAPES: list[Any] = [ExactSum(), ExactMean(), ExactVariance(), ExactVariance(ddof=1)]
LARGEST = 1.7976931348623157e308
SMALLEST = 5e-324

each_shape = pytest.mark.parametrize("shape", SHAPES, ids=repr)
edges = st.sampled_from(
    [0.0, -0.0, SMALLEST, -SMALLEST, LARGEST, -LARGEST, 2.2250738585072014e-308, 1.0, 1e16, -1e16]
)
finite = st.floats(allow_nan=False, allow_infinity=False) | edges
numbers = finite | st.integers() | st.integers(min_value=-(10**400), max_value=10**400)
anything = numbers | st.floats()


def fold(shape: Any, xs: Iterable[float]) -> Any:
    return reduce(shape.add, xs, shape.init)


def read(shape: Any, xs: Iterable[float]) -> Any:
    return shape.value(fold(shape, xs))


def round_once(exact: Fraction) -> float:
    """Round a rational to the nearest float, ties to even, by search among the bit patterns.

    Float bit patterns read as integers are in the order of the floats, so the two neighbours of a
    number are found by bisection; this shares nothing with the division under test.
    """
    magnitude = abs(exact)
    low, high = 0, 0x7FF0000000000000
    while high - low > 1:
        middle = (low + high) // 2
        if Fraction(_decode(middle)) <= magnitude:
            low = middle
        else:
            high = middle
    # Above the largest float the next value would be 2**1024, which is read as an infinity.
    above = Fraction(2) ** 1024 if high == 0x7FF0000000000000 else Fraction(_decode(high))
    to_low, to_high = magnitude - Fraction(_decode(low)), above - magnitude
    nearest = low if to_low < to_high or (to_low == to_high and low % 2 == 0) else high
    return -_decode(nearest) if exact < 0 else _decode(nearest)


def _decode(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def show_bits(x: float) -> bytes:
    return struct.pack("<d", x)


# --- Laws ----------------------------------------------------------------------------------------


@each_shape
@given(xs=st.lists(anything), seed=st.integers())
def test_the_order_of_numbers_does_not_show(shape: Any, xs: list[float], seed: int) -> None:
    shuffled = random.Random(seed).sample(xs, len(xs))
    assert shape.same(fold(shape, xs), fold(shape, shuffled))


@each_shape
@given(xs=st.lists(anything), ys=st.lists(anything), zs=st.lists(anything))
def test_join_is_associative_and_commutative(
    shape: Any, xs: list[float], ys: list[float], zs: list[float]
) -> None:
    a, b, c = (fold(shape, part) for part in (xs, ys, zs))
    assert shape.join(shape.join(a, b), c) == shape.join(a, shape.join(b, c))
    assert shape.join(a, b) == shape.join(b, a)
    assert shape.join(shape.join(a, b), c) == fold(shape, xs + ys + zs)


@each_shape
@given(xs=st.lists(anything))
def test_zero_is_the_identity_of_join(shape: Any, xs: list[float]) -> None:
    state = fold(shape, xs)
    assert shape.join(state, shape.zero) == state
    assert shape.join(shape.zero, state) == state


@each_shape
@given(xs=st.lists(anything), ys=st.lists(anything), x=anything)
def test_update_passes_through_join(shape: Any, xs: list[float], ys: list[float], x: float) -> None:
    a, b = fold(shape, xs), fold(shape, ys)
    assert shape.join(shape.add(a, x), b) == shape.add(shape.join(a, b), x)
    assert shape.join(a, shape.add(b, x)) == shape.add(shape.join(a, b), x)


@each_shape
@given(xs=st.lists(anything))
def test_join_undoes_fork(shape: Any, xs: list[float]) -> None:
    state = fold(shape, xs)
    assert shape.fork(state, frozenset("a"), frozenset("b")) == (state, shape.zero)
    assert shape.join(*shape.fork(state, frozenset(), frozenset())) == state


@each_shape
@given(parts=st.lists(st.lists(anything), min_size=1), seed=st.integers())
def test_any_tree_of_joins_gives_the_same_state(
    shape: Any, parts: list[list[float]], seed: int
) -> None:
    rng = random.Random(seed)
    states = [fold(shape, part) for part in parts]
    while len(states) > 1:
        a = states.pop(rng.randrange(len(states)))
        b = states.pop(rng.randrange(len(states)))
        states.append(shape.join(a, b))
    assert states[0] == fold(shape, [x for part in parts for x in part])


@each_shape
@given(xs=st.lists(anything))
def test_a_state_is_a_tuple_of_ints(shape: Any, xs: list[float]) -> None:
    state = fold(shape, xs)
    assert {type(part) for part in state} == {int}
    assert type(state) is type(shape.join(state, state)) is type(shape.zero)


@each_shape
def test_states_differ_by_the_smallest_float(shape: Any) -> None:
    assert not shape.same(fold(shape, [LARGEST]), fold(shape, [LARGEST, SMALLEST]))
    assert not shape.same(fold(shape, [1e16, SMALLEST]), fold(shape, [1e16, 0.0]))


@each_shape
def test_a_program_starts_from_zero_and_has_no_entries(shape: Any) -> None:
    assert shape.init == shape.zero
    assert shape.by is None


# --- Values --------------------------------------------------------------------------------------


@given(xs=st.lists(numbers))
def test_a_sum_is_correctly_rounded(xs: list[float]) -> None:
    expected = round_once(sum(map(Fraction, xs), Fraction(0)))
    assert show_bits(read(ExactSum(), xs)) == show_bits(expected)


@given(xs=st.lists(st.floats(min_value=-1e300, max_value=1e300), max_size=50))
def test_a_sum_equals_fsum(xs: list[float]) -> None:
    assert read(ExactSum(), xs) == math.fsum(xs)


@given(xs=st.lists(numbers, min_size=1))
def test_a_mean_is_correctly_rounded(xs: list[float]) -> None:
    assert read(ExactMean(), xs) == round_once(sum(map(Fraction, xs), Fraction(0)) / len(xs))


@pytest.mark.parametrize("ddof", [0, 1, 3])
@given(xs=st.lists(numbers))
def test_a_variance_is_correctly_rounded(ddof: int, xs: list[float]) -> None:
    value = read(ExactVariance(ddof), xs)
    if len(xs) <= ddof:
        assert value is None
        return
    mean = sum(map(Fraction, xs), Fraction(0)) / len(xs)
    squares = sum(((Fraction(x) - mean) ** 2 for x in xs), Fraction(0))
    assert show_bits(value) == show_bits(round_once(squares / (len(xs) - ddof)))


def test_small_numbers_survive_large_ones() -> None:
    assert read(ExactSum(), [1e16, 1.0, -1e16]) == 1.0
    assert read(ExactSum(), [LARGEST, SMALLEST, -LARGEST]) == SMALLEST
    assert read(ExactSum(), [0.1] * 10) == 1.0
    assert read(ExactMean(), [1e16, 3.0, -1e16]) == 1.0


def test_the_variance_of_large_close_numbers_is_exact() -> None:
    xs = [1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16]
    assert read(ExactVariance(), xs) == 22.5
    assert read(ExactVariance(ddof=1), xs) == 30.0


def test_subnormals_add_up() -> None:
    assert read(ExactSum(), [SMALLEST] * 3) == 1.5e-323
    assert read(ExactMean(), [SMALLEST, SMALLEST]) == SMALLEST
    assert read(ExactVariance(), [SMALLEST, -SMALLEST]) == 0.0


def test_a_tie_is_rounded_to_even() -> None:
    assert read(ExactSum(), [2**53, 1]) == 2.0**53
    assert read(ExactSum(), [2**53, 3]) == 2.0**53 + 4
    assert read(ExactMean(), [SMALLEST, 0.0]) == 0.0
    assert read(ExactMean(), [3 * SMALLEST, 0.0]) == 2 * SMALLEST


def test_only_a_result_may_overflow() -> None:
    assert read(ExactSum(), [1e308, 1e308, -1e308]) == 1e308
    assert read(ExactMean(), [LARGEST, LARGEST]) == LARGEST
    assert read(ExactSum(), [LARGEST, LARGEST]) == math.inf
    assert read(ExactSum(), [-LARGEST, -LARGEST]) == -math.inf
    assert read(ExactVariance(), [LARGEST, -LARGEST]) == math.inf
    # Half a unit in the last place of the largest float is where IEEE 754 rounds to infinity.
    assert read(ExactSum(), [LARGEST, 2.0**970 - 2.0**917]) == LARGEST
    assert read(ExactSum(), [LARGEST, 2.0**970]) == math.inf


def test_an_exact_zero_reads_as_positive_zero() -> None:
    for xs in ([], [-0.0], [-0.0, -0.0], [1.5, -1.5]):
        assert math.copysign(1.0, read(ExactSum(), xs)) == 1.0
    assert math.copysign(1.0, read(ExactMean(), [-0.0])) == 1.0


def test_nothing_has_a_sum_but_no_mean_and_no_variance() -> None:
    assert read(ExactSum(), []) == 0.0
    assert read(ExactMean(), []) is None
    assert read(ExactVariance(), []) is None
    assert read(ExactVariance(ddof=1), [3.0]) is None
    assert read(ExactVariance(), [3.0]) == 0.0


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("xs", "expected"),
    [
        ([INF], INF),
        ([-INF], -INF),
        ([1.0, INF, INF], INF),
        ([-INF, LARGEST, LARGEST], -INF),
        ([INF, -INF], NAN),
        ([NAN, 1.0], NAN),
        ([NAN, INF], NAN),
    ],
)
def test_infinities_and_nan_follow_ieee(xs: list[float], expected: float) -> None:
    for shape in (ExactSum(), ExactMean()):
        assert repr(read(shape, xs)) == repr(expected)
    assert math.isnan(read(ExactVariance(), xs))


@given(
    xs=st.lists(st.floats(min_value=-1e300, max_value=1e300) | st.sampled_from([INF, -INF, NAN]))
)
def test_non_finite_sums_are_those_of_float_addition(xs: list[float]) -> None:
    plain = sum(xs)
    if not math.isfinite(plain):
        assert repr(read(ExactSum(), xs)) == repr(plain)


@each_shape
def test_ints_are_exact_at_any_size(shape: Any) -> None:
    assert fold(shape, [10**400, 3, -(10**400)]) == fold(shape, [3, 10**400, -(10**400)])
    assert read(ExactSum(), [10**400, 3, -(10**400)]) == 3.0
    assert fold(shape, [7]) == fold(shape, [7.0])


class Celsius(float):
    """A user's kind of float."""


def test_kinds_of_float_and_int_count_as_numbers() -> None:
    assert read(ExactSum(), [Celsius(1.5), Celsius(NAN)]) != 1.5
    assert read(ExactSum(), [Celsius(1.5), 2]) == 3.5


# --- Refusals ------------------------------------------------------------------------------------


@each_shape
@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (True, "bool True"),
        ("1.5", "str '1.5'"),
        (None, "NoneType None"),
        (Fraction(1, 3), r"Fraction Fraction\(1, 3\)"),
        (1j, "complex 1j"),
    ],
)
def test_what_is_not_a_number_is_refused(shape: Any, wrong: Any, shown: str) -> None:
    with pytest.raises(TypeError, match=f"takes floats and ints, got {shown}; convert it with"):
        shape.add(shape.init, wrong)


@pytest.mark.parametrize("ddof", [-1, 0.5, True, "1"])
def test_a_senseless_ddof_is_refused(ddof: Any) -> None:
    with pytest.raises(ValueError, match="ddof must be an int of 0 or more, got"):
        ExactVariance(ddof)


def test_shapes_are_frozen_values() -> None:
    assert ExactVariance(1) == ExactVariance(ddof=1) != ExactVariance()
    assert repr(ExactVariance(1)) == "ExactVariance(ddof=1)"
    change: Callable[..., None] = setattr
    with pytest.raises(AttributeError):
        change(ExactVariance(), "ddof", 2)
