"""Reductions: smaller versions of a case on which a law still fails.

Hypothesis makes the draws small; these make the case short. Each reduction of a case that a plan could
run is again such a case: events and forks may be left out, and a fork may be given fewer slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from anabranch.laws.searching.case_sources import SECOND, Ground
from anabranch.laws.searching.cuts import Cut
from anabranch.laws.searching.reachable import Apart, Case, Descent, Move, change_fields
from anabranch.model.events import Event
from anabranch.model.program import Program
from anabranch.model.slices import Slice, Slices
from anabranch.model.values.event_times import is_timestamped, time_field, write_time

ENDS = ("lefts", "rights", "seconds", "thirds")


def reduce_case(ground: Ground, case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a case that still fails and that can't be reduced further."""
    shorter: Case | None = case
    while shorter is not None:
        case = shorter
        shorter = next(filter(fails, list_shorter(ground.program, case)), None)
    settled = settle_times(case)
    if settled != case and fails(settled):
        case = settled
    simpler: Case | None = case
    while simpler is not None:
        case = simpler
        simpler = next(filter(fails, list_simpler(ground, case)), None)
    return case


def list_simpler(ground: Ground, case: Case) -> Iterator[Case]:
    """Yield the cases with one simpler value."""
    for event in case.list_events():
        for simpler in ground.list_simpler(event):
            yield case.map_events(partial(_put, event, simpler))


def _put(old: Event, new: Event, event: Event) -> Event:
    return new if event is old else event


def list_shorter(program: Program, case: Case) -> Iterator[Case]:
    """Yield the cases with one element less, the shortest first."""
    yield from _without_descents(program, case)
    yield from _with_moves(case, case.moves, lambda moves: replace(case, moves=moves))
    for place, descent in enumerate(case.descents):

        def put(moves: tuple[Move, ...], place: int = place, old: Descent = descent) -> Case:
            descents = list(case.descents)
            descents[place] = replace(old, moves=moves)
            return replace(case, descents=tuple(descents))

        yield from _with_moves(case, descent.moves, put)
    for name in ENDS:
        events = getattr(case, name)
        for place in range(len(events)):
            yield replace(case, **{name: events[:place] + events[place + 1 :]})
    if case.cut is not None:
        yield from _with_narrower_cuts(program, case, case.cut)


def _without_descents(program: Program, case: Case) -> Iterator[Case]:
    """Yield the case with one fork less, or with fewer slices given to a fork."""
    for place, descent in enumerate(case.descents):
        before, after = case.descents[:place], case.descents[place + 1 :]
        name, _ = descent.cut.side(descent.side)
        if name != descent.cut.fork.parent:
            continue
        if before:
            merged = replace(before[-1], moves=before[-1].moves + descent.moves)
            yield replace(case, descents=(*before[:-1], merged, *after))
        else:
            yield replace(case, moves=case.moves + descent.moves, descents=after)


def _with_moves(
    case: Case, moves: tuple[Move, ...], put: Callable[[tuple[Move, ...]], Case]
) -> Iterator[Case]:
    for place, move in enumerate(moves):
        before, after = moves[:place], moves[place + 1 :]
        yield put(before + after)
        if isinstance(move, Apart):
            yield put((*before, *move.lefts, *move.rights, *after))
            for side in ("lefts", "rights"):
                events = getattr(move, side)
                for index in range(len(events)):
                    fewer = replace(move, **{side: events[:index] + events[index + 1 :]})
                    yield put((*before, fewer, *after))


def _with_narrower_cuts(program: Program, case: Case, cut: Cut) -> Iterator[Case]:
    lanes = program.lanes
    lefts = [*case.lefts, *(case.events if case.side == "left" else ())]
    rights = [*case.rights, *(case.events if case.side == "right" else ())]
    if case.inner is None:
        for narrower in _list_narrower(cut, lefts, rights, lanes):
            yield replace(case, cut=narrower)
        return
    # The right side is cut once more, so it must stay at least as wide as that cut.
    for fewer in _list_fewer(cut.left, lefts, lanes):
        yield replace(case, cut=Cut(cut.fork, fewer, cut.right))
    for narrower in _list_narrower(case.inner, [*case.seconds], [*case.thirds], lanes):
        yield replace(case, inner=narrower)


def _list_narrower(
    cut: Cut, lefts: list[Event], rights: list[Event], lanes: int | None
) -> Iterator[Cut]:
    for fewer in _list_fewer(cut.left, lefts, lanes):
        yield Cut(cut.fork, fewer, cut.right)
    for fewer in _list_fewer(cut.right, rights, lanes):
        yield Cut(cut.fork, cut.left, fewer)


def _list_fewer(slices: Slices, events: list[Event], lanes: int | None) -> Iterator[Slices]:
    parts: list[Slice] = list(slices)
    for part in parts:
        rest = Slices(other for other in parts if other != part)
        if len(rest) and all(rest.covers(event, lanes) for event in events):
            yield rest


def settle_times(case: Case) -> Case:
    """Return a case whose times are 1, 2, 3 …, or so many seconds, with equal ones still equal."""
    times = sorted({event.time for event in case.list_events()})
    settled = {time: place for place, time in enumerate(times, start=1)}
    return case.map_events(lambda event: _set_time(event, settled[event.time]))


def _set_time(event: Event, place: int) -> Event:
    event_type = event.event_type
    time = write_time(event_type, place * SECOND if is_timestamped(event_type) else place)
    return event._replace(data=change_fields(event.data, {time_field(event_type): time}))
