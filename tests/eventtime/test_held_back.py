"""Who holds the frontier back, by how much, and in which words."""

import pytest

from anabranch import FOREVER
from anabranch.eventtime.channels import NEVER, Source
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.held_back import (
    Stand,
    describe_rule,
    explain_hold,
    find_holders,
    measure_hold,
    name_holders,
)


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        (Source("a"), "in order"),
        (Source("a", strict=True), "in order, no time twice"),
        (Source("a", lateness=7), "lateness 7"),
        (Source("a", lateness=None), "only heartbeats"),
        (Source("a", lateness=Estimated(0.95)), "estimated for 95%"),
    ],
)
def test_a_rule_in_words(source, rule):
    assert describe_rule(source) == rule


def test_the_slowest_hold_back_and_idle_ones_only_if_there_is_nobody_else():
    stands = {"a": Stand(4), "b": Stand(9), "c": Stand(4, idle=True)}
    assert find_holders(4, stands) == ["a"]
    assert find_holders(4, stands | {"a": Stand(5)}) == ["c"]


def test_a_hold_is_measured_to_the_next_source():
    stands = {"a": Stand(4), "b": Stand(9), "c": Stand(30), "d": Stand(FOREVER)}
    assert measure_hold(stands, ["a"]) == 5
    assert measure_hold({"a": Stand(4), "d": Stand(FOREVER)}, ["a"]) is None
    assert measure_hold(stands | {"a": Stand(NEVER)}, ["a"]) is None


@pytest.mark.parametrize(
    ("stand", "batch", "why"),
    [
        (Stand(4, 5), 7, "in order"),
        (Stand(4, 5, heard=7), 7, "in order"),
        (Stand(4, 5, heard=6), 7, "silent since batch 6"),
        (Stand(NEVER), 7, "has brought nothing yet"),
        (Stand(4, 5, heard=2, idle=True), 7, "idle"),
        (Stand(4, 9, rule="estimated for 99%", delay=4), None, "estimated for 99%: 4 now"),
        (Stand(NEVER, 9, rule="estimated for 99%"), None, "estimated for 99%: too few events yet"),
    ],
)
def test_why_a_source_is_not_further(stand, batch, why):
    assert explain_hold(stand, batch) == why


def test_of_many_sources_that_hold_others_back_a_few_are_named():
    stands = {f"s{number}": Stand(4) for number in range(7)} | {"z": Stand(9)}
    assert name_holders(4, stands) == "s0, s1, s2, s3, s4 and 2 more"
    assert name_holders(FOREVER, {"a": Stand(FOREVER)}) == ""
