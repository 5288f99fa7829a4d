"""Band joins: events of two types that are close to each other in a value and in time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch.errors import Location, ProgramError
from anabranch.model.dependence import depends
from anabranch.model.events import EventType
from anabranch.model.handlers import on as handle
from anabranch.model.locations import locate_caller
from anabranch.model.program import Program
from anabranch.model.values.durations import SpanInput
from anabranch.model.values.event_times import time_of
from anabranch.model.values.value_types import read_type
from anabranch.query.join_pairs import (
    LEFT,
    RIGHT,
    Interval,
    Pair,
    Pairing,
    Select,
    WaitingEvent,
    check_field,
    check_sides,
    find_outputs,
    make_pair,
    make_timer,
    read_interval,
    read_pairing,
)

Key = tuple[Any, int]
"""A value, and its event's time. Events of equal keys arrive and expire together."""


class WaitingSide(NamedTuple):
    """The waiting events of one side: in the order of their values, and their keys in the order of time."""

    keys: tuple[Key, ...] = ()
    held: tuple[WaitingEvent, ...] = ()
    queue: tuple[Key, ...] = ()


class WaitingSides(NamedTuple):
    """The waiting events of both sides."""

    lefts: WaitingSide = WaitingSide()
    rights: WaitingSide = WaitingSide()


def band_join(  # noqa: PLR0913 - two intervals have four ends
    left_type: EventType,
    right_type: EventType,
    /,
    *,
    left: str,
    right: str,
    low: Any,
    high: Any,
    lower: SpanInput,
    upper: SpanInput,
    how: str = "inner",
    select: Select | None = None,
    name: str = "program",
) -> Program:
    """Join events with `low <= right - left <= high` in two fields, and likewise in time.

    `left` and `right` name the fields, `lower` and `upper` bound `right.time - left.time`. A pair is emitted
    on the later of its events: `Matched(left, right)`, or the result of `select(left, right)` if that is not
    None. With how="left", "right" or "full", an event of that side, or of either, without a partner is
    emitted with None for the other, once the watermark shows that none can arrive. Values of None, NaN or
    infinity match nothing, so such an event is emitted at once.

    Waiting events are sorted by their values, so an event is compared only with those in its band. There is
    no key by which events could be distributed: the program is sequential.
    """
    where = locate_caller()
    check_sides("band_join", left_type, right_type, where)
    check_field("band_join", "left", left, left_type, where)
    check_field("band_join", "right", right, right_type, where)
    _check_band(low, high, where)
    interval = read_interval("band_join", lower, upper, left_type, where)
    pairing = read_pairing("band_join", how, select, where)
    join = BandJoin((left, right), low, high, interval, pairing)
    return Program(
        handle(left_type, output=join.emit_left, update=join.take_left),
        handle(right_type, output=join.emit_right, update=join.take_right),
        handle(
            make_timer(left_type, right_type),
            due=join.find_due,
            output=join.emit_unmatched,
            update=join.prune,
        ),
        depends(left_type, left_type, right_type),
        depends(right_type, right_type),
        init=WaitingSides(),
        outputs=find_outputs(pairing, read_type(left_type), read_type(right_type)),
        name=name,
    )


@dataclass(frozen=True)
class BandJoin:
    """The handlers of a band join."""

    fields: tuple[str, str]
    low: Any
    high: Any
    interval: Interval
    pairing: Pairing

    def emit_left(self, sides: WaitingSides, event: Any) -> list[Any]:
        """Return the outputs of a left event."""
        return self._emit(LEFT, sides, event)

    def emit_right(self, sides: WaitingSides, event: Any) -> list[Any]:
        """Return the outputs of a right event."""
        return self._emit(RIGHT, sides, event)

    def take_left(self, sides: WaitingSides, event: Any) -> WaitingSides:
        """Add a left event to the state if a partner may arrive, and mark its partners as matched."""
        return self._take(LEFT, sides, event)

    def take_right(self, sides: WaitingSides, event: Any) -> WaitingSides:
        """Add a right event to the state if a partner may arrive, and mark its partners as matched."""
        return self._take(RIGHT, sides, event)

    def find_due(self, sides: WaitingSides) -> int | None:
        """Return the time at which the first waiting event expires."""
        firsts = ((side, waiting.queue[0]) for side, waiting in enumerate(sides) if waiting.queue)
        return min((self.interval.expire(side, key[1]) for side, key in firsts), default=None)

    def emit_unmatched(self, sides: WaitingSides, timer: Any) -> list[Any]:
        """Return the outputs of the events that expire without a partner."""
        return self.pairing.list_outputs(self._find_alone(sides, timer.time))

    def prune(self, sides: WaitingSides, timer: Any) -> WaitingSides:
        """Remove the expired events from the state."""
        return WaitingSides(
            *(self._split(s, waiting, timer.time)[1] for s, waiting in enumerate(sides))
        )

    def _emit(self, side: int, sides: WaitingSides, event: Any) -> list[Any]:
        others = sides[1 - side].held
        partners = [others[place].event for place in self._find(side, sides, event)]
        if not partners and self.pairing.keeps(side) and not self._waits(side, event):
            partners = [None]
        return self.pairing.list_outputs(make_pair(side, event, partner) for partner in partners)

    def _waits(self, side: int, event: Any) -> bool:
        return self.interval.waits(side) and _is_finite(getattr(event, self.fields[side]))

    def _find(self, side: int, sides: WaitingSides, event: Any) -> list[int]:
        """Return the positions of an event's partners on the other side."""
        value = getattr(event, self.fields[side])
        if not _is_finite(value):
            return []
        waiting = sides[1 - side]
        first, last = self.interval.reach(side, time_of(event))
        near = range(*self._find_near(side, waiting, value))
        return [place for place in near if first <= waiting.keys[place][1] <= last]

    def _find_near(self, side: int, waiting: WaitingSide, value: Any) -> tuple[int, int]:
        """Return the range of the values in the band on the other side, as (start, end).

        The difference does not depend on which event arrives first, so floats round alike for both.
        """
        if side == LEFT:
            low, high = self.low, self.high
            start = bisect_left(waiting.keys, low, key=lambda key: key[0] - value)
            return start, bisect_right(waiting.keys, high, lo=start, key=lambda key: key[0] - value)
        low, high = -self.high, -self.low
        start = bisect_left(waiting.keys, low, key=lambda key: -(value - key[0]))
        return start, bisect_right(waiting.keys, high, lo=start, key=lambda key: -(value - key[0]))

    def _take(self, side: int, sides: WaitingSides, event: Any) -> WaitingSides:
        waiting, others = sides[side], sides[1 - side]
        partners = [] if self.pairing.how == "inner" else self._find(side, sides, event)
        if self.pairing.keeps(1 - side):
            others = _mark(others, partners)
        if self._waits(side, event):
            met = bool(partners) and self.pairing.keeps(side)
            waiting = _add(
                waiting,
                (getattr(event, self.fields[side]), time_of(event)),
                WaitingEvent(event, met),
            )
        return WaitingSides(*make_pair(side, waiting, others))

    def _find_alone(self, sides: WaitingSides, now: int) -> Iterator[Pair]:
        for side, waiting in enumerate(sides):
            if self.pairing.keeps(side):
                gone, _ = self._split(side, waiting, now)
                yield from (make_pair(side, h.event, None) for h in gone if not h.matched)

    def _split(
        self, side: int, waiting: WaitingSide, now: int
    ) -> tuple[list[WaitingEvent], WaitingSide]:
        """Return the expired events of a side, and the side with the others."""
        keys, held, queue = waiting
        count = bisect_right(queue, now, key=lambda key: self.interval.expire(side, key[1]))
        gone = []
        for key in queue[:count]:
            place = bisect_left(keys, key)
            gone.append(held[place])
            keys = (*keys[:place], *keys[place + 1 :])
            held = (*held[:place], *held[place + 1 :])
        return gone, WaitingSide(keys, held, queue[count:])


def _add(waiting: WaitingSide, key: Key, held: WaitingEvent) -> WaitingSide:
    place = bisect_right(waiting.keys, key)
    return WaitingSide(
        (*waiting.keys[:place], key, *waiting.keys[place:]),
        (*waiting.held[:place], held, *waiting.held[place:]),
        (*waiting.queue, key),
    )


def _mark(waiting: WaitingSide, places: list[int]) -> WaitingSide:
    """Mark the events at some positions as matched."""
    held = list(waiting.held)
    for place in places:
        held[place] = WaitingEvent(held[place].event, True)
    return waiting._replace(held=tuple(held))


def _is_finite(value: Any) -> bool:
    if value is None:
        return False
    # Infinity minus itself is NaN, which is not equal to itself; nor is NaN minus itself. Works for dates too.
    apart = value - value
    return bool(apart == apart)  # noqa: PLR0124


def _check_band(low: Any, high: Any, where: Location | None) -> None:
    try:
        fits = bool(low <= high)
    except TypeError:
        fits = False
    if not fits:
        raise ProgramError(
            "the band of band_join is empty",
            where=where,
            expected="low <= right - left <= high, so low of at most high",
            got=f"low={low!r}, high={high!r}",
        )
