"""Functions that always raise: a defect of the program, which every law would pass over.

An event on which a function raises is set aside, on both sides of every law. So a typo in an update keeps all
laws. Here each update and output has to return once, on some reachable state and some event.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import Phase, assume, find, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, NoSuchExample, Unsatisfiable

from anabranch.eventtime.timers import Timetable
from anabranch.laws.reports import RaisingFunction
from anabranch.laws.searching.case_sources import Draw, EventClock, Ground
from anabranch.laws.searching.generators import Strategy, make_settings
from anabranch.laws.searching.reachable import Case, UnreachableError, reach
from anabranch.laws.searching.reductions import reduce_case
from anabranch.laws.searching.scripts import Script
from anabranch.model.events import FOREVER, EventType
from anabranch.model.failures import Failed, attempt
from anabranch.model.handlers import Handler
from anabranch.model.program import Program, StateType
from anabranch.model.slices import Slices
from anabranch.model.step import step

TRIES = 60
"""How many cases a function has to return in one of. Most do in the first."""

Call = Callable[[StateType, Any, Any], Any]
"""Calls one function of a handler: with the type of a state, the state and an event."""


@dataclass(frozen=True)
class Suspect:
    """A function of a program that may always raise."""

    role: str
    event_type: EventType
    state_type: StateType
    call: Call
    events: tuple[EventType, ...]
    """The types of the events that lead to a call."""

    def try_case(self, program: Program, case: Case) -> Any:
        """Return what the function returns on a case or how it fails; None if it is not called."""
        try:
            state_type, state = reach(program, case)
        except UnreachableError:
            return None
        return attempt(lambda: (self.call(state_type, state, case.events[0]),))


def find_raising(
    ground: Ground, *, seed: int = 0, target: str | None = None
) -> tuple[RaisingFunction, ...]:
    """Return the functions of a program that raise in every case, each with the smallest one."""
    found = (_examine(ground, suspect, seed, target) for suspect in list_suspects(ground.program))
    return tuple(one for one in found if one is not None)


def list_suspects(program: Program) -> Iterator[Suspect]:
    """Yield the updates, outputs and dues of a program."""
    for state_type in program.state_types:
        for event_type, handler in state_type.handlers.items():
            for role in ("output", "update"):
                if getattr(handler, role) is not None:
                    yield Suspect(
                        role, event_type, state_type, _call_part(role, handler), (event_type,)
                    )
    for timer in program.timers:
        alone = _keep_timer(program, timer)
        yield Suspect("due", timer.event_type, program.initial, alone, tuple(program.inputs))


def _call_part(role: str, handler: Handler) -> Call:
    output = role == "output"
    part = replace(handler, update=None) if output else replace(handler, output=None)
    return lambda state_type, state, event: step(state_type.shape, part, state, event)


def _keep_timer(program: Program, timer: Handler) -> Call:
    """Return a call of one timer's `due` on the entry that an event has changed."""

    def ask(state_type: StateType, state: Any, event: Any) -> Any:
        outcome = attempt(state_type.step, state, event)
        if isinstance(outcome, Failed):
            return None  # That is another function's defect.
        return Timetable(program, state, (), FOREVER, timers=(timer,)).step(event)

    return ask


def _make_cases(ground: Ground, suspect: Suspect) -> Strategy | None:
    ways = ground.cuts.paths(suspect.state_type.name)
    if not ways:
        return None

    @st.composite
    def cases(draw: Draw) -> Any:
        clock = EventClock(ground.program)
        case, name, within = ground.draw_course(draw, clock, ways)
        mine = Slices([part for part in within if part.event_type in suspect.events])
        assume(len(tuple(mine)) > 0)
        return replace(case, events=(ground.draw_event(draw, clock, name, mine),))

    made: Strategy = cases()
    return made


def _examine(
    ground: Ground, suspect: Suspect, seed: int, target: str | None
) -> RaisingFunction | None:
    strategy, program = _make_cases(ground, suspect), ground.program
    if strategy is None:
        return None
    dice = random.Random(f"{seed} {suspect.role} {suspect.event_type.__name__}")
    raised = 0

    def returns(case: Case) -> bool:
        nonlocal raised
        outcome = suspect.try_case(program, case)
        raised += isinstance(outcome, Failed)
        return outcome is not None and not isinstance(outcome, Failed)

    if _search(strategy, returns, dice, phases=(Phase.generate,)) or not raised:
        return None

    def raises(case: Case) -> bool:
        return isinstance(suspect.try_case(program, case), Failed)

    case = _search(strategy, raises, dice)
    if case is None:
        return None
    return _describe(program, suspect, reduce_case(ground, case, raises), raised, target)


def _search(
    strategy: Strategy,
    wants: Callable[[Case], bool],
    dice: random.Random,
    *,
    phases: tuple[Phase, ...] = (Phase.generate, Phase.shrink),
) -> Case | None:
    how = settings(make_settings(TRIES), phases=phases)
    try:
        found: Case = find(strategy, wants, settings=how, random=dice)
    except (NoSuchExample, Unsatisfiable, Flaky):
        return None
    return found


def _describe(
    program: Program, suspect: Suspect, case: Case, tried: int, target: str | None
) -> RaisingFunction:
    outcome = suspect.try_case(program, case)
    script = Script(program)
    state_type = script.reach(case)
    script.run(f"e = {script.event(case.events[0])}")
    error = f"{outcome.kind}: {' '.join(outcome.message.split())}"
    if suspect.role == "due":
        script.run(f"s = {script.update(state_type, 's', 'e')}", "s")
        asked = f'program.initial.handlers[program.event_type("{suspect.event_type.__name__}")].due'
        if program.initial.shape.by is None:
            script.add(f"{asked}(s)  # raises {error}")
        else:
            script.add(f"# {asked} raises on the entry of e: {error}")
    else:
        call = script.output if suspect.role == "output" else script.update
        script.add(f"{call(state_type, 's', 'e')}  # raises {error}")
    name = f"the {suspect.role} of {suspect.event_type.__name__}"
    if len(program.state_types) > 1:
        name += f" in {suspect.state_type.name}"
    return RaisingFunction(name, error, outcome.place, tried, script.write(target))
