"""Who holds the watermark back, by how much, and in which words."""

import pytest

from anabranch import FOREVER
from anabranch.eventtime.channels import NEVER, Channel
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.held_back import (
    ChannelStatus,
    describe_rule,
    explain_hold,
    find_holders,
    measure_hold,
    name_holders,
)


@pytest.mark.parametrize(
    ("channel", "rule"),
    [
        (Channel("a"), "in order"),
        (Channel("a", unique_times=True), "in order, unique times"),
        (Channel("a", lateness=7), "lateness 7"),
        (Channel("a", lateness=None), "only heartbeats"),
        (Channel("a", lateness=Estimated(0.95)), "estimated for 95%"),
    ],
)
def test_a_rule_in_words(channel, rule):
    assert describe_rule(channel) == rule


def test_the_slowest_hold_back_and_idle_ones_only_if_there_is_nobody_else():
    statuses = {"a": ChannelStatus(4), "b": ChannelStatus(9), "c": ChannelStatus(4, idle=True)}
    assert find_holders(4, statuses) == ["a"]
    assert find_holders(4, statuses | {"a": ChannelStatus(5)}) == ["c"]


def test_a_hold_is_measured_to_the_next_channel():
    statuses = {
        "a": ChannelStatus(4),
        "b": ChannelStatus(9),
        "c": ChannelStatus(30),
        "d": ChannelStatus(FOREVER),
    }
    assert measure_hold(statuses, ["a"]) == 5
    assert measure_hold({"a": ChannelStatus(4), "d": ChannelStatus(FOREVER)}, ["a"]) is None
    assert measure_hold(statuses | {"a": ChannelStatus(NEVER)}, ["a"]) is None


@pytest.mark.parametrize(
    ("status", "batch", "why"),
    [
        (ChannelStatus(4, 5), 7, "in order"),
        (ChannelStatus(4, 5, active_in=7), 7, "in order"),
        (ChannelStatus(4, 5, active_in=6), 7, "silent since batch 6"),
        (ChannelStatus(NEVER), 7, "no events yet"),
        (ChannelStatus(4, 5, active_in=2, idle=True), 7, "idle"),
        (ChannelStatus(4, 9, rule="estimated for 99%", delay=4), None, "estimated for 99%: 4 now"),
        (
            ChannelStatus(NEVER, 9, rule="estimated for 99%"),
            None,
            "estimated for 99%: too few events yet",
        ),
    ],
)
def test_why_a_channel_is_not_further(status, batch, why):
    assert explain_hold(status, batch) == why


def test_of_many_channels_that_hold_others_back_a_few_are_named():
    statuses = {f"s{number}": ChannelStatus(4) for number in range(7)} | {"z": ChannelStatus(9)}
    assert name_holders(4, statuses) == "s0, s1, s2, s3, s4 and 2 more"
    assert name_holders(FOREVER, {"a": ChannelStatus(FOREVER)}) == ""
