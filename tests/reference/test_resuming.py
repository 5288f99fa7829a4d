"""A run that was cut in two says what it would have said in one go, wherever it was cut."""

import random
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch import Event, Heartbeat, Program, depends, load, on
from anabranch.errors import InputError
from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.channels import NEVER, end_channels
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.ledger import Ledger
from anabranch.model.shapes import WrittenShape
from anabranch.query import aggregate, asof_join, band_join, interval_join, window_join
from anabranch.reference.sequential import run
from anabranch.savepoints.snapshot import Snapshot
from anabranch.sources import Channel
from anabranch.state import Count, MapOf, Sum
from anabranch.windows import Sessions, Tumbling, Windowing
from tests.exact_text import write_exactly
from tests.microbatch.programs import (
    PROGRAMS,
    Meter,
    Month,
    Reading,
    Silence,
    alarms,
    deferring,
    floats,
    levels,
)
from tests.microbatch.test_microbatches import EXAMPLES
from tests.query.bids import CHANNELS, draw_bids
from tests.query.test_everywhere import draw_program
from tests.runtimes.inputs import draw_items


class Show(NamedTuple):
    time: int
    ad: int
    price: int


class Click(NamedTuple):
    time: int
    ad: int
    price: int


JOINS = {
    "interval": interval_join(Show, Click, on="ad", lower=-2, upper=10, how="full"),
    "asof": asof_join(Show, Click, on="ad", how="left"),
    "window": window_join(Show, Click, on="ad", window=Tumbling(5), how="full"),
    "band": band_join(Show, Click, left="price", right="price", low=-1, high=2, lower=-3, upper=3),
}
WINDOWS = {
    "tumbling": aggregate(Reading, Windowing(Tumbling(5)), per="meter", total=Sum()),
    "sessions": aggregate(Reading, Windowing(Sessions(4)), per="meter", total=Sum()),
}
ALL = {
    **{name: load(f"examples/{name}.py") for name in EXAMPLES},
    **PROGRAMS,
    **JOINS,
    **WINDOWS,
}
RULES = st.sampled_from(
    [
        {"lateness": 0},
        {"unique_times": True},
        {"lateness": 3},
        {"lateness": 30},
        {"lateness": 2, "max_ahead": 8},
        {"lateness": None},
        {"order": "arrival"},
        {"order": "arrival", "max_ahead": 8},
        {"lateness": Estimated(0.5, within=2)},
        {"lateness": Estimated(0.75, within=None, most=9)},
    ]
)


@st.composite
def draw_cut(draw, program):
    """Draw channels, what they bring, and where each is cut; some items have no number."""
    channels = tuple(Channel(name, **draw(RULES)) for name in ("a", "b"))
    items = draw(draw_items(program, channels))
    if draw(st.booleans()):
        items = [item._replace(seq=None) for item in items]
    cuts = {s.name: draw(st.integers(0, 15)) for s in channels}
    return channels, *split(items, cuts)


def split(items, cuts):
    counts = Counter()
    parts = ([], [])
    for item in items:
        parts[counts[item.channel] >= cuts[item.channel]].append(item)
        counts[item.channel] += 1
    return parts


def sorted_out(found):
    return sorted(map(repr, found))


def assert_goes_on(program, channels, first, rest, carry=lambda snapshot: snapshot):
    """Compare one run with two, the second of which knows only the snapshot of the first."""
    whole = run(program, [*first, *rest], channels)
    begun = run(program, first, channels)
    resumed = run(program, rest, channels, start=carry(begun.snapshot()))
    assert begun.outputs + resumed.outputs == whole.outputs
    assert [o.id for o in begun.outputs + resumed.outputs] == [o.id for o in whole.outputs]
    assert write_exactly(resumed.state) == write_exactly(whole.state)
    assert program.initial.shape.same(resumed.state, whole.state)
    assert resumed.ledger == whole.ledger
    assert sorted_out(begun.late + resumed.late) == sorted_out(whole.late)
    assert sorted_out(begun.rejected + resumed.rejected) == sorted_out(whole.rejected)
    assert resumed.pending == whole.pending
    assert resumed.watermarks == whole.watermarks
    assert resumed.standings == whole.standings
    assert resumed.snapshot() == whole.snapshot()
    return whole


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
@settings(max_examples=25)
def test_a_run_goes_on_from_any_cut(name, data):
    channels, first, rest = data.draw(draw_cut(ALL[name]))
    assert_goes_on(ALL[name], channels, first, rest)


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
@settings(max_examples=5)
def test_a_run_goes_on_after_many_cuts(name, data):
    program = ALL[name]
    channels, first, rest = data.draw(draw_cut(program))
    whole = run(program, [*first, *rest], channels)
    snapshot, outputs = None, []
    for part in [first, *([item] for item in rest)]:
        answer = run(program, part, channels, start=snapshot)
        snapshot, outputs = answer.snapshot(), outputs + answer.outputs
    assert outputs == whole.outputs
    assert snapshot == whole.snapshot()


@pytest.mark.parametrize("seed", range(60))
def test_windows_of_every_kind_go_on_from_any_cut(seed):
    rng = random.Random(seed)
    program = draw_program(seed)
    items = end_channels(draw_bids(rng, 25), channels=CHANNELS)
    cuts = {channel.name: rng.randint(0, 15) for channel in CHANNELS}
    assert_goes_on(program, CHANNELS, *split(items, cuts))


def test_a_timer_that_was_set_before_the_cut_comes_after_it():
    items = [Event(Reading(1, 1, 5), "a", 0), Event(Reading(20, 1, 1), "a", 1)]
    whole = assert_goes_on(alarms, [Channel("a")], items[:1], items[1:])
    assert [output.event.time for output in whole.outputs] == [6, 9, 12]


def test_a_timer_that_has_come_does_not_come_again():
    items = [Event(Reading(1, 1, 5), "a", 0), Heartbeat(6, "a", 1), Heartbeat(30, "a", 2)]
    for cut in range(4):
        assert_goes_on(alarms, [Channel("a")], items[:cut], items[cut:])


def test_a_state_that_goes_on_naming_a_time_is_woken_for_it_once():
    stubborn = Program(
        on(Reading, update=lambda meter, e: Meter(20, meter.total + 1)),
        on(Silence, due=lambda meter: meter.last, output=lambda meter, e: meter.total),
        depends(Reading, Reading, same="meter"),
        state=MapOf(WrittenShape(Meter()), by="meter"),
    )
    items = [Event(Reading(1, 1, 5), "a", 0), Heartbeat(25, "a", 1), Heartbeat(30, "a", 2)]
    for cut in range(4):
        whole = assert_goes_on(stubborn, [Channel("a")], items[:cut], items[cut:])
    assert whole.values == [1]


class Tick(NamedTuple):
    time: int


class Poke(NamedTuple):
    time: int
    due: int


def test_a_time_that_a_state_names_from_the_start_is_no_timer_until_it_names_another():
    program = Program(
        on(Poke, update=lambda due, e: e.due),
        on(Tick, due=lambda due: due, output=lambda due, e: e.time),
        depends(Poke, Poke),
        init=10,
    )
    pokes = [Event(Poke(1, 10), "a", 0), Event(Poke(2, 12), "a", 1), Event(Poke(30, 0), "a", 2)]
    assert_goes_on(program, [Channel("a")], pokes[:1], [])
    assert_goes_on(program, [Channel("a")], pokes[:1], [Heartbeat(20, "a", 1)])
    assert_goes_on(program, [Channel("a")], pokes[:1], pokes[1:])
    assert_goes_on(program, [Channel("a")], pokes[:2], pokes[2:])


def test_lanes_are_kept_as_they_are():
    items = [Event(Reading(n, 1, n), "a", n) for n in range(9)]
    items.append(Event(Month(9), "a", 9))
    for cut in range(len(items)):
        assert_goes_on(floats, [Channel("a")], items[:cut], items[cut:])


def test_what_leaves_have_folded_is_joined_before_the_run_goes_on():
    items = [Event(Reading(n, 1, n), "a", n) for n in range(4)]
    whole = run(deferring, items, [Channel("a")])
    parts = [run(deferring, items[:3], [Channel("a")]), deferring.init]
    delta = parts[1]
    for event in items[:2]:
        delta = deferring.initial.step_delta(delta, event)[0]
    apart = Snapshot(
        deferring.init, {"state": delta._replace(limit=0)}, parts[0].snapshot().pending,
        parts[0].standings, parts[0].ledger,
    )  # fmt: skip
    assert run(deferring, items[3:], [Channel("a")], start=apart).state == whole.state


def test_what_was_shed_stays_in_the_books():
    answer = run(levels, [], start=Snapshot(levels.init, ledger=Ledger(3, 1, shed=2)))
    assert answer.ledger == Ledger(3, 1, shed=2)


def test_a_channel_that_comes_later_starts_where_the_others_have_come():
    first = run(levels, [Event(Reading(5, 1, 1), "a", 0), Heartbeat(9, "a", 1)], [Channel("a")])
    items = [Event(Reading(9, 1, 1), "b", 0), Event(Reading(12, 1, 1), "b", 1)]
    answer = run(levels, items, [Channel("a"), Channel("b")], start=first.snapshot())
    assert [(late.event.time, late.distance) for late in answer.late] == [(9, 0)]
    assert answer.watermarks == {"a": 9, "b": 11}
    assert answer.ledger == Ledger(3, 1, 1, 0, 0, 1)


def test_a_channel_that_nobody_speaks_of_any_more_still_holds_the_others_back():
    first = run(levels, [Event(Reading(5, 1, 1), "a", 0)], [Channel("a"), Channel("b")])
    answer = run(levels, [Event(Reading(8, 1, 1), "a", 1)], [Channel("a")], start=first.snapshot())
    assert answer.watermarks == {"a": 7, "b": NEVER}
    assert len(answer.pending) == 2


def test_before_anything_came_there_is_nothing_to_be_late_for():
    start = run(levels, []).snapshot()
    assert start == Snapshot(levels.init)
    answer = run(levels, [Event(Reading(5, 1, 1), "a", 0)], start=start)
    assert answer.late == []


def test_a_channel_goes_on_with_numbers(message):
    first = run(levels, [Event(Reading(5, 1, 1), "a", 4)], [Channel("a")])
    with pytest.raises(InputError) as error:
        run(levels, [Event(Reading(9, 1, 1), "a")], [Channel("a")], start=first.snapshot())
    message("resuming_without_a_number", str(error.value))


def test_what_was_read_before_is_rejected_by_its_number():
    first = run(levels, [Event(Reading(5, 1, 1), "a", 4)], [Channel("a")])
    again = [Event(Reading(9, 1, 1), "a", seq) for seq in (3, 4, 5)]
    answer = run(levels, again, [Channel("a")], start=first.snapshot())
    reasons = [
        f"sequence {seq} of channel 'a' is not larger than the last: it came before, or too late"
        for seq in (3, 4)
    ]
    assert [entry.reason for entry in answer.rejected] == reasons
    assert answer.standings["a"].last == 5
    assert answer.ledger == Ledger(4, 1, 0, 2, 0, 1)


def test_a_heartbeat_with_an_old_number_is_a_promise_for_what_follows():
    first = run(levels, [Event(Reading(5, 1, 1), "a", 4)], [Channel("a")])
    answer = run(levels, [Heartbeat(9, "a", 3)], [Channel("a")], start=first.snapshot())
    assert answer.standings == {"a": Standing(9, 5, 4)}


def test_a_heartbeat_may_share_the_last_number():
    first = run(levels, [Event(Reading(5, 1, 1), "a", 4)], [Channel("a")])
    answer = run(levels, [Heartbeat(9, "a", 4)], [Channel("a")], start=first.snapshot())
    assert answer.standings == {"a": Standing(9, 5, 4)}
    assert answer.ledger == Ledger(1, 1)


def test_a_count_goes_on_where_it_stood():
    program = Program(
        on(Reading, update=lambda n, e: n + 1, output=lambda n, e: n),
        depends(Reading, Reading, same="meter"),
        state=MapOf(Count(), by="meter"),
    )
    items = end_channels([Event(Reading(n, n % 2, 1), "a", n) for n in range(6)])
    begun = run(program, items[:3])
    assert run(program, items[3:], start=begun.snapshot()).values == [1, 1, 2, 2]
