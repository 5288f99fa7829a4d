"""Panes of windows as programs: what the recorded clock brings about, and the laws they keep."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.eventtime.windows.panes import ACCUMULATIONS, OUTPUT_TIMES
from anabranch.query import Missed, Result, aggregate
from anabranch.reference.sequential import run
from anabranch.windows import (
    AfterAll,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    CountSliding,
    CountTumbling,
    Custom,
    Global,
    Repeatedly,
    Sessions,
    Sliding,
    Tumbling,
    Windowing,
)
from tests.eventtime.windows.recorded_log import Clock, Elements, End, Watermark, replay
from tests.eventtime.windows.test_trigger_machine import ENDING, LASTING
from tests.query.bids import FOLDS, Bid, bring, logs, read_names, split_by_bidder, total_up

SPANS = st.sampled_from(
    [
        Tumbling(10),
        Tumbling(7, offset=3),
        Sliding(10, every=5),
        Sliding(10, every=4, offset=1),
        Custom(lambda time, bid: [(time - 2, time + 3 + bid.price % 2)]),
    ]
)
AT_REST = st.sampled_from([Global(), CountTumbling(3), CountSliding(4, every=2)])
MERGING = st.sampled_from(
    [Sessions(4), Sessions(10), Custom(lambda t, bid: [(t, t + 2 + bid.price % 5)], merging=True)]
)
# The clock rings for nothing where a count has to agree.
CLOCKED = st.sampled_from(
    [
        Repeatedly(AfterAll(AfterProcessingTime(2), AfterCount(3))),
        AfterWatermark(early=AfterProcessingTime(3), late=AfterProcessingTime(2)),
        AfterWatermark(early=AfterAll(AfterProcessingTime(2), AfterCount(2)), late=AfterCount(2)),
    ]
)
LATENESS = st.sampled_from([0, 0, 3, 20])
DELAYS = st.sampled_from([0, 1, 5, 12])


@st.composite
def windowings(draw, windows=SPANS | AT_REST | MERGING, triggers=LASTING, **fixed):
    """Return windowings of all kinds; those that may lose report it."""
    window = draw(windows)
    options = {
        "allowed_lateness": 0 if window.counted else draw(LATENESS),
        "accumulation": draw(st.sampled_from(ACCUMULATIONS)),
        "output_time": draw(st.sampled_from(OUTPUT_TIMES)),
        "closing": draw(st.sampled_from(["if_new", "if_new", "always", "never"])),
        "may_lose": True,
    }
    return Windowing(window, draw(triggers), **options | fixed)


def say(windowing, bids, **options):
    """Return what windows say of bids that came by the clock, folds as dicts."""
    answer = run(aggregate(Bid, windowing, at="when", **options), bring(bids))
    assert answer.ledger.processed == len(bids)
    return answer.values


def net(results):
    """Return what stands when every pane that is taken back has cancelled one that was said."""
    standing = []
    for result in results:
        if result.op == 1:
            standing.append(result)
        else:
            standing.remove(result._replace(op=1))
    return standing


def apart(values):
    return (
        [value for value in values if isinstance(value, Result)],
        [value for value in values if isinstance(value, Missed)],
    )


# --- the clock ------------------------------------------------------------------------------------


def write_log(bids, delay):
    """Write out the log that bids stand for: every tick of the clock, and what it promises.

    A time is over when all of its bids have come; then none will come that is `delay` behind.
    """
    if bids:
        for now in range(bids[0].time - 1, bids[-1].time + 130):
            yield Clock(now)
            yield from (Elements(((bid.when, bid),)) for bid in bids if bid.time == now)
            yield Watermark(now - delay)
    yield End()


def expect(windowing, key, bids, delay):
    """Return what the machine says of the written log, as results."""
    for emitted in replay(windowing, write_log(bids, delay)):
        for pane in emitted.panes:
            start, end = pane.window
            yield Result(key, start, end, *pane[1:])
        for lost in emitted.dropped:
            start, end = lost.window or (None, None)
            yield Missed(key, lost.time, lost.value, start, end, lost.reason, lost.events)


@given(windowings(triggers=CLOCKED | LASTING | ENDING), logs(), DELAYS)
def test_oracle_a_program_says_what_the_machine_says_of_every_tick_of_the_clock(
    windowing, bids, delay
):
    assert say(windowing, bids, delay=delay) == list(expect(windowing, None, bids, delay))


@given(windowings(triggers=CLOCKED | LASTING | ENDING), logs(), DELAYS)
def test_oracle_each_key_has_windows_and_a_clock_of_its_own(windowing, bids, delay):
    found = say(windowing, bids, delay=delay, per="bidder")
    for bidder, mine in split_by_bidder(bids):
        emitted = [value for value in found if value.key == bidder]
        assert emitted == list(expect(windowing, bidder, mine, delay))
    assert {value.key for value in found} <= {bid.bidder for bid in bids}


@given(windowings(triggers=LASTING | ENDING), logs())
def test_windows_by_the_clock_are_windows_with_no_delay(windowing, bids):
    prompt = [bid._replace(when=bid.time) for bid in bids]
    by_clock = run(aggregate(Bid, windowing, per="bidder"), bring(prompt)).values
    assert by_clock == say(windowing, prompt, delay=0, per="bidder")
    assert all(value.reason != "expired" for value in by_clock if isinstance(value, Missed))


@pytest.mark.parametrize(("lag", "timings"), [(5, ["on_time"]), (6, ["on_time", "late"])])
def test_a_bid_exactly_the_delay_behind_is_on_time_and_one_more_is_late(lag, timings):
    windowing = Windowing(Tumbling(10), allowed_lateness=50)
    bids = [Bid(9 + lag - 3, "x", 1, 9 + lag - 3 - 5), Bid(9 + lag, "x", 1, 9)]
    emitted = [result for result in say(windowing, bids, delay=5) if result.start == 0]
    assert [result.timing for result in emitted] == timings


def test_a_window_speaks_when_the_clock_has_passed_it_by_the_delay():
    windowing = Windowing(Tumbling(10), AfterWatermark(early=AfterProcessingTime(4)))
    program = aggregate(Bid, windowing, at="when", delay=5, **FOLDS)
    outputs = run(program, bring([Bid(2, "x", 3, 1), Bid(7, "x", 4, 6)])).outputs
    assert [(o.event.time, o.value.timing, read_names(o.value.value)["n"]) for o in outputs] == [
        (6, "early", 1),
        (11, "early", 2),
        (14, "on_time", 2),
    ]


def test_a_late_pane_may_wait_for_the_clock():
    windowing = Windowing(
        Tumbling(10), AfterWatermark(late=AfterProcessingTime(3)), allowed_lateness=20
    )
    bids = [Bid(5, "x", 1, 5), Bid(12, "x", 1, 3), Bid(13, "x", 1, 4)]
    outputs = run(aggregate(Bid, windowing, at="when", delay=0), bring(bids)).outputs
    assert [(o.event.time, o.value.timing, len(o.value.value)) for o in outputs] == [
        (9, "on_time", 1),
        (15, "late", 3),
    ]


def test_an_alarm_that_was_of_no_use_does_not_hide_the_end_of_a_window():
    trigger = Repeatedly(AfterAll(AfterProcessingTime(2), AfterCount(5)))
    program = aggregate(Bid, Windowing(Tumbling(10), trigger), per="bidder")
    answer = run(program, bring([Bid(1, "x", 7)]))
    assert [(o.event.time, o.value.timing) for o in answer.outputs] == [(9, "on_time")]
    assert answer.state == {}


# --- laws -----------------------------------------------------------------------------------------


@given(windowings(windows=SPANS | AT_REST, accumulation="discarding", closing="if_new"), logs())
def test_discarding_panes_add_up_to_the_accumulating_pane(windowing, bids):
    some, lost = apart(say(windowing, bids, delay=3))
    options = {"accumulation": "accumulating", "allowed_lateness": windowing.allowed_lateness}
    whole, lost_too = apart(
        say(Windowing(windowing.window, windowing.trigger, may_lose=True, **options,
                      output_time=windowing.output_time), bids, delay=3)
    )  # fmt: skip
    assert lost == lost_too
    before = defaultdict(tuple)
    for part, pane in zip(some, whole, strict=True):
        before[(part.start, part.end)] += part.value
        assert pane == part._replace(value=before[(part.start, part.end)])


@given(windowings(accumulation="retracting", closing="if_new"), logs(), DELAYS)
def test_retractions_leave_the_last_pane_of_each_window(windowing, bids, delay):
    emitted, _ = apart(say(windowing, bids, delay=delay, per="bidder"))
    left = net(emitted)
    spans = [(result.key, result.start, result.end) for result in left]
    assert len(set(spans)) == len(spans)
    last = {(r.key, r.start, r.end): r for r in emitted if r.op == 1}
    assert all(last[span] == result for span, result in zip(spans, left, strict=True))
    assert windowing.window.merging or len(left) == len(last)


@given(windowings(accumulation="retracting", closing="if_new"), logs(), DELAYS)
def test_what_stands_in_the_end_holds_every_bid_that_was_not_missed(windowing, bids, delay):
    """Brute force: the windows of a bid, less those that it came too late for."""
    emitted, missed = apart(say(windowing, bids, delay=delay))
    if windowing.window.merging or windowing.window.counted:
        found = sorted(bid for result in net(emitted) for bid in result.value)
        if not windowing.window.counted:
            assert sorted([*found, *(one.value for one in missed)]) == sorted(bids)
        return
    too_late = {(one.value, one.start) for one in missed}
    wanted = defaultdict(list)
    for bid in bids:
        for start, end in windowing.window.assign(bid.when, bid, 0):
            if (bid, start) not in too_late:
                wanted[(start, end)].append(bid)
    held = {(r.start, r.end): sorted(r.value) for r in net(emitted)}
    assert held == {span: sorted(mine) for span, mine in wanted.items()}


@given(windowings(SPANS | MERGING, LASTING | ENDING), logs(), DELAYS, st.integers(-5, 5))
def test_shifting_all_times_by_whole_windows_shifts_what_is_said(windowing, bids, delay, by):
    shift = by * 140  # A multiple of every size and distance above.
    moved = [bid._replace(time=bid.time + shift, when=bid.when + shift) for bid in bids]

    def shift_back(value):
        held = value.value
        bids_of = held if isinstance(held, tuple) and not isinstance(held, Bid) else (held,)
        back = tuple(b._replace(time=b.time - shift, when=b.when - shift) for b in bids_of)
        return value._replace(
            value=back[0] if isinstance(held, Bid) else back,
            start=value.start - shift, end=value.end - shift, time=value.time - shift,
        )  # fmt: skip

    found = [shift_back(value) for value in say(windowing, moved, delay=delay)]
    assert found == say(windowing, bids, delay=delay)


@given(windowings(triggers=LASTING | ENDING), logs(), DELAYS)
def test_what_one_key_says_does_not_depend_on_the_others(windowing, bids, delay):
    together = say(windowing, bids, delay=delay, per="bidder")
    alone = [
        value
        for _, mine in split_by_bidder(bids)
        for value in say(windowing, mine, delay=delay, per="bidder")
    ]
    assert sorted(map(repr, together)) == sorted(map(repr, alone))


@given(windowings(triggers=LASTING | ENDING), logs(), DELAYS)
def test_windows_over_all_are_windows_per_the_same_key(windowing, bids, delay):
    one = [bid._replace(bidder="x") for bid in bids]
    keyed = say(windowing, one, delay=delay, per="bidder")
    assert [v._replace(key=None) for v in keyed] == say(windowing, one, delay=delay)


@given(windowings(windows=SPANS, closing="if_new"), logs(), DELAYS)
def test_ready_made_states_hold_what_the_bids_themselves_come_to(windowing, bids, delay):
    """The same panes, with events or folded: also where slices are shared, and taken back."""
    held, missed = apart(say(windowing, bids, delay=delay))
    folded, missed_too = apart(say(windowing, bids, delay=delay, **FOLDS))
    assert missed == missed_too
    assert [r._replace(value=read_names(r.value)) for r in folded] == [
        r._replace(value=total_up(r.value)) for r in held
    ]


@given(logs(), DELAYS, LATENESS)
def test_a_bid_is_missed_only_when_the_clock_has_left_its_window(bids, delay, lateness):
    windowing = Windowing(
        Tumbling(10), AfterWatermark(AfterCount(2), Always()), allowed_lateness=lateness
    )
    emitted, missed = apart(say(windowing, bids, delay=delay))
    too_late = [bid for bid in bids if bid.time - delay > bid.when // 10 * 10 + 9 + lateness]
    assert [one.value for one in missed] == too_late
    assert {one.reason for one in missed} <= {"expired"}
    # On time: made in a window that the clock, less the delay, has not passed when the bid comes.
    prompt = [bid for bid in bids if bid.time - delay <= bid.when // 10 * 10 + 9]
    on_time = {r.start: sorted(r.value) for r in emitted if r.timing == "on_time"}
    starts = {bid.when // 10 * 10 for bid in prompt}
    assert on_time == {
        start: sorted(bid for bid in prompt if bid.when // 10 * 10 == start) for start in starts
    }
