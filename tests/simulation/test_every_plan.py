"""Every valid plan of every example gives the sequential answer, and so does every change of plan.

The plans are all there are over the slices named here: each type by channel, by key where a key
separates it, and one channel in two lanes where its events are independent.
"""

import random
from types import ModuleType
from typing import NamedTuple

import pytest

from anabranch import Event, Program, Shard, Slice, take
from anabranch.eventtime.channels import end_channels
from anabranch.plan.optimizers.enumeration import enumerate_plans
from anabranch.plan.pricing.rates import sample_rates
from anabranch.plan.tree import Plan
from anabranch.plan.validity import find_faults
from anabranch.reference.verification import prepare
from examples import (
    busy_airports,
    ewma,
    exchange,
    fraud,
    inc_dec,
    key_counter,
    max_temperature,
    page_view,
    smart_home,
    taxi_tips,
    value_barrier,
)
from tests.plan import programs


class Case(NamedTuple):
    module: ModuleType
    program: Program
    slices: list[Slice]
    plans: int
    changes: int = 40


def sampled(module, program):
    """Return the slices of the example's own events: event type by channel and by key."""
    return [load.slice for load in sample_rates(program, module.events).loads]


def in_lanes(slices, event_type, channel):
    """Return the slices with those of one event type and channel cut in two lanes."""
    chosen = [part for part in slices if (part.event_type, part.channel) == (event_type, channel)]
    halves = [
        Slice(
            part.event_type,
            tuple(sorted((*part.where, ("@lane", Shard(n, 2))))),
            channel=part.channel,
        )
        for part in chosen
        for n in (0, 1)
    ]
    return [part for part in slices if part not in chosen] + halves


def build(module, name, plans, *cut):
    program = getattr(module, name)
    slices = sampled(module, program)
    return Case(module, program, in_lanes(slices, *cut) if cut else slices, plans)


CASES = {
    "value_barrier": build(value_barrier, "value_barrier", 10, value_barrier.Value, "a2"),
    "max_temperature": build(max_temperature, "max_temperature", 10, max_temperature.Temp, "t1"),
    "fraud": build(fraud, "fraud", 10, fraud.Txn, "south"),
    "inc_dec": build(inc_dec, "inc_dec", 10, inc_dec.Inc, "ups"),
    "taxi_tips": build(taxi_tips, "taxi_tips", 83, taxi_tips.Tip, "id2"),
    "key_counter": build(key_counter, "key_counter", 30),
    "key_counter, the published slices": Case(
        key_counter,
        key_counter.key_counter,
        [
            *(take(event_type, key=1) for event_type in (key_counter.Read, key_counter.Inc)),
            take(key_counter.Read, key=2),
            *(take(key_counter.Inc, key=2, channel=channel) for channel in "ab"),
        ],
        45,
    ),
    "busy_airports": Case(
        busy_airports,
        busy_airports.busy_airports,
        [
            take(event_type, airport=name)
            for event_type in busy_airports.busy_airports.event_types
            for name in ("JFK", "LGA")
        ],
        10,
    ),
    "page_view": build(page_view, "page_view", 248),
    "exchange": build(exchange, "exchange", 10),
    "ewma": build(ewma, "ewma", 334),
    "smart_home": build(smart_home, "smart_home", 20, smart_home.Temp, "hall"),
}
MOST = 350


def list_plans(case: Case) -> list[Plan]:
    return list(enumerate_plans(case.program, case.slices))


@pytest.mark.parametrize("name", CASES)
def test_every_plan_gives_the_sequential_answer(name):
    case = CASES[name]
    plans = list_plans(case)
    assert len(plans) == case.plans <= MOST
    items = end_channels(case.module.events, channels=case.module.channels)
    for plan in plans:
        assert find_faults(case.program, plan) == []
        trial = prepare(case.program, plan, items, case.module.channels)
        assert trial.answer.values == case.module.expected
        for seed in range(5):
            _, mismatch = trial.verify(seed)
            assert mismatch is None, f"{plan.root}: {mismatch}"


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_plan_in_mid_stream_does_not_show(name):
    """Change twice, between plans drawn at random, and see in the trace that it really happened."""
    case = CASES[name]
    plans = list_plans(case)
    items = end_channels(case.module.events, channels=case.module.channels)
    rng = random.Random(name)
    moving = 0
    for _ in range(case.changes):
        first, second, third = (rng.choice(plans) for _ in range(3))
        trial = prepare(case.program, first, items, case.module.channels, then=[second, third])
        moving += sum(bool(change.steps) for change, _ in trial.rehearsal.later)
        for seed in range(3):
            simulation, mismatch = trial.verify(seed, trace=True)
            assert mismatch is None, f"{first.root} -> {second.root} -> {third.root}: {mismatch}"
            changes = [line for line in simulation.trace if "change of plan" in line]
            assert [line.split("change of plan: ")[1] for line in changes] == [
                f"{first.name} -> {second.name}",
                f"{second.name} -> {third.name}",
            ]
    assert moving >= case.changes // 2, "most changes of plan should move a state"


# Programs with something that no example has: levels, lanes, and types that fork unlike.


def draw_events(*event_types, seed, count=24):
    """Return events of three channels with small fields and many equal times."""
    rng = random.Random(seed)
    events = []
    for seq in range(count):
        event_type = rng.choice(event_types)
        fields = [rng.randint(1, 3) for _ in event_type._fields[1:]]
        events.append(Event(event_type(1 + seq // 2, *fields), rng.choice("abc"), seq))
    return events


READINGS = [take(programs.Reading, lane=Shard(n, 4)) for n in range(4)]
EXTRA = {
    "calendar": (
        programs.calendar,
        [
            take(programs.Month),
            *(take(programs.Day, meter=n) for n in (1, 2)),
            *(take(programs.Reading, meter=n) for n in (1, 2)),
            take(programs.Reading, meter=3),
        ],
        98,
    ),
    "laned": (programs.laned, [take(programs.Month), *READINGS], 83),
    "laned per meter": (
        programs.laned_per_meter,
        [
            *(take(programs.Day, meter=n) for n in (1, 2)),
            *(take(programs.Reading, meter=1, lane=Shard(n, 2)) for n in (0, 1)),
            take(programs.Reading, meter=2),
        ],
        45,
    ),
    "typed": (
        programs.typed,
        [take(programs.Month), *(take(programs.Reading, channel=s) for s in "abc")],
        22,
    ),
}


@pytest.mark.parametrize("name", EXTRA)
def test_every_plan_of_other_programs_gives_the_sequential_answer_also_when_it_changes(name):
    program, slices, count = EXTRA[name]
    plans = list(enumerate_plans(program, slices))
    assert len(plans) == count
    rng = random.Random(name)
    for number, plan in enumerate(plans):
        items = end_channels(draw_events(*program.event_types, seed=number))
        alone = prepare(program, plan, items)
        changing = prepare(program, plan, items, then=[rng.choice(plans)])
        for seed in range(2):
            assert alone.verify(seed)[1] is None, plan.root
            simulation, mismatch = changing.verify(seed, trace=True)
            assert mismatch is None, plan.root
            assert sum("change of plan" in line for line in simulation.trace) == 1
