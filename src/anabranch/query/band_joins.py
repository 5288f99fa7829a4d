"""Band joins: events of two types that are near each other in a value and in time."""

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
"""A value, and its event's time. Events of equal keys come and go together."""


class WaitingSide(NamedTuple):
    """The events of one side that wait: in the order of their values, and, by key, of time."""

    keys: tuple[Key, ...] = ()
    held: tuple[WaitingEvent, ...] = ()
    queue: tuple[Key, ...] = ()


class Shelves(NamedTuple):
    """The events of both sides that wait."""

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

    `left` and `right` name the fields, `lower` and `upper` bound `right.time - left.time`. A pair is said
    when the later of the two comes: `Matched(left, right)`, or what `select(left, right)` returns, if that
    is not None. With how="left", "right" or "full", an event of that side, or of either, that finds no
    partner is said with None in the other's place, once the watermark shows that none can come. Values of
    None, NaN or infinity match nothing, so such an event is said at once.

    Events that wait lie in the order of their values, so one that comes looks only at those near it.
    But there is no key that would keep events apart: the program is sequential.
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
        handle(left_type, output=join.say_left, update=join.take_left),
        handle(right_type, output=join.say_right, update=join.take_right),
        handle(
            make_timer(left_type, right_type),
            due=join.find_due,
            output=join.say_alone,
            update=join.prune,
        ),
        depends(left_type, left_type, right_type),
        depends(right_type, right_type),
        init=Shelves(),
        outputs=find_outputs(pairing, read_type(left_type), read_type(right_type)),
        name=name,
    )


@dataclass(frozen=True)
class BandJoin:
    """What a band join does on each event."""

    fields: tuple[str, str]
    low: Any
    high: Any
    interval: Interval
    pairing: Pairing

    def say_left(self, shelves: Shelves, event: Any) -> list[Any]:
        """Say the pairs of a left event."""
        return self._say(LEFT, shelves, event)

    def say_right(self, shelves: Shelves, event: Any) -> list[Any]:
        """Say the pairs of a right event."""
        return self._say(RIGHT, shelves, event)

    def take_left(self, shelves: Shelves, event: Any) -> Shelves:
        """Keep a left event as long as a partner may come, and note whose partner it is."""
        return self._take(LEFT, shelves, event)

    def take_right(self, shelves: Shelves, event: Any) -> Shelves:
        """Keep a right event as long as a partner may come, and note whose partner it is."""
        return self._take(RIGHT, shelves, event)

    def find_due(self, shelves: Shelves) -> int | None:
        """Return when the first of those that wait need not wait any longer."""
        firsts = ((side, shelf.queue[0]) for side, shelf in enumerate(shelves) if shelf.queue)
        return min((self.interval.expire(side, key[1]) for side, key in firsts), default=None)

    def say_alone(self, shelves: Shelves, timer: Any) -> list[Any]:
        """Say those that have waited in vain."""
        return self.pairing.say(self._find_alone(shelves, timer.time))

    def prune(self, shelves: Shelves, timer: Any) -> Shelves:
        """Let go of those that nobody can come for."""
        return Shelves(*(self._split(s, shelf, timer.time)[1] for s, shelf in enumerate(shelves)))

    def _say(self, side: int, shelves: Shelves, event: Any) -> list[Any]:
        others = shelves[1 - side].held
        partners = [others[place].event for place in self._find(side, shelves, event)]
        if not partners and self.pairing.keeps(side) and not self._waits(side, event):
            partners = [None]
        return self.pairing.say(make_pair(side, event, partner) for partner in partners)

    def _waits(self, side: int, event: Any) -> bool:
        return self.interval.waits(side) and _is_finite(getattr(event, self.fields[side]))

    def _find(self, side: int, shelves: Shelves, event: Any) -> list[int]:
        """Return the places of an event's partners on the other side's shelf."""
        value = getattr(event, self.fields[side])
        if not _is_finite(value):
            return []
        shelf = shelves[1 - side]
        first, last = self.interval.reach(side, time_of(event))
        near = range(*self._find_near(side, shelf, value))
        return [place for place in near if first <= shelf.keys[place][1] <= last]

    def _find_near(self, side: int, shelf: WaitingSide, value: Any) -> tuple[int, int]:
        """Return from where to where the values in the band stand on the other side's shelf.

        The difference is the same whoever of two comes first, so floats round alike for both.
        """
        if side == LEFT:
            low, high = self.low, self.high
            start = bisect_left(shelf.keys, low, key=lambda key: key[0] - value)
            return start, bisect_right(shelf.keys, high, lo=start, key=lambda key: key[0] - value)
        low, high = -self.high, -self.low
        start = bisect_left(shelf.keys, low, key=lambda key: -(value - key[0]))
        return start, bisect_right(shelf.keys, high, lo=start, key=lambda key: -(value - key[0]))

    def _take(self, side: int, shelves: Shelves, event: Any) -> Shelves:
        shelf, others = shelves[side], shelves[1 - side]
        partners = [] if self.pairing.how == "inner" else self._find(side, shelves, event)
        if self.pairing.keeps(1 - side):
            others = _mark(others, partners)
        if self._waits(side, event):
            met = bool(partners) and self.pairing.keeps(side)
            shelf = _add(
                shelf, (getattr(event, self.fields[side]), time_of(event)), WaitingEvent(event, met)
            )
        return Shelves(*make_pair(side, shelf, others))

    def _find_alone(self, shelves: Shelves, now: int) -> Iterator[Pair]:
        for side, shelf in enumerate(shelves):
            if self.pairing.keeps(side):
                gone, _ = self._split(side, shelf, now)
                yield from (make_pair(side, h.event, None) for h in gone if not h.matched)

    def _split(
        self, side: int, shelf: WaitingSide, now: int
    ) -> tuple[list[WaitingEvent], WaitingSide]:
        """Return those that nobody can come for, and a shelf with the others."""
        keys, held, queue = shelf
        count = bisect_right(queue, now, key=lambda key: self.interval.expire(side, key[1]))
        gone = []
        for key in queue[:count]:
            place = bisect_left(keys, key)
            gone.append(held[place])
            keys = (*keys[:place], *keys[place + 1 :])
            held = (*held[:place], *held[place + 1 :])
        return gone, WaitingSide(keys, held, queue[count:])


def _add(shelf: WaitingSide, key: Key, held: WaitingEvent) -> WaitingSide:
    place = bisect_right(shelf.keys, key)
    return WaitingSide(
        (*shelf.keys[:place], key, *shelf.keys[place:]),
        (*shelf.held[:place], held, *shelf.held[place:]),
        (*shelf.queue, key),
    )


def _mark(shelf: WaitingSide, places: list[int]) -> WaitingSide:
    """Note that those at some places have had a partner."""
    held = list(shelf.held)
    for place in places:
        held[place] = WaitingEvent(held[place].event, True)
    return shelf._replace(held=tuple(held))


def _is_finite(value: Any) -> bool:
    if value is None:
        return False
    # Infinity less itself is NaN, which is not equal to itself; so is NaN. It works for dates too.
    apart = value - value
    return bool(apart == apart)  # noqa: PLR0124


def _check_band(low: Any, high: Any, where: Location | None) -> None:
    try:
        fits = bool(low <= high)
    except TypeError:
        fits = False
    if not fits:
        raise ProgramError(
            "band_join has no band to look in",
            where=where,
            expected="low <= right - left <= high, so low of at most high",
            got=f"low={low!r}, high={high!r}",
        )
