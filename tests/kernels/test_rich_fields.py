"""Fields that are enums are compared by the loop; fields that no column holds are left to Python, whatever reads them."""

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import NamedTuple

import pytest

from anabranch.kernels.batches import gather
from anabranch.kernels.kernel import make_kernel
from anabranch.kernels.numpy_columns import fill
from anabranch.model.handlers import Handler
from anabranch.state import Sum

pytest.importorskip("numba")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Odd(Enum):
    ONE = 1
    TWO = 2

    def __eq__(self, other):
        return True

    __hash__ = Enum.__hash__


class Paint(NamedTuple):
    time: int
    colour: Colour
    level: Level
    maybe: Colour | None
    odd: Odd
    price: Decimal
    tags: list[str] | None
    seen: datetime


def make(update):
    return make_kernel(([Handler(Paint, update)], Sum()))


EVENTS = [
    Paint(n, colour, level, maybe, odd, Decimal(n), [], datetime(2026, 1, 1, tzinfo=UTC))
    for n, (colour, level, maybe, odd) in enumerate(
        (colour, level, maybe, odd)
        for colour in Colour
        for level in Level
        for maybe in (None, *Colour)
        for odd in Odd
    )
]

COMPARISONS = [
    lambda n, e: n * 2 + (1 if e.colour == Colour.RED else 0),
    lambda n, e: n * 2 + (1 if Colour.RED is not e.colour else 0),
    lambda n, e: n * 2 + (1 if e.maybe is Colour.BLUE else 0),
    lambda n, e: n * 2 + (1 if e.maybe != Colour.BLUE else 0),
    lambda n, e: n * 2 + (1 if e.maybe is None else 0),
    lambda n, e: n * 2 + (1 if e.maybe is not None and e.maybe == e.colour else 0),
    lambda n, e: n * 2 + (1 if e.level in (Level.HIGH, Level.LOW) else 0),
    lambda n, e: n * 2 + (1 if e.colour not in (Colour.RED, Colour.BLUE) else 0),
]


@pytest.mark.parametrize("update", COMPARISONS)
def test_comparisons_of_enums_are_compiled(update):
    kernel = make(update)
    assert kernel.reasons == (None,)
    expected = 0
    for event in EVENTS:
        expected = update(expected, event)
    batch = gather([Paint], [(0, event) for event in EVENTS])
    assert kernel.fold(fill(kernel.layout, 0, 1), batch).states.unpack() == [expected]


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (lambda n, e: n + (e.level == 2), "compares an int with a Level"),
        (lambda n, e: n + (e.level > Level.LOW), "compares a Level with a Level"),
        (lambda n, e: n + (e.odd == Odd.ONE), "compares an Odd with an Odd"),
        (lambda n, e: n + (1 if e.colour else 0), "uses a Colour as a condition"),
        (lambda n, e: n + len(e.colour.name), "reads name of a Colour"),
        (lambda n, e: n + (e.price > 3), "reads price, which has no column"),
        (lambda n, e: n + (e.tags is None), "reads tags, which has no column"),
        (lambda n, e: n + (1 if e[6] is None else 0), "compares a value that has no column with None"),
        (lambda n, e: n + (e[5] == 3), "compares a value that has no column"),
        (lambda n, e: n + (e.seen == e.seen), "reads seen, which has no column"),
    ],
)  # fmt: skip
def test_other_uses_are_left_to_python(update, why):
    (reason,) = make(update).reasons
    assert reason.endswith(why)
