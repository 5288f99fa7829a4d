from fractions import Fraction

import pytest

from anabranch.errors import InputError
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.tolerance import (
    ENOUGH,
    Sample,
    Tolerance,
    describe_reasons,
    explain_excess,
    read_tolerance,
)


@pytest.mark.parametrize(
    ("given", "tolerance"),
    [
        (0, Tolerance(count=0)),
        ("100", Tolerance(count=100)),
        ("1_000", Tolerance(count=1000)),
        ("1%", Tolerance(share=Fraction(1, 100))),
        ("0.1%", Tolerance(share=Fraction(1, 1000))),
        (0.25, Tolerance(share=Fraction(1, 4))),
        ("100%", Tolerance(share=Fraction(1))),
        (Tolerance(count=3), Tolerance(count=3)),
    ],
)
def test_a_tolerance_is_a_count_or_a_share(given, tolerance):
    assert read_tolerance(given) == tolerance


@pytest.mark.parametrize("given", [-1, "-1%", "101%", 1.5, "many", "", True, "1 %%", float("nan")])
def test_anything_else_is_refused(given):
    with pytest.raises(InputError, match="neither a number of events nor a share"):
        read_tolerance(given)


def test_a_count_is_exceeded_by_one_more():
    tolerance = read_tolerance(2)
    assert not tolerance.is_exceeded(Ledger(10, 8, 0, 2))
    assert tolerance.is_exceeded(Ledger(10, 7, 0, 3))


def test_a_share_of_a_stream_is_taken_of_enough_events_and_at_the_end_of_all():
    tolerance = read_tolerance("1%")
    most = ENOUGH // 100
    assert not tolerance.is_exceeded(Ledger(most, 0, 0, most))
    assert tolerance.is_exceeded(Ledger(most + 1, 0, 0, most + 1))
    assert tolerance.is_exceeded(Ledger(99, 98, 0, 1), ended=True)
    assert not tolerance.is_exceeded(Ledger(100, 99, 0, 1), ended=True)
    assert not tolerance.is_exceeded(Ledger(), ended=True)


def test_law_more_good_events_never_exceed_a_tolerance():
    for text in ("3", "1%", "10%"):
        tolerance = read_tolerance(text)
        for ended in (False, True):
            verdicts = [
                tolerance.is_exceeded(Ledger(good + 5, good, 0, 5), ended=ended)
                for good in range(0, 2000, 7)
            ]
            assert verdicts == sorted(verdicts, reverse=True)


def test_reasons_that_differ_in_values_only_are_one_reason():
    samples = [Sample(f"field 'key' of Inc: expected int, got \"x{n}\" (text)", "a") for n in "12"]
    samples += [Sample(f"time {n} does not fit into 64 bits", "b") for n in (1 << 70, -(1 << 71))]
    samples += [Sample("on Put: ValueError: no", "c")]
    assert [line.strip() for line in describe_reasons(samples)][::2] == [
        "2 times: field 'key' of Inc: expected int, got \"x1\" (text)",
        f"2 times: time {1 << 70} does not fit into 64 bits",
        "once: on Put: ValueError: no",
    ]


def test_the_error_says_how_many_why_and_where(message):
    samples = [
        *[
            Sample(f"field 'key' of Inc: expected int, got \"{n}\" (text)", '{"key": "1"}')
            for n in "123"
        ],
        *[Sample("not JSON: Expecting value: line 1 column 1 (char 0)", "nonsense " * 100)] * 2,
        Sample("unknown event type 'Dec'", '{"type": "Dec"}'),
        Sample("time 'time' is null or missing", '{"time": null}'),
    ]
    error = explain_excess(
        Ledger(340, 333, 0, 7),
        read_tolerance("1%"),
        samples,
        "batch 3",
        "said/batch=*/rejected",
    )
    message("too_many_are_rejected", str(error))
