"""Band joins against all pairs, and that a probe looks only at what is near."""

import math
from datetime import date, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Heartbeat
from anabranch.eventtime.channels import end_channels
from anabranch.plan.layouts import choose_layout
from anabranch.query import Matched, band_join
from anabranch.query.band_joins import WaitingSides
from anabranch.query.join_pairs import WaitingEvent
from anabranch.reference.sequential import run
from tests.query.oracles import HOWS, Click, Show, draw_items, fold, join_bands, rows_of

bounds = st.tuples(st.integers(-5, 5), st.integers(-5, 5)).map(sorted)


def join(low=0, high=0, lower=0, upper=0, **options):
    return band_join(
        Show, Click, left="price", right="limit",
        low=low, high=high, lower=lower, upper=upper, **options,
    )  # fmt: skip


@given(items=draw_items(), how=st.sampled_from(HOWS), band=bounds, interval=bounds)
def test_oracle_all_pairs_and_when_each_is_said(items, how, band, interval):
    answer, lefts, rights = fold(join(*band, *interval, how=how), items)
    assert rows_of(answer) == join_bands(lefts, rights, how, *band, *interval)
    assert answer.state == WaitingSides()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("interval", [(0, 0), (-3, 0), (0, 3)])
def test_events_of_one_time_meet_whichever_comes_first(interval, how):
    program = join(0, 0, *interval, how=how)
    show, click = Show(10, 1, 5), Click(10, 2, 5)
    items = end_channels([Event(show, "s", 0), Event(click, "c", 0)])
    assert run(program, items).values == [Matched(show, click)]
    assert run(program.changed(rank=(Click, Show)), items).values == [Matched(show, click)]


def test_who_has_no_partner_is_said_when_the_watermark_shows_it():
    program = join(-1, 1, 0, 5, how="left")
    show, far = Show(10, 1, 5), Click(11, 1, 9)
    items = [Event(show, "s", 0), Heartbeat(30, "s", 1), Event(far, "c", 0)]
    before = run(program, [*items, Heartbeat(14, "c", 1)])
    assert (before.values, before.state.lefts.held) == ([], (WaitingEvent(show),))
    after = run(program, [*items, Heartbeat(15, "c", 1)])
    assert after.values == [Matched(show, None)]
    assert after.outputs[0].event.time == 15
    assert after.state == WaitingSides()


@pytest.mark.parametrize("how", HOWS)
def test_whether_somebody_had_a_partner_is_noted_only_if_it_is_said(how):
    program = join(how=how, lower=-5, upper=5)
    items = [Event(Show(10, 1, 5), "s", 0), Event(Click(10, 1, 5), "c", 0)]
    beats = [Heartbeat(10, "s", 1), Heartbeat(12, "c", 1)]
    marks = [held.matched for shelf in run(program, [*items, *beats]).state for held in shelf.held]
    assert marks == [how in ("left", "full"), how in ("right", "full")]


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_has_no_distance_is_said_at_once_and_not_kept(value):
    program = band_join(
        Bid, Ask, left="at", right="at", low=-9, high=9, lower=-9, upper=9, how="full",
        select=lambda bid, ask: "bid" if ask is None else "ask" if bid is None else "pair",
    )  # fmt: skip
    items = [Event(Bid(1, value), "b", 0), Event(Ask(1, value), "a", 0)]
    answer = run(program, [*items, Heartbeat(1, "b", 1), Heartbeat(1, "a", 1)])
    assert sorted(answer.values) == ["ask", "bid"]
    assert answer.state == WaitingSides()


def test_one_partner_is_enough_for_many_that_can_not_be_told_apart():
    items = [Event(Click(1, 1, 5), "c", n) for n in range(3)] + [Event(Show(2, 1, 5), "s", 0)]
    answer = run(join(how="full", lower=-3), end_channels(items))
    assert answer.values == [Matched(Show(2, 1, 5), Click(1, 1, 5))] * 3


def test_those_of_one_value_and_time_are_said_alone_in_the_order_they_came():
    clicks = [Click(1, ad, 5) for ad in (2, 3, 1)]
    items = [Event(click, "c", seq) for seq, click in enumerate(clicks)]
    answer = run(join(how="right", lower=-3), end_channels(items))
    assert answer.values == [Matched(None, click) for click in clicks]
    assert {output.event.time for output in answer.outputs} == {4}


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
    answer = run(program, end_channels(items))
    assert answer.ledger.processed == 2
    return len(answer.values)


floats = st.floats(-3, 3) | st.sampled_from([0.1, 0.2, 0.3, 0.7, 1e16, -1e16])


@given(floats, floats, floats)
def test_floats_match_alike_whoever_comes_first(bid, ask, width):
    low, high = -abs(width), abs(width)
    emitted = match(bid, ask, low, high)
    assert emitted == match(bid, ask, low, high, turned=True) == (low <= ask - bid <= high)


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
    assert len(run(join(), end_channels(items)).values) == 3


def test_it_is_sequential_and_says_why():
    layout = choose_layout(join(), 4)
    assert layout.way == "sequential"
    assert "some events depend on each other whatever their fields are" in layout.reasons[-1]
