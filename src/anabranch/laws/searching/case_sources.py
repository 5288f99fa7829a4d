"""The ground from which cases are drawn: events, cuts and paths of one program, each made once."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from anabranch.laws.searching.cuts import CHANNELS, Cut, Cuts, Fill, ForkPath
from anabranch.laws.searching.generators import (
    Strategy,
    combine_pools,
    favour_simple,
    find_constants,
    find_domain,
    find_keys,
    list_pool,
    make_field,
)
from anabranch.laws.searching.reachable import Apart, Case, Descent, Move, change_fields
from anabranch.model.events import LANE, Event, EventType, field_names, field_types
from anabranch.model.order import OrderKey
from anabranch.model.program import ForkJoin, Program
from anabranch.model.slices import Slice, Slices, admits
from anabranch.model.values.event_times import time_field, write_time

Draw = Callable[[Strategy], Any]

_Fields = tuple[Strategy | None, dict[str, Strategy]]
"""The strategies for the fields of an event: one for several fields, and one for each of the others."""
Head = tuple[Slice, int, int | None]
"""The first draw of an event: its slice, its delay, and its lane if there are lanes."""

WAITS = (1, 1, 1, 0, 2, 10)
"""The delays of an event after the one before."""

SECOND = 1_000_000
"""Where times are datetimes, an event comes so many microseconds later than the one before, times its wait."""

MAX_LANES = 4
"""Events are drawn for the first few lanes only: a fault with a thousand lanes shows with four too."""


class EventClock:
    """Assign each event of a case its time and its sequence in its channel, in the total order."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._tick = SECOND if program.timestamped else 1
        self._time = 0
        self._count = 0
        self._last: OrderKey | None = None

    def date(self, head: Head, data: Any) -> Event:
        """Return the event of a draw."""
        part, wait, lane = head
        self._time += max(wait, 0 if self._count else 1)
        self._count += 1
        event = self._make(part, data, lane)
        if self._last is not None and self._program.order(event) <= self._last:
            # At equal times it would precede the other event, and the state would not be reachable.
            self._time += 1
            event = self._make(part, data, lane)
        self._last = self._program.order(event)
        return event

    def _make(self, part: Slice, data: Any, lane: int | None) -> Event:
        channel, seq = part.channel or CHANNELS[0], self._count
        if lane is not None:
            lanes = self._program.lanes or 1
            seq = self._count * lanes + (lane - zlib.crc32(channel.encode())) % lanes
        time = {time_field(part.event_type): write_time(part.event_type, self._time * self._tick)}
        if isinstance(data, dict):
            return Event(part.event_type(**time, **data), channel, seq)
        return Event(change_fields(data, time), channel, seq)


class Ground:
    """The strategies from which the cases of one program are drawn.

    A search spends its time drawing, so an event takes few draws: its slice and its delay are
    one, and all fields with a short list of values another. Strategies are made once.
    """

    def __init__(
        self, program: Program, events: Mapping[EventType, Strategy] | None = None
    ) -> None:
        self.program = program
        self.domains = {
            field: find_domain(program, field, events or {}) for field in sorted(find_keys(program))
        }
        self.cuts = Cuts(program, self.domains)
        self._given = dict(events or {})
        self._constants = find_constants(program)
        self._waits = (*WAITS, *[n for n in self._constants[int] if n > 1][:3])
        # Made now, so that a field without a strategy raises before the search begins.
        self._fields = {
            Slice(event_type): self._make_fields(Slice(event_type))
            for event_type in program.event_types
        }
        self._choices: dict[tuple[Any, ...], Strategy] = {}

    def choose(self, draw: Draw, key: tuple[Any, ...], make: Callable[[], Sequence[Any]]) -> Any:
        """Draw one of several values, which are made once and cached by their key."""
        if key not in self._choices:
            self._choices[key] = st.sampled_from(make())
        return draw(self._choices[key])

    def _list_heads(self, name: str, within: Slices) -> list[Head]:
        handlers = self.program.state_type(name).handlers
        parts = [part for part in within if part.event_type in handlers]
        parts.sort(key=lambda part: self.program.event_types.index(part.event_type))
        return [
            (part, wait, lane)
            for wait in self._waits
            for part in parts
            for lane in self._list_lanes(part)
        ]

    def _list_lanes(self, part: Slice) -> Sequence[int | None]:
        if self.program.lanes is None:
            return [None]
        lanes = range(min(self.program.lanes, MAX_LANES))
        return [lane for lane in lanes if admits(LANE, part.choice(LANE), lane)]

    def list_pools(self, part: Slice) -> dict[str, tuple[Any, ...]]:
        """Return the values of each field that can be listed, simplest first."""
        event_type, pools = part.event_type, {}
        for name, annotation in field_types(event_type).items():
            if name in self.domains and (
                part.choice(name) is not None or event_type not in self._given
            ):
                admitted = (v for v in self.domains[name] if admits(name, part.choice(name), v))
                pools[name] = tuple(admitted)
            elif name != time_field(event_type) and event_type not in self._given:
                pool = list_pool(annotation, self._constants)
                if pool is not None:
                    pools[name] = pool
        return pools

    def _make_fields(self, part: Slice) -> _Fields:
        pools = self.list_pools(part)
        combined = combine_pools({n: favour_simple(pool) for n, pool in pools.items()})
        apart = {} if combined is not None else {n: st.sampled_from(p) for n, p in pools.items()}
        if part.event_type not in self._given:
            for name in field_names(part.event_type):
                if name != time_field(part.event_type) and name not in pools:
                    apart[name] = make_field(part.event_type, name, self._constants)
        return combined if pools else None, apart

    def _draw_data(self, draw: Draw, part: Slice) -> Any:
        if part not in self._fields:
            self._fields[part] = self._make_fields(part)
        combined, apart = self._fields[part]
        fields = {} if combined is None else draw(combined)
        fields = {**fields, **{name: draw(strategy) for name, strategy in apart.items()}}
        if part.event_type not in self._given:
            return fields
        return change_fields(draw(self._given[part.event_type]), fields)

    def list_simpler(self, event: Event) -> Iterator[Event]:
        """Yield the event with a simpler value in one field by which no slice is cut."""
        data = event.data
        for name, pool in self.list_pools(Slice(type(data))).items():
            value = getattr(data, name)
            if name not in self.domains and value in pool:
                for simpler in pool[: pool.index(value)]:
                    yield event._replace(data=change_fields(data, {name: simpler}))

    def draw_events(
        self, draw: Draw, clock: EventClock, name: str, within: Slices, *, most: int
    ) -> tuple[Event, ...]:
        """Draw some events for a state of a type."""
        events: list[Event] = []
        while len(events) < most:
            head = self.choose(
                draw, ("next", name, within), lambda: _may_stop(self._list_heads(name, within))
            )
            if head is None:
                break
            events.append(clock.date(head, self._draw_data(draw, head[0])))
        return tuple(events)

    def draw_event(self, draw: Draw, clock: EventClock, name: str, within: Slices) -> Event:
        """Draw one event for a state of a type that handles some."""
        head = self.choose(draw, ("one", name, within), lambda: self._list_heads(name, within))
        return clock.date(head, self._draw_data(draw, head[0]))

    def draw_cut(self, draw: Draw, fork: ForkJoin, within: Slices) -> Cut:
        """Draw a cut of a fork that has some."""
        key = ("cut", fork.parent, fork.left, fork.right, within)
        seed, how = self.choose(draw, key, lambda: self._list_cuts(fork, within))
        return self.cuts.fill(fork, within, seed, how)

    def _list_cuts(self, fork: ForkJoin, within: Slices) -> list[tuple[Any, Fill]]:
        hows: tuple[Fill, ...] = ("bare", "left", "right", "both")
        return list(itertools.product(self.cuts.seeds(fork, within), hows))

    def draw_moves(
        self, draw: Draw, clock: EventClock, name: str, within: Slices, *, most: int
    ) -> tuple[Move, ...]:
        """Draw the moves of a state: events, and sometimes a fork, events on both sides, and a join."""
        moves: list[Move] = [*self.draw_events(draw, clock, name, within, most=most)]
        # Mostly none, so that most draws of a search are for the law itself.
        fork = self.choose(
            draw, ("apart", name, within), lambda: [None] * 3 + self._list_forks(name, within)
        )
        if fork is not None:
            cut = self.draw_cut(draw, fork, within)
            lefts = self.draw_events(draw, clock, *cut.side("left"), most=2)
            rights = self.draw_events(draw, clock, *cut.side("right"), most=2)
            moves.append(Apart(cut, lefts, rights))
            moves += self.draw_events(draw, clock, name, within, most=2)
        return tuple(moves)

    def _list_forks(self, name: str, within: Slices) -> list[ForkJoin | None]:
        own = [fork for fork in self.program.forks if fork.parent == name]
        return [fork for fork in own if self.cuts.seeds(fork, within)]

    def draw_course(
        self,
        draw: Draw,
        clock: EventClock,
        paths: tuple[ForkPath, ...],
        fork: ForkJoin | None = None,
        tail: ForkPath = (),
    ) -> tuple[Case, str, Slices]:
        """Draw the steps to a state; return them with the state's type and its slices.

        From there it must be possible to follow `tail`, and then to cut by `fork`.
        """
        name, within = self.program.initial.name, self.cuts.everything
        path = draw(st.sampled_from(paths)) if len(paths) > 1 else paths[0]
        moves = self.draw_moves(draw, clock, name, within, most=4)
        descents: list[Descent] = []
        while path:
            cut, side = self.draw_descent(draw, name, within, (*path, *tail), fork), path[0][1]
            name, within = cut.side(side)
            descents.append(Descent(cut, side, self.draw_moves(draw, clock, name, within, most=2)))
            path = path[1:]
        return Case(moves, tuple(descents)), name, within

    def draw_descent(
        self, draw: Draw, name: str, within: Slices, path: ForkPath, fork: ForkJoin | None
    ) -> Cut:
        """Draw a cut for the first step of a path."""
        step, side = path[0]
        key = ("down", step.parent, step.left, step.right, side, within, len(path), fork is None)
        cut: Cut = self.choose(draw, key, lambda: self.cuts.options(name, within, path, fork))
        return cut


def _may_stop(heads: list[Head]) -> list[Head | None]:
    # Stopping is the first choice, so that shrinking makes lists shorter.
    return [*[None] * (1 + len(heads) // 4), *heads]
