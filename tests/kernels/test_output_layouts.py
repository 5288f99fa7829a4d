"""Output layouts: what a kernel says is of a type, or each value must be looked at."""

from typing import Any, NamedTuple

import pytest

from anabranch import Program, depends, on
from anabranch.kernels.column_layouts import ANYTHING, Constant, Leaf, OptionalColumn, read_value
from anabranch.kernels.kernel import explain_kernel
from anabranch.kernels.output_layouts import find_type
from anabranch.model.values.output_types import OutputTypes
from anabranch.model.values.value_types import read_type


class Pair(NamedTuple):
    a: int
    b: float | None


class Other(NamedTuple):
    a: int


class Txn(NamedTuple):
    time: int
    amount: int


INT, STR = Leaf("int"), Leaf("str")


@pytest.mark.parametrize(
    ("types", "layout", "number"),
    [
        ([int], INT, 0),
        ([float], INT, 0),
        ([str], INT, None),
        ([bool], INT, None),
        ([str, int], INT, 1),
        ([int], Constant(7), 0),
        ([int], Constant("7"), None),
        ([int], Constant(1 << 63), None),
        ([int], OptionalColumn(INT), None),
        ([int | None], OptionalColumn(INT), 0),
        ([Any], STR, 0),
        ([int], ANYTHING, None),
        ([Pair], read_value(Pair(1, 2.0)), 0),
        ([Pair], read_value(Pair(1, 2)), 0),
        ([Pair], read_value(Pair(1, None)), 0),
        ([Pair], read_value(Pair("1", None)), None),
        ([Other, Pair], read_value(Pair(1, None)), 1),
        ([tuple[int, str]], read_value((1, "x")), 0),
        ([tuple[int, str]], read_value((1, 2)), None),
        ([tuple[int, ...]], read_value((1, 2)), 0),
        ([tuple[int, ...], tuple[int, str]], read_value((1, "x")), 1),
        ([tuple[int, int], tuple[int, int | None]], read_value((1, None)), 1),
    ],
    ids=repr,
)
def test_a_layout_is_of_the_first_type_that_all_its_values_are_of(types, layout, number):
    assert find_type(OutputTypes(tuple(map(read_type, types))), layout) == number


def test_a_function_that_may_say_another_type_is_left_to_python():
    def program(output):
        return Program(on(Txn, update=_add, output=output), depends(Txn, Txn), init=0)

    def says_so(total, txn) -> Pair:
        return Pair(total, txn.amount / 2)

    def does_not(total, txn) -> Pair:
        return Pair(total / 2, None)

    assert [verdict.reason for verdict in explain_kernel(program(says_so))] == [None]
    (verdict,) = explain_kernel(program(does_not))
    assert "emits Pair where outputs are Pair" in verdict.reason


def _add(total, txn):
    return total + txn.amount
