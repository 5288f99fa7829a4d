"""Which windows an event belongs to."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InputError, ProgramError
from anabranch.eventtime.windows.window_types import (
    ALL_TIME,
    CountSliding,
    CountTumbling,
    Custom,
    Global,
    Sessions,
    Sliding,
    Tumbling,
    Window,
    is_expired,
    merge_windows,
)

times = st.integers(-(10**6), 10**6)
sizes = st.integers(1, 100)
intervals = st.builds(lambda start, size: Window(start, start + size), times, sizes)


@given(times, sizes, times)
def test_a_tumbling_window_holds_its_event_and_starts_on_the_grid(time, size, offset):
    (window,) = Tumbling(size, offset=offset).assign(time, None, 0)
    assert window.start <= time < window.end == window.start + size
    assert (window.start - offset) % size == 0


@given(times, sizes, sizes, times)
def test_sliding_windows_are_all_those_on_the_grid_that_hold_the_event(time, size, every, offset):
    size, every = max(size, every), min(size, every)
    found = Sliding(size, every, offset=offset).assign(time, None, 0)
    wanted = [
        Window(start, start + size)
        for start in range(time - size + 1, time + 1)
        if (start - offset) % every == 0
    ]
    assert found == wanted


@given(st.integers(0, 10**6), sizes, sizes)
def test_count_windows_are_sliding_windows_of_positions_from_the_first_event_on(place, n, every):
    n, every = max(n, every), min(n, every)
    found = CountSliding(n, every).assign(123, None, place)
    wanted = [window for window in Sliding(n, every).assign(place, None, 0) if window.start >= 0]
    assert found == wanted


@given(st.integers(0, 10**6), sizes)
def test_count_windows_side_by_side_do_not_overlap(place, n):
    assert CountTumbling(n).assign(0, None, place) == CountSliding(n, n).assign(0, None, place)


def test_a_session_starts_with_an_event_and_lasts_for_the_gap():
    assert Sessions(5).assign(7, None, 0) == [Window(7, 12)]


def test_the_global_window_holds_everything():
    assert Global().assign(10**18, None, 0) == [ALL_TIME]


def test_a_function_may_give_several_windows_and_see_the_value():
    custom = Custom(lambda time, size: [(time, time + size), (time - 1, time + 1)])
    assert custom.assign(10, 3, 0) == [Window(9, 11), Window(10, 13)]


@pytest.mark.parametrize("given", [(3, 9), (11, 12), (10, 10), (9.5, 11), 10, (1, 2, 3)])
def test_a_function_must_give_windows_that_hold_the_event(given):
    with pytest.raises(InputError, match="does not include the time"):
        Custom(lambda time, value: [given]).assign(10, None, 0)


@given(st.lists(intervals, max_size=12), st.randoms())
def test_merging_gives_the_same_windows_in_any_order(windows, rng):
    shuffled = list(windows)
    rng.shuffle(shuffled)
    assert merge_windows(shuffled) == merge_windows(windows)


@given(st.lists(intervals, max_size=12))
def test_merged_windows_are_apart_and_hold_their_parts(windows):
    merged = merge_windows(windows)
    assert {part for _, parts in merged for part in parts} == set(windows)
    for whole, parts in merged:
        assert whole == Window(min(p.start for p in parts), max(p.end for p in parts))
    for (one, _), (other, _) in pairwise(merged):
        assert one.end <= other.start


def test_a_window_expires_when_the_watermark_is_as_far_past_its_last_time_as_the_lateness():
    assert not is_expired(Window(0, 10), 8, 0)
    assert is_expired(Window(0, 10), 9, 0)
    assert not is_expired(Window(0, 10), 28, 20)
    assert is_expired(Window(0, 10), 29, 20)


REFUSED = {
    "the size of a tumbling window": lambda: Tumbling(0),
    "the offset of a tumbling window": lambda: Tumbling(5, offset=0.5),
    "the size of a sliding window": lambda: Sliding(-1, 1),
    "the distance of sliding windows": lambda: Sliding(5, 0),
    "events between two windows would be lost": lambda: Sliding(5, 6),
    "the gap between sessions": lambda: Sessions(True),
    "the number of events in a window": lambda: CountTumbling("3"),
    "the distance of windows, in events": lambda: CountSliding(3, 0),
    "a custom window needs a function": lambda: Custom((0, 10)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_not_be_a_window_is_refused(what):
    with pytest.raises(ProgramError, match=what):
        REFUSED[what]()


def test_a_refusal_says_what_was_expected_and_what_to_do():
    with pytest.raises(ProgramError) as refused:
        Sliding(10, every=15)
    assert str(refused.value) == (
        "events between two windows would be lost\n"
        "  expected: windows of 10 that start at most 10 apart\n"
        "  got:      every=15\n"
        "  to do:    make the windows larger, or filter out the unwanted events before"
    )
