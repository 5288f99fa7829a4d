"""Band joins against all pairs, and that a probe looks only at what is near."""

import math
from datetime import date, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event
from anabranch.eventtime.sources import end_sources
from anabranch.plan.wiring import wire
from anabranch.query import Matched, band_join
from anabranch.query.bands import Shelves
from anabranch.reference.sequential import run
from tests.query.oracles import Click, Show, draw_items, fold, join_bands, rows_of

bounds = st.tuples(st.integers(-5, 5), st.integers(-5, 5)).map(sorted)


def join(low=0, high=0, lower=0, upper=0, **options):
    return band_join(
        Show, Click, left="price", right="limit",
        low=low, high=high, lower=lower, upper=upper, **options,
    )  # fmt: skip


@given(items=draw_items(), band=bounds, interval=bounds)
def test_oracle_all_pairs_and_when_each_is_said(items, band, interval):
    answer, lefts, rights = fold(join(*band, *interval), items)
    assert rows_of(answer) == join_bands(lefts, rights, *band, *interval)
    assert answer.state == Shelves()


class Bid(NamedTuple):
    time: int
    at: object


class Ask(NamedTuple):
    time: int
    at: object


def match(bid, ask, low, high, *, turned=False):
    program = band_join(
        Bid, Ask, left="at", right="at", low=low, high=high, lower=-9, upper=9,
        select=lambda bid, ask: (bid.at, ask.at),
    )  # fmt: skip
    times = (2, 1) if turned else (1, 2)
    items = [Event(Bid(times[0], bid), "b", 0), Event(Ask(times[1], ask), "a", 0)]
    answer = run(program, end_sources(items))
    assert answer.ledger.processed == 2
    return len(answer.values)


floats = st.floats(-3, 3) | st.sampled_from([0.1, 0.2, 0.3, 0.7, 1e16, -1e16])


@given(floats, floats, floats)
def test_floats_match_alike_whoever_comes_first(bid, ask, width):
    low, high = -abs(width), abs(width)
    said = match(bid, ask, low, high)
    assert said == match(bid, ask, low, high, turned=True) == (low <= ask - bid <= high)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_has_no_distance_matches_nothing(value):
    assert match(value, value, -9, 9) == match(1.0, value, -9, 9) == match(value, 1.0, -9, 9) == 0


def test_dates_have_bands_too():
    day = timedelta(days=1)
    assert match(date(2024, 1, 1), date(2024, 1, 2), -day, day) == 1
    assert match(date(2024, 1, 1), date(2024, 1, 3), -day, day) == 0


class Counting(int):
    """A number that counts how often somebody looks at it."""

    looks = 0

    def __sub__(self, other):
        Counting.looks += 1
        return int(self) - int(other)

    def __rsub__(self, other):
        return NotImplemented


def test_a_probe_looks_only_at_what_is_near():
    program = join(low=-1, high=1, lower=-10_000, upper=10_000)
    state = program.init
    for n in range(1000):
        state = program.update(state, Click(n, 1, Counting(n * 10)))
    Counting.looks = 0
    assert program.output(state, Show(1000, 1, 5001)) == (
        Matched(Show(1000, 1, 5001), Click(500, 1, 5000)),
    )
    assert Counting.looks < 30


def test_events_that_can_not_be_told_apart_are_all_kept():
    items = [Event(Click(1, 1, 5), "c", n) for n in range(3)] + [Event(Show(1, 1, 5), "s", 0)]
    assert len(run(join(), end_sources(items)).values) == 3


def test_it_is_sequential_and_says_why():
    wiring = wire(join(), 4)
    assert wiring.way == "sequential"
    assert "some events depend on each other whatever their fields are" in wiring.reasons[-1]
