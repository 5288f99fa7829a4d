"""Kinds are found in values and in annotations, and are the same however one looks."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple, NewType, Optional

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Map, Program, depends, on
from anabranch.model.shapes import WrittenShape
from anabranch.state import Count, ExactSum, MapOf, Max, Mean, Several, Struct, Sum, TopK
from anabranch.state.durable.codec import CodecError
from anabranch.state.durable.kinds import (
    ANY,
    BIGINT,
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    FRACTION,
    INT,
    NONE,
    NUMBER,
    STR,
    TIME,
    TIMEDELTA,
    UNKNOWN,
    Array,
    DatetimeKind,
    DecimalKind,
    EnumKind,
    Fixed,
    KindError,
    Mapped,
    Option,
    Record,
    Sequence,
    describe_type,
    describe_value,
    describe_values,
    read_kind,
    unify,
    write_kind,
)
from anabranch.state.evolution.schemas import (
    describe_program,
    describe_snapshot,
    read_schema,
    unify_entries,
    write_schema,
)
from tests.state.values import Colour, Point, Rights, values

COLOUR = EnumKind("Colour", ("RED", "BLUE"))


@pytest.mark.parametrize(
    ("some", "kind"),
    [
        ([], UNKNOWN),
        ([True, False], BOOL),
        ([True, 1], ANY),
        ([1, 1.0], ANY),
        ([1, -(2**63)], INT),
        ([1, 2**63], BIGINT),
        ([1, None], Option(INT)),
        ([None], NONE),
        (["a", b"a"], ANY),
        (["\ud800"], STR),
        ([Decimal("1.10"), Decimal("2.00")], DecimalKind(2)),
        ([Decimal("1.10"), Decimal(2)], DecimalKind()),
        ([Decimal("-0.00")], DecimalKind()),
        ([datetime(2024, 1, 1, tzinfo=UTC)], DatetimeKind("+00:00")),
        ([datetime(2024, 1, 1, tzinfo=timezone(timedelta(minutes=90)))], DatetimeKind("+01:30")),
        ([datetime(2024, 1, 1, tzinfo=timezone(timedelta(seconds=90)))], DatetimeKind()),
        ([datetime(2024, 1, 1, fold=1, tzinfo=UTC)], DatetimeKind()),
        ([timedelta.max], ANY),
        ([time(1, tzinfo=UTC)], ANY),
        ([(1, "a"), (2, None)], Fixed((INT, Option(STR)))),
        ([(1,), (1, 2)], Sequence("tuple", INT)),
        ([()], Sequence("tuple", UNKNOWN)),
        ([tuple(range(8))], Fixed((INT,) * 8)),
        ([(*range(8), None)], Sequence("tuple", Option(INT))),
        ([[], [1]], Sequence("list", INT)),
        ([[1], (1,)], ANY),
        ([{1}, frozenset({1})], ANY),
        ([{"a": 1}, {}], Mapped("dict", STR, INT)),
        ([Map({"a": 1})], Mapped("Map", STR, INT)),
        ([{}, Map()], ANY),
        ([np.zeros(1), np.zeros((1, 2))], Array("<f8")),
        ([np.zeros(1), np.zeros(1, "i4")], ANY),
        ([Point(1, None), Point(2, Colour.RED)], Record("Point", (("x", INT), ("colour", Option(COLOUR))))),
        ([Rights.READ, Rights.READ | Rights.WRITE], ANY),
        ([Struct(n=Count()).init], Record("Struct(n)", (("n", INT),))),
    ],
)  # fmt: skip
def test_what_values_are(some, kind):
    assert describe_values(some) == kind
    assert describe_values(reversed(some)) == kind


class Node(NamedTuple):
    value: int
    next: Optional["Node"]


@dataclass(frozen=True)
class Plain:
    at: datetime
    event_types: frozenset[str]


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (int, INT), (bool, BOOL), (float, FLOAT), (str, STR), (bytes, BYTES), (None, NONE), (Any, ANY),
        (Decimal, DecimalKind()), (Fraction, FRACTION), (date, DATE), (time, TIME), (timedelta, TIMEDELTA),
        (int | None, Option(INT)), (int | str, ANY),
        (list[int], Sequence("list", INT)), (tuple[int, ...], Sequence("tuple", INT)),
        (tuple[int, str], Fixed((INT, STR))), (dict[str, list[int]], Mapped("dict", STR, Sequence("list", INT))),
        (Map[str, int], Mapped("Map", STR, INT)), (Literal["a", "b"], STR), (Colour, COLOUR),
        (NewType("Cents", int), INT), (list, Sequence("list", ANY)), (np.ndarray, ANY), (object, ANY),
        (Node, Record("Node", (("value", INT), ("next", ANY)))),
        (Plain, Record("Plain", (("at", DatetimeKind()), ("event_types", Sequence("frozenset", STR))))),
    ],
)  # fmt: skip
def test_what_annotations_say(annotation, kind):
    assert describe_type(annotation) == kind


def test_an_integer_beyond_64_bits_is_an_integer_still():
    assert unify(INT, BIGINT) == unify(BIGINT, INT) == BIGINT
    assert unify(Sequence("list", INT), Sequence("list", Option(BIGINT))) == Sequence(
        "list", Option(BIGINT)
    )


@given(values, values, values)
def test_kinds_unify_the_same_in_any_order(a, b, c):
    x, y, z = map(describe_value, (a, b, c))
    assert unify(x, y) == unify(y, x)
    assert unify(unify(x, y), z) == unify(x, unify(y, z)) == describe_values([a, b, c])
    assert unify(x, x) == x == unify(x, UNKNOWN)


@given(st.lists(values, max_size=3))
def test_kinds_are_read_back_from_json(some):
    kind = describe_values(some)
    assert read_kind(json.loads(json.dumps(write_kind(kind)))) == kind


@pytest.mark.parametrize(
    "data",
    ["integer", [], ["record"], ["record", 1, []], ["sequence", "deque", "int"], ["option", "x"], 3, None,
     ["record", "P", [["x"]]], ["enum", "E", [1]], ["mapping", "dict", "int"]],
)  # fmt: skip
def test_what_is_no_kind_is_refused(data):
    with pytest.raises(KindError, match="description of values can't be read"):
        read_kind(data)


def test_an_object_has_no_kind():
    with pytest.raises(CodecError, match="a object, which has no durable form"):
        describe_value([object()])


class Tick(NamedTuple):
    time: int
    key: str
    page: int = 0


def program(shape: Any) -> Program:
    return Program(on(Tick), depends(Tick, Tick, same="key"), state=shape)


@pytest.mark.parametrize(
    ("shape", "leaf"),
    [
        (Count(), INT),
        (Sum(), NUMBER),
        (Max(), NONE),
        (TopK(2), Sequence("tuple", UNKNOWN)),
        (Struct(n=Count(), top=Max()), Record("Struct(n,top)", (("n", INT), ("top", NONE)))),
        (
            Several(n=Count(), sum=(Sum(), "page")),
            Record("Struct(n,sum)", (("n", INT), ("sum", NUMBER))),
        ),
        (WrittenShape(Struct(n=Count()).init), Record("Struct(n)", (("n", NUMBER),))),
        (WrittenShape([(0, "a")]), Sequence("list", Fixed((NUMBER, STR)))),
        (WrittenShape({"a": 0.5}), Mapped("dict", STR, NUMBER)),
        (Mean(), describe_type(type(Mean().init))),
        (ExactSum(), describe_type(type(ExactSum().init))),
    ],
)
def test_a_program_says_what_its_entries_are(shape, leaf):
    emitted = describe_program(program(MapOf(shape, by="key")))
    assert (emitted.state.by, emitted.state.keys, emitted.state.leaf) == (("key",), (STR,), leaf)
    assert set(emitted.events) == {"Tick"}
    assert read_schema(json.loads(json.dumps(write_schema(emitted)))) == emitted


class Route(NamedTuple):
    stops: tuple[int, ...]
    ends: tuple[int, int]


def test_a_tuple_that_may_be_of_any_length_is_a_list_also_if_all_are_of_one():
    by_key = Program(
        on(Tick), depends(Tick, Tick), state=MapOf(WrittenShape(Route((), (0, 0))), by="key")
    )
    state = Map({"a": Route((1, 2), (3, 4)), "b": Route((5, 6), (7, 8))})
    found = describe_snapshot(by_key, state, {}, []).state.entry
    assert found == Record(
        "Route", (("stops", Sequence("tuple", INT)), ("ends", Fixed((INT, INT))))
    )


def test_maps_in_maps_have_a_key_each():
    emitted = describe_program(program(MapOf(MapOf(Count(), by="page"), by="key")))
    assert (emitted.state.by, emitted.state.keys, emitted.state.leaf) == (
        ("key", "page"),
        (STR, INT),
        INT,
    )
    assert emitted.state.entry == Mapped("Map", INT, INT)
    assert unify_entries(emitted.state, emitted.state) == emitted.state


@pytest.mark.parametrize(
    "data", [None, [], {}, {"version": 2}, {"version": 1}, {"version": 1, "state": 3}]
)
def test_what_is_no_schema_is_refused(data):
    with pytest.raises(KindError):
        read_schema(data)


def test_a_schema_of_a_newer_release_is_refused(message):
    with pytest.raises(KindError) as caught:
        read_schema({"version": 2})
    message("schema_of_a_newer_release", str(caught.value))
    with pytest.raises(KindError) as caught:
        read_kind(["tensor", 3])
    message("kind_of_a_newer_release", str(caught.value))
