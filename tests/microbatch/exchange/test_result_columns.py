"""Texts made of columns are what each value by itself would be."""

from typing import NamedTuple

import numpy as np
import pytest

from anabranch.kernels.column_layouts import OptionalColumn, read_value
from anabranch.kernels.numpy_columns import pack
from anabranch.microbatch.exchange.result_columns import write_texts, write_values
from anabranch.microbatch.exchange.result_rows import encode_json


class Reading(NamedTuple):
    time: int
    sensor: str
    value: float
    ok: bool


ODD = [0.0, -0.0, 1e300, 1e-7, float("inf"), float("-inf"), float("nan"), 0.1 + 0.2]


@pytest.mark.parametrize(
    "values",
    [
        [0, -1, 1 << 62],
        ODD,
        [True, False],
        ["", 'a "quoted" text', "ünï\n\x00", "%s"],
        [(1, 2.5, "x"), (2, -0.0, "%d")],
        [()],
        [Reading(3, "a%", 0.5, True), Reading(-3, "é", float("nan"), False)],
        [(Reading(1, "a", 1.0, True), 7), (Reading(2, "b", 2.0, False), 8)],
    ],
    ids=str,
)
def test_differential_texts_of_columns_are_the_texts_of_their_values(values):
    columns = pack(read_value(values[0]), values)
    assert write_texts(columns).to_pylist() == [encode_json(value) for value in values]


def test_what_may_be_missing_is_null():
    values = [5, None, -3]
    columns = pack(OptionalColumn(read_value(5)), values)
    assert write_texts(columns).to_pylist() == [encode_json(value) for value in values]


def test_values_of_several_forms_come_in_the_order_in_which_they_were_said():
    several = [[1, 2, 3], ["a", "b"], [(1, 0.5)]]
    forms = np.array([1, 0, 2, 0, 1, 0])
    texts = write_values([pack(read_value(values[0]), values) for values in several], forms)
    assert texts.to_pylist() == ['"a"', "1", "[1,0.5]", "2", '"b"', "3"]
