"""Which triggers may lose events, and how each runs."""

import pytest

from anabranch.errors import InputError, ProgramError
from anabranch.eventtime.windows.panes import Fold, Windowing
from anabranch.eventtime.windows.trigger_states import (
    Moment,
    begin,
    find_alarms,
    fire,
    is_ready,
    merge,
    see,
)
from anabranch.eventtime.windows.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
    find_loss,
    names_clock,
    names_watermark,
)
from anabranch.eventtime.windows.window_types import (
    CountTumbling,
    Global,
    Sessions,
    Tumbling,
    Window,
)

SAFE = [
    (DefaultTrigger(), 0),
    (DefaultTrigger(), 60),
    (Always(), 0),
    (Never(), 0),
    (AfterWatermark(), 0),
    (AfterWatermark(late=DefaultTrigger()), 0),
    (AfterWatermark(late=DefaultTrigger()), 60),
    (AfterWatermark(late=AfterCount(1)), 60),
    (Repeatedly(DefaultTrigger()), 0),
    (Repeatedly(AfterCount(42)), 0),
    (AfterAny(Repeatedly(AfterCount(42)), DefaultTrigger()), 0),
    (AfterAll(AfterCount(1), DefaultTrigger()), 0),
    (AfterEach(AfterCount(1), DefaultTrigger(), AfterCount(2)), 0),
    (AfterEach(AfterCount(1), AfterWatermark()), 0),
    (OrFinally(Repeatedly(AfterCount(2)), AfterWatermark()), 0),
    (OrFinally(Repeatedly(AfterCount(2)), DefaultTrigger()), 0),
    (OrFinally(Always(), Never()), 60),
    (OrFinally(Always(), AfterAll(AfterCount(2), AfterWatermark())), 0),
]
UNSAFE = [
    (AfterProcessingTime(42), 0),
    (AfterCount(42), 0),
    (AfterWatermark(), 60),
    (AfterWatermark(early=AfterCount(1)), 60),
    (AfterAny(AfterCount(42), DefaultTrigger()), 0),
    (AfterAll(AfterCount(42), AfterProcessingTime(42)), 0),
    (AfterEach(AfterCount(1), AfterCount(2), AfterCount(3)), 0),
    (OrFinally(Repeatedly(AfterCount(2)), AfterCount(5)), 0),
    (OrFinally(Repeatedly(AfterCount(2)), Repeatedly(AfterCount(5))), 0),
    (OrFinally(Repeatedly(AfterCount(2)), AfterWatermark()), 60),
    (OrFinally(DefaultTrigger(), Always()), 0),
    (OrFinally(AfterCount(1), Never()), 0),
]


@pytest.mark.parametrize(("trigger", "lateness"), SAFE, ids=str)
def test_a_trigger_that_goes_on_is_taken(trigger, lateness):
    assert find_loss(trigger, lateness) is None
    assert Windowing(window=Global(), trigger=trigger, allowed_lateness=lateness).trigger == trigger


@pytest.mark.parametrize(("trigger", "lateness"), UNSAFE, ids=str)
def test_a_trigger_that_may_lose_events_is_refused_unless_that_is_accepted(trigger, lateness):
    assert find_loss(trigger, lateness) is not None
    with pytest.raises(ProgramError, match="may lose events"):
        Windowing(window=Global(), trigger=trigger, allowed_lateness=lateness)
    accepted = Windowing(window=Global(), trigger=trigger, allowed_lateness=lateness, may_lose=True)
    assert accepted.trigger == trigger


def test_the_refusal_says_why_and_how_to_accept_it():
    with pytest.raises(ProgramError) as refused:
        Windowing(window=Tumbling(10), trigger=AfterWatermark(), allowed_lateness=60)
    assert str(refused.value) == (
        "this windowing may lose events\n"
        "  expected: a trigger that does not finish before its window is closed\n"
        "  got:      AfterWatermark without `late` finishes when it fires, and later events, "
        "within the allowed lateness of 60, are lost\n"
        "  to do:    wrap it in Repeatedly(...), give AfterWatermark a `late`, or accept it: "
        "may_lose=True"
    )


REFUSED = {
    "the count of a trigger": lambda: AfterCount(0),
    "the delay of a trigger": lambda: AfterProcessingTime(-1),
    "AfterAny has no parts": AfterAny,
    "a part of AfterEach is not a trigger": lambda: AfterEach(AfterCount(1), AfterCount),
    "a part of AfterWatermark is not a trigger": lambda: AfterWatermark(early=3),
    "a part of Repeatedly is not a trigger": lambda: Repeatedly("AfterCount(3)"),
    "a part of OrFinally is not a trigger": lambda: OrFinally(Always(), None),
    "the window of a windowing": lambda: Windowing(window=10),
    "the trigger of a windowing": lambda: Windowing(window=Global(), trigger=AfterCount),
    "the fold of a windowing": lambda: Windowing(window=Global(), fold=sum),
    "accumulation of a windowing": lambda: Windowing(window=Global(), accumulation="summing"),
    "output_time of a windowing": lambda: Windowing(window=Global(), output_time="middle"),
    "closing of a windowing": lambda: Windowing(window=Global(), closing="maybe"),
    "the allowed lateness of a windowing": lambda: Windowing(window=Global(), allowed_lateness=-1),
    "no late events": lambda: Windowing(window=CountTumbling(3), allowed_lateness=5),
    "windows that merge need": lambda: Windowing(window=Sessions(3), fold=Fold(0, max)),
    "may lose events": lambda: Windowing(window=Global(), closing="never"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_not_be_a_windowing_is_refused(what):
    with pytest.raises(ProgramError, match=what):
        REFUSED[what]()


EVERY = [
    DefaultTrigger(),
    Always(),
    Never(),
    AfterCount(2),
    AfterProcessingTime(5),
    AfterWatermark(),
    AfterWatermark(early=AfterCount(2), late=AfterAny(AfterCount(3), AfterProcessingTime(1))),
    Repeatedly(AfterCount(2)),
    AfterAny(AfterCount(2), DefaultTrigger()),
    AfterAll(AfterCount(2), AfterWatermark()),
    AfterEach(AfterCount(1), AfterProcessingTime(5), AfterCount(3)),
    OrFinally(Repeatedly(AfterCount(2)), AfterCount(5)),
]

WINDOW = Window(0, 10)
OPEN, COMPLETE = Moment(WINDOW, 5, 100), Moment(WINDOW, 9, 200)


def is_plain(state: object) -> bool:
    if type(state) is tuple:
        return all(map(is_plain, state))
    return state is None or type(state) in (int, bool)


@pytest.mark.parametrize("trigger", EVERY, ids=str)
def test_a_running_state_is_plain_data_of_one_shape(trigger):
    states = [begin(trigger)]
    states.append(see(trigger, states[0], OPEN))
    states.append(see(trigger, states[1], OPEN))
    for moment in (OPEN, COMPLETE):
        if is_ready(trigger, states[-1], moment):
            states.append(fire(trigger, states[-1], moment)[0])
    states.append(merge(trigger, states, OPEN))
    assert all(map(is_plain, states))
    assert all(isinstance(alarm, int) for state in states for alarm in find_alarms(trigger, state))


@pytest.mark.parametrize("trigger", EVERY, ids=str)
def test_merging_one_state_changes_nothing(trigger):
    state = see(trigger, begin(trigger), OPEN)
    assert merge(trigger, [state], OPEN) == state


def test_early_and_late_parts_start_anew_each_time():
    assert AfterWatermark(early=AfterCount(2)).early == Repeatedly(AfterCount(2))
    assert AfterWatermark(late=Repeatedly(Always())).late == Repeatedly(Always())


def test_a_count_fires_at_its_number_and_finishes():
    trigger = AfterCount(2)
    once = see(trigger, begin(trigger), OPEN)
    twice = see(trigger, once, OPEN)
    assert [is_ready(trigger, state, OPEN) for state in (once, twice)] == [False, True]
    assert fire(trigger, twice, OPEN)[1]


def test_an_early_firing_does_not_finish_but_the_one_on_time_does():
    trigger = AfterWatermark(early=AfterCount(1))
    state = see(trigger, begin(trigger), OPEN)
    state, finished = fire(trigger, state, OPEN)
    assert not finished
    assert not is_ready(trigger, state, OPEN)
    assert fire(trigger, state, COMPLETE)[1]


def test_a_trigger_that_looks_at_the_clock_must_be_told_first():
    with pytest.raises(InputError, match="reads the clock before the first clock step"):
        see(AfterProcessingTime(5), begin(AfterProcessingTime(5)), Moment(WINDOW, 5, None))


def test_what_a_trigger_looks_at_is_known():
    assert [names_watermark(trigger) for trigger in EVERY] == [
        True, False, False, False, False, True, True, False, True, True, False, False,
    ]  # fmt: skip
    assert [names_clock(trigger) for trigger in EVERY] == [
        False, False, False, False, True, False, True, False, False, False, True, False,
    ]  # fmt: skip
