"""A clock as a channel: its ticks are events like any other."""

import pytest

from anabranch import Event
from anabranch.errors import ProgramError
from anabranch.sources import Tick, make_ticks


def test_ticks_are_numbered_events_up_to_before_the_end():
    assert make_ticks(10, 40, 10) == [
        Event(Tick(10), "clock", 0),
        Event(Tick(20), "clock", 1),
        Event(Tick(30), "clock", 2),
    ]
    assert make_ticks(0, 25, 10, channel="tower")[-1] == Event(Tick(20), "tower", 2)


@pytest.mark.parametrize("every", [0, 0.5])
def test_a_clock_that_does_not_go_on_is_refused(every, message):
    with pytest.raises(ProgramError) as caught:
        make_ticks(0, 9, every)
    message(f"ticks_every_{'nothing' if every == 0 else 'half'}", str(caught.value))
