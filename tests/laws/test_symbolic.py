"""Symbolic execution computes what Python computes, or stops."""

from __future__ import annotations

import itertools

import pytest

from anabranch.laws.proving import terms as t
from anabranch.laws.proving.solver import Solver
from anabranch.laws.proving.symbolic import Trace
from anabranch.laws.proving.symbols import Stop, read_term, wrap


@pytest.mark.parametrize("op", ["//", "%"])
def test_division_rounds_as_python_does(op):
    solver = Solver(2000)
    a, b, c = (t.variable(name, t.INT) for name in "abc")
    for x, y in itertools.product(range(-7, 8), [-3, -2, -1, 1, 2, 3]):
        expected = x // y if op == "//" else x % y
        fixed = [
            t.apply("==", a, t.constant(x)),
            t.apply("==", b, t.constant(y)),
            t.negate(t.apply("==", b, t.constant(0))),
        ]
        for divisor in (b, t.constant(y)):
            found = solver.find([*fixed, t.apply("==", c, t.apply(op, a, divisor))])
            assert found
            assert found["c"] == expected


def test_a_function_is_explored_path_by_path_and_merged():
    trace = Trace()
    x = wrap(t.variable("x", t.INT), trace)

    def classify(value):
        if value > 10:
            return (1, value)
        return (0, -value) if value > 5 else (2, 0)

    cases = trace.explore(lambda: trace.call(classify, x))
    assert len(cases) == 1
    for number in (-3, 5, 6, 10, 11):
        merged = tuple(t.evaluate(read_term(part), {"x": number}) for part in cases[0].value)
        assert merged == classify(number)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 3 - 2 * x,
        lambda x: (7 // (x * x + 1), x // -3, x % -3, -7 % (x * x + 1), divmod(x, 4)),
        lambda x: (abs(x), -x, +x, ~x, x**3, round(x)),
        lambda x: (x == 2, x != 2, x < 1, x <= 1, x > 1, x >= 1),
        lambda x: (max(x, 2), min(x, -2, 0), sorted([x, 1, 0]), sum([x, x > 0, 1])),
        lambda x: (x > 0) + (x > 1) * 2,
        lambda x: ((x > 0) & (x < 3), (x > 0) | (x < -3), (x > 0) ^ (x > 2), int(x > 0)),
        lambda x: (isinstance(x, int), isinstance(x > 0, bool), x in (1, 2), x == "a", x is None),
        lambda x: "zero" if not x else ("odd" if x % 2 else "even"),
    ],
)
def test_symbols_compute_what_numbers_compute(function):
    for number in range(-5, 6):
        trace = Trace()
        x = wrap(t.variable("x", t.INT), trace)
        for case in trace.explore(lambda: function(x)):  # noqa: B023 - used at once
            if t.evaluate(case.condition, {"x": number}):
                assert _evaluate(case.value, {"x": number}) == function(number)
                break
        else:
            pytest.fail("no path is taken")


def _evaluate(value, numbers):
    if isinstance(value, tuple | list):
        return type(value)(_evaluate(part, numbers) for part in value)
    return value if isinstance(value, str) else t.evaluate(read_term(value), numbers)


@pytest.mark.parametrize(
    "function",
    [str, float, hash, range, lambda x: f"{x}", lambda x: x / 2, lambda x: x + 0.5, lambda x: "a" * x,
     lambda x: x.bit_length(), lambda x: {x: 1}, lambda x: x & 1, lambda x: 2**x],
)  # fmt: skip
def test_what_is_no_term_stops_the_run(function):
    trace = Trace()
    x = wrap(t.variable("x", t.INT), trace)
    with pytest.raises(Stop):
        trace.explore(lambda: function(x))
