"""Whatever the order of arrival, what survives is the same: FlameStream's own claim."""

from itertools import permutations
from random import Random

import pytest

from anabranch import Event
from anabranch.reference.sequential import run
from tests.vectors.flamestream import VECTORS

FEW = {name: vector for name, vector in VECTORS.items() if len(vector.items) <= 7}
MANY = {name: vector for name, vector in VECTORS.items() if name not in FEW}


def part(vector):
    """Tell the events from the ends: without a sequence, what comes after an end is late."""
    events = [item for item in vector.items if isinstance(item, Event)]
    return events, [item for item in vector.items if not isinstance(item, Event)]


@pytest.mark.parametrize("vector", FEW.values(), ids=list(FEW))
def test_every_order_of_arrival_gives_the_same_answer(vector):
    events, ends = part(vector)
    for order in permutations(events):
        assert run(vector.program, [*order, *ends], vector.channels).values == vector.expected


@pytest.mark.parametrize("vector", MANY.values(), ids=list(MANY))
@pytest.mark.parametrize("seed", range(20))
def test_random_orders_of_arrival_give_the_same_answer(vector, seed):
    events, ends = part(vector)
    Random(seed).shuffle(events)
    assert run(vector.program, [*events, *ends], vector.channels).values == vector.expected
