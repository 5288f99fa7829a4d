"""What a channel has promised, and which of its events break the promise."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import FOREVER, Event, Heartbeat, Malformed
from anabranch.eventtime.channels import (
    NEVER,
    Channel,
    Late,
    Rejected,
    Watch,
    end_channels,
    follow,
    read_channels,
)


class Tick(NamedTuple):
    time: int


class Tock(NamedTuple):
    time: int


EVENT_TYPES = (Tick,)

steps = st.lists(
    st.tuples(st.sampled_from(["event", "heartbeat"]), st.integers(0, 30)), max_size=20
)
declared = st.builds(Channel, st.just("a"), lateness=st.none() | st.integers(0, 5)) | st.just(
    Channel("a", unique_times=True)
)


def watch(channel: Channel, *items) -> tuple[Watch, list]:
    """Show items, given as times of events or as items, to a watch; return it and its verdicts."""
    seen = Watch(channel)
    shown = [Event(Tick(item), "a", n) if isinstance(item, int) else item
             for n, item in enumerate(items)]  # fmt: skip
    return seen, [seen.see(item, EVENT_TYPES) for item in shown]


def late_times(verdicts: list) -> list[tuple[int, int]]:
    return [(v.event.time, v.distance) for v in verdicts if isinstance(v, Late)]


def reasons(verdicts: list) -> list[str]:
    return [v.reason for v in verdicts if isinstance(v, Rejected)]


def test_a_channel_in_order_may_repeat_a_time_but_not_go_back():
    seen, verdicts = watch(Channel("a"), 5, 5, 4)
    assert seen.watermark == 4
    assert late_times(verdicts) == [(4, 0)]


def test_a_strict_channel_moves_its_watermark_up_to_each_event():
    seen, verdicts = watch(Channel("a", unique_times=True), 5, 5)
    assert seen.watermark == 5
    assert late_times(verdicts) == [(5, 0)]


def test_an_event_exactly_as_late_as_declared_is_on_time():
    _, verdicts = watch(Channel("a", lateness=3), 10, 7, 6)
    assert late_times(verdicts) == [(6, 0)]


def test_an_event_on_time_does_not_pull_the_watermark_back():
    seen, _ = watch(Channel("a", lateness=3), 10, 8)
    assert seen.watermark == 6


def test_the_distance_is_how_far_behind_the_promise_an_event_lies():
    _, verdicts = watch(Channel("a"), 10, 2)
    assert late_times(verdicts) == [(2, 7)]


def test_where_only_heartbeats_count_events_promise_nothing():
    seen, verdicts = watch(Channel("a", lateness=None), 10, 1, Heartbeat(4, "a"), 4, 5)
    assert seen.watermark == 4
    assert late_times(verdicts) == [(4, 0)]


def test_a_heartbeat_moves_the_watermark_of_any_channel():
    seen, verdicts = watch(Channel("a", lateness=100), 1, Heartbeat(7, "a"), 7, 8)
    assert seen.watermark == 7
    assert late_times(verdicts) == [(7, 0)]


def test_an_old_heartbeat_takes_no_promise_back():
    seen, _ = watch(Channel("a"), Heartbeat(7, "a"), Heartbeat(3, "a"))
    assert seen.watermark == 7


def test_a_silent_channel_has_promised_nothing():
    assert Watch(Channel("a")).watermark == NEVER


def test_a_late_event_promises_nothing():
    seen, _ = watch(Channel("a"), Heartbeat(10, "a"), 5, 11)
    assert (seen.watermark, seen.largest) == (10, 11)


def test_a_far_future_event_does_not_poison_the_watermark():
    seen, verdicts = watch(Channel("a", max_ahead=100), 5, 10**12, 6)
    assert reasons(verdicts) == [
        "time 1000000000000 is 999999999995 ahead of the channel; at most 100"
    ]
    assert late_times(verdicts) == []
    assert seen.watermark == 5


def test_an_event_exactly_at_the_bound_is_taken():
    _, verdicts = watch(Channel("a", max_ahead=100), 5, 105, 206)
    assert len(reasons(verdicts)) == 1


def test_the_bound_counts_from_a_heartbeat_too():
    _, verdicts = watch(Channel("a", max_ahead=10), Heartbeat(100, "a"), 10**12, 105)
    assert len(reasons(verdicts)) == 1
    assert late_times(verdicts) == []


def test_the_first_event_of_a_channel_may_lie_anywhere():
    _, verdicts = watch(Channel("a", max_ahead=10), 10**12)
    assert reasons(verdicts) == []


def test_what_is_no_event_is_kept_with_its_reason():
    seen, verdicts = watch(Channel("a"), 5, Malformed("1;2;", "3 cells, not 2", "a"))
    assert verdicts[1] == Rejected(Malformed("1;2;", "3 cells, not 2", "a"), "3 cells, not 2")
    assert seen.watermark == 4


def test_an_unknown_event_type_is_rejected():
    _, verdicts = watch(Channel("a"), Event(Tock(1), "a"))
    assert reasons(verdicts) == ["unknown event type Tock; the program knows Tick"]


@pytest.mark.parametrize("time", ["5", 5.0, None, True])
def test_a_time_that_is_no_integer_is_rejected(time):
    _, verdicts = watch(Channel("a"), Event(Tick(time), "a"))
    assert reasons(verdicts) == [f"time is {time!r}, not an integer"]


@pytest.mark.parametrize("time", [FOREVER, 2**63, NEVER, -(2**70)])
def test_a_time_beyond_64_bits_is_rejected(time):
    _, verdicts = watch(Channel("a"), Event(Tick(time), "a"))
    assert reasons(verdicts) == [f"time {time} does not fit into 64 bits"]


@pytest.mark.parametrize("time", [FOREVER - 1, NEVER + 1])
def test_the_outermost_times_are_taken(time):
    _, verdicts = watch(Channel("a"), time)
    assert verdicts == [Event(Tick(time), "a", 0)]


@given(declared, steps)
def test_the_watermark_never_goes_back_and_nothing_behind_it_is_taken(channel, given_steps):
    seen = Watch(channel)
    for n, (kind, time) in enumerate(given_steps):
        before = seen.watermark
        if kind == "heartbeat":
            seen.see(Heartbeat(time, "a", n), EVENT_TYPES)
        else:
            verdict = seen.see(Event(Tick(time), "a", n), EVENT_TYPES)
            assert isinstance(verdict, Late) == (time <= before)
        assert seen.watermark >= before


@given(declared, steps, st.randoms())
def test_lateness_does_not_depend_on_how_channels_interleave(channel, given_steps, rng):
    mine = [
        Event(Tick(time), "a", n) if kind == "event" else Heartbeat(time, "a", n)
        for n, (kind, time) in enumerate(given_steps)
    ]
    others = [Event(Tick(time), "b", n) for n, (_, time) in enumerate(given_steps)]
    mixed = [*mine, *others]
    rng.shuffle(mixed)
    known, brought, _ = read_channels(mixed, [channel, Channel("b")])
    assert brought["a"] == mine
    alone, together = Watch(channel), Watch(known["a"])
    assert [together.see(item, EVENT_TYPES) for item in brought["a"]] == [
        alone.see(item, EVENT_TYPES) for item in mine
    ]


@given(st.permutations([Event(Tick(5), "a", 3), Heartbeat(5, "a", 3), Heartbeat(2, "a", 1)]))
def test_a_heartbeat_of_the_same_number_comes_after_the_event(items):
    brought = read_channels(items, []).items
    assert brought["a"] == [Heartbeat(2, "a", 1), Event(Tick(5), "a", 3), Heartbeat(5, "a", 3)]


def test_a_channel_without_a_sequence_is_read_as_it_came():
    items = [Event(Tick(time), "a") for time in (3, 1, 2)]
    assert read_channels(items, [])[1]["a"] == items


def test_where_no_channel_is_declared_every_channel_is_in_order():
    known, _, rejected = read_channels([Event(Tick(1), "b")], [])
    assert (known, rejected) == ({"b": Channel("b", lateness=0)}, [])


def test_where_channels_are_declared_any_other_is_rejected():
    items = [Event(Tick(1), "b", 0), Heartbeat(9, "b", 1), Malformed("x", "broken", "b", 2)]
    known, brought, rejected = read_channels(items, [Channel("a", lateness=5)])
    assert (known, brought) == ({"a": Channel("a", lateness=5)}, {"a": []})
    hint = "unknown channel 'b'; declared are a: add Channel('b'), or correct the name"
    assert [entry.reason for entry in rejected] == [hint, hint, "broken"]
    assert [entry.item.seq for entry in rejected] == [0, 1, 2]


def test_of_events_with_one_number_the_first_is_taken():
    items = [Event(Tick(n), "a", seq) for n, seq in enumerate((0, 1, 1, 2, 0), start=5)]
    answer = follow(Channel("a"), read_channels(items, []).items["a"], EVENT_TYPES)
    assert [(event.time, event.seq) for event in answer.good] == [(5, 0), (6, 1), (8, 2)]
    assert [entry.reason for entry in answer.rejected] == [
        f"sequence {seq} of channel 'a' is not larger than the last: it came before, or too late"
        for seq in (0, 1)
    ]


def test_what_can_not_be_used_does_not_take_a_number():
    watch = Watch(Channel("a"))
    unfit = [Event(Tick(1 << 70), "a", 3), Malformed("x", "broken", "a", 3)]
    assert all(isinstance(watch.see(item, EVENT_TYPES), Rejected) for item in unfit)
    assert watch.see(Event(Tick(1), "a", 3), EVENT_TYPES) == Event(Tick(1), "a", 3)


@pytest.mark.parametrize(("item", "reason"), [
    (Event(Tick(1), "a", 1 << 63), f"sequence {1 << 63} does not fit into 64 bits"),
    (Heartbeat(1, "a", -1 << 64), f"sequence {-1 << 64} does not fit into 64 bits"),
    (Heartbeat(1 << 63, "a", 0), f"heartbeat {1 << 63} does not fit into 64 bits"),
])  # fmt: skip
def test_what_does_not_fit_into_64_bits_is_rejected(item, reason):
    watch = Watch(Channel("a"))
    assert watch.see(item, EVENT_TYPES).reason == reason
    assert (watch.watermark, watch.last) == (NEVER, None)


def test_the_end_of_a_channel_fits_behind_the_last_number():
    assert end_channels([Event(Tick(1), "a", FOREVER)])[-1] == Heartbeat(FOREVER, "a", FOREVER)


def test_a_channel_that_brings_nothing_is_watched_too():
    assert read_channels([], [Channel("a")])[1] == {"a": []}


def test_an_ended_input_says_so_for_every_channel():
    items = [Event(Tick(1), "a", 7), Heartbeat(9, "a", 4), Event(Tick(2), "b")]
    assert end_channels(items, channels=[Channel("silent"), Channel("a")]) == [
        *items,
        Heartbeat(FOREVER, "silent", None),
        Heartbeat(FOREVER, "a", 8),
    ]
    assert end_channels(items) == [
        *items,
        Heartbeat(FOREVER, "a", 8),
        Heartbeat(FOREVER, "b", None),
    ]
