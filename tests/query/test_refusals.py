"""What can't be a join is refused when it is built, in words that help."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from anabranch.errors import ProgramError
from anabranch.eventtime.windows.window_types import CountTumbling, Tumbling
from anabranch.query import asof_join, band_join, interval_join, window_join
from tests.query.oracles import Click, Show


class Refund(NamedTuple):
    time: int
    order: int


def interval(right: Any = Click, **options: Any) -> Any:
    return interval_join(Show, right, **{"on": "ad", "lower": 0, "upper": 9} | options)


def band(**options: Any) -> Any:
    usual = {"left": "price", "right": "limit", "low": 0, "high": 1, "lower": 0, "upper": 9}
    return band_join(Show, Click, **usual | options)


def window(kind: Any) -> Any:
    return window_join(Show, Click, on="ad", window=kind)


REFUSALS: dict[str, Callable[[], Any]] = {
    "join_of_a_type_with_itself": lambda: interval(Show),
    "join_of_a_string": lambda: interval("Click"),
    "join_on_an_absent_field": lambda: interval(Refund),
    "join_on_time": lambda: interval(on="time"),
    "join_how": lambda: interval(how="outer"),
    "join_backwards_in_time": lambda: interval(lower=9, upper=-9),
    "join_without_an_end": lambda: interval(upper=None),
    "join_by_seconds": lambda: interval(upper=1.5),
    "join_selects_with_one_argument": lambda: interval(select=lambda pair: pair),
    "join_asof_right": lambda: asof_join(Show, Click, on="ad", how="right"),
    "join_asof_ties": lambda: asof_join(Show, Click, on="ad", ties="left"),
    "join_asof_within_the_future": lambda: asof_join(Show, Click, on="ad", within=-1),
    "join_window_of_a_number": lambda: window(60),
    "join_window_that_counts": lambda: window(CountTumbling(3)),
    "join_window_of_a_class": lambda: window(Tumbling),
    "join_band_of_an_absent_field": lambda: band(right="price"),
    "join_band_backwards": lambda: band(low=1, high=-1),
    "join_band_of_a_text": lambda: band(low="a"),
    "join_band_how": lambda: band(how="outer"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_refused_with_what_to_do(name, message):
    with pytest.raises(ProgramError) as refusal:
        REFUSALS[name]()
    message(name, str(refusal.value))


def test_a_refusal_points_to_the_users_own_line():
    with pytest.raises(ProgramError) as refusal:
        interval_join(Show, Refund, on="ad", lower=0, upper=1)
    assert "test_refusals.py" in str(refusal.value.where)


def test_a_program_is_written_where_the_user_wrote_the_join():
    assert "test_refusals.py" in str(interval().where)
