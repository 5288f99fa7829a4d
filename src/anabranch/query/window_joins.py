"""Window joins: events of two types that fall into the same window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch.errors import Location, ProgramError
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.windows.calendar_windows import Calendar
from anabranch.eventtime.windows.window_types import (
    Assigner,
    Global,
    Sessions,
    Sliding,
    Tumbling,
    Window,
)
from anabranch.model.dependence import depends
from anabranch.model.events import FOREVER, EventType
from anabranch.model.handlers import on as handle
from anabranch.model.locations import locate_caller
from anabranch.model.program import Program
from anabranch.model.shapes import WrittenShape
from anabranch.model.values.event_times import time_of
from anabranch.model.values.value_types import read_type
from anabranch.query.join_pairs import (
    LEFT,
    RIGHT,
    Pair,
    Pairing,
    Select,
    check_key,
    check_sides,
    check_windows,
    find_outputs,
    make_pair,
    make_timer,
    read_pairing,
)
from anabranch.state.collections import MapOf

ASSIGNERS = (Tumbling, Sliding, Sessions, Calendar, Global)


class Cohort(NamedTuple):
    """The events of a key whose windows are open, and when the next window closes and the last one closed."""

    lefts: tuple[Any, ...] = ()
    rights: tuple[Any, ...] = ()
    due: int | None = None
    closed: int = NEVER


def window_join(
    left: EventType,
    right: EventType,
    /,
    *,
    on: str,
    window: Assigner,
    how: str = "inner",
    select: Select | None = None,
    name: str = "program",
) -> Program:
    """Join events of equal `on` that fall into the same window, when the window closes.

    A pair is `Matched(left, right)`, or the result of `select(left, right)` if that is not None; its time is
    the last time of the window. If windows overlap, a pair is emitted for each window that contains it.
    Events of both sides extend the same session. With how="left", "right" or "full", an event of that side,
    or of either, is emitted with None for each of its windows without a partner.
    """
    where = locate_caller()
    check_sides("window_join", left, right, where)
    check_key("window_join", on, (left, right), where)
    _check_window(window, where)
    check_windows(window, left, where)
    join = WindowJoin(window, read_pairing("window_join", how, select, where))
    return Program(
        handle(left, update=join.take_left),
        handle(right, update=join.take_right),
        handle(make_timer(left, right, on), due=_find_due, output=join.emit, update=join.close),
        depends(left, left, right, same=on),
        depends(right, right, same=on),
        state=MapOf(WrittenShape(Cohort()), by=on, sparse=True),
        outputs=find_outputs(join.pairing, read_type(left), read_type(right)),
        name=name,
    )


@dataclass(frozen=True)
class WindowJoin:
    """The handlers of a window join for the events of a key."""

    window: Assigner
    pairing: Pairing

    def take_left(self, cohort: Cohort, event: Any) -> Cohort:
        """Keep a left event until its windows have closed."""
        return cohort._replace(lefts=(*cohort.lefts, event), due=self._set_due(cohort, event))

    def take_right(self, cohort: Cohort, event: Any) -> Cohort:
        """Keep a right event until its windows have closed."""
        return cohort._replace(rights=(*cohort.rights, event), due=self._set_due(cohort, event))

    def emit(self, cohort: Cohort, timer: Any) -> list[Any]:
        """Return the outputs of the windows that close now, window by window."""
        return self.pairing.list_outputs(
            pair for sides in self._list_closing(cohort, timer.time) for pair in self._match(*sides)
        )

    def close(self, cohort: Cohort, timer: Any) -> Cohort:
        """Remove the events whose windows have all closed."""
        if self.window.merging:
            return Cohort()
        open_ends = [
            [(event, self._find_ends(event, timer.time)) for event in side] for side in cohort[:2]
        ]
        due = min((end for side in open_ends for _, ends in side for end in ends), default=None)
        if due is None:
            return Cohort()
        lefts, rights = (tuple(event for event, ends in side if ends) for side in open_ends)
        return Cohort(lefts, rights, due, timer.time)

    def _set_due(self, cohort: Cohort, event: Any) -> int:
        ends = self._find_ends(event, NEVER)
        if cohort.due is None:
            return min(ends)
        # A session that is extended closes later; of other windows, the first to close counts.
        return max(cohort.due, *ends) if self.window.merging else min(cohort.due, *ends)

    def _find_ends(self, event: Any, after: int) -> list[int]:
        ends = (_end(window) for window in self.window.assign(time_of(event), event, 0))
        return [end for end in ends if end > after]

    def _list_closing(
        self, cohort: Cohort, now: int
    ) -> Iterable[tuple[Iterable[Any], Iterable[Any]]]:
        if self.window.merging:
            return [(cohort.lefts, cohort.rights)]
        groups: dict[Window, tuple[list[Any], list[Any]]] = {}
        for side, events in enumerate(cohort[:2]):
            for event in events:
                for window in self.window.assign(time_of(event), event, 0):
                    if cohort.closed < _end(window) <= now:
                        groups.setdefault(window, ([], []))[side].append(event)
        return [groups[window] for window in sorted(groups)]

    def _match(self, lefts: Iterable[Any], rights: Iterable[Any]) -> Iterator[Pair]:
        if lefts and rights:
            yield from ((left, right) for left in lefts for right in rights)
            return
        for side, events in ((LEFT, lefts), (RIGHT, rights)):
            if self.pairing.keeps(side):
                yield from (make_pair(side, event, None) for event in events)


def _find_due(cohort: Cohort) -> int | None:
    return cohort.due


def _end(window: Window) -> int:
    return min(window.last, FOREVER - 1)


def _check_window(window: object, where: Location | None) -> None:
    if not isinstance(window, ASSIGNERS):
        known = ", ".join(kind.__name__ for kind in ASSIGNERS)
        raise ProgramError(
            "window_join can't use this window",
            where=where,
            expected=f"a window of time: {known}",
            got=repr(window),
            cure='write Tumbling("10 min"), or Tumbling(60) in the unit of your event times',
        )
