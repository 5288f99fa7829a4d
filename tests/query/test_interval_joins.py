"""Interval joins against all pairs, at their edges, and when nothing is left to wait for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Heartbeat
from anabranch.eventtime.channels import end_channels
from anabranch.query import Matched, interval_join
from anabranch.query.interval_joins import Sides, WaitingEvent
from anabranch.reference.sequential import run
from tests.query.oracles import (
    CHANNELS,
    HOWS,
    Click,
    Show,
    draw_items,
    fold,
    join_intervals,
    rows_of,
)

bounds = st.tuples(st.integers(-5, 5), st.integers(-5, 5)).map(sorted)


def shown(*times, ad=1):
    return [Event(Show(time, ad), "shows", n) for n, time in enumerate(times)]


def clicked(*times, ad=1):
    return [Event(Click(time, ad), "clicks", n) for n, time in enumerate(times)]


@given(items=draw_items(), how=st.sampled_from(HOWS), bounds=bounds)
def test_oracle_all_pairs_and_when_each_is_said(items, how, bounds):
    lower, upper = bounds
    program = interval_join(Show, Click, on="ad", lower=lower, upper=upper, how=how)
    answer, lefts, rights = fold(program, items)
    assert rows_of(answer) == join_intervals(lefts, rights, how, lower, upper)
    assert answer.state == {}


@pytest.mark.parametrize(("distance", "emitted"), [(-3, 0), (-2, 1), (0, 1), (5, 1), (6, 0)])
def test_both_bounds_belong_to_the_interval(distance, emitted):
    program = interval_join(Show, Click, on="ad", lower=-2, upper=5)
    answer = run(program, end_channels([*shown(10), *clicked(10 + distance)]))
    assert len(answer.values) == emitted


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("bounds", [(0, 0), (-3, 0), (0, 3)])
def test_events_of_one_time_meet_whichever_comes_first(bounds, how):
    lower, upper = bounds
    program = interval_join(Show, Click, on="ad", lower=lower, upper=upper, how=how)
    items = end_channels([*shown(10), *clicked(10)])
    pair = Matched(Show(10, 1), Click(10, 1))
    assert run(program, items).values == [pair]
    assert run(program.changed(rank=(Click, Show)), items).values == [pair]


def test_an_event_is_kept_just_as_long_as_a_partner_may_come():
    program = interval_join(Show, Click, on="ad", lower=-2, upper=5)
    items = [*shown(10), *clicked(10)]
    before = [Heartbeat(14, "shows", 9), Heartbeat(14, "clicks", 9)]
    # The click could be met until 12, the impression until 15.
    assert run(program, [*items, *before]).state[1] == Sides(lefts=(WaitingEvent(Show(10, 1)),))
    after = [Heartbeat(15, "shows", 9), Heartbeat(15, "clicks", 9)]
    assert run(program, [*items, *after]).state == {}


def test_who_has_no_partner_is_said_when_the_watermark_shows_it():
    program = interval_join(Show, Click, on="ad", lower=0, upper=5, how="left")
    items = [*shown(10), Heartbeat(30, "shows", 9)]
    assert run(program, [*items, Heartbeat(14, "clicks", 9)], CHANNELS[:2]).values == []
    emitted = run(program, [*items, Heartbeat(15, "clicks", 9)], CHANNELS[:2])
    assert emitted.values == [Matched(Show(10, 1), None)]
    assert emitted.outputs[0].event.time == 15


def test_who_can_only_have_partners_before_it_is_not_kept():
    program = interval_join(Show, Click, on="ad", lower=1, upper=5, how="right")
    answer = run(program, [*clicked(10), Heartbeat(10, "clicks", 9)])
    assert answer.values == [Matched(None, Click(10, 1))]
    assert answer.outputs[0].event.data == Click(10, 1)
    assert answer.state == {}


def test_a_selection_takes_the_place_of_pairs_and_none_is_nothing():
    program = interval_join(
        Show, Click, on="ad", lower=0, upper=9, how="left",
        select=lambda show, click: None if click is None else (show.ad, click.time - show.time),
    )  # fmt: skip
    answer = run(program, end_channels([*shown(1, 20), *clicked(4)]))
    assert answer.values == [(1, 3)]


def test_times_at_the_end_of_all_time_are_no_harm():
    far = (1 << 63) - 3
    program = interval_join(Show, Click, on="ad", lower=0, upper=5, how="left")
    answer = run(program, end_channels(shown(far)))
    assert answer.values == [Matched(Show(far, 1), None)]


def test_the_program_takes_the_name_it_is_given():
    assert interval_join(Show, Click, on="ad", lower=0, upper=1, name="rates").name == "rates"
