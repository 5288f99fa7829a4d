"""`anabranch.testing`: a program on every runtime, and what a difference looks like."""

import operator
from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, on
from anabranch.demo import DifferenceError
from anabranch.errors import InputError
from anabranch.sources import Channel
from anabranch.state import Sum
from anabranch.testing import RUNTIMES, check, interleave


class Paid(NamedTuple):
    time: int
    amount: int


class Asked(NamedTuple):
    time: int


def build(join=operator.add, output=lambda total, asked: total):
    return Program(
        on(Paid, update=lambda total, paid: total + paid.amount),
        on(Asked, output=output),
        depends(Asked, Paid, Asked),
        init=0,
        zero=0,
        fork=lambda total, left, right: (total, 0),
        join=join,
        name="total",
    )


PAID = [Event(Paid(n, n), f"s{n % 3}", n) for n in range(1, 30)]
EVENTS = [*PAID, *(Event(Asked(time), "asks", time) for time in (7, 15, 29))]


def test_plain_events_and_expected_values():
    answer = check(build(), [Paid(1, 4), Asked(2), Paid(3, 5), Asked(4)], expected=[4, 9])
    assert answer.values == [4, 9]
    assert str(answer.ledger) == "4 input, 4 processed"


def test_channels_take_turns_in_any_order_and_the_answer_stays():
    check(build(), EVENTS, expected=[21, 105, 406], runs=20)


def test_lateness_is_that_of_the_declared_channels():
    answer = check(
        build(), [Paid(5, 1), Paid(2, 1), Asked(6)], channels=[Channel("input", lateness=1)]
    )
    assert (answer.values, len(answer.late)) == ([1], 1)


def test_the_first_output_that_is_not_expected_is_named():
    with pytest.raises(DifferenceError) as failure:
        check(build(), EVENTS, expected=[21, 106, 406])
    assert str(failure.value) == (
        "total gives other outputs than expected\n"
        "  at:       output 1 of 3\n"
        "  expected: 106\n"
        "  got:      105\n"
        "  to do:    correct the program, or what the test expects"
    )
    with pytest.raises(AssertionError, match=r"got:      no output 3"):
        check(build(), EVENTS, expected=[21, 105, 406, 407])


def test_a_join_that_breaks_its_law_shows_when_it_is_simulated():
    with pytest.raises(DifferenceError, match="another answer in simulation") as failure:
        check(build(join=max), EVENTS, on=["simulated"])
    assert "seed=0" in str(failure.value)


def test_a_join_that_breaks_its_law_shows_on_the_embedded_runtime():
    with pytest.raises(DifferenceError, match="another answer on the runtime 'local'") as failure:
        check(build(join=max), EVENTS, on=["local"], seed=4)
    assert "seed=4" in str(failure.value)
    assert failure.value.expected == "105"


def test_nothing_gives_nothing_on_every_runtime():
    assert check(build(), [], expected=[]).values == []


def test_the_embedded_runtime_is_left_out_without_pyarrow_unless_it_is_asked_for(monkeypatch):
    ran = []
    monkeypatch.setattr("anabranch.testing._Trial._run_local", lambda trial: ran.append("local"))
    check(build(), EVENTS, runs=1)
    assert ran == ["local"]
    monkeypatch.setattr("anabranch.testing.find_spec", lambda name: None)
    check(build(), EVENTS, runs=1)
    assert ran == ["local"]
    check(build(), EVENTS, on=["local"], runs=1)
    assert ran == ["local", "local"]


def test_a_program_with_a_memory_of_its_own_shows_on_the_reference():
    calls = []
    forgetful = build(output=lambda total, asked: calls.append(1) or len(calls))
    with pytest.raises(DifferenceError, match="another answer on the runtime 'reference'"):
        check(forgetful, EVENTS, on=["reference"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"on": ["flink"]}, "a runtime of a check is unknown"),
        ({"on": "spark"}, "a runtime of a check is unknown"),
        ({"runs": 0}, "runs is not a number of runs"),
        ({"shards": 1.5}, "shards is not a number of shards"),
    ],
)
def test_arguments_are_checked(options, reason):
    with pytest.raises(InputError, match=reason):
        check(build(), EVENTS, **options)


def test_interleaving_keeps_the_order_of_each_channel():
    import random

    mixed = interleave(random.Random(1), EVENTS)
    assert mixed != EVENTS
    for name in ("s0", "s1", "s2", "asks"):
        mine = [item for item in EVENTS if item.channel == name]
        assert [item for item in mixed if item.channel == name] == mine


@pytest.mark.spark
def test_it_runs_on_spark_as_a_stream_cut_at_random(spark):
    check(
        build(), EVENTS, expected=[21, 105, 406], on=RUNTIMES, runs=1, shards=2, seed=3, spark=spark
    )
    kept = Program(
        on(Paid, output=lambda n, paid: n, update=lambda n, paid: n + 1),
        depends(Paid, Paid),
        state=Sum(),
    )
    # Its output order is that of time, and of no seed; what breaks on Spark is named there.
    check(kept, PAID, expected=list(range(29)), on=["spark"], shards=1, spark=spark)
