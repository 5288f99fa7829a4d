"""Speculation against recomputation from scratch: at every moment, of every prefix of an arrival."""

import random
from functools import partial
from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, on
from anabranch.model.order import sort_events
from anabranch.model.targets import load
from anabranch.plan.foldable_leaves import find_leaf_types, join_deltas
from anabranch.reference.sequential import fold
from anabranch.reference.speculative import find_leaves
from anabranch.speculation.barrier import Barrier, hold_back
from anabranch.speculation.event_rules import NO_LEAVES, Leaves
from anabranch.speculation.output_changes import Amount, is_alike, measure
from anabranch.speculation.programs import Speculation
from anabranch.state import MapOf, Sum
from anabranch.state.durable.codec import make_codec
from tests.microbatch.programs import PROGRAMS

EXAMPLES = ["key_counter", "max_temperature", "page_view", "taxi_tips", "value_barrier", "fraud"]
# Timers are not a matter of the events seen alone; `tests/reference` and `tests/spark` have them.
ALL = {
    name: program
    for name, program in (
        PROGRAMS | {name: load(f"examples/{name}.py") for name in EXAMPLES}
    ).items()
    if not program.timers
}


def draw_events(rng, program, count, *, numbered=True):
    """Draw events of every event type, with times that often coincide."""
    first, *others = program.event_types
    events = []
    for seq in range(count):
        event_type = rng.choice(others) if others and rng.random() < 0.2 else first
        values = [rng.randint(0, 3) for _ in event_type._fields[1:]]
        data = event_type(rng.randint(0, count // 2), *values)
        events.append(Event(data, rng.choice("abc"), seq if numbered else None))
    return events


def say_from_scratch(program, events):
    """Return what the fold says of some events, and which of them it sets aside."""
    state, outputs, faults = fold(program, sort_events(program.ranks, events))
    return {output.id: output.value for output in outputs}, state, faults


def add_up(standing, rows):
    """Apply rows to what stands; a row that takes back or repeats the wrong thing is noticed."""
    for row in rows:
        if row.op > 0:
            assert row.id not in standing
            standing[row.id] = row.value
        else:
            assert is_alike(standing.pop(row.id), row.value)


def deal(rng, events):
    """Deal events out in any order, in batches; after each, how far the watermark may have come."""
    events = list(events)
    rng.shuffle(events)
    while events:
        size = rng.choice((1, 1, 2, 5))
        batch, events = events[:size], events[size:]
        least = min((event.time for event in events), default=1 << 40)
        yield batch, least - 1 - rng.choice((0, 0, 3))


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "in order"])
@pytest.mark.parametrize("name", ALL)
def test_oracle_what_stands_is_what_the_fold_says_of_the_events_so_far(name, leaves):
    program = ALL[name]
    for seed in range(15):
        rng = random.Random(seed)
        found = find_leaves(program) if leaves else NO_LEAVES
        speculation, standing, seen, faults = Speculation(program, found), {}, [], []
        processed = 0
        for batch, watermark in deal(rng, draw_events(rng, program, 40, numbered=seed % 3 > 0)):
            seen += batch
            add_up(standing, speculation.take(batch))
            assert standing == say_from_scratch(program, seen)[0], f"seed {seed}"
            settled = speculation.settle(watermark)
            processed += settled.processed
            faults += settled.faults
        _, state, expected = say_from_scratch(program, seen)
        assert speculation.state == state
        assert faults == expected
        assert processed == len(seen) - len(faults)
        assert speculation.pending() == []


@pytest.mark.parametrize("name", ALL)
def test_oracle_a_restart_at_any_moment_changes_nothing_and_repeats_nothing(name):
    program, codec = ALL[name], make_codec(ALL[name])
    for seed in range(6):
        rng = random.Random(seed)
        leaves = find_leaves(program)
        speculation, barrier, standing, seen = Speculation(program, leaves), Barrier(), {}, []
        settled = []
        for batch, watermark in deal(rng, draw_events(rng, program, 30, numbered=seed % 2 > 0)):
            seen += batch
            rows = speculation.take(batch)
            add_up(standing, rows)
            speculation.settle(watermark)
            settled += hold_back(barrier, rows, watermark)
            data = codec.encode((speculation.dump(), barrier.dump()))
            kept, held = codec.decode(data)
            speculation = Speculation.load(program, kept, leaves)
            barrier = Barrier(*held)
            # What has been released is known to have been: a replay of it is dropped.
            assert hold_back(barrier, [row._replace(op=1) for row in settled], watermark) == []
        expected, state, _ = say_from_scratch(program, seen)
        assert standing == expected
        assert [(row.id, row.value) for row in settled] == sorted(expected.items())
        assert speculation.state == state


class Reading(NamedTuple):
    time: int
    meter: int


class Read(NamedTuple):
    time: int
    meter: int


class Report(NamedTuple):
    time: int


def count_calls():
    """Return two programs, by meter and over all, and what their functions were called on."""
    calls = []

    def add(total, event):
        calls.append(event)
        return total + 1

    def say(total, event):
        calls.append(event)
        return total

    per_meter = Program(
        on(Reading, update=add),
        on(Read, output=say),
        depends(Read, Reading, Read, same="meter"),
        state=MapOf(Sum(), by="meter"),
    )
    over_all = Program(
        on(Reading, update=add),
        on(Report, output=say, update=lambda total, report: 0),
        depends(Report, Reading, Report),
        state=Sum(),
    )
    return per_meter, over_all, calls


def test_a_leaf_that_comes_late_is_folded_alone_and_only_markers_after_it_run_again():
    _, program, calls = count_calls()
    leaves = Leaves(find_leaf_types(program), partial(join_deltas, program))
    speculation = Speculation(program, leaves)
    speculation.take(Event(Reading(t, 1), "a", t) for t in range(100) if t != 41)
    speculation.take(Event(Report(t), "b", t) for t in (20, 40, 60, 80))
    calls.clear()
    rows = speculation.take([Event(Reading(41, 1), "a", 41)])
    assert [row[:3] for row in rows] == [
        (-1, ((60, 0, "b", 60), 0), 19),
        (1, ((60, 0, "b", 60), 0), 20),
    ]
    # The report at 60 starts again from nothing, so the one at 80 is looked at by nobody.
    assert calls == [Reading(41, 1), Report(60)]


def test_without_leaves_everything_after_it_is_folded_again_until_the_state_is_as_before():
    _, program, calls = count_calls()
    speculation = Speculation(program)
    speculation.take(Event(Reading(t, 1), "a", t) for t in range(100) if t != 41)
    speculation.take(Event(Report(t), "b", t) for t in (20, 40, 60, 80))
    calls.clear()
    speculation.take([Event(Reading(41, 1), "a", 41)])
    assert [event.time for event in calls] == [*range(41, 60), 60]


def test_an_event_out_of_order_touches_its_own_entry_only():
    program, _, calls = count_calls()
    speculation = Speculation(program)
    speculation.take(Event(Reading(t, t % 10), "a", t) for t in range(100) if t != 41)
    speculation.take(Event(Read(1000 + meter, meter), "b", meter) for meter in range(10))
    calls.clear()
    rows = speculation.take([Event(Reading(41, 1), "a", 41)])
    assert [event.meter for event in calls] == [1] * 7
    assert [(row.op, row.value) for row in rows] == [(-1, 9), (1, 10)]


def test_what_has_settled_is_not_kept():
    per_meter, over_all, _ = count_calls()
    for program in (per_meter, over_all):
        speculation = Speculation(program, find_leaves(program))
        for time in range(1, 1000):
            speculation.take([Event(Reading(time, 1), "a", time)])
            speculation.settle(time - 5)
        assert len(speculation.pending()) == 5
        assert len(make_codec(program).encode(speculation.dump())) < 400


def test_an_output_that_comes_out_as_before_is_not_said_again():
    program = load("examples/max_temperature.py")
    temp, report = program.event_type("Temp"), program.event_type("Report")
    speculation = Speculation(program, find_leaves(program))
    rows = speculation.take([Event(temp(1, 20), "a", 0), Event(report(5), "b", 0)])
    assert [(row.op, row.value) for row in rows] == [(1, 20)]
    assert speculation.take([Event(temp(2, 7), "a", 1)]) == []
    rows = speculation.take([Event(temp(3, 30), "a", 2)])
    assert [(row.op, row.value) for row in rows] == [(-1, 20), (1, 30)]


def test_an_output_that_is_equal_but_of_another_type_is_corrected():
    speculation = Speculation(
        Program(
            on(Reading, update=lambda total, reading: total * reading.meter),
            on(Report, output=lambda total, report: total),
            depends(Report, Reading, Report),
            depends(Reading, Reading),
            init=1,
        )
    )
    speculation.take([Event(Reading(1, 1), "a", 0), Event(Report(5), "b", 0)])
    rows = speculation.take([Event(Reading(2, 1.0), "a", 1)])
    assert [(row.op, repr(row.value)) for row in rows] == [(-1, "1"), (1, "1.0")]


def test_a_fault_that_a_later_arrival_mends_is_never_reported():
    program = Program(
        on(Reading, update=lambda total, reading: total + reading.meter),
        on(Report, output=lambda total, report: 12 // total),
        depends(Report, Reading, Report),
        state=Sum(),
    )
    for leaves in (NO_LEAVES, find_leaves(program)):
        speculation = Speculation(program, leaves)
        assert speculation.take([Event(Report(5), "b", 0)]) == []
        (row,) = speculation.take([Event(Reading(3, 4), "a", 0)])
        assert (row.op, row.value) == (1, 3)
        # And one that appears takes back what was said.
        (row,) = speculation.take([Event(Reading(4, -4), "a", 1)])
        assert (row.op, row.value) == (-1, 3)
        (fault,) = speculation.settle(9).faults
        assert fault.reason.startswith("on Report: ZeroDivisionError")


def test_a_leaf_that_can_not_speak_of_its_state_is_not_in_the_delta_either():
    program = PROGRAMS["deferring"].changed()
    handlers = program.initial.handlers
    reading, limit = program.event_types
    program = Program(
        on(
            reading,
            output=lambda s, e: 100 // s.limit,
            update=handlers[reading].update,
        ),
        # What the next readings meet depends on those before: they fail, or not, as these come in.
        on(
            limit,
            output=lambda s, e: s.total,
            update=lambda s, e: s._replace(limit=s.total % (e.most + 1)),
        ),
        depends(limit, reading, limit),
        init=program.init,
        zero=program.init._replace(limit=0),
        fork=lambda s, left, right: (s, s._replace(total=0)),
        join=lambda a, b: a._replace(total=a.total + b.total),
    )
    assert find_leaves(program).types == {reading: "state"}
    for seed in range(20):
        rng = random.Random(seed)
        speculation, standing, seen = Speculation(program, find_leaves(program)), {}, []
        for batch, _ in deal(rng, draw_events(rng, program, 30)):
            seen += batch
            add_up(standing, speculation.take(batch))
            assert standing == say_from_scratch(program, seen)[0]


def test_values_that_are_equal_but_not_alike_are_told_apart():
    pairs = [(1, True), (1, 1.0), (0.0, -0.0), ((1,), [1]), ({"a": 1}, {"a": 1.0}), ("a", "b")]
    assert not any(is_alike(a, b) for a, b in pairs)
    nan = float("nan")
    assert all(is_alike(a, a) for pair in pairs for a in pair)
    assert is_alike((nan,), (float("nan"),))


def test_the_amount_counts_retractions_and_what_stands():
    assert measure([]) == Amount(0, 0)
    assert Amount().ratio == 1.0
    amount = Amount(emitted=12, valid=8)
    assert (amount.ratio, amount.extra) == (1.5, 0.5)
    assert str(amount) == "12 rows emitted for 8 valid outputs, 50.0% extra"
