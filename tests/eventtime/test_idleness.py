"""Channels that have fallen silent, and how far the others go on without them."""

import pytest

from anabranch import FOREVER
from anabranch.eventtime.channels import NEVER, Channel
from anabranch.eventtime.idleness import add_silence, is_idle, record, waive
from anabranch.model.events import Heartbeat

PATIENT, HASTY = Channel("p"), Channel("h", idle_after_s=10)
BOTH = {"p": PATIENT, "h": HASTY}


def test_a_channel_is_idle_from_the_declared_time_on():
    assert [is_idle(HASTY, ms) for ms in (0, 9_999, 10_000)] == [False, False, True]
    assert not is_idle(PATIENT, 1 << 60)


def test_a_gap_between_two_batches_counts_for_half_at_the_most():
    assert add_silence(HASTY, 0, 86_400_000) == 5_000
    assert is_idle(HASTY, add_silence(HASTY, 5_000, 86_400_000))
    # An odd number of milliseconds still takes two batches, not three.
    odd = Channel("o", idle_after_s=0.001)
    assert add_silence(odd, 0, 50) == 1


def test_a_clock_that_goes_back_adds_nothing():
    assert add_silence(HASTY, 700, -5_000) == 700


@pytest.mark.parametrize(
    ("watermarks", "silences_ms", "reached", "waived"),
    [
        ({"p": 7, "h": 3}, {"h": 10_000}, 8, {"h": 7}),
        ({"p": 7, "h": 3}, {"h": 9_999}, 8, {}),
        ({"p": 7}, {"h": 10_000}, 8, {"h": 7}),
        ({"p": 7, "h": 9}, {"h": 10_000}, 9, {}),
        ({"p": 3, "h": 7}, {"p": 99_000}, 8, {}),
        ({"p": FOREVER, "h": 3}, {"h": 10_000}, 8, {"h": 8}),
        ({"p": FOREVER, "h": NEVER}, {"h": 10_000}, None, {}),
    ],
    ids=[
        "idle", "not yet", "never heard", "ahead", "waited for", "the others have ended", "nothing came",
    ],
)  # fmt: skip
def test_the_others_go_on_as_far_as_they_have_come(watermarks, silences_ms, reached, waived):
    assert waive(BOTH, watermarks, silences_ms, reached) == waived


def test_if_all_are_idle_nobody_goes_on():
    channels = {"a": Channel("a", idle_after_s=1), "b": Channel("b", idle_after_s=1)}
    assert waive(channels, {"a": 5, "b": 3}, {"a": 9_000, "b": 9_000}, 5) == {}


def test_a_decision_is_recorded_behind_what_had_been_read_of_the_channel():
    assert record([("a", 9, 4), ("b", 8, None)]) == [
        Heartbeat(9, "a", 4),
        Heartbeat(8, "b", -(1 << 63)),
    ]
