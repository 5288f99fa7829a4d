"""Event times: datetimes and integers, and the field that is the time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

import pytest

from anabranch import Event, EventTime, Program, on
from anabranch.errors import ProgramError
from anabranch.eventtime.channels import find_fault, set_time
from anabranch.model.values.event_times import (
    is_timestamped,
    time_field,
    time_of,
    to_moment,
    write_time,
)
from anabranch.state import Count

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_US = 1_767_268_800_000_000


class Txn(NamedTuple):
    time: datetime
    amount: int


class Order(NamedTuple):
    id: int
    at: EventTime[datetime]


@dataclass(frozen=True)
class Reading:
    tick: EventTime[int]
    time: str


class Step(NamedTuple):
    time: int


def test_a_datetime_is_microseconds_utc_inside():
    assert Event(Txn(NOON, 1)).time == NOON_US
    east = timezone(timedelta(hours=2))
    assert Event(Txn(datetime(2026, 1, 1, 14, tzinfo=east), 1)).time == NOON_US
    assert Event(Txn(NOON.replace(tzinfo=None), 1)).time == NOON_US
    assert to_moment(NOON_US) == NOON


def test_the_marked_field_is_the_time():
    assert (time_field(Order), time_of(Order(7, NOON))) == ("at", NOON_US)
    assert (time_field(Reading), time_of(Reading(5, "noon"))) == ("tick", 5)
    assert [is_timestamped(event_type) for event_type in (Txn, Order, Reading, Step)] == [
        True,
        True,
        False,
        False,
    ]
    assert (write_time(Order, NOON_US), write_time(Step, 3)) == (NOON, 3)


def test_a_local_type_with_names_that_cannot_be_resolved_still_names_its_time():
    class Hidden(NamedTuple):
        at: "EventTime[Unknown]"  # noqa: F821
        time: str

    assert time_of(Hidden(NOON, "x")) == NOON_US


def test_another_time_is_set_in_the_form_of_the_field():
    assert set_time(Event(Order(7, NOON)), NOON_US + 1).data.at == NOON + timedelta(microseconds=1)
    assert set_time(Event(Step(1)), 5).data == Step(5)


def test_a_time_of_the_other_kind_is_a_fault():
    assert find_fault(Event(Txn(5, 1)), [Txn]) == "time is 5, not a datetime"
    assert find_fault(Event(Step(NOON)), [Step]) == f"time is {NOON!r}, not an integer"
    assert find_fault(Event(Txn(NOON, 1)), [Txn]) is None


def test_moments_beyond_the_calendar_are_its_first_and_last():
    assert to_moment(-(1 << 63)) == datetime.min.replace(tzinfo=UTC)
    assert to_moment((1 << 63) - 1) == datetime.max.replace(tzinfo=UTC)


def count(state, event):
    return state + 1


def test_two_kinds_of_times_in_one_program_are_refused(message):
    with pytest.raises(ProgramError) as refusal:
        Program(on(Txn, update=count), on(Step, update=count), state=Count())
    message("times_of_two_kinds", str(refusal.value))


def test_two_fields_that_are_the_time_are_refused(message):
    class Twice(NamedTuple):
        at: EventTime[datetime]
        seen: EventTime[datetime]

    with pytest.raises(ProgramError) as refusal:
        on(Twice, update=count)
    message("event_type_with_two_times", str(refusal.value))
