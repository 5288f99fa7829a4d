"""States per channel: each channel has an entry, and a fork gives it to who gets the channel's events."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Map, Program, Slices, depends, on, take
from anabranch.eventtime.channels import end_channels
from anabranch.laws import check
from anabranch.laws.proving.proof import prove
from anabranch.model.slices import field_value
from anabranch.reference.sequential import run
from anabranch.state import Count, MapOf, Max, PerChannel


class Row(NamedTuple):
    time: int
    offset: int


class Report(NamedTuple):
    time: int


def build(inner=None):
    return Program(
        on(Row, update=lambda top, row: Max().add(top, row.offset)),
        on(Report, whole=True, output=lambda tops, report: dict(tops)),
        depends(Report, Row, Report),
        state=PerChannel(inner or Max()),
    )


channels = st.sampled_from(["a", "b", "c"])
states = st.dictionaries(channels, st.integers(0, 5)).map(Map)
sides = st.builds(
    Slices,
    st.lists(
        st.builds(lambda s: take(Row, channel=s), st.none() | channels) | st.just(Report),
        max_size=3,
    ),
)


def test_each_channel_has_its_own_and_a_report_sees_all():
    items = [
        Event(Row(1, 5), "a", 0),
        Event(Row(2, 7), "b", 0),
        Event(Row(3, 6), "a", 1),
        Event(Report(4), "c", 0),
    ]
    answer = run(build(), end_channels(items))
    assert answer.values == [{"a": 6, "b": 7}]
    assert answer.state == Map({"a": 6, "b": 7})


@given(states, sides, sides)
def test_a_fork_gives_the_entry_of_a_channel_to_who_gets_its_events(state, left, right):
    shape = PerChannel(Count())
    a, b = shape.fork(state, left, right)
    assert shape.same(shape.join(a, b), state)
    for channel in state:
        comes_left, comes_right = (
            any(part.event_type is Row and part.channel in (None, channel) for part in side)
            or any(part.event_type is Report for part in side)
            for side in (left, right)
        )
        assert (channel in a) == comes_left
        assert (channel in b) == (comes_right or not comes_left)


def test_a_side_is_narrowed_to_a_channel():
    side = Slices([take(Row, channel="a"), take(Row, channel="b"), take(Report)])
    assert side.narrow("@channel", "a") == Slices([take(Row, channel="a"), take(Report)])
    assert field_value(Event(Row(1, 2), "a", 3), "@channel", None) == "a"


@pytest.mark.parametrize("shape", [PerChannel(Max()), MapOf(PerChannel(Max()), by="offset")])
def test_the_laws_hold(shape):
    program = Program(
        on(Row, update=lambda top, row: Max().add(top, row.offset)),
        on(Report, whole=True, output=lambda tops, report: list(tops)),
        depends(Report, Row, Report),
        state=shape,
    )
    assert check(program, cases=60, seed=1).ok


def test_a_proof_says_that_it_knows_nothing_of_channels():
    assert "PerChannel" in str(prove(build()))
