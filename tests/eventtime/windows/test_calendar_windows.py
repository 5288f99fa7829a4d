"""Windows of a calendar: as long as the zone makes them, and without gaps."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.errors import InputError, ProgramError
from anabranch.eventtime.windows.calendar_windows import UNITS, Calendar, find_instant

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Toronto",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Europe/Amsterdam",
]
HOUR = 3600

seconds = st.integers(-3_000_000_000, 4_000_000_000)
zones = st.sampled_from(ZONES)


def second(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp())


@given(seconds, zones, st.sampled_from(UNITS))
@example(second("1919-03-31T04:29:59+00:00"), "America/Toronto", "day")
@example(second("2010-11-07T03:00:00+00:00"), "America/St_Johns", "day")
@example(second("2011-12-30T10:00:00+00:00"), "Pacific/Apia", "week")
@example(second("2025-04-05T15:00:00+00:00"), "Australia/Lord_Howe", "hour")
@example(second("2010-11-07T02:30:30+00:00"), "America/St_Johns", "hour")
def test_windows_hold_their_event_and_leave_no_gap(time, zone, unit):
    calendar = Calendar(unit, zone, per_second=1)
    (window,) = calendar.assign(time, None, 0)
    assert window.start <= time < window.end
    assert calendar.assign(window.start, None, 0) == [window]
    assert calendar.assign(window.end - 1, None, 0) == [window]
    (after,) = calendar.assign(window.end, None, 0)
    (before,) = calendar.assign(window.start - 1, None, 0)
    assert after.start == window.end
    assert before.end == window.start


@given(st.integers(0, 4_000_000_000), st.sampled_from(["UTC", "Europe/Berlin", "Asia/Tokyo"]))
def test_a_day_is_all_that_has_its_date(time, zone):
    (day,) = Calendar("day", zone, per_second=1).assign(time, None, 0)
    dates = {
        datetime.fromtimestamp(at, ZoneInfo(zone)).date() for at in (day.start, time, day.end - 1)
    }
    assert len(dates) == 1
    assert datetime.fromtimestamp(day.end, ZoneInfo(zone)).date() not in dates


@pytest.mark.parametrize(
    ("zone", "at", "hours"),
    [
        ("Europe/Berlin", "2025-03-30T12:00:00+02:00", 23),
        ("Europe/Berlin", "2025-06-01T12:00:00+02:00", 24),
        ("Europe/Berlin", "2025-10-26T12:00:00+01:00", 25),
        ("Australia/Lord_Howe", "2025-04-06T12:00:00+10:30", 24.5),
        ("UTC", "2025-03-30T12:00:00+00:00", 24),
    ],
)
def test_a_day_has_as_many_hours_as_clocks_give_it(zone, at, hours):
    (day,) = Calendar("day", zone, per_second=1).assign(second(at), None, 0)
    assert (day.end - day.start) / HOUR == hours


@given(st.integers(0, 4_000_000_000), st.integers(0, 999_999), zones, st.sampled_from(UNITS))
def test_microseconds_are_what_times_count_unless_told_otherwise(time, micros, zone, unit):
    (coarse,) = Calendar(unit, zone, per_second=1).assign(time, None, 0)
    (fine,) = Calendar(unit, zone).assign(time * 1_000_000 + micros, None, 0)
    assert fine == (coarse.start * 1_000_000, coarse.end * 1_000_000)


def test_a_time_that_clocks_jump_over_is_found_at_the_jump():
    jump = second("1919-03-31T04:30:00+00:00")
    midnight = datetime(1919, 3, 31)  # noqa: DTZ001 - what the clock would show
    assert find_instant(midnight, "America/Toronto") == jump
    shown = datetime.fromtimestamp(jump, UTC).astimezone(ZoneInfo("America/Toronto"))
    assert shown.replace(tzinfo=None) == midnight + timedelta(minutes=30)


@pytest.mark.parametrize(
    ("what", "build"),
    [
        ("the unit of a calendar window is not known", lambda: Calendar("fortnight")),
        ("the first day of a week is not known", lambda: Calendar("week", week_starts="Monday")),
        ("the number of ticks in a second", lambda: Calendar("day", per_second=0)),
        ("time zone 'Mars/Olympus' is not known", lambda: Calendar("day", "Mars/Olympus")),
        ("time zone '../etc/passwd' is not known", lambda: Calendar("day", "../etc/passwd")),
    ],
)
def test_what_is_no_calendar_is_refused(what, build):
    with pytest.raises(ProgramError, match=what):
        build()


def test_a_time_beyond_the_calendar_is_refused():
    with pytest.raises(InputError, match="is outside of the calendar"):
        Calendar("day").assign(1 << 62, None, 0)
