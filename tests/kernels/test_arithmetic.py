"""Numbers behave as in Python: compiled or stepped over, never silently different."""

import math
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anabranch import on
from tests.kernels.differences import check_same, compile_handlers

LEAST, MOST = -(2**63), 2**63 - 1
INTS = [LEAST, LEAST + 1, -(2**53) - 1, -1000, -7, -1, 0, 1, 2, 63, 64, 2**53 + 1, MOST - 1, MOST]
FLOATS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, -1.5, 0.5, 2.5, 2.0**53, 1e16, 1e308]

ints = st.sampled_from(INTS) | st.integers(LEAST, MOST) | st.integers(-100, 100)
floats = st.sampled_from(FLOATS) | st.floats()


class Ints(NamedTuple):
    time: int
    a: int
    b: int


class Floats(NamedTuple):
    time: int
    a: float
    b: float


class Mixed(NamedTuple):
    time: int
    i: int
    f: float
    p: bool
    q: bool


def integers(state: int, e: Ints):
    yield "+", e.a + e.b
    yield "-", e.a - e.b
    yield "*", e.a * e.b
    yield "neg", -e.a
    yield "abs", abs(e.b)
    yield "&|^~", (e.a & e.b, e.a | e.b, e.a ^ e.b, ~e.a)
    yield "max", (max(e.a, e.b), min(e.a, e.b, 5))
    yield "<", (e.a < e.b, e.a <= e.b, e.a == e.b, e.a != e.b, -5 < e.a <= e.b < 100)


def quotients(state: int, e: Ints):
    yield "//", e.a // e.b
    yield "%", e.a % e.b
    yield "by 7", (e.a // 7, e.a % 7, e.a // -7, e.a % -7)
    yield "divmod", divmod(e.b, e.a)


def ratio(state: int, e: Ints):
    return e.a / e.b


def shifts(state: int, e: Ints):
    return [e.a << e.b, e.a >> e.b, e.a >> 3]


def powers(state: int, e: Ints):
    return [e.a**0, e.a**1, e.a**2, e.b**5]


def reals(state: int, e: Floats):
    yield "+-*", (e.a + e.b, e.a - e.b, e.a * e.b, -e.a, abs(e.a))
    yield "max", (max(e.a, e.b), min(e.a, e.b), max(0.0, e.a, e.b))
    yield "<", (e.a < e.b, e.a <= e.b, e.a == e.b, e.a != e.b, e.a != e.a)
    yield "is", (math.isnan(e.a), math.isinf(e.a), math.isfinite(e.a), math.fabs(e.b))
    yield "sign", math.copysign(e.a, e.b)
    yield "truth", (bool(e.a), not e.b, e.a or 1.0, e.a and e.b)


def real_quotients(state: int, e: Floats):
    return [e.a / e.b, e.a // e.b, e.a % e.b, e.a % 0.1, e.b // -3.0]


def wholes(state: int, e: Floats):
    return [int(e.a), round(e.a), math.floor(e.a), math.ceil(e.a), math.trunc(e.a)]


def roots(state: int, e: Floats):
    return math.sqrt(e.a)


def mixtures(state: int, e: Mixed):
    yield "sum", (e.i + e.f, e.f * e.i, e.i - e.f, e.p + e.q, e.p * 3, -e.p, e.p - e.q)
    yield "bits", (e.p & e.q, e.p | e.q, e.p ^ e.q, e.p & e.i, e.q ^ 1)
    yield "truth", (bool(e.i), not e.f, e.p and e.q, e.i or 3, e.p < e.q, e.p == 1)
    yield "casts", (int(e.p), float(e.p), float(e.i), +e.p)


def comparisons(state: int, e: Mixed):
    return [e.i < e.f, e.i == e.f, e.f >= e.i, e.i < 0.5, e.f > 2, e.p < e.f]


FUNCTIONS = {
    Ints: [integers, quotients, ratio, shifts, powers],
    Floats: [reals, real_quotients, wholes, roots],
    Mixed: [mixtures, comparisons],
}


@pytest.mark.parametrize(
    ("event_type", "function"),
    [
        (event_type, function)
        for event_type, functions in FUNCTIONS.items()
        for function in functions
    ],
    ids=lambda x: x.__name__,
)
def test_differential_on_every_pair_of_extremes(event_type, function):
    kernel = compile_handlers([on(event_type, output=function)], [0])
    pools = {
        Ints: [(0, a, b) for a in INTS for b in INTS],
        Floats: [(0, a, b) for a in FLOATS for b in FLOATS],
        Mixed: [(0, i, f, p, i > 0) for i in INTS for f in FLOATS for p in (True, False)],
    }
    check_same(kernel, [0], [(0, event_type(*fields)) for fields in pools[event_type]])


INT_KERNEL = [on(Ints, output=f) for f in (integers, quotients, ratio, powers)]


@settings(max_examples=40)
@given(st.lists(st.tuples(ints, ints), max_size=30), st.sampled_from(range(len(INT_KERNEL))))
@example([(MOST, 1), (1, MOST), (LEAST, -1), (0, 0)], 0)
def test_differential_on_any_integers(pairs, chosen):
    kernel = compile_handlers([INT_KERNEL[chosen]], [0])
    check_same(kernel, [0], [(0, Ints(0, a, b)) for a, b in pairs])


@settings(max_examples=40)
@given(st.lists(st.tuples(ints, st.integers(-3, 100)), max_size=30))
def test_differential_on_any_shifts(pairs):
    kernel = compile_handlers([on(Ints, output=shifts)], [0])
    check_same(kernel, [0], [(0, Ints(0, a, b)) for a, b in pairs])


FLOAT_KERNEL = [on(Floats, output=f) for f in (reals, real_quotients, wholes, roots)]


@settings(max_examples=40)
@given(st.lists(st.tuples(floats, floats), max_size=30), st.sampled_from(range(len(FLOAT_KERNEL))))
def test_differential_on_any_floats(pairs, chosen):
    kernel = compile_handlers([FLOAT_KERNEL[chosen]], [0])
    check_same(kernel, [0], [(0, Floats(0, a, b)) for a, b in pairs])


def test_an_overflow_is_stepped_over_and_the_sum_goes_on_as_python_has_it():
    kernel = compile_handlers([on(Ints, update=lambda s, e: s + e.a - e.b)], [0])
    events = [(0, Ints(0, MOST, 0)), (0, Ints(1, 5, 10)), (1, Ints(2, 7, 0)), (0, Ints(3, -9, 0))]
    folded, emitted = check_same(kernel, [0, 0], events)
    assert emitted["states"] == [f"int {MOST - 14}", "int 7"]
    assert folded.stepped == 1  # MOST + 5 is more than 64 bits; MOST + 5 - 10 is not.


def test_a_state_that_outgrows_64_bits_is_kept_as_an_object():
    kernel = compile_handlers([on(Ints, update=lambda s, e: s * e.a, output=lambda s, e: s)], [1])
    events = [(0, Ints(n, 10**6, 0)) for n in range(5)]
    folded, emitted = check_same(kernel, [1], events)
    assert emitted["states"] == [f"int {10**30}"]
    assert [value for _, _, value in emitted["emitted"]][-1] == f"int {10**24}"
    again, emitted = check_same(kernel, folded.states.unpack(), [(0, Ints(9, 0, 0))])
    assert emitted["states"] == ["int 0"]
    assert again.states.layout == kernel.layout


def test_an_event_that_raises_is_set_aside_with_all_it_said():
    def output(state: int, e: Ints):
        yield state
        yield 100 // e.b

    kernel = compile_handlers([on(Ints, output=output, update=lambda s, e: s + 100 % e.a)], [0])
    events = [(0, Ints(n, 5 if n % 3 else 0, n % 2)) for n in range(1, 7)]
    folded, emitted = check_same(kernel, [1], events)
    assert [place for place, _, _ in emitted["failed"]] == [1, 2, 3, 5]
    assert emitted["emitted"] == [
        (0, 0, "int 1"),
        (0, 1, "int 100"),
        (4, 0, "int 1"),
        (4, 1, "int 100"),
    ]
    assert folded.stepped == 4


def test_where_most_events_raise_python_does_the_rest():
    kernel = compile_handlers([on(Ints, output=lambda s, e: e.a // e.b)], [0])
    events = [(0, Ints(n, n, n % 2)) for n in range(2000)]
    folded, emitted = check_same(kernel, [0], events)
    assert len(emitted["failed"]) == 1000
    assert folded.stepped > 1000


def test_an_empty_batch_changes_nothing():
    kernel = compile_handlers([on(Ints, output=lambda s, e: s, update=lambda s, e: e.a)], [3])
    _, emitted = check_same(kernel, [3, 4], [])
    assert emitted == {"states": ["int 3", "int 4"], "emitted": [], "failed": []}


def test_the_callers_states_are_left_as_they_were():
    from anabranch.kernels import fill, gather

    kernel = compile_handlers([on(Ints, update=lambda s, e: s + e.a)], [0])
    states = fill(kernel.layout, 0, 2)
    folded = kernel.fold(states, gather(kernel.event_types, [(1, Ints(0, 4, 0))]))
    assert states.unpack() == [0, 0]
    assert folded.states.unpack() == [0, 4]


@pytest.mark.parametrize(("row", "slot"), [(-1, 0), (0, -1), (5, 0), (0, 5)])
def test_a_batch_that_points_outside_is_an_error(row, slot):
    import numpy as np

    from anabranch.kernels import EventBatch, fill, gather

    kernel = compile_handlers([on(Ints, update=lambda s, e: s + e.a)], [0])
    good = gather(kernel.event_types, [(0, Ints(0, 4, 0))])
    bad = EventBatch(good.events, good.event_types, np.array([row]), np.array([slot]))
    with pytest.raises(IndexError):
        kernel.fold(fill(kernel.layout, 0, 1), bad)
