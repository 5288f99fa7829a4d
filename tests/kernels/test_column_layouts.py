"""Columns give back what was put in: every value, of the same type."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.column_layouts import (
    ANYTHING,
    NOTHING,
    Clash,
    Column,
    Constant,
    Fields,
    Leaf,
    OptionalColumn,
    list_columns,
    meet,
    read_annotation,
    read_record,
    read_value,
)
from anabranch.kernels.numpy_columns import Columns, Strings, fill, pack, pack_or_keep
from anabranch.model.values.fields import Unfit
from anabranch.state import Count, Max, Struct
from tests.kernels.differences import exact


class Point(NamedTuple):
    x: int
    y: float | None = None


class Line(NamedTuple):
    name: str
    start: Point
    end: Point | None
    thick: bool


@dataclass(frozen=True)
class Frozen:
    a: int
    b: Point


@dataclass(frozen=True)
class Careful:
    a: int

    def __post_init__(self):
        assert self.a > 0


ints = st.integers(-(2**63), 2**63 - 1)
points = st.builds(Point, ints, st.none() | st.floats())
lines = st.builds(Line, st.text(), points, st.none() | points, st.booleans())


@given(st.lists(lines))
def test_records_come_back_to_the_bit(values):
    assert list(map(exact, pack(read_record(Line), values).unpack())) == list(map(exact, values))


@given(st.lists(st.builds(Frozen, ints, points)))
def test_frozen_dataclasses_come_back(values):
    assert list(map(exact, pack(read_record(Frozen), values).unpack())) == list(map(exact, values))


@given(st.lists(st.lists(ints) | st.dictionaries(ints, ints) | st.tuples(ints)))
def test_what_has_no_columns_comes_back_as_the_same_object(values):
    assert pack(ANYTHING, values).unpack() == values


@pytest.mark.parametrize(
    ("layout", "value", "reason"),
    [
        (Leaf("int"), True, "expected int, got bool"),
        (Leaf("int"), 1.0, "expected int, got float"),
        (Leaf("float"), 1, "expected float, got int"),
        (Leaf("bool"), 1, "expected bool, got int"),
        (Leaf("str"), b"a", "expected str, got bytes"),
        (Leaf("int"), None, "expected int, got NoneType"),
        (Leaf("int"), 2**63, "an int of more than 64 bits"),
        (Leaf("int"), -(2**63) - 1, "an int of more than 64 bits"),
        (NOTHING, 0, "expected None everywhere"),
        (read_record(Point), (1, 2.0), "expected a Point, got (1, 2.0)"),
        (Fields(tuple, (Leaf("int"),)), (1, 2), "expected a tuple of 1, got (1, 2)"),
    ],
)
def test_what_would_not_come_back_the_same_is_unfit(layout, value, reason):
    with pytest.raises(Unfit) as caught:
        pack(layout, [value])
    assert str(caught.value) == reason


def test_one_field_that_does_not_fit_leaves_the_others_their_columns():
    columns = pack_or_keep(read_record(Point), [Point(2**70, 1.5), Point(1, None)])
    assert columns.layout == Fields(Point, (ANYTHING, OptionalColumn(Leaf("float"))))
    assert columns.unpack() == [Point(2**70, 1.5), Point(1, None)]


def test_a_layout_lists_its_columns_by_path():
    assert list(list_columns(read_record(Line))) == [
        Column("str", ".name"),
        Column("int", ".start.x"),
        Column("bool", ".start.y?"),
        Column("float", ".start.y"),
        Column("bool", ".end?"),
        Column("int", ".end.x"),
        Column("bool", ".end.y?"),
        Column("float", ".end.y"),
        Column("bool", ".thick"),
    ]


@pytest.mark.parametrize(
    ("annotation", "layout"),
    [
        (int, Leaf("int")),
        (int | None, OptionalColumn(Leaf("int"))),
        (int | str, ANYTHING),
        (list[int], ANYTHING),
        (Any, ANYTHING),
        (list[int] | None, ANYTHING),
        (Careful, ANYTHING),
        (None, NOTHING),
    ],
)
def test_an_annotation_names_a_layout(annotation, layout):
    assert read_annotation(annotation) == layout


def test_a_ready_made_struct_lies_in_columns():
    struct = Struct(seen=Count(), top=Max())
    layout = meet(read_value(struct.init), read_value(struct.add(struct.init, seen=1, top=7)))
    states = [struct.init, struct.add(struct.init, seen=1, top=7)]
    assert layout.parts == (Leaf("int"), OptionalColumn(Leaf("int")))
    assert pack(layout, states).unpack() == states


def test_layouts_meet_where_both_have_room():
    assert meet(NOTHING, Leaf("int")) == OptionalColumn(Leaf("int"))
    assert meet(OptionalColumn(Leaf("int")), Constant(3)) == OptionalColumn(Leaf("int"))
    assert meet(Constant("a"), Constant("b")) == Leaf("str")
    with pytest.raises(Clash, match=r"^int and float$"):
        meet(Leaf("int"), Leaf("float"))
    with pytest.raises(Clash, match=r"^bool and int$"):
        meet(Constant(True), Constant(1))


def test_constants_that_are_equal_in_python_are_told_apart():
    assert len({Constant(1), Constant(1.0), Constant(True), Constant(0.0), Constant(-0.0)}) == 5
    assert pack(Constant(-0.0), [-0.0]).unpack() == [-0.0]
    with pytest.raises(Unfit):
        pack(Constant(-0.0), [0.0])


def test_one_value_is_read_and_written_alone():
    columns = fill(read_record(Point), Point(1, None), 3)
    columns.replace(1, Point(5, math.inf))
    assert columns.unpack() == [Point(1), Point(5, math.inf), Point(1)]
    assert columns.value(1) == Point(5, math.inf)
    with pytest.raises(Unfit):
        columns.replace(2, Point(2**64, 0.0))
    assert columns.value(2) == Point(1)


def test_texts_get_the_codes_of_another_list():
    columns = pack(Leaf("str"), ["b", "a", "b"], Strings(["a", "b"]))
    recoded = columns.recode(Strings(["x", "b"]))
    assert recoded.unpack() == ["b", "a", "b"]
    assert recoded.arrays[0].tolist() == [1, 2, 1]


def test_columns_of_the_wrong_type_or_length_are_refused():
    import numpy as np

    with pytest.raises(
        Unfit, match=r"^columns of int are \['int64'\], not \['float64'\] of \[1\]$"
    ):
        Columns(Leaf("int"), (np.zeros(1),), 1)
    with pytest.raises(Unfit, match=r"of \[1, 2\]$"):
        Columns(Leaf("int"), (np.zeros(1, np.int64),), 2)


def test_a_struct_travels_to_another_process_and_is_of_its_type_there():
    import subprocess
    import sys

    from pyspark import cloudpickle

    struct = Struct(top=Max(), seen=Count())
    data = cloudpickle.dumps((struct, read_value(struct.init)))
    code = (
        "import pickle, sys; struct, layout = pickle.loads(sys.stdin.buffer.read());"
        "from anabranch.kernels.numpy_columns import pack; print(pack(layout, [struct.init]).unpack())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[Struct(top=None, seen=0)]"


def test_a_tuple_of_another_length_is_kept_as_it_is():
    layout = read_value(())
    assert pack_or_keep(layout, [("a",), ()]).unpack() == [("a",), ()]
    assert pack_or_keep(layout, [()]).layout == layout


def test_a_text_is_hashed_once_and_a_new_one_when_it_comes(monkeypatch):
    hashed = []
    monkeypatch.setattr(
        "anabranch.kernels.numpy_columns.hash_texts",
        lambda texts: hashed.extend(texts) or list(map(len, texts)),
    )
    strings = Strings(["a", "bb"])
    assert [strings.hashes().tolist() for _ in range(3)] == [[1, 2]] * 3
    strings.code("ccc")
    assert strings.hashes().tolist() == [1, 2, 3]
    assert hashed == ["a", "bb", "ccc"]
