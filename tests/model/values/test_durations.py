"""Durations: texts and timedeltas as spans of time, and where they meet times of their unit."""

import pickle
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest

from anabranch import Program, on
from anabranch.errors import AnabranchError, InputError, ProgramError
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.windows.calendar_windows import Calendar
from anabranch.eventtime.windows.triggers import AfterAny, AfterCount, AfterProcessingTime
from anabranch.eventtime.windows.window_types import Sessions, Sliding
from anabranch.model.values.durations import Duration, list_spans, parse_duration, read_span
from anabranch.query import aggregate, asof_join, band_join, interval_join, window_join
from anabranch.reference.sequential import run
from anabranch.sources import Channel
from anabranch.state import Count, MapOf
from anabranch.windows import AfterWatermark, Tumbling, Windowing

SECOND = 1_000_000


class Txn(NamedTuple):
    time: datetime
    account: str
    seen: datetime


class Click(NamedTuple):
    time: datetime
    account: str


class Step(NamedTuple):
    time: int
    account: str


class Turn(NamedTuple):
    time: int
    account: str


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("5 s", 5 * SECOND),
        ("5s", 5 * SECOND),
        ("250 ms", 250_000),
        ("7 us", 7),
        ("7 µs", 7),
        ("1 min", 60 * SECOND),
        ("10 minutes", 600 * SECOND),
        ("2 h", 7_200 * SECOND),
        ("1 day", 86_400 * SECOND),
        ("2 weeks", 14 * 86_400 * SECOND),
        ("1.5 s", 1_500_000),
        ("1 h 30 min", 5_400 * SECOND),
        ("1 day, 2 hours and 3 s", 93_603 * SECOND),
        ("-5 min", -300 * SECOND),
        ("PT1H30M", 5_400 * SECOND),
        ("P1DT0.5S", 86_400 * SECOND + 500_000),
        ("P2W", 14 * 86_400 * SECOND),
    ],
)
def test_a_text_with_units_is_microseconds(text, microseconds):
    assert parse_duration(text) == microseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "5 parsecs",
        "5 s 3 min",
        "1 s 1 s",
        "0.1 us",
        "P",
        "PT",
        "P1DT",
        "1 month",
        "1e3 s",
    ],
)
def test_what_is_no_duration_is_none(text):
    assert parse_duration(text) is None


def test_a_duration_is_an_integer_that_shows_its_unit():
    duration = read_span("x", timedelta(minutes=1, seconds=30))
    assert duration == 90 * SECOND
    assert str(duration) == "1 min 30 s"
    assert repr(Tumbling("90 s")) == "Tumbling(size='1 min 30 s', offset=0)"
    assert type(duration + 1) is int
    assert repr(pickle.loads(pickle.dumps(Tumbling("90 s")))) == repr(Tumbling("90 s"))
    assert repr(Duration(0)) == "'0 s'"


def test_equal_spans_are_equal_however_they_are_written():
    assert Tumbling("10 min") == Tumbling(timedelta(minutes=10)) == Tumbling("PT10M")
    assert replace(Sliding("10 min", every="1 min"), every="2 min").every == 120 * SECOND
    assert Channel("a", lateness="5 s", idle_after_s="1 min").idle_after_s == 60
    assert Channel("a", lateness="5 s", max_ahead=timedelta(hours=1)).max_ahead == 3600 * SECOND


def test_the_spans_of_a_windowing_are_those_of_its_parts():
    trigger = AfterWatermark(AfterAny(AfterCount(3), AfterProcessingTime("1 s")), AfterCount(1))
    windowing = Windowing(Tumbling("1 min"), trigger, allowed_lateness="5 s")
    assert list(list_spans(windowing)) == [
        ("the size of a tumbling window", 60 * SECOND),
        ("the offset of a tumbling window", 0),
        ("the delay of a trigger", SECOND),
        ("the allowed lateness of a windowing", 5 * SECOND),
    ]


def keep(event_type, **options):
    return Program(
        on(event_type, update=lambda count, event: count + 1),
        state=MapOf(Count(), by="account", **options),
    )


DATED = {
    "aggregate": lambda span: aggregate(Txn, Tumbling(span), n=Count()),
    "sessions": lambda span: aggregate(Txn, Sessions(span), per="account"),
    "allowed lateness": lambda span: aggregate(
        Txn, Windowing(Tumbling("1 d"), allowed_lateness=span)
    ),
    "trigger": lambda span: aggregate(
        Txn, Windowing(Tumbling("1 d"), AfterWatermark(early=AfterProcessingTime(span)))
    ),
    "delay": lambda span: aggregate(Txn, Tumbling("1 d"), at="seen", delay=span),
    "interval": lambda span: interval_join(Txn, Click, on="account", lower=0, upper=span),
    "asof": lambda span: asof_join(Txn, Click, on="account", within=span),
    "window join": lambda span: window_join(Txn, Click, on="account", window=Tumbling(span)),
    "band": lambda span: band_join(
        Txn, Click, left="account", right="account", low=0, high=1, lower=0, upper=span
    ),
    "ttl": lambda span: keep(Txn, ttl=span),
    "channel": lambda span: run(keep(Txn), [], [Channel("a", lateness=span)]),
    "ahead": lambda span: run(keep(Txn), [], [Channel("a", max_ahead=span)]),
    "estimated": lambda span: run(
        keep(Txn), [], [Channel("a", lateness=Estimated(0.9, most=span))]
    ),
}


@pytest.mark.parametrize("make", DATED.values(), ids=DATED)
def test_a_plain_number_is_refused_where_times_are_datetimes(make):
    make("5 s")
    make(timedelta(seconds=5))
    with pytest.raises(AnabranchError, match=r"has no unit, and the times of .* are timestamps"):
        make(5)


@pytest.mark.parametrize(
    "make",
    [
        lambda span: aggregate(Step, Tumbling(span), n=Count()),
        lambda span: interval_join(Step, Turn, on="account", lower=0, upper=span),
        lambda span: keep(Step, ttl=span),
        lambda span: run(keep(Step), [], [Channel("a", lateness=span)]),
    ],
)
def test_a_unit_is_refused_where_times_are_integers(make):
    make(5)
    with pytest.raises(AnabranchError, match=r"has a unit, and the times of .* have none"):
        make("5 s")


def test_nothing_needs_no_unit():
    assert Channel("a", lateness=0).lateness == 0
    run(keep(Txn), [], [Channel("a", lateness=0)])
    run(keep(Step), [], [Channel("a", lateness=0)])


def test_a_lateness_in_microseconds_is_refused_with_its_cure(message):
    with pytest.raises(InputError) as refusal:
        run(keep(Txn), [], [Channel("a", lateness=5)])
    message("lateness_without_a_unit", str(refusal.value))


def test_a_window_with_a_unit_of_steps_is_refused_with_its_cure(message):
    with pytest.raises(ProgramError) as refusal:
        aggregate(Step, Tumbling("10 min"), n=Count())
    message("window_with_a_unit", str(refusal.value))


def test_a_misspelt_duration_is_refused_with_its_cure(message):
    with pytest.raises(ProgramError) as refusal:
        Tumbling("10 parsecs")
    message("duration_is_misspelt", str(refusal.value))


def test_a_calendar_of_seconds_is_refused_where_times_are_datetimes():
    aggregate(Txn, Calendar("day", "Europe/Berlin"), n=Count())
    with pytest.raises(ProgramError, match="have another unit than its times"):
        aggregate(Txn, Calendar("day", "Europe/Berlin", per_second=1), n=Count())
