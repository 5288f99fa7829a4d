"""Pairs of a join: its outputs, its options and their validation, and its timers."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from anabranch.errors import Location, ProgramError
from anabranch.model.events import FOREVER, EventType, check_event_type, field_names, field_types
from anabranch.model.handlers import check_arity
from anabranch.model.values.durations import SpanInput, check_spans, list_spans, read_span
from anabranch.model.values.event_times import is_timestamped, time_field
from anabranch.model.values.output_types import find_return_type
from anabranch.model.values.value_types import ValueType, make_optional, make_record

HOWS = ("inner", "left", "right", "full")
LEFT, RIGHT = 0, 1

MICROSECONDS = 1_000_000
"""Number of units of a timestamp per second."""

Select = Callable[[Any, Any], Any]
Pair = tuple[Any, Any]


class Matched(NamedTuple):
    """The output of a join: a pair of events, or an event and None if it has no partner."""

    left: Any
    right: Any


class WaitingEvent(NamedTuple):
    """An event that waits for partners. `matched`: it has had one (only kept for outer joins)."""

    event: Any
    matched: bool = False


@dataclass(frozen=True)
class Pairing:
    """Which pairs a join emits, and in which form."""

    how: str = "inner"
    select: Select = Matched

    def keeps(self, side: int) -> bool:
        """Return whether events of a side are emitted even without a partner."""
        return self.how in ("full", HOWS[1 + side])

    def list_outputs(self, pairs: Iterable[Pair]) -> list[Any]:
        """Return the outputs of some pairs."""
        selected = (self.select(left, right) for left, right in pairs)
        return [output for output in selected if output is not None]


def find_outputs(pairing: Pairing, left: ValueType, right: ValueType) -> ValueType | None:
    """Return the output type of a join: pairs of its events, or the return annotation of `select`."""
    if pairing.select is not Matched:
        return find_return_type(pairing.select)
    return make_record("Matched", Matched, left=make_optional(left), right=make_optional(right))


def make_pair(side: int, event: Any, partner: Any) -> Pair:
    """Return an event of a side and its partner as a pair, the left event first."""
    return (event, partner) if side == LEFT else (partner, event)


@dataclass(frozen=True)
class Interval:
    """The allowed distance of partners: right.time - left.time is in [lower, upper]."""

    lower: int
    upper: int

    def reach(self, side: int, time: int) -> tuple[int, int]:
        """Return the first and the last time of an event's partners."""
        if side == LEFT:
            return time + self.lower, time + self.upper
        return time - self.upper, time - self.lower

    def waits(self, side: int) -> bool:
        """Return whether partners may arrive after an event; those of its own time may."""
        return self.reach(side, 0)[1] >= 0

    def expire(self, side: int, time: int) -> int:
        """Return the time after which no partner of an event can arrive."""
        return min(self.reach(side, time)[1], FOREVER - 1)


def read_interval(
    join: str, lower: SpanInput, upper: SpanInput, event_type: EventType, where: Location | None
) -> Interval:
    """Return the interval of a join; raise an error if it is empty or not in the unit of the times."""
    interval = Interval(
        read_time_span(f"lower of {join}", lower, event_type, where),
        read_time_span(f"upper of {join}", upper, event_type, where),
    )
    if interval.lower > interval.upper:
        raise ProgramError(
            f"{join} can't match anything",
            where=where,
            expected="lower <= right.time - left.time <= upper, so lower of at most upper",
            got=f"lower={lower}, upper={upper}",
            cure="exchange them, or the two sides",
        )
    return interval


def read_time_span(
    what: str,
    span: SpanInput,
    event_type: EventType,
    where: Location | None,
    *,
    least: int | None = None,
) -> int:
    """Return a span in the unit of an event type's times; raise an error for another unit."""
    found = read_span(what, span, least=least, where=where)
    check_spans(
        [(what, found)], timestamped=is_timestamped(event_type), of=event_type.__name__, where=where
    )
    return found


def check_windows(windows: Any, event_type: EventType, where: Location | None) -> None:
    """Raise an error for windows, or a windowing, that are not in the unit of an event type's times."""
    stamped = is_timestamped(event_type)
    check_spans(list_spans(windows), timestamped=stamped, of=event_type.__name__, where=where)
    window = getattr(windows, "window", windows)
    ticks = getattr(window, "per_second", MICROSECONDS)
    if stamped and ticks != MICROSECONDS:
        raise ProgramError(
            f"calendar windows of {event_type.__name__} have another unit than its times",
            where=where,
            expected="a Calendar without per_second=: timestamps are microseconds",
            got=f"per_second={ticks}",
            cure="leave per_second= out",
        )


def read_pairing(
    join: str, how: str, select: Any, where: Location | None, hows: tuple[str, ...] = HOWS
) -> Pairing:
    """Return the pairing of `how` and `select`; raise an error for an unknown `how`."""
    check_word(join, "how", how, hows, where)
    if select is None:
        return Pairing(how)
    check_arity(f"select of {join}", select, ("left", "right"), where)
    return Pairing(how, select)


def check_word(
    join: str, name: str, word: object, known: tuple[str, ...], where: Location | None
) -> None:
    """Raise an error for a value that is not one of an option's values."""
    if word not in known:
        raise ProgramError(
            f"{join} has no {name}={word!r}",
            where=where,
            expected=f"one of {', '.join(map(repr, known))}",
            got=repr(word),
        )


def check_sides(join: str, left: EventType, right: EventType, where: Location | None) -> None:
    """Raise an error unless both sides of a join are event types, and different ones."""
    check_event_type(left, where)
    check_event_type(right, where)
    if left is right:
        raise ProgramError(
            f"the two sides of {join} have the same type",
            where=where,
            expected="two event types",
            got=f"{left.__name__} twice",
            cure=f"read the events a second time as another type: class Other{left.__name__}",
        )


def check_field(
    join: str, name: str, field: object, event_type: EventType, where: Location | None
) -> None:
    """Raise an error for a field that an event type does not have."""
    if field not in field_names(event_type):
        raise ProgramError(
            f"{name}={field!r} of {join} is not a field of {event_type.__name__}",
            where=where,
            expected="the name of a field",
            got=f"{event_type.__name__} has {', '.join(field_names(event_type))}",
            cure=f"give {event_type.__name__} the field" if name == "on" else None,
        )


def check_key(
    join: str, on: object, event_types: Collection[EventType], where: Location | None
) -> None:
    """Raise an error for a key that is the time, or that one of the event types does not have."""
    for event_type in event_types:
        check_field(join, "on", on, event_type, where)
    if any(on == time_field(event_type) for event_type in event_types):
        raise ProgramError(
            f"the time can't be the key of {join}",
            where=where,
            expected="a field that both sides have, besides time",
            got=f"on={on!r}",
            cure="give the field that is equal in both events; without one, use band_join",
        )


@cache
def make_timer(left: EventType, right: EventType, *fields: str) -> Any:
    """Return the timer type of a join of two event types."""
    name = f"{left.__name__}{right.__name__}Expiry"
    # The name and the fields are not known statically.
    timer: Any = namedtuple(name, ("time", *fields))  # type: ignore[misc]  # noqa: PYI024
    kinds = {field: field_types(left)[field] for field in fields}
    timer.__annotations__ = {"time": int, **kinds}
    return timer
