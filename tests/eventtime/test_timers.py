"""Timers: when a state is woken, and that every runtime wakes it alike."""

import random
from typing import NamedTuple

import pytest

from anabranch import FOREVER, Event, Heartbeat, Map, Program, depends, on, take
from anabranch.errors import ProgramError
from anabranch.eventtime import timers
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.timers import TimerError
from anabranch.model.shapes import WrittenShape
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.reference.sequential import run
from anabranch.reference.simulator import rehearse
from anabranch.state import Count, MapOf
from tests.microbatch.programs import Meter, Reading, Silence, silent
from tests.microbatch.test_microbatches import draw_items


class Click(NamedTuple):
    time: int
    user: str


class Gone(NamedTuple):
    time: int
    user: str


class Reset(NamedTuple):
    time: int


class Visit(NamedTuple):
    clicks: int = 0
    ends: int | None = None


def visits(gap=10, **options):
    return Program(
        on(Click, update=lambda v, e: Visit(v.clicks + 1, e.time + gap)),
        on(
            Gone,
            due=lambda visit: visit.ends,
            output=lambda v, e: (e.user, e.time, v.clicks),
            update=lambda v, e: Visit(),
        ),
        depends(Click, Click, same="user"),
        state=MapOf(WrittenShape(Visit()), by="user"),
        **options,
    )


def clicks(*pairs):
    return [Event(Click(time, user), "s", n) for n, (time, user) in enumerate(pairs)]


def test_a_state_is_woken_at_the_last_time_that_it_asked_for():
    answer = run(visits(), end_channels(clicks((1, "a"), (5, "b"), (9, "a"), (40, "a"))))
    assert answer.values == [("b", 15, 1), ("a", 19, 2), ("a", 50, 1)]


def test_a_timer_comes_after_all_events_of_its_time():
    answer = run(visits(), end_channels(clicks((1, "a"), (11, "a"))))
    assert answer.values == [("a", 21, 2)]


def test_a_timer_waits_for_the_watermark():
    items = [*clicks((1, "a")), Heartbeat(10, "s", 1)]
    assert run(visits(), items).values == []
    assert run(visits(), [*items, Heartbeat(11, "s", 2)]).values == [("a", 11, 1)]


def test_timers_are_no_input_and_not_pending():
    answer = run(visits(), [*clicks((1, "a"), (30, "b")), Heartbeat(31, "s", 2)])
    assert answer.values == [("a", 11, 1)]
    assert tuple(answer.ledger) == (2, 2, 0, 0, 0, 0)
    assert answer.pending == []


def test_what_is_asked_for_too_late_comes_at_once():
    assert run(visits(gap=-5), end_channels(clicks((7, "a"), (9, "a")))).values == [
        ("a", 7, 1),
        ("a", 9, 1),
    ]


def test_a_state_is_woken_once_for_a_time_that_it_goes_on_naming():
    stubborn = Program(
        on(Click, update=lambda v, e: Visit(v.clicks + 1, 20)),
        on(Gone, due=lambda v: v.ends, output=lambda v, e: (e.time, v.clicks)),
        depends(Click, Click, same="user"),
        state=MapOf(WrittenShape(Visit()), by="user"),
    )
    assert run(stubborn, end_channels(clicks((1, "a"), (2, "a"), (30, "a")))).values == [(20, 2)]


def test_a_timer_that_fails_is_reported_and_counted():
    failing = Program(
        on(Click, update=lambda v, e: Visit(v.clicks + 1, e.time + 1)),
        on(Gone, due=lambda v: v.ends, update=lambda v, e: v.clicks // 0),
        depends(Click, Click, same="user"),
        state=MapOf(WrittenShape(Visit()), by="user"),
    )
    answer = run(failing, end_channels(clicks((1, "a"))))
    assert tuple(answer.ledger) == (2, 1, 0, 1, 0, 0)
    (reason,) = [r.reason for r in answer.rejected]
    words = "on Gone: ZeroDivisionError: integer division or modulo by zero (test_timers.py:"
    assert reason.startswith(words)


def test_a_marker_above_the_entries_may_set_the_timers_of_all():
    program = visits().changed(
        on(Reset, update=lambda users, e: Map({u: Visit(0, e.time + 2) for u in users})),
        depends(Reset, Click, Reset),
    )
    items = [*clicks((1, "a"), (2, "b")), Event(Reset(5), "r", 0), Event(Click(6, "b"), "s", 9)]
    answer = run(program, end_channels(items))
    assert answer.values == [("a", 7, 0), ("b", 16, 1)]


def test_a_timer_that_never_ends_is_stopped(monkeypatch):
    monkeypatch.setattr(timers, "MOST_WAKES", 50)
    clock = Program(
        on(Click, update=lambda v, e: Visit(0, e.time + 1)),
        on(Gone, due=lambda v: v.ends, update=lambda v, e: Visit(0, e.time + 1)),
        depends(Click, Click, same="user"),
        state=MapOf(WrittenShape(Visit()), by="user"),
    )
    with pytest.raises(TimerError, match="timer Gone never ends"):
        run(clock, end_channels(clicks((1, "a"))))
    # As long as there is input, time passes, and no clock goes on for ever.
    assert run(clock, [*clicks((1, "a")), Heartbeat(900, "s", 1)]).ledger.processed == 1


@pytest.mark.parametrize("due", [1.5, True, "noon", 1 << 63])
def test_a_due_that_is_no_time_stops_the_run(due):
    program = Program(
        on(Click, update=lambda v, e: Visit(1)),
        on(Gone, due=lambda v: due),
        depends(Click, Click, same="user"),
        state=MapOf(WrittenShape(Visit()), by="user"),
    )
    with pytest.raises(TimerError, match="the due of Gone did not return a time"):
        run(program, end_channels(clicks((1, "a"))))


def test_nobody_but_the_state_brings_a_timer():
    answer = run(visits(), end_channels([Event(Gone(3, "a"), "s", 0)]))
    assert [r.reason for r in answer.rejected] == [
        "unknown event type Gone; the program knows Click"
    ]


def test_a_timer_must_name_its_entry():
    class Odd(NamedTuple):
        time: int
        page: str

    with pytest.raises(ProgramError, match="does not identify the entry"):
        visits().changed(on(Odd, due=lambda v: 1))
    with pytest.raises(ProgramError, match="does not identify the entry"):
        visits().changed(on(Reset, due=lambda v: 1, whole=True))
    with pytest.raises(ProgramError, match="rank names timer"):
        visits(rank=Gone)


def test_a_timer_depends_on_all_that_meets_its_entry():
    program = visits()
    assert program.dependence.restrictions(Gone, Click) == {("user",)}
    assert program.dependence.restrictions(Gone, Gone) == {("user",)}
    assert program.rank == (Click, Gone)


def test_a_timer_in_lanes_is_refused():
    with pytest.raises(ProgramError, match="no shard has the whole state"):
        Program(
            on(Click, update=lambda n, e: n + 1),
            on(Reset, due=lambda n: None),
            state=Count(),
            lanes=4,
        )


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_differential_every_plan_wakes_what_the_fold_wakes(optimizer):
    channels = tuple(Channel(name) for name in "abc")
    for seed in range(10):
        items = draw_items(random.Random(seed), silent, 30)
        ended = end_channels(items, channels=channels) if seed % 2 else items
        answer = run(silent, ended, channels)
        assert any(output.event.event_type is Silence for output in answer.outputs)
        loads = [
            Load(take(event_type, meter=meter))
            for event_type in silent.event_types
            for meter in range(4)
        ]
        plan = OPTIMIZERS[optimizer](silent, Rates(loads))
        simulation = rehearse(silent, plan, ended, channels).run(seed)
        assert sorted((o.id, o.value) for o in simulation.outputs) == sorted(
            (o.id, o.value) for o in answer.outputs
        )
        assert simulation.ledger == answer.ledger


def test_an_entry_that_was_never_there_is_not_woken():
    assert run(silent, end_channels([Event(Reading(1, 0, 1), "a", 0)])).state == {
        0: Meter(None, 12, 2)
    }


def test_a_state_that_waits_for_the_end_is_woken_at_the_end_on_every_plan():
    program = Program(
        on(Click, update=lambda v, e: Visit(v.clicks + 1, FOREVER)),
        on(
            Gone,
            due=lambda visit: visit.ends,
            output=lambda v, e: (e.user, v.clicks),
            update=lambda v, e: Visit(),
        ),
        depends(Click, Click, same="user"),
        state=MapOf(WrittenShape(Visit()), by="user"),
    )
    items = clicks((1, "a"), (5, "b"), (9, "a"))
    assert run(program, items).values == []
    ended = end_channels(items)
    assert run(program, ended).values == [("a", 2), ("b", 1)]
    loads = [
        Load(take(event_type, user=user)) for event_type in program.event_types for user in "ab"
    ]
    plan = OPTIMIZERS["keyed"](program, Rates(loads), ())
    simulation = rehearse(program, plan, ended).run(0)
    assert sorted(output.value for output in simulation.outputs) == [("a", 2), ("b", 1)]
