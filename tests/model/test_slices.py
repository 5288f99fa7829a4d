from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Shard, Slices, take
from anabranch.model.events import LANE
from anabranch.model.slices import Equals, admits, choices_overlap


class Inc(NamedTuple):
    time: int
    key: int


class Read(NamedTuple):
    time: int
    key: int


class Report(NamedTuple):
    time: int


shards = st.integers(1, 12).flatmap(lambda n: st.builds(Shard, st.integers(0, n - 1), st.just(n)))
choices = shards | st.builds(Equals, st.integers(0, 20)) | st.none()
slices = st.builds(
    lambda event_type, channel, lane, **fields: take(
        event_type, channel=channel, lane=lane, **{k: v for k, v in fields.items() if v is not None}
    ),
    st.sampled_from([Inc, Read]),
    st.sampled_from(["a", "b", None]),
    st.none() | shards,
    key=st.none() | st.integers(0, 3) | shards,
)
events = st.builds(
    Event,
    st.builds(Inc, st.just(1), st.integers(0, 3)) | st.builds(Read, st.just(1), st.integers(0, 3)),
    st.sampled_from(["a", "b"]),
    st.integers(0, 50),
)


@given(choices, choices)
def test_two_choices_of_lanes_overlap_if_some_lane_is_in_both(a, b):
    # Residues repeat with the product of the counts, and 12 * 11 is the largest least multiple.
    common = any(admits(LANE, a, lane) and admits(LANE, b, lane) for lane in range(12 * 11))
    assert choices_overlap(LANE, a, b) == common


@given(choices, choices, st.integers(0, 20))
def test_what_both_choices_admit_makes_them_overlap(a, b, value):
    if admits("key", a, value) and admits("key", b, value):
        assert choices_overlap("key", a, b)


@given(slices, slices)
def test_overlap_is_symmetric(a, b):
    assert a.overlaps(b) == b.overlaps(a)
    assert a.overlaps(a)


@given(slices, slices, events)
def test_an_event_of_two_slices_makes_them_overlap(a, b, event):
    if a.covers(event) and b.covers(event):
        assert a.overlaps(b)


@given(events, st.integers(1, 9))
def test_each_event_is_in_exactly_one_shard(event, count):
    for cut in ("key", "lane"):
        parts = [take(event.event_type, **{cut: Shard(n, count)}) for n in range(count)]
        assert sum(part.covers(event) for part in parts) == 1


@given(events)
def test_lanes_of_a_program_are_numbered_from_zero(event):
    parts = [take(event.event_type, lane=lane) for lane in range(4)]
    assert sum(part.covers(event, lanes=4) for part in parts) == 1


def test_a_slice_covers_its_own_event_type_channel_and_fields_only():
    part = take(Inc, key=1, channel="a")
    assert part.covers(Event(Inc(5, 1), "a"))
    assert not part.covers(Event(Inc(5, 2), "a"))
    assert not part.covers(Event(Inc(5, 1), "b"))
    assert not part.covers(Event(Read(5, 1), "a"))


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (take(Inc), "Inc"),
        (take(Inc, key=1), "Inc[key=1]"),
        (take(Inc, key=Shard(1, 4)), "Inc[key in 1/4]"),
        (take(Inc, channel="a"), "Inc@a"),
        (take(Inc, key="x", lane=Shard(0, 2), channel="a"), "Inc[lane in 0/2, key='x']@a"),
    ],
)
def test_a_slice_reads_as_what_it_covers(part, text):
    assert str(part) == text


def test_a_slice_is_equal_however_it_was_written():
    assert take(Inc, key=1, time=2) == take(Inc, time=2, key=Equals(1))


def test_a_event_type_stands_for_the_whole_of_it():
    assert Slices([Inc]) == Slices([take(Inc)])
    assert repr(Slices([Read, take(Inc, key=1)])) == "{Inc[key=1], Read}"


def test_a_side_has_what_may_come_to_it():
    side = Slices([take(Inc, key=1, channel="a"), Read])
    assert side.has(Inc, key=1)
    assert side.has(Inc, channel="a")
    assert not side.has(Inc, key=2)
    assert not side.has(Inc, channel="b")
    assert side.has(Read, key=7)
    assert not side.has(Report)


def test_a_side_has_the_values_that_its_events_may_name():
    assert Slices([take(Inc, key=1), Report]).has_value("key", 1)
    assert not Slices([take(Inc, key=1), Report]).has_value("key", 2)
    assert not Slices([Report]).has_value("key", 1)


@given(st.lists(slices, max_size=4), st.lists(slices, max_size=4), events)
def test_a_union_covers_what_either_covers(a, b, event):
    either = Slices(a).covers(event) or Slices(b).covers(event)
    assert (Slices(a) | Slices(b)).covers(event) == either
