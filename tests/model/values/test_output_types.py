"""Output types: declared, annotated, or unknown; and what becomes of an output of another type."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import pytest

from anabranch import Program, on
from anabranch.errors import ProgramError
from anabranch.eventtime.channels import end_channels
from anabranch.model.events import Event
from anabranch.model.values.fields import Unfit
from anabranch.model.values.type_checks import make_check
from anabranch.model.values.value_types import read_type
from anabranch.reference.sequential import run


class Txn(NamedTuple):
    time: int
    amount: Any


class Alert(NamedTuple):
    account: str
    total: int | None


@dataclass(frozen=True)
class Total:
    total: int


class Color(Enum):
    RED = "red"


def one(state, txn) -> Alert:
    return Alert("a", txn.amount)


def maybe(state, txn) -> Alert | None:
    return None


def many(state, txn) -> list[Alert]:
    return [Alert("a", 1), Alert("b", None)]


def each(state, txn) -> Iterator[Alert | Total]:
    yield Alert("a", 1)
    yield Total(txn.amount)


def pair(state, txn) -> tuple[int, str]:
    return (txn.amount, "x")


def lists(state, txn) -> list[list[int]]:
    return [[1], [txn.amount]]


def anything(state, txn) -> Any:
    return txn.amount


def unresolved(state, txn) -> NoSuchName:  # noqa: F821 - as it may be in a user's program
    return txn.amount


def program(output, **options) -> Program:
    return Program(on(Txn, output=output, update=lambda n, txn: n + 1), init=0, **options)


@pytest.mark.parametrize(
    ("output", "types"),
    [
        (one, "Alert"),
        (maybe, "Alert"),
        (many, "Alert"),
        (each, "Alert or Total"),
        (pair, "tuple[int, str]"),
        (lists, "list[int]"),
        (functools.partial(one), "Alert"),
        (anything, "anything"),
        (unresolved, "anything"),
        (lambda state, txn: 7, "anything"),
    ],
)
def test_types_are_read_from_annotations_where_they_name_one(output, types):
    assert str(program(output).output_types) == types


def test_declared_types_come_before_annotations():
    found = program(lambda state, txn: 7, outputs=(Alert, Total)).output_types
    assert [type_.cls for type_ in found.types] == [Alert, Total]
    assert str(program(one, outputs=int).output_types) == "int"


def test_a_program_with_one_function_of_unknown_type_has_no_types():
    class Other(NamedTuple):
        time: int

    both = Program(on(Txn, output=one), on(Other, output=lambda n, other: 1), init=0)
    assert not both.output_types


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        (complex, "it is complex"),
        (list[complex], "element is complex"),
        (int | str, r"it is int \| str"),
        ((), "tuple of output types is empty"),
        (Alert | None, "None, which is not an output"),
        ((Alert, Alert), "two columns of the outputs would be called 'Alert'"),
        (NamedTuple("Case", [("a", int), ("A", int)]), "would be called 'a'"),
    ],
)
def test_a_declared_type_without_columns_is_refused_with_the_field(outputs, reason):
    with pytest.raises(ProgramError, match=reason):
        program(one, outputs=outputs)


def test_an_output_of_another_type_rejects_its_event_and_names_the_line():
    items = [Event(Txn(n, amount), "s", n) for n, amount in enumerate((1, "two", 3))]
    answer = run(program(one), end_channels(items))
    assert answer.values == [Alert("a", 1), Alert("a", 3)]
    (rejected,) = answer.rejected
    line = one.__code__.co_firstlineno
    assert rejected.reason == (
        "on Txn: OutputTypeError: an output is not of its annotated type: field 'total' of Alert: "
        f"expected int, got 'two' (str) (test_output_types.py:{line})"
    )
    assert answer.state == 2


def test_several_types_are_told_apart_by_their_class():
    items = [Event(Txn(0, 5), "s", 0), Event(Txn(1, None), "s", 1)]
    answer = run(program(each), end_channels(items))
    assert answer.values == [Alert("a", 1), Total(5)]
    assert "field 'total' of Total: expected int, got None" in answer.rejected[0].reason
    types = program(each).output_types
    assert [types.find(value) for value in answer.values] == [0, 1]


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - taken as UTC
GOOD = [
    (int, -(1 << 63)), (int, (1 << 63) - 1), (float, 3), (float, float("nan")), (bool, True),
    (str, "ü"), (bytes, b"\xff"), (Decimal, Decimal("12345678901234567890.000000000000000001")),
    (Decimal, 5), (datetime, NAIVE), (date, date(2026, 1, 1)), (Color, Color.RED),
    (Literal["a", 1], "a"), (Fraction, Fraction(1, 3)), (tuple[int, str], (1, "x")),
    (tuple[int, ...], (1, 2)), (frozenset[int], frozenset({1})), (dict[str, int], {"a": 1}),
    (int | None, None), (int | float, 1), (Any, print), (Alert, Alert("a", None)),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value"), GOOD, ids=repr)
def test_a_value_of_its_type_passes(annotation, value):
    make_check(read_type(annotation))(value)


BAD = [
    (int, 1 << 63, "of 64 bits"), (int, True, "expected int"), (int, 1.0, "expected int"),
    (float, 10**400, "too large for a float"), (float, "1", "expected float"),
    (bool, 1, "expected bool"), (str, b"x", "expected str"), (str, "\ud800", "surrogate"),
    (Decimal, Decimal("1e-19"), "18 after"), (Decimal, Decimal("1e20"), "20 digits before"),
    (Decimal, Decimal("NaN"), "at most"), (datetime, date(2026, 1, 1), "expected datetime"),
    (date, datetime(2026, 1, 1, tzinfo=UTC), "expected date"), (Color, "red", "expected Color"),
    (Literal["a"], "b", "expected one of 'a'"), (tuple[int, str], (1,), "a tuple of 1"),
    (tuple[int, str], (1, 2), "place 2"), (list[int], [1, "x"], "an element of"),
    (dict[str, int], {"a": "b"}, "a value of"), (dict[str, int], [1], "expected dict"),
    (Alert, Total(1), "expected Alert"), (Alert, ("a", 1), "expected Alert"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "reason"), BAD, ids=repr)
def test_a_value_of_another_type_is_named(annotation, value, reason):
    with pytest.raises(Unfit, match=reason):
        make_check(read_type(annotation))(value)
