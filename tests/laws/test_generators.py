import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, NewType

import pytest

from anabranch import AnabranchError, EventTime, Program, depends, on
from anabranch.laws import check
from anabranch.laws.searching.generators import find_domain, find_keys, make_strategy, sample_values
from anabranch.state import Sum

Cents = NewType("Cents", int)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Box:
    corner: Point
    colour: Colour


class Socket:
    def __init__(self, unknown):
        self.unknown = unknown


class Plug(NamedTuple):
    time: int
    socket: Socket


class Paint(NamedTuple):
    time: int
    box: Box
    colour: Colour
    price: Decimal


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (int, int),
        (float, float),
        (bool, bool),
        (str, str),
        (bytes, bytes),
        (Any, int),
        (Decimal, Decimal),
        (Fraction, Fraction),
        (dt.datetime, dt.datetime),
        (Colour, Colour),
        (Cents, int),
        (Annotated[str, "name"], str),
        (Literal["a", "b"], str),
        (int | None, int | None),
        (int | str, int | str),
        (tuple[int, str], tuple),
        (tuple[int, ...], tuple),
        (list[int], list),
        (frozenset[str], frozenset),
        (dict[str, int], dict),
        (Point, Point),
        (Box, Box),
    ],
)
def test_values_of_a_type_are_of_that_type(annotation, kind):
    values = sample_values(make_strategy(annotation, {}), 5)

    assert len(values) >= 2
    assert all(isinstance(value, kind) for value in values)


def test_a_field_nobody_can_make_up_is_refused_with_the_cure():
    with pytest.raises(AnabranchError, match=r"(?s)Plug\.socket.*events=\{Plug:"):
        check(Program(on(Plug, update=lambda s, e: s), init=0), cases=5)


def test_key_fields_have_few_values():
    program = Program(on(Paint), depends(Paint, Paint, same="colour"), init=0)

    assert find_keys(program) == {"colour"}
    assert set(find_domain(program, "colour", {})) == {Colour.RED, Colour.BLUE}


def test_nested_values_are_written_so_that_they_can_be_read():
    import sys

    module = sys.modules[Paint.__module__] = sys.modules.get(Paint.__module__) or type(sys)("m")
    for kind in (Paint, Box, Point, Colour):
        setattr(module, kind.__name__, kind)
    program = Program(on(Paint, update=lambda s, e: (e.box, e.colour, e.price)), init=None)

    found = check(program, cases=100).result("independent_updates_commute").counterexample

    code = found.code.replace("program = ...  # your program", "")
    with pytest.raises(AssertionError):
        exec(code, {"program": program})


class Sale(NamedTuple):
    at: EventTime[dt.datetime]
    amount: int


class Noon(NamedTuple):
    time: dt.datetime


def add_up(hour, total, event):
    return total + event.amount if event.at.hour == hour else max(total, event.amount)


@pytest.mark.parametrize(("hour", "kept"), [(0, True), (12, False)])
def test_events_whose_times_are_datetimes_are_made_up(hour, kept):
    # Made-up times are seconds after 1970 began, so a sum at hour 0 is one throughout.
    program = Program(
        on(Sale, update=partial(add_up, hour)),
        on(Noon, output=lambda total, noon: (noon.time.year, total)),
        depends(Noon, Sale, Noon),
        state=Sum(),
    )
    report = check(program, cases=200)
    assert report.ok is kept
    assert kept or "datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)" in str(
        report
    )
