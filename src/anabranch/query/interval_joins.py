"""Interval joins: events of two types whose times differ by at most an interval."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch.model.dependence import depends
from anabranch.model.events import EventType
from anabranch.model.handlers import on as handle
from anabranch.model.locations import locate_caller
from anabranch.model.program import Program
from anabranch.model.shapes import WrittenShape
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
    check_key,
    check_sides,
    find_outputs,
    make_pair,
    make_timer,
    read_interval,
    read_pairing,
)
from anabranch.state.collections import MapOf


class Sides(NamedTuple):
    """The waiting events of both sides of a key, each in the order of time."""

    lefts: tuple[WaitingEvent, ...] = ()
    rights: tuple[WaitingEvent, ...] = ()


def interval_join(
    left: EventType,
    right: EventType,
    /,
    *,
    on: str,
    lower: SpanInput,
    upper: SpanInput,
    how: str = "inner",
    select: Select | None = None,
    name: str = "program",
) -> Program:
    """Join events of equal `on` with `lower <= right.time - left.time <= upper`.

    A pair is emitted on the later of its events: `Matched(left, right)`, or the result of
    `select(left, right)` if that is not None. With how="left", "right" or "full", an event of that side, or
    of either, without a partner is emitted with None for the other, once the watermark shows that none
    can arrive. An event is kept only as long as a partner may arrive.
    """
    where = locate_caller()
    check_sides("interval_join", left, right, where)
    check_key("interval_join", on, (left, right), where)
    interval = read_interval("interval_join", lower, upper, left, where)
    join = IntervalJoin(interval, read_pairing("interval_join", how, select, where))
    return Program(
        handle(left, output=join.emit_left, update=join.take_left),
        handle(right, output=join.emit_right, update=join.take_right),
        handle(
            make_timer(left, right, on),
            due=join.find_due,
            output=join.emit_unmatched,
            update=join.prune,
        ),
        depends(left, left, right, same=on),
        depends(right, right, same=on),
        state=MapOf(WrittenShape(Sides()), by=on, sparse=True),
        outputs=find_outputs(join.pairing, read_type(left), read_type(right)),
        name=name,
    )


@dataclass(frozen=True)
class IntervalJoin:
    """The handlers of an interval join for the events of a key."""

    interval: Interval
    pairing: Pairing

    def emit_left(self, sides: Sides, event: Any) -> list[Any]:
        """Return the outputs of a left event."""
        return self._emit(LEFT, sides, event)

    def emit_right(self, sides: Sides, event: Any) -> list[Any]:
        """Return the outputs of a right event."""
        return self._emit(RIGHT, sides, event)

    def take_left(self, sides: Sides, event: Any) -> Sides:
        """Add a left event to the state, and mark its partners as matched."""
        rights, held = self._take(LEFT, sides, event)
        return Sides(sides.lefts + held, rights)

    def take_right(self, sides: Sides, event: Any) -> Sides:
        """Add a right event to the state, and mark its partners as matched."""
        lefts, held = self._take(RIGHT, sides, event)
        return Sides(lefts, sides.rights + held)

    def find_due(self, sides: Sides) -> int | None:
        """Return the time at which the first waiting event expires."""
        # The earliest event of a side is the first, and expires first.
        firsts = ((side, held[0]) for side, held in enumerate(sides) if held)
        return min(
            (self.interval.expire(s, time_of(held.event)) for s, held in firsts), default=None
        )

    def emit_unmatched(self, sides: Sides, timer: Any) -> list[Any]:
        """Return the outputs of the events that expire without a partner."""
        return self.pairing.list_outputs(self._find_alone(sides, timer.time))

    def prune(self, sides: Sides, timer: Any) -> Sides:
        """Remove the expired events from the state."""
        gone = (self._count_expired(side, held, timer.time) for side, held in enumerate(sides))
        return Sides(*(held[count:] for held, count in zip(sides, gone, strict=True)))

    def _find(self, side: int, sides: Sides, event: Any) -> tuple[int, int]:
        """Return the range of an event's partners on the other side, as (start, end)."""
        first, last = self.interval.reach(side, time_of(event))
        others = sides[1 - side]
        start = bisect_left(others, first, key=_time)
        return start, bisect_right(others, last, lo=start, key=_time)

    def _emit(self, side: int, sides: Sides, event: Any) -> list[Any]:
        start, end = self._find(side, sides, event)
        partners = [held.event for held in sides[1 - side][start:end]]
        if not partners and self.pairing.keeps(side) and not self.interval.waits(side):
            partners = [None]
        return self.pairing.list_outputs(make_pair(side, event, partner) for partner in partners)

    def _take(
        self, side: int, sides: Sides, event: Any
    ) -> tuple[tuple[WaitingEvent, ...], tuple[WaitingEvent, ...]]:
        """Return the other side with its marks, and the waiting events of this side."""
        start, end = self._find(side, sides, event)
        others: tuple[WaitingEvent, ...] = sides[1 - side]
        if self.pairing.keeps(1 - side):
            met = (WaitingEvent(held.event, True) for held in others[start:end])
            others = (*others[:start], *met, *others[end:])
        held = WaitingEvent(event, start < end and self.pairing.keeps(side))
        return others, (held,) if self.interval.waits(side) else ()

    def _find_alone(self, sides: Sides, now: int) -> Iterator[Pair]:
        for side, held in enumerate(sides):
            if self.pairing.keeps(side):
                expired = held[: self._count_expired(side, held, now)]
                yield from (make_pair(side, h.event, None) for h in expired if not h.matched)

    def _count_expired(self, side: int, held: tuple[WaitingEvent, ...], now: int) -> int:
        return bisect_right(held, now, key=lambda h: self.interval.expire(side, time_of(h.event)))


def _time(held: WaitingEvent) -> int:
    return time_of(held.event)
