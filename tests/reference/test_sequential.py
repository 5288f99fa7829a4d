"""The sequential fold: what a program means, and that arrival does not show in it."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import FOREVER, Event, Heartbeat, Malformed, Program, depends, on
from anabranch.eventtime.channels import Channel, Late, Rejected, end_channels
from anabranch.reference.sequential import fold, run, sort_events
from anabranch.state import MapOf, Sum


class Value(NamedTuple):
    time: int
    value: int


class Barrier(NamedTuple):
    time: int


class Amount(NamedTuple):
    time: int
    account: int
    amount: float


class Close(NamedTuple):
    time: int
    account: int


class Stranger(NamedTuple):
    time: int


# It remembers everything in order, so no change of order can hide.
diary = Program(
    on(Value, update=lambda seen, value: (*seen, value.value)),
    on(Barrier, output=lambda seen, barrier: seen, update=lambda seen, barrier: (*seen, "|")),
    depends(Barrier, Value, Barrier),
    depends(Value, Value),
    init=(),
    rank=(Barrier, Value),
    name="diary",
)

division = Program(
    on(Value, update=lambda total, value: total + 12 // value.value),
    on(Barrier, output=lambda total, barrier: total),
    depends(Barrier, Value, Barrier),
    state=Sum(),
    name="division",
)


def in_lanes(lanes):
    return Program(
        on(Amount, update=lambda total, amount: total + amount.amount),
        on(Close, output=lambda total, close: total, update=lambda total, close: 0.0),
        depends(Close, Amount, Close, same="account"),
        state=MapOf(Sum(0.0), by="account"),
        lanes=lanes,
    )


times = st.integers(0, 12)
data = st.builds(Value, times, st.integers(0, 3)) | st.builds(Barrier, times)
junk = st.builds(Stranger, times) | st.builds(
    Value, st.sampled_from(["x", None, 2**80]), st.just(1)
)
channel_names = st.sampled_from(["a", "b", "c"])
channels = st.tuples(
    st.builds(Channel, st.just("a"), lateness=st.none() | st.integers(0, 4)),
    st.builds(
        Channel, st.just("b"), lateness=st.integers(0, 4), max_ahead=st.none() | st.integers(1, 5)
    ),
    st.just(Channel("c", unique_times=True)),
)


@st.composite
def inputs(draw):
    """Draw an input of three numbered channels: events, heartbeats, and what can't be used."""
    items = []
    for name in "abc":
        for seq in range(draw(st.integers(0, 8))):
            kind = draw(st.integers(0, 9))
            if kind == 0:
                items.append(Malformed("?", "unreadable", name, seq))
            elif kind <= 2:
                items.append(Heartbeat(draw(times), name, seq))
            else:
                items.append(Event(draw(junk if kind == 3 else data), name, seq))
    return items


@given(inputs(), channels, st.randoms())
def test_arrival_does_not_show_in_anything(items, declared, rng):
    shuffled = list(items)
    rng.shuffle(shuffled)
    assert run(diary, shuffled, declared) == run(diary, items, declared)


@given(inputs(), channels)
def test_every_event_is_counted_in_one_place(items, declared):
    answer = run(diary, items, declared)
    assert answer.ledger.input == sum(not isinstance(item, Heartbeat) for item in items)
    assert answer.ledger.balanced
    assert len(answer.late) == answer.ledger.late
    assert len(answer.rejected) == answer.ledger.rejected
    assert len(answer.pending) == answer.ledger.pending


@given(inputs(), channels)
def test_what_is_settled_stays_settled_when_more_comes(items, declared):
    # Whatever a prefix of each channel says, the whole input says too, and then more.
    early = [item for item in items if item.seq < 4]
    before, after = run(diary, early, declared), run(diary, items, declared)
    assert after.outputs[: len(before.outputs)] == before.outputs
    assert after.state[: len(before.state)] == before.state
    assert after.ledger.late >= before.ledger.late


@given(inputs(), channels)
def test_an_ended_input_leaves_nothing_pending(items, declared):
    answer = run(diary, end_channels(items, channels=declared), declared)
    assert answer.pending == []
    assert answer.watermark == FOREVER


@given(inputs(), channels)
def test_nothing_pending_is_at_or_before_the_watermark(items, declared):
    answer = run(diary, items, declared)
    assert all(event.time > answer.watermark for event in answer.pending)
    assert all(output.event.time <= answer.watermark for output in answer.outputs)


@given(st.lists(data, max_size=10), st.randoms())
def test_content_breaks_ties_where_there_is_no_sequence(fields, rng):
    patient = [Channel("a", lateness=100)]
    items = [Event(each, "a") for each in fields]
    shuffled = rng.sample(items, len(items))
    answer = run(diary, end_channels(shuffled, channels=patient), patient)
    assert answer.outputs == run(diary, end_channels(items, channels=patient), patient).outputs


def test_events_of_equal_content_still_have_keys_of_their_own():
    twins = [Event(Value(1, 7), "a")] * 3
    keys = [key for key, _ in sort_events(diary.ranks, twins)]
    assert len(set(keys)) == 3
    assert keys == sorted(keys)


def test_each_output_has_an_id_of_its_own():
    twice = Program(on(Barrier, output=lambda state, barrier: ["x", "x"]), init=0)
    items = end_channels([Event(Barrier(1), "a"), Event(Barrier(1), "a")])
    answer = run(twice, items)
    assert answer.values == ["x"] * 4
    assert len({output.id for output in answer.outputs}) == 4
    assert [output.index for output in answer.outputs] == [0, 1, 0, 1]


def test_marker_comes_first_at_equal_time():
    items = [Event(Value(5, 1), "a", 0), Event(Barrier(5), "b", 0), Event(Value(4, 9), "c", 0)]
    answer = run(diary, end_channels(items))
    assert answer.values == [(9,)]
    assert answer.state == (9, "|", 1)


def test_channel_and_then_sequence_break_ties():
    items = [Event(Value(5, 3), "b", 0), Event(Value(5, 2), "a", 9), Event(Value(5, 1), "a", 8)]
    assert run(diary, end_channels(items)).state == (1, 2, 3)


def test_an_update_that_raises_rejects_its_event_and_keeps_the_state():
    items = [
        Event(Value(1, 3), "a", 0),
        Event(Value(2, 0), "a", 1),
        Event(Value(3, 4), "a", 2),
        Event(Barrier(4), "b", 0),
    ]
    answer = run(division, end_channels(items))
    assert answer.values == [7]
    assert answer.rejected == [Rejected(items[1], answer.rejected[0].reason)]
    words = "on Value: ZeroDivisionError: integer division or modulo by zero (test_sequential.py:"
    assert answer.rejected[0].reason.startswith(words)
    assert str(answer.ledger) == "4 input, 3 processed, 1 rejected"


def test_an_output_that_raises_halfway_says_nothing():
    def stutter(state, barrier):
        yield "one"
        raise RuntimeError("stuck")

    stuttering = Program(on(Barrier, output=stutter, update=lambda state, b: state + 1), init=0)
    answer = run(stuttering, end_channels([Event(Barrier(1))]))
    assert (answer.values, answer.state) == ([], 0)
    line = stutter.__code__.co_firstlineno + 2
    reason = f"on Barrier: RuntimeError: stuck (test_sequential.py:{line})"
    assert answer.rejected[0].reason == reason


def test_an_unknown_event_type_is_rejected():
    answer = run(diary, end_channels([Event(Stranger(1))]))
    assert answer.rejected == [
        Rejected(
            Event(Stranger(1)), "unknown event type Stranger; the program knows Value, Barrier"
        )
    ]


@pytest.mark.parametrize("time", ["1", 1.0, None, True])
def test_a_time_that_is_no_integer_is_rejected(time):
    answer = run(diary, end_channels([Event(Value(time, 1))]))
    assert str(answer.ledger) == "1 input, 1 rejected"
    assert answer.rejected[0].reason == f"time is {time!r}, not an integer"


def test_malformed_input_is_counted_and_kept():
    broken = Malformed(b"\xff", "not UTF-8", "a")
    answer = run(diary, end_channels([broken]))
    assert answer.rejected == [Rejected(broken, "not UTF-8")]
    assert str(answer.ledger) == "1 input, 1 rejected"


def test_a_late_event_is_kept_with_its_distance():
    items = [Event(Value(10, 1), "a", 0), Event(Value(2, 2), "a", 1)]
    answer = run(diary, end_channels(items))
    assert answer.late == [Late(items[1], 7)]
    assert answer.state == (1,)


def test_a_silent_channel_holds_everything_back():
    declared = [Channel("a"), Channel("silent")]
    answer = run(diary, [Event(Value(1, 1), "a", 0), Heartbeat(9, "a", 1)], declared)
    assert str(answer.ledger) == "1 input, 1 pending"
    assert answer.watermarks["a"] == 9
    assert answer.watermark < 0


def test_an_empty_input_has_come_to_its_end():
    answer = run(diary, [])
    assert (answer.outputs, answer.state, answer.watermark) == ([], (), FOREVER)
    assert str(answer.ledger) == "no input"


def test_a_fold_of_events_in_order_is_the_whole_meaning():
    events = sort_events(diary.ranks, [Event(Barrier(2), "b", 0), Event(Value(1, 7), "a", 0)])
    state, outputs, faults = fold(diary, events)
    assert (state, [output.value for output in outputs], faults) == ((7, "|"), [(7,)], [])


amounts = st.lists(
    st.tuples(st.integers(0, 2), st.floats(-1e20, 1e20), st.sampled_from("ab")), max_size=30
)


@given(amounts, st.integers(1, 4), st.randoms())
def test_lanes_give_the_same_bits_whatever_the_arrival(entries, lanes, rng):
    program = in_lanes(lanes)
    items = [
        Event(Amount(7, account, amount), channel, n)
        for n, (account, amount, channel) in enumerate(entries)
    ]
    items += [Event(Close(8, account), "c", account) for account in range(3)]
    shuffled = rng.sample(items, len(items))
    answers = [run(program, end_channels(each)).values for each in (items, shuffled)]
    assert repr(answers[0]) == repr(answers[1])


@given(amounts, st.integers(1, 4), st.randoms())
def test_lanes_give_the_same_bits_where_there_is_no_sequence(entries, lanes, rng):
    program, declared = in_lanes(lanes), [Channel("a", lateness=100)]
    items = [Event(Amount(n % 3, account, x), "a") for n, (account, x, _) in enumerate(entries)]
    items += [Event(Close(8, account), "a") for account in range(3)]
    shuffled = rng.sample(items, len(items))
    answers = [
        run(program, end_channels(each, channels=declared), declared) for each in (items, shuffled)
    ]
    assert repr(answers[0].values) == repr(answers[1].values)


@given(amounts)
def test_lanes_change_only_how_floats_are_rounded(entries):
    whole = [(account, round(x) % 1000, channel) for account, x, channel in entries]
    items = end_channels(
        [Event(Amount(7, account, x), channel, n) for n, (account, x, channel) in enumerate(whole)]
        + [Event(Close(8, account), "c", account) for account in range(3)]
    )
    assert run(in_lanes(4), items).values == run(in_lanes(None), items).values
