"""Windows as programs: against brute force over all events, and what is refused."""

import random
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from anabranch import Event, Heartbeat
from anabranch.errors import ProgramError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.microbatch.job.fingerprint import fingerprint
from anabranch.model.shapes import MISSING
from anabranch.plan.layouts import choose_layout
from anabranch.query import Missed, Result, aggregate
from anabranch.reference.sequential import run
from anabranch.state import Count, Max, Sum
from anabranch.windows import (
    AfterCount,
    AfterWatermark,
    Custom,
    Fold,
    Global,
    Repeatedly,
    Sessions,
    Sliding,
    Tumbling,
    Windowing,
)
from tests.query.bids import (
    CALENDARS,
    CHANNELS,
    CUTS,
    FOLDS,
    HOUR,
    SPRING,
    Bid,
    bring,
    draw_bids,
    find_late,
    read_names,
    sort_bids,
    split_by_bidder,
    total_up,
)

every_cut = pytest.mark.parametrize("name", CUTS)


def describe(answer):
    """Return what windows said, with folds as a dict."""
    return [result._replace(value=read_names(result.value)) for result in answer.values]


def expect(cut, key, bids):
    """Return what brute force says each window says: once, on time, when it is complete."""
    for (start, end), held in cut.group(bids).items():
        time = max(bid.time for bid in held) if cut.window.counted else end - 1
        yield Result(key, start, end, total_up(held), time, "on_time", 0, 0, True, True)


def by_place(results):
    return sorted(results, key=lambda r: (str(r.key), r.start, r.end))


@every_cut
@pytest.mark.parametrize("per", [None, "bidder"], ids=["over all", "per bidder"])
def test_oracle_windows_hold_what_brute_force_finds(name, per):
    cut = CUTS[name]
    program = aggregate(Bid, cut.window, per=per, **FOLDS)
    late_events = 0
    for seed in range(12):
        items = draw_bids(random.Random(seed), 25)
        late = find_late(items)
        late_events += len(late)
        answer = run(program, end_channels(items, channels=CHANNELS), CHANNELS)
        bids = sort_bids(items, late)
        streams = [(None, bids)] if per is None else split_by_bidder(bids)
        wanted = [result for key, mine in streams for result in expect(cut, key, mine)]
        assert by_place(describe(answer)) == by_place(wanted), f"seed {seed}"
        assert {(lost.event.channel, lost.event.seq) for lost in answer.late} == late
        assert tuple(answer.ledger) == (75, 75 - len(late), len(late), 0, 0, 0)
    assert late_events > 50


@pytest.mark.parametrize("name", CALENDARS)
def test_oracle_calendar_windows_are_those_of_local_clocks(name):
    cut = CALENDARS[name]
    channels = tuple(Channel(s.name, lateness=s.lateness * HOUR) for s in CHANNELS)
    program = aggregate(Bid, cut.window, per="bidder", **FOLDS)
    lengths = set()
    for seed in range(12):
        items = draw_bids(random.Random(seed), 60, unit=HOUR, start=SPRING - 20 * HOUR)
        late = find_late(items, unit=HOUR)
        answer = run(program, end_channels(items, channels=channels), channels)
        wanted = [
            result
            for key, mine in split_by_bidder(sort_bids(items, late))
            for result in expect(cut, key, mine)
        ]
        assert by_place(describe(answer)) == by_place(wanted), f"seed {seed}"
        lengths |= {(r.end - r.start) // HOUR for r in answer.values}
    # The day, or the month, on which clocks go forward is an hour short.
    assert lengths & {23, 31 * 24 - 1}


@every_cut
def test_oracle_windows_hold_the_events_themselves_in_order(name):
    cut = CUTS[name]
    items = draw_bids(random.Random(name), 30)
    answer = run(aggregate(Bid, cut.window), end_channels(items, channels=CHANNELS), CHANNELS)
    found = cut.group(sort_bids(items, find_late(items)))
    assert {(r.start, r.end): r.value for r in answer.values} == {
        span: tuple(bids) for span, bids in found.items()
    }


@every_cut
def test_windows_that_are_not_complete_wait_and_nothing_is_said_twice(name):
    """Stop at every promise of a channel that is in order: what was said so far is a beginning."""
    items = [item for item in draw_bids(random.Random(name), 40) if item.channel == "a"]
    items = [item for item in items if ("a", item.seq) not in find_late(items)]
    program = aggregate(Bid, CUTS[name].window, per="bidder", **FOLDS)
    whole = run(program, end_channels(items)).values
    lengths = []
    for count in range(0, len(items), 5):
        emitted = run(program, items[:count]).values
        assert emitted == whole[: len(emitted)]
        lengths.append(len(emitted))
    assert lengths == sorted(lengths)
    assert name == "global" or lengths[-1] > 0


def test_windows_are_said_in_the_order_in_which_they_end():
    items = draw_bids(random.Random(1), 60)
    program = aggregate(Bid, Sliding(10, every=3), per="bidder", **FOLDS)
    ends = [
        result.end
        for result in run(program, end_channels(items, channels=CHANNELS), CHANNELS).values
    ]
    assert ends == sorted(ends)
    assert len(ends) > 40


# --- what is kept -----------------------------------------------------------------------------


@every_cut
def test_a_key_whose_windows_are_closed_is_forgotten(name):
    window = CUTS[name].window
    program = aggregate(Bid, window, per="bidder", **FOLDS)
    items = draw_bids(random.Random(name), 20)
    ended = run(program, end_channels(items, channels=CHANNELS), CHANNELS)
    later = [Heartbeat(10**6, channel.name, 20) for channel in CHANNELS]
    passed = run(program, [*items, *later], CHANNELS)
    if window.counted:
        # Positions count on for as long as the input does.
        assert {state.seen for state in passed.state.values()} == {
            sum(bid.bidder == bidder for bid in sort_bids(items, find_late(items)))
            for bidder in "xyz"
        }
    else:
        assert ended.state == {}
        assert passed.state == {} or isinstance(window, Global)


def test_an_event_that_no_window_takes_leaves_nothing():
    program = aggregate(Bid, Custom(lambda time, bid: []), per="bidder")
    answer = run(program, bring([Bid(3, "x", 1)]))
    assert answer.values == [Missed("x", 3, Bid(3, "x", 1), None, None, "no window")]
    assert answer.state == {}
    assert answer.ledger.processed == 1


def test_what_a_window_never_said_is_reported_as_it_would_have_been_said():
    windowing = Windowing(
        Tumbling(10), Repeatedly(AfterCount(2)), closing="never", may_lose=True,
        accumulation="discarding",
    )  # fmt: skip
    program = aggregate(Bid, windowing, n=Count(), total=(Sum(), "price"))
    answer = run(program, bring([Bid(1, "x", 5), Bid(2, "x", 6), Bid(3, "x", 7)]))
    emitted, lost = answer.values
    assert read_names(emitted.value) == {"n": 2, "total": 11}
    assert read_names(lost.value) == {"n": 1, "total": 7}
    assert lost[3:] == (0, 10, "not emitted", 1)


def test_windows_may_fold_by_the_users_own_functions():
    fold = Fold("", lambda names, bid: names + bid.bidder, lambda a, b: a + b)
    program = aggregate(Bid, Windowing(Sessions(5), fold=fold))
    bids = [Bid(1, "x", 0), Bid(4, "y", 0), Bid(20, "z", 0)]
    assert [result.value for result in run(program, bring(bids)).values] == ["xy", "z"]


def test_an_input_may_end_with_many_windows_open():
    answer = run(aggregate(Bid, Sliding(11_000, every=1)), bring([Bid(5, "x", 1)]))
    assert [result.start for result in answer.values] == list(range(-10_994, 6))


def test_bids_may_be_dataclasses():
    @dataclass(frozen=True)
    class Offer:
        time: int
        bidder: str
        price: int

    program = aggregate(Offer, Tumbling(10), per="bidder", top=(Max(), "price"))
    items = [Event(Offer(time, "x", time * 3), "a", time) for time in (1, 5, 12)]
    found = [(r.start, read_names(r.value)) for r in run(program, end_channels(items)).values]
    assert found == [(0, {"top": 15}), (10, {"top": 36})]


# --- what a stored state depends on ---------------------------------------------------------------


def print_of(window, **options):
    program = aggregate(Bid, window, **options)
    return fingerprint(program, choose_layout(program, 2), {})


def test_a_stored_state_knows_the_windows_it_was_made_by():
    made = print_of(Tumbling(10), n=Count())
    assert made == print_of(Tumbling(10), n=Count())
    others = [
        print_of(Tumbling(11), n=Count()),
        print_of(Windowing(Tumbling(10), allowed_lateness=1), n=Count()),
        print_of(Windowing(Tumbling(10), AfterWatermark()), n=Count()),
        print_of(Windowing(Tumbling(10), closing="always"), n=Count()),
        print_of(Tumbling(10), n=Count(), at="when", delay=0),
        print_of(Tumbling(10), n=Count(), at="when", delay=1),
    ]
    assert all(other["windows"] != made["windows"] for other in others)
    assert len({other["windows"] for other in others}) == len(others)


def test_a_function_is_known_by_what_it_does_and_not_by_where_it_lies():
    def spans(time, bid):
        return [(time, time + 1)]

    same, again = (print_of(Custom(f)) for f in (spans, spans))
    copied = print_of(Custom(lambda time, bid: [(time, time + 1)]))
    other = print_of(Custom(lambda time, bid: [(time, time + 2)]))
    assert same == again
    assert "0x" not in same["windows"]
    assert copied["code"] == same["code"]
    assert other["code"] != same["code"]
    assert other["windows"] == copied["windows"]


def test_a_fold_by_the_users_functions_is_known_by_what_they_do():
    def print_fold(add):
        return print_of(Windowing(Tumbling(10), fold=Fold(0, add, lambda a, b: a + b)))

    one, same, other = (
        print_fold(add)
        for add in (lambda n, bid: n + 1, lambda n, bid: n + 1, lambda n, bid: n + bid.price)
    )
    assert one["code"] == same["code"] != other["code"]


# --- refusals -------------------------------------------------------------------------------------


class Named(NamedTuple):
    time: int
    name: str
    at: str


@dataclass(frozen=True)
class Hidden:
    time: int
    _key: str


class NoZero:
    """A fold that can't start from nothing."""

    zero = MISSING
    join = None

    def add(self, state, value):
        return value

    def __repr__(self):
        return "NoZero()"


REFUSALS = {
    "windows_of_no_event_type": lambda: aggregate("Bid", Tumbling(10)),
    "windows_of_a_number": lambda: aggregate(Bid, 10),
    "windows_per_absent_field": lambda: aggregate(Bid, Tumbling(10), per="buyer"),
    "windows_fed_with_an_absent_field": lambda: aggregate(
        Bid, Tumbling(10), n=Count(), top=(Max(), "prize")
    ),
    "windows_per_time": lambda: aggregate(Bid, Tumbling(10), per="time"),
    "windows_per_hidden_field": lambda: aggregate(Hidden, Tumbling(10), per="_key"),
    "windows_at_absent_field": lambda: aggregate(Bid, Tumbling(10), at="made", delay=0),
    "windows_at_a_text": lambda: aggregate(Named, Tumbling(10), at="at", delay=0),
    "windows_without_a_delay": lambda: aggregate(Bid, Tumbling(10), at="when"),
    "windows_with_a_delay_of_the_clock": lambda: aggregate(Bid, Tumbling(10), delay=5),
    "windows_with_a_delay_below_zero": lambda: aggregate(Bid, Tumbling(10), at="when", delay=-1),
    "windows_with_two_folds": lambda: aggregate(
        Bid, Windowing(Tumbling(10), fold=Sum()), n=Count()
    ),
    "windows_of_a_fold_without_a_zero": lambda: aggregate(
        Bid, Windowing(Tumbling(10), fold=NoZero())
    ),
    "windows_that_merge_without_a_join": lambda: aggregate(
        Bid, Windowing(Sessions(10), fold=Fold(0, max))
    ),
    "windows_that_may_lose": lambda: aggregate(Bid, Windowing(Tumbling(10), AfterCount(3))),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_what_is_wrong_and_what_to_do(name, message):
    with pytest.raises(ProgramError) as refusal:
        REFUSALS[name]()
    message(name, str(refusal.value))
