"""Pairs: what a join says, what it may be asked for, and the timers it sets."""

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
"""How many of the units of a timestamp are a second."""

Select = Callable[[Any, Any], Any]
Pair = tuple[Any, Any]


class Matched(NamedTuple):
    """What a join says: two events that belong together, or one and None if it has no partner."""

    left: Any
    right: Any


class WaitingEvent(NamedTuple):
    """An event that waits for partners, and whether it has had one, if that makes a difference."""

    event: Any
    matched: bool = False


@dataclass(frozen=True)
class Pairing:
    """Which pairs are said, and as what."""

    how: str = "inner"
    select: Select = Matched

    def keeps(self, side: int) -> bool:
        """Say whether events of a side are said even if they have no partner."""
        return self.how in ("full", HOWS[1 + side])

    def say(self, pairs: Iterable[Pair]) -> list[Any]:
        """Return what is said of some pairs."""
        emitted = (self.select(left, right) for left, right in pairs)
        return [one for one in emitted if one is not None]


def find_outputs(pairing: Pairing, left: ValueType, right: ValueType) -> ValueType | None:
    """Return the type of what a join says: pairs of its events, or what `select` is annotated to return."""
    if pairing.select is not Matched:
        return find_return_type(pairing.select)
    return make_record("Matched", Matched, left=make_optional(left), right=make_optional(right))


def make_pair(side: int, event: Any, partner: Any) -> Pair:
    """Return an event of a side and its partner, the left one first."""
    return (event, partner) if side == LEFT else (partner, event)


@dataclass(frozen=True)
class Interval:
    """How far apart partners may be: right.time - left.time lies in [lower, upper]."""

    lower: int
    upper: int

    def reach(self, side: int, time: int) -> tuple[int, int]:
        """Return from when to when the partners of an event lie."""
        if side == LEFT:
            return time + self.lower, time + self.upper
        return time - self.upper, time - self.lower

    def waits(self, side: int) -> bool:
        """Say whether partners may come after an event: those of its own time may."""
        return self.reach(side, 0)[1] >= 0

    def expire(self, side: int, time: int) -> int:
        """Return when no partner of an event can come any more."""
        return min(self.reach(side, time)[1], FOREVER - 1)


def read_interval(
    join: str, lower: SpanInput, upper: SpanInput, event_type: EventType, where: Location | None
) -> Interval:
    """Return how far apart partners may be, or refuse it."""
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
    """Return a span in the unit of an event type's times, or refuse it."""
    found = read_span(what, span, least=least, where=where)
    check_spans(
        [(what, found)], timestamped=is_timestamped(event_type), of=event_type.__name__, where=where
    )
    return found


def check_windows(windows: Any, event_type: EventType, where: Location | None) -> None:
    """Refuse windows, or a windowing, that are not in the unit of an event type's times."""
    stamped = is_timestamped(event_type)
    check_spans(list_spans(windows), timestamped=stamped, of=event_type.__name__, where=where)
    window = getattr(windows, "window", windows)
    ticks = getattr(window, "per_second", MICROSECONDS)
    if stamped and ticks != MICROSECONDS:
        raise ProgramError(
            f"calendar windows of {event_type.__name__} count another unit than its times",
            where=where,
            expected="a Calendar without per_second=: timestamps are microseconds",
            got=f"per_second={ticks}",
            cure="leave per_second= out",
        )


def read_pairing(
    join: str, how: str, select: Any, where: Location | None, hows: tuple[str, ...] = HOWS
) -> Pairing:
    """Return which pairs are said, or refuse it."""
    check_word(join, "how", how, hows, where)
    if select is None:
        return Pairing(how)
    check_arity(f"select of {join}", select, ("left", "right"), where)
    return Pairing(how, select)


def check_word(
    join: str, name: str, word: object, known: tuple[str, ...], where: Location | None
) -> None:
    """Refuse a word that an option does not know."""
    if word not in known:
        raise ProgramError(
            f"{join} does not know {name}={word!r}",
            where=where,
            expected=f"one of {', '.join(map(repr, known))}",
            got=repr(word),
        )


def check_sides(join: str, left: EventType, right: EventType, where: Location | None) -> None:
    """Refuse what can't be the two sides of a join."""
    check_event_type(left, where)
    check_event_type(right, where)
    if left is right:
        raise ProgramError(
            f"{join} can't tell its sides apart",
            where=where,
            expected="two event types",
            got=f"{left.__name__} twice",
            cure=f"read the events a second time as another type: class Other{left.__name__}",
        )


def check_field(
    join: str, name: str, field: object, event_type: EventType, where: Location | None
) -> None:
    """Refuse a field that an event type does not have."""
    if field not in field_names(event_type):
        raise ProgramError(
            f"{join} looks for {name}={field!r}, which {event_type.__name__} does not have",
            where=where,
            expected="the name of a field",
            got=f"{event_type.__name__} has {', '.join(field_names(event_type))}",
            cure=f"give {event_type.__name__} the field" if name == "on" else None,
        )


def check_key(
    join: str, on: object, event_types: Collection[EventType], where: Location | None
) -> None:
    """Refuse a key that not all of some event types have."""
    for event_type in event_types:
        check_field(join, "on", on, event_type, where)
    if any(on == time_field(event_type) for event_type in event_types):
        raise ProgramError(
            f"{join} can't have the time as its key",
            where=where,
            expected="a field that both sides have, besides time",
            got=f"on={on!r}",
            cure="name the field that pairs agree in; without one there is band_join",
        )


@cache
def make_timer(left: EventType, right: EventType, *fields: str) -> Any:
    """Return the type of the timers that a join of two event types sets."""
    name = f"{left.__name__}{right.__name__}Expiry"
    # The name and the fields are data here.
    timer: Any = namedtuple(name, ("time", *fields))  # type: ignore[misc]  # noqa: PYI024
    kinds = {field: field_types(left)[field] for field in fields}
    timer.__annotations__ = {"time": int, **kinds}
    return timer
