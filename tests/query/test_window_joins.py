"""Window joins against all pairs in all windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Heartbeat
from anabranch.eventtime.channels import end_channels
from anabranch.eventtime.windows.calendar_windows import Calendar
from anabranch.eventtime.windows.window_types import Global, Sessions, Sliding, Tumbling
from anabranch.query import Matched, window_join
from anabranch.query.window_joins import Cohort
from anabranch.reference.sequential import run
from tests.query.oracles import HOWS, Click, Show, draw_items, fold, join_windows, rows_of

WINDOWS = [
    Tumbling(1), Tumbling(5), Tumbling(4, offset=3), Sliding(6, every=2), Sliding(5, every=3),
    Sliding(4, every=1, offset=1), Sessions(1), Sessions(3), Global(),
    Calendar("hour", per_second=900),
]  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@given(items=draw_items(), how=st.sampled_from(HOWS))
def test_oracle_all_pairs_of_all_windows_and_when_each_is_said(window, items, how):
    program = window_join(Show, Click, on="ad", window=window, how=how)
    answer, lefts, rights = fold(program, items)
    assert rows_of(answer) == join_windows(lefts, rights, how, window)
    assert answer.state == {}


def test_a_window_speaks_when_the_watermark_has_reached_its_last_time():
    program = window_join(Show, Click, on="ad", window=Tumbling(10))
    items = [Event(Show(3, 1), "s", 0), Event(Click(9, 1), "s", 1)]
    assert run(program, [*items, Heartbeat(8, "s", 2)]).values == []
    assert run(program, [*items, Heartbeat(9, "s", 2)]).values == [Matched(Show(3, 1), Click(9, 1))]


def test_an_event_is_kept_until_its_last_window_closes():
    program = window_join(Show, Click, on="ad", window=Sliding(10, every=5))
    items = [Event(Show(7, 1), "s", 0), Event(Click(12, 1), "s", 1)]
    halfway = run(program, [*items, Heartbeat(14, "s", 2)])
    assert halfway.state[1] == Cohort((Show(7, 1),)[:0], (Click(12, 1),), 19, 14)
    assert run(program, [*items, Heartbeat(19, "s", 2)]).state == {}


def test_events_of_both_sides_hold_a_session_open():
    program = window_join(Show, Click, on="ad", window=Sessions(5), how="full")
    items = [Event(Show(0, 1), "s", 0), Event(Click(4, 1), "s", 1), Event(Show(8, 1), "s", 2),
             Event(Show(13, 1), "s", 3)]  # fmt: skip
    answer = run(program, end_channels(items))
    assert [(o.event.time, o.value) for o in answer.outputs] == [
        (12, Matched(Show(0, 1), Click(4, 1))),
        (12, Matched(Show(8, 1), Click(4, 1))),
        (17, Matched(Show(13, 1), None)),
    ]


def test_pairs_of_a_window_come_in_the_order_of_their_events():
    program = window_join(
        Show, Click, on="ad", window=Tumbling(10), select=lambda a, b: (a.time, b.time)
    )
    items = [Event(Show(2, 1), "s", 0), Event(Show(1, 1), "r", 0), Event(Click(4, 1), "t", 0),
             Event(Click(3, 1), "u", 0)]  # fmt: skip
    assert run(program, end_channels(items)).values == [(1, 3), (1, 4), (2, 3), (2, 4)]
