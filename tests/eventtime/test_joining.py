"""Channels that join later: at the watermark that was reached, recorded as a heartbeat."""

import pytest

from anabranch import Event, Heartbeat, load
from anabranch.errors import InputError
from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.channels import BEFORE_ALL, FOREVER, NEVER, Channel
from anabranch.eventtime.held_back import ChannelStatus, explain_hold
from anabranch.eventtime.joining import Taking, join_channels
from anabranch.reference.sequential import run

PROGRAM = load("examples/key_counter.py")
INC = PROGRAM.event_type("Inc")
KNOWN = {"a": Standing(7, 8, 3), "b": Standing(4, 5, 1)}
JOINED = Standing(4, joined=4)


@pytest.mark.parametrize(("added", "announced", "active", "taking"), [
    ([], [], {"a"}, Taking(KNOWN, ())),
    (["c"], [], {"a"}, Taking(KNOWN, ("c",))),
    (["c"], [], {"c"}, Taking({**KNOWN, "c": JOINED}, ())),
    (["d"], ["c"], {"a"}, Taking({**KNOWN, "c": JOINED}, ("d",))),
    (["d"], ["c"], {"d"}, Taking({**KNOWN, "c": JOINED, "d": JOINED}, ())),
])  # fmt: skip
def test_a_channel_joins_with_what_it_brings_or_with_the_second_batch(
    added, announced, active, taking
):
    assert join_channels(KNOWN, added, announced, active) == taking


def test_where_all_have_ended_a_channel_joins_at_the_end_of_time():
    ended = {"a": Standing(FOREVER)}
    assert join_channels(ended, [], ["c"], ()).standings["c"].watermark == FOREVER


def inc(channel, time, seq=None):
    return Event(INC(time, 1), channel, seq)


@pytest.mark.parametrize("numbered", [True, False])
def test_a_recorded_join_comes_before_all_that_its_channel_brings(numbered):
    times = enumerate((3, 12, 10, 15))
    items = [inc("c", time, seq if numbered else None) for seq, time in times]
    record = Heartbeat(9, "c", BEFORE_ALL)
    answer = run(PROGRAM, [*items, record], [Channel("c", lateness=1)])
    assert [(late.event.time, late.distance) for late in answer.late] == [(3, 6), (10, 0)]
    assert answer.watermarks == {"c": 13}


def test_the_numbers_of_a_channel_are_all_or_none_whatever_was_recorded():
    record = Heartbeat(9, "c", BEFORE_ALL)
    with pytest.raises(InputError, match="numbers only some of its items") as error:
        run(PROGRAM, [record, inc("c", 1, 0), inc("c", 2)], [Channel("c")])
    assert "1 of 2" in str(error.value)


def test_a_run_that_goes_on_lets_a_new_channel_join_at_its_watermark_and_keeps_the_point():
    first = run(PROGRAM, [inc("a", 5, 0), inc("a", 9, 1)], [Channel("a")])
    both = [Channel("a"), Channel("c")]
    second = run(PROGRAM, [inc("c", 7, 0), inc("c", 10, 1)], both, first.snapshot())
    assert first.standings["a"].joined is None
    assert second.standings["c"] == Standing(9, 10, 1, joined=8)
    assert [late.distance for late in second.late] == [1]
    third = run(PROGRAM, [inc("c", 20, 2)], both, second.snapshot())
    assert third.standings["c"] == Standing(19, 20, 2, joined=8)


def test_a_channel_that_joined_and_brought_nothing_holds_back_with_that_reason():
    assert explain_hold(ChannelStatus(8, joined=8)) == "no events since it joined"
    assert explain_hold(ChannelStatus(NEVER, joined=NEVER)) == "no events yet"
    assert explain_hold(ChannelStatus(9, 10, 1, "in order", joined=8)) == "in order"
