"""Durations: spans of time with a unit, or as integers in the unit of a program's own times.

A text such as "5 s" and a `timedelta` have a unit. They become a `Duration`, an integer of microseconds
with its own type. A plain integer is in the unit of the program's times. `check_spans` checks spans
against the event types: a duration needs times that are `datetime`s, an integer needs integer times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any, Generic, Self, TypeVar, overload

from anabranch.errors import AnabranchError, InputError, Location, ProgramError

SpanInput = int | str | timedelta
"""A span of time as a user gives it: `"5 s"`, `timedelta(seconds=5)`, or an integer."""

_WORDS: dict[str, tuple[str, ...]] = {
    "us": ("us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds"),
    "ms": ("ms", "msec", "msecs", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("min", "mins", "m", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_SIZES = {
    "us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000,
    "d": 86_400_000_000, "w": 7 * 86_400_000_000,
}  # fmt: skip
_UNITS = {word: _SIZES[unit] for unit, words in _WORDS.items() for word in words}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµμ]+)\s*(?:,|and\b)?", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<min>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_MOST = 1 << 62

EXPECTED = '"5 s", timedelta(seconds=5), or an integer in the unit of your event times'


class Duration(int):
    """A span of time that was given with a unit, in microseconds.

    >>> Duration(90_000_000), Duration(90_000_000) + 1
    ('1 min 30 s', 90000001)
    """

    def __repr__(self) -> str:
        return f"'{self}'"

    def __str__(self) -> str:
        rest, parts = abs(int(self)), []
        for unit in ("d", "h", "min", "s", "ms", "us"):
            count, rest = divmod(rest, _SIZES[unit])
            parts += [f"{count} {unit}"] if count else []
        return ("-" if self < 0 else "") + (" ".join(parts) or "0 s")

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Duration, (int(self),)


def parse_duration(text: str) -> Duration | None:
    """Return a text such as "1 h 30 min", "250 ms" or "PT1H30M" as a duration; None if it is not one.

    >>> int(parse_duration("1.5 s")), str(parse_duration("PT90S")), parse_duration("5")
    (1500000, '1 min 30 s', None)
    """
    text = text.strip()
    negative = text.startswith("-")
    body = text[1:].lstrip() if negative else text
    total = _parse_iso(body) if body[:1] in ("P", "p") else _parse_parts(body)
    if total is None or total.denominator != 1 or total >= _MOST:
        return None
    return Duration(-total.numerator if negative else total.numerator)


def _parse_parts(text: str) -> Fraction | None:
    total, place = Fraction(0), 0
    seen: list[int] = []
    while place < len(text):
        found = _PART.match(text, place)
        size = None if found is None else _find_size(found[2])
        # Units must decrease, so that none is given twice.
        if found is None or size is None or (seen and size >= seen[-1]):
            return None
        total += Fraction(found[1]) * size
        seen.append(size)
        place = found.end()
    return total if seen else None


def _find_size(word: str) -> int | None:
    return _UNITS.get(word, _UNITS.get(word.lower()))


def _parse_iso(text: str) -> Fraction | None:
    found = _ISO.fullmatch(text.upper())
    if found is None or not any(found.groupdict().values()) or text.upper().endswith("T"):
        return None
    return sum(
        (Fraction(count) * _SIZES[unit] for unit, count in found.groupdict().items() if count),
        Fraction(0),
    )


def read_span(
    what: str,
    value: object,
    *,
    least: int | None = None,
    where: Location | None = None,
    error: type[AnabranchError] = ProgramError,
    expected: str = EXPECTED,
) -> int:
    """Return a span of time as an integer, or as a `Duration` if it has a unit; raise if it is not one."""
    found: int | None = None
    if type(value) is int or isinstance(value, Duration):
        found = value
    elif isinstance(value, timedelta):
        found = Duration(value // timedelta(microseconds=1))
    elif isinstance(value, str):
        found = parse_duration(value)
    if found is None or (least is not None and found < least):
        bound = "" if least is None else f", of {least} or more"
        raise error(
            f"{what} is not a span of time" if found is None else f"{what} is too small",
            where=where,
            expected=expected + bound,
            got=repr(value),
            cure=_suggest(value),
        )
    return found


def _suggest(value: object) -> str | None:
    if isinstance(value, str):
        return (
            'write a number and a unit: us, ms, s, min, h, d or w, such as "250 ms" or "1 h 30 min"'
        )
    if isinstance(value, float):
        return f'write a unit: "{value} s", or timedelta(seconds={value})'
    return None


def read_seconds(what: str, value: object) -> object:
    """Return a text or timedelta as seconds, and anything else as it is.

    >>> read_seconds("idle_after_s", "1 min"), read_seconds("idle_after_s", 2.5)
    (60.0, 2.5)
    """
    if isinstance(value, str | timedelta):
        expected = 'seconds, "30 s" or timedelta(seconds=30)'
        return read_span(what, value, error=InputError, expected=expected) / _SIZES["s"]
    return value


X = TypeVar("X")


class SpanField(Generic[X]):
    """A field of a frozen dataclass for a span of time: it accepts every form, and is read as an integer.

    Values of the types in `also` are accepted too and stored unchanged.
    """

    def __init__(
        self,
        what: str,
        *,
        least: int | None = None,
        default: Any = ...,
        also: tuple[type[Any], ...] = (),
        error: type[AnabranchError] = ProgramError,
    ) -> None:
        self.what, self.least, self.default = what, least, default
        self.also, self.error = also, error

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> int | X: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            return instance.__dict__[self.name]
        if self.default is ...:
            raise AttributeError(self.name)  # Marks the field as one without a default.
        return self.default

    def __set__(self, instance: Any, value: SpanInput | X) -> None:
        held: Any = value
        if not (self.also and isinstance(value, self.also)):
            what = self.what.format(**instance.__dict__)
            held = read_span(what, value, least=self.least, error=self.error)
        instance.__dict__[self.name] = held


class SecondsField:
    """A field of a frozen dataclass for seconds of wall-clock time, or None for no limit."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> float | None: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return None if instance is None else instance.__dict__[self.name]

    def __set__(self, instance: Any, value: float | str | timedelta | None) -> None:
        instance.__dict__[self.name] = read_seconds(self.what.format(**instance.__dict__), value)


def list_spans(thing: Any) -> Iterator[tuple[str, int]]:
    """Yield the name and value of each span of time in a record and its nested records."""
    if not is_dataclass(thing) or isinstance(thing, type):
        return
    for field in fields(thing):
        kind = type(thing).__dict__.get(field.name)
        value = getattr(thing, field.name)
        if isinstance(kind, SpanField) and isinstance(value, int):
            yield kind.what.format(**vars(thing)), value
        elif field.name == "parts":
            yield from (span for part in value for span in list_spans(part))
        else:
            yield from list_spans(value)


def check_spans(
    spans: Iterable[tuple[str, int]],
    *,
    timestamped: bool,
    of: str,
    where: Location | None = None,
    error: type[AnabranchError] = ProgramError,
) -> None:
    """Raise if a span is not in the unit of the event times; `of` names the event types in the error."""
    for what, value in spans:
        if isinstance(value, Duration) and not timestamped:
            raise error(
                f"{what} has a unit, and the times of {of} have none",
                where=where,
                expected="an integer, in the unit of the event times",
                got=repr(value),
                cure="give an integer; or make the time a datetime: `time: datetime`",
            )
        if timestamped and value and not isinstance(value, Duration):
            raise error(
                f"{what} has no unit, and the times of {of} are timestamps",
                where=where,
                expected='a duration: "5 s", or timedelta(seconds=5)',
                got=f"{value}, which would be {Duration(value)}",
                cure=f'give a unit, such as "{value} s"',
            )
