"""Reachable states: the steps by which a run of some plan reaches them, as plain data.

A law need only hold on states that a run can reach, and published programs break it on others.
So cases are lists of events, forks and joins; states are computed from them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.laws.searching.cuts import Cut, Side
from anabranch.model.events import Event
from anabranch.model.failures import Failed, attempt
from anabranch.model.program import Program, StateType
from anabranch.model.shapes import AnyState


class UnreachableError(Exception):
    """Raised if a fork or join in the steps to a state raises, so that there is no such state."""


@dataclass(frozen=True)
class Apart:
    """A part of a run in parallel: a cut, the events of each side, and the join."""

    cut: Cut
    lefts: tuple[Event, ...]
    rights: tuple[Event, ...]


Move = Event | Apart


@dataclass(frozen=True)
class Descent:
    """A step down: a cut, the chosen side, and the moves of that side."""

    cut: Cut
    side: Side
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Case:
    """The steps to the states of one instance of a law, and the events it is tried on.

    `moves` and `descents` lead to the state s. `cut`, `lefts` and `rights` lead from s to a left
    and a right side; `inner`, `seconds` and `thirds` cut the right side once more.
    """

    moves: tuple[Move, ...] = ()
    descents: tuple[Descent, ...] = ()
    cut: Cut | None = None
    lefts: tuple[Event, ...] = ()
    rights: tuple[Event, ...] = ()
    inner: Cut | None = None
    seconds: tuple[Event, ...] = ()
    thirds: tuple[Event, ...] = ()
    events: tuple[Event, ...] = ()
    side: Side = "left"

    def list_events(self) -> list[Event]:
        """Return every event of this case."""
        moves = [*self.moves, *(move for descent in self.descents for move in descent.moves)]
        ends = (self.lefts, self.rights, self.seconds, self.thirds, self.events)
        flat = [
            event
            for move in moves
            for event in ((*move.lefts, *move.rights) if isinstance(move, Apart) else (move,))
        ]
        return [*flat, *(event for events in ends for event in events)]

    def map_events(self, change: Callable[[Event], Event]) -> Case:
        """Return this case with every event changed."""

        def change_all(moves: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(
                replace(move, lefts=change_all(move.lefts), rights=change_all(move.rights))
                if isinstance(move, Apart)
                else change(move)
                for move in moves
            )

        return replace(
            self,
            moves=change_all(self.moves),
            descents=tuple(replace(d, moves=change_all(d.moves)) for d in self.descents),
            lefts=change_all(self.lefts),
            rights=change_all(self.rights),
            seconds=change_all(self.seconds),
            thirds=change_all(self.thirds),
            events=change_all(self.events),
        )


def change_fields(data: Any, fields: Mapping[str, Any]) -> Any:
    """Return an event's data with other values of some fields."""
    if dataclasses.is_dataclass(data):
        return dataclasses.replace(data, **fields)  # type: ignore[type-var]
    return data._replace(**fields)


def copy_state(state: AnyState) -> AnyState:
    """Return a deep copy, or the state itself if it can't be copied."""
    try:
        return copy.deepcopy(state)
    except Exception:  # noqa: BLE001 - whatever a user's class raises when it is copied
        return state


def reach(program: Program, case: Case) -> tuple[StateType, AnyState]:
    """Return the state that a case leads to, and its type."""
    state_type = program.initial
    # A copy, so that functions which change their argument don't affect the next case.
    state = follow(program, state_type, copy_state(program.init), case.moves)
    for descent in case.descents:
        sides = cut_state(descent.cut, state)
        name, _ = descent.cut.side(descent.side)
        state_type = program.state_type(name)
        state = sides[0] if descent.side == "left" else sides[1]
        state = follow(program, state_type, state, descent.moves)
    return state_type, state


def follow(
    program: Program, state_type: StateType, state: AnyState, moves: Iterable[Move]
) -> AnyState:
    """Return a state after some moves. An event on which a function raises is rejected."""
    for move in moves:
        if isinstance(move, Apart):
            left, right = reach_sides(program, move.cut, state, move.lefts, move.rights)
            state = join_sides(move.cut, left, right)
            continue
        stepped = attempt(state_type.step, state, move)
        if not isinstance(stepped, Failed):
            state = stepped[0]
    return state


def reach_sides(
    program: Program,
    cut: Cut,
    state: AnyState,
    lefts: Iterable[Event],
    rights: Iterable[Event],
) -> tuple[AnyState, AnyState]:
    """Return the two sides of a cut, after their events."""
    left, right = cut_state(cut, state)
    return (
        follow(program, program.state_type(cut.fork.left), left, lefts),
        follow(program, program.state_type(cut.fork.right), right, rights),
    )


def cut_state(cut: Cut, state: AnyState) -> tuple[AnyState, AnyState]:
    """Return the sides of a forked state, or raise UnreachableError if the fork raises."""
    forked = attempt(lambda: tuple(cut.fork.fork(state, cut.left, cut.right)))
    if isinstance(forked, Failed) or len(forked) != 2:
        raise UnreachableError
    return forked[0], forked[1]


def join_sides(cut: Cut, left: AnyState, right: AnyState) -> AnyState:
    """Return two states joined, or raise UnreachableError if the join raises."""
    joined = attempt(cut.fork.join, left, right)
    if isinstance(joined, Failed):
        raise UnreachableError
    return joined
