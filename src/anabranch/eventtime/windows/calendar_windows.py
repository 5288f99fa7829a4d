"""Calendar windows: hours, days, weeks, months, quarters and years of a time zone.

The length of a day depends on the zone: 23 hours when clocks go forward, 25 when they go back. A
window starts at the first instant at which local clocks show its start.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from anabranch.errors import InputError, ProgramError
from anabranch.eventtime.windows.window_types import Window, check_whole

UNITS = ("hour", "day", "week", "month", "quarter", "year")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a local date; the zone is applied where it counts
_HOUR = 3600


@dataclass(frozen=True)
class Calendar:
    """Windows of a calendar unit in a time zone.

    `unit` is hour, day, week, month, quarter or year, and `zone` is a name of the time zone database.
    Times are ticks since 1970 in UTC, `per_second` ticks to a second; the default is microseconds.

    >>> day = Calendar("day", "Europe/Berlin", per_second=1).assign(1_743_300_000, None, 0)[0]
    >>> (day.end - day.start) // 3600  # 30 March 2025: clocks went forward
    23
    """

    unit: str
    zone: str = "UTC"
    _: KW_ONLY
    week_starts: str = "monday"
    per_second: int = 1_000_000

    merging: ClassVar[bool] = False
    counted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_name("the unit of a calendar window", self.unit, UNITS)
        _check_name("the first day of a week", self.week_starts, WEEKDAYS)
        check_whole("the number of ticks in a second", self.per_second, least=1)
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
            raise ProgramError(
                f"time zone {self.zone!r} is not known",
                expected="a name of the time zone database, such as Europe/Berlin",
                got=repr(self.zone),
                cure="correct the name, or install the tzdata package if the machine has no time zones",
            ) from error

    def assign(self, time: int, value: Any, position: int) -> list[Window]:
        second = time // self.per_second
        try:
            start, end = self._find_hour(second) if self.unit == "hour" else self._find_day(second)
        except (OverflowError, ValueError) as error:
            raise InputError(
                f"time {time} is outside of the calendar",
                expected=f"the years 1 to 9999, at {self.per_second:,} ticks to a second",
                got=str(error),
            ) from error
        return [Window(start * self.per_second, end * self.per_second)]

    def _find_day(self, second: int) -> tuple[int, int]:
        start = _begin_unit(_read_clock(second, self.zone), self.unit, self.week_starts)
        # Where clocks go back over midnight, a date occurs twice; the first counts.
        if find_instant(_next_unit(start, self.unit), self.zone) <= second:
            start = _next_unit(start, self.unit)
        return (
            find_instant(start, self.zone),
            find_instant(_next_unit(start, self.unit), self.zone),
        )

    def _find_hour(self, second: int) -> tuple[int, int]:
        # An hour in which clocks change ends at the change, and a new one starts.
        shown = _read_clock(second, self.zone)
        start = second - shown.minute * 60 - shown.second
        shift = _read_shift(second, self.zone)
        if _read_shift(start, self.zone) != shift:
            start = _find_change(start, second, self.zone)
        end = second - (shown.minute * 60 + shown.second) + _HOUR
        if _read_shift(end, self.zone) != shift:
            end = _find_change(second, end, self.zone)
        return start, end


@lru_cache(maxsize=4096)
def find_instant(shown: datetime, zone: str) -> int:
    """Return the first second since 1970 at which the zone's clocks show a local time or a later one.

    For a local time that clocks skip, that is the instant of the change.
    """
    known = ZoneInfo(zone)
    second = _count_seconds(shown.replace(tzinfo=known, fold=0))
    if _read_clock(second, zone) == shown:
        return second
    low, high = sorted((second, _count_seconds(shown.replace(tzinfo=known, fold=1))))
    while low < high:
        middle = (low + high) // 2
        if _read_clock(middle, zone) >= shown:
            high = middle
        else:
            low = middle + 1
    return low


def _find_change(low: int, high: int, zone: str) -> int:
    shift = _read_shift(high, zone)
    while low < high:
        middle = (low + high) // 2
        if _read_shift(middle, zone) == shift:
            high = middle
        else:
            low = middle + 1
    return low


def _read_clock(second: int, zone: str) -> datetime:
    instant = _EPOCH.replace(tzinfo=UTC) + timedelta(seconds=second)
    return instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def _read_shift(second: int, zone: str) -> timedelta | None:
    instant = _EPOCH.replace(tzinfo=UTC) + timedelta(seconds=second)
    return instant.astimezone(ZoneInfo(zone)).utcoffset()


def _count_seconds(aware: datetime) -> int:
    # Historic shifts may have fractions of a minute, never of a second.
    return (aware.astimezone(UTC) - _EPOCH.replace(tzinfo=UTC)) // timedelta(seconds=1)


def _begin_unit(shown: datetime, unit: str, week_starts: str) -> datetime:
    day = shown.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        return day
    if unit == "week":
        return day - timedelta(days=(day.weekday() - WEEKDAYS.index(week_starts)) % 7)
    if unit == "month":
        return day.replace(day=1)
    if unit == "quarter":
        return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    return day.replace(month=1, day=1)


def _next_unit(start: datetime, unit: str) -> datetime:
    if unit in ("day", "week"):
        return start + timedelta(days=1 if unit == "day" else 7)
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    years, month = divmod(start.month - 1 + months, 12)
    return start.replace(year=start.year + years, month=month + 1)


def _check_name(what: str, value: object, names: tuple[str, ...]) -> None:
    if value not in names:
        raise ProgramError(
            f"{what} is not known", expected=f"one of {', '.join(names)}", got=repr(value)
        )
