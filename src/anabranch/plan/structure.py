"""Structure: what can run in parallel under a dependence relation, read from the program alone.

A level is one cut of the event types by keys and markers. In the taxi program, the hour orders all tips
and positions; below it, each taxi is independent: two levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from anabranch.model.events import LANE, EventType
from anabranch.model.handlers import reads_state
from anabranch.model.markers import is_marker, orders_itself, ties
from anabranch.model.program import Program

Kind = Literal["stateless", "keyed", "forked", "mixed", "sequential"]


@dataclass(frozen=True)
class Role:
    """An event type's role: it synchronises others, is ordered among its own, or is free of order."""

    event_type: EventType
    role: Literal["marker", "ordered", "free"]
    per: tuple[str, ...]
    tied: tuple[EventType, ...]
    emits: bool
    reads_state: bool

    def describe(self) -> str:
        """Return the role as text."""
        per = f" per {', '.join(self.per)}" if self.per else ""
        if self.role == "marker":
            return f"marker{per}: waits for the events it depends on"
        if self.role == "ordered":
            return f"ordered{per}"
        others = ", ".join(event_type.__name__ for event_type in self.tied)
        return f"free among its own, ordered with {others}" if others else "free: any order"


@dataclass(frozen=True)
class Level:
    """One cut: the keys that separate, then the markers above the rest."""

    keys: tuple[str, ...]
    markers: tuple[EventType, ...]
    below: tuple[EventType, ...]


@dataclass(frozen=True)
class Structure:
    """What can run in parallel in a program, and the reasons."""

    kind: Kind
    levels: tuple[Level, ...]
    roles: tuple[Role, ...]
    needs_forked_state: tuple[EventType, ...]
    reasons: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the fields that every dependence requires to be equal: different values are independent."""
        return self.levels[0].keys if self.levels else ()


def read_structure(program: Program) -> Structure:
    """Return the structure that a program's dependence, forks and states allow."""
    levels = tuple(_cut(program, program.event_types, ()))
    roles = tuple(_describe_role(program, event_type) for event_type in program.event_types)
    reasons: list[str] = []
    wanted = _classify(program, levels, roles, reasons)
    kind = _restrict(program, wanted, levels, reasons)
    leaves = [role for role in roles if role.role != "marker" and role.emits and role.reads_state]
    has_marker = any(level.markers for level in levels)
    # Two event types that depend on each other cut each other's folds, even if neither is a marker.
    needing = tuple(
        role.event_type
        for role in leaves
        if has_marker or _depends_on_others(program, role.event_type)
    )
    reasons += [
        f"the output of {event_type.__name__} depends on the state, so its nodes need their "
        f"part of the state after each {'marker' if has_marker else 'event it depends on'}"
        for event_type in needing
    ]
    return Structure(kind, levels, roles, needing, tuple(reasons))


def _depends_on_others(program: Program, event_type: EventType) -> bool:
    return any(
        program.dependence.restrictions(event_type, t)
        for t in program.event_types
        if t is not event_type
    )


def _cut(program: Program, event_types: Sequence[EventType], known: tuple[str, ...]) -> list[Level]:
    """Cut by the fields that all dependences share, then by markers, and again below them."""
    pairs = _restrictions(program, event_types)
    common = set.intersection(*map(set, pairs)) - {LANE} if pairs else set()
    keys = tuple(sorted(common - set(known)))
    found = [event_type for event_type in event_types if is_marker(program.dependence, event_type)]
    top = [
        event_type
        for event_type in found
        if _orders(program, event_type, event_types, (*known, *keys))
    ]
    below = tuple(event_type for event_type in event_types if event_type not in top)
    if not keys and not top:
        return []
    level = Level(keys, tuple(top), below)
    return [level, *_cut(program, below, (*known, *keys))] if below else [level]


def _orders(
    program: Program, event_type: EventType, event_types: Sequence[EventType], keys: tuple[str, ...]
) -> bool:
    """Return whether a marker is above the others here: it requires no more than equal keys.

    A marker above it in turn does not count: the month orders the days of each meter, which does
    not make a day order more than its own meter.
    """
    return any(
        other is not event_type
        and not _is_above(program, other, event_type)
        and any(set(same) <= set(keys) for same in restrictions)
        for other in event_types
        if (restrictions := program.dependence.restrictions(event_type, other))
    )


def _is_above(program: Program, marker: EventType, event_type: EventType) -> bool:
    across = program.dependence.restrictions(marker, event_type)
    within = program.dependence.restrictions(event_type, event_type)
    strictly = all(any(set(a) < set(w) for a in across) for w in within)
    return is_marker(program.dependence, marker) and bool(within) and strictly


def _restrictions(program: Program, event_types: Sequence[EventType]) -> list[tuple[str, ...]]:
    return [
        same
        for place, a in enumerate(event_types)
        for b in event_types[place:]
        for same in program.dependence.restrictions(a, b)
    ]


def _describe_role(program: Program, event_type: EventType) -> Role:
    handler, dependence = program.initial.handlers[event_type], program.dependence
    ordering = [
        same for same in dependence.restrictions(event_type, event_type) if LANE not in same
    ]
    per = tuple(sorted(set.intersection(*map(set, ordering)))) if ordering else ()
    role: Literal["marker", "ordered", "free"] = "free"
    if is_marker(dependence, event_type):
        role = "marker"
    elif orders_itself(dependence, event_type):
        role = "ordered"
    tied = tuple(other for other in program.event_types if ties(dependence, event_type, other))
    emits = handler.output is not None
    return Role(event_type, role, per, tied, emits, emits and reads_state(handler.output))


def _classify(
    program: Program, levels: tuple[Level, ...], roles: tuple[Role, ...], reasons: list[str]
) -> Kind:
    if not _restrictions(program, program.event_types):
        handlers = program.initial.handlers.values()
        if all(handler.update is None for handler in handlers):
            reasons.append("no event changes the state: every event is independent")
            return "stateless"
        reasons.append("no event depends on another: all of them may be folded in parallel")
        return "forked"
    for level in levels:
        reasons += _describe_level(level)
    free = [role for role in roles if role.role == "free"]
    reasons += [
        f"{role.event_type.__name__} and {other.__name__} order each other: the rarer one "
        "runs at the root, and only the other runs in parallel"
        for role in free
        for other in role.tied
        if role.event_type.__name__ < other.__name__
    ]
    rest = (levels[-1].below if levels else ()) or program.event_types
    apart = program.dependence.components(rest)
    if len(apart) > 1:
        # Event types in the program's order.
        groups = [
            " and ".join(t.__name__ for t in program.event_types if t in group) for group in apart
        ]
        reasons.append(f"these are independent: {'; '.join(groups)}")
    if not levels and not free and len(apart) == 1:
        reasons.append(_describe_tie(program, rest))
        return "sequential"
    if len(levels) == 1 and levels[0].keys and not free:
        return "keyed"
    if free and (not levels or (len(levels) == 1 and not levels[0].keys)):
        return "forked"
    if not free and not any(level.keys for level in levels) and len(apart) == 1:
        reasons.append(f"{_describe_tie(program, rest)}, and nothing below the markers is free")
        return "sequential"
    return "mixed"


def _describe_level(level: Level) -> list[str]:
    reasons = []
    if level.keys:
        keys = ", ".join(level.keys)
        reasons.append(f"every dependence requires equal {keys}: different values are independent")
    if level.markers:
        names = " and ".join(event_type.__name__ for event_type in level.markers)
        verb = "synchronises" if len(level.markers) == 1 else "synchronise"
        reasons.append(f"{names} {verb} the events between: markers run at the root")
    return reasons


def _describe_tie(program: Program, event_types: Sequence[EventType]) -> str:
    """Return the pair that makes the order total; or, if only several together do, all of them."""
    pairs = [
        (a, b, same)
        for place, a in enumerate(event_types)
        for b in event_types[place:]
        for same in sorted(program.dependence.restrictions(a, b))
    ]
    for a, b, same in pairs:
        if not same:
            return f"{a.__name__} depends on {b.__name__} whatever their fields are"
    words = [f"{a.__name__}–{b.__name__} requires equal {', '.join(same)}" for a, b, same in pairs]
    return f"no field separates: {'; '.join(words)}"


def _restrict(
    program: Program, wanted: Kind, levels: tuple[Level, ...], reasons: list[str]
) -> Kind:
    """Return the kind that the program's forks allow, at most the kind that dependence allows."""
    if wanted in ("stateless", "sequential") or program.forks:
        return wanted
    keys = next((level.keys for level in levels if level.keys), ())
    a, b = _first_pair(program)
    if keys:
        reasons.append(
            f"the state is not kept per {keys[0]}: with state=MapOf(..., by={keys[0]!r}) it could be"
        )
    reasons.append(
        f"there is no fork and join, so {a} and {b} share one state: "
        "`anabranch check --synthesise` looks for a pair"
    )
    return "sequential"


def _first_pair(program: Program) -> tuple[str, str]:
    for a in program.event_types:
        for b in program.event_types:
            if program.dependence.restrictions(a, b):
                return a.__name__, b.__name__
    return program.event_types[0].__name__, program.event_types[-1].__name__
