"""As-of joins against a look at all earlier events, and how they run apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event
from anabranch.eventtime.channels import end_channels
from anabranch.laws import check
from anabranch.plan.layouts import choose_layout
from anabranch.query import Matched, asof_join
from anabranch.reference.sequential import run
from tests.query.oracles import Click, Show, draw_items, fold, join_asof, rows_of


@given(
    items=draw_items(),
    how=st.sampled_from(["inner", "left"]),
    within=st.none() | st.integers(0, 6),
    ties=st.sampled_from(["right_first", "left_first"]),
)
def test_oracle_the_latest_of_all_earlier_events(items, how, within, ties):
    program = asof_join(Show, Click, on="ad", how=how, within=within, ties=ties)
    answer, lefts, rights = fold(program, items)
    found = rows_of(answer)
    for (time, left, right), count in join_asof(lefts, rights, how, within, ties).items():
        if right is ...:
            latest = [row for row in found if row[:2] == (time, left) and row[2] is not None]
            assert sum(found.pop(row) for row in latest) == count
            assert {row[2].time for row in latest} <= {right.time for right in rights}
        else:
            assert found.pop((time, left, right)) == count
    assert not found


@pytest.mark.parametrize(("ties", "found"), [("right_first", 5), ("left_first", 3)])
def test_who_comes_first_at_equal_times(ties, found):
    items = [Event(Click(3, 1), "c", 0), Event(Click(5, 1), "c", 1), Event(Show(5, 1), "s", 0)]
    answer = run(asof_join(Show, Click, on="ad", ties=ties), end_channels(items))
    assert answer.values == [Matched(Show(5, 1), Click(found, 1))]


def test_of_several_at_one_time_the_last_in_the_order_of_channels_is_found():
    items = [Event(Click(3, 1, n), channel, 0) for n, channel in enumerate("cab")]
    items += [Event(Show(4, 1), "s", 0)]
    assert run(asof_join(Show, Click, on="ad"), end_channels(items)).values == [
        Matched(Show(4, 1), Click(3, 1, 0))
    ]


def test_what_nobody_can_find_any_more_is_forgotten():
    items = [Event(Click(3, 1), "c", 0), Event(Show(5, 1), "s", 0), Event(Show(6, 1), "s", 1)]
    answer = run(asof_join(Show, Click, on="ad", within=2, how="left"), end_channels(items))
    assert answer.values == [Matched(Show(5, 1), Click(3, 1)), Matched(Show(6, 1), None)]
    assert answer.state == {}


def test_left_events_of_one_key_may_run_anywhere():
    program = asof_join(Show, Click, on="ad")
    assert choose_layout(program, 4).way == "replicated"
    assert program.markers == (Click,)
    assert program.dependence.independent(Show(1, 1), Show(2, 1))
    assert program.dependence.independent(Show(1, 1), Click(2, 2))


def test_a_memory_that_ends_keeps_a_key_in_one_place():
    assert choose_layout(asof_join(Show, Click, on="ad", within=9), 4).way == "keyed"


@pytest.mark.parametrize("how", ["inner", "left"])
def test_it_keeps_every_law(how):
    report = check(asof_join(Show, Click, on="ad", how=how), cases=100, seed=1)
    assert [str(r) for r in report.results if r.verdict not in ("kept", "skipped")] == []
    assert report.ok
