"""Obstacles: the reasons why a plan has only one node, with the cure.

An obstacle names a pair of event types and what is missing: their independence, a fork, or enough events.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, NamedTuple

from anabranch.errors import PlanError
from anabranch.model.dependence import Depends
from anabranch.model.events import LANE, field_names
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.model.values.event_times import time_field
from anabranch.plan.assembly import TypeNode
from anabranch.plan.graph import connect
from anabranch.plan.optimizers.greedy import grow_type_tree, plan_greedily
from anabranch.plan.pricing.cost import PRICES, price
from anabranch.plan.pricing.duties import Duty, name_rate, name_share
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.structure import Structure
from anabranch.plan.tree import Plan


class Obstacle(NamedTuple):
    """A reason for one node: the event types that are kept together, and what would separate them."""

    pair: tuple[str, str]
    missing: Literal["independence", "fork", "events", "choice"]
    text: str


def explain_one_node(
    program: Program, structure: Structure, plan: Plan, rates: Rates
) -> tuple[Obstacle, ...]:
    """Return the reasons why a plan has only one node."""
    apart = _find_apart(program, structure)
    if apart is None:
        return (_explain_dependence(program),)
    if not program.forks:
        return (_explain_missing_fork(program, apart),)
    if structure.kind == "sequential":
        return (_explain_dependence(program),)
    node = grow_type_tree(program, rates.loads)
    if not node.children:
        return (_explain_rates(program, rates, apart),)
    pair = _pair_of(node)
    try:
        cut = plan_greedily(program, rates)
    except PlanError:
        return (_explain_missing_chain(program, pair),)
    return (_explain_choice(program, plan, cut, rates, pair),)


def _find_apart(
    program: Program, structure: Structure
) -> tuple[type, type, tuple[str, ...]] | None:
    """Return two event types of which events may run in parallel, and the fields that must differ."""
    pairs = [(a, b) for n, a in enumerate(program.event_types) for b in program.event_types[n:]]
    for a, b in pairs:
        if not program.dependence.restrictions(a, b):
            return a, b, ()
    return (*pairs[0], structure.keys) if structure.keys else None


def _explain_dependence(program: Program) -> Obstacle:
    """Return two event types of which every event depends on every other, with the declaration."""
    pairs = [(a, b) for n, a in enumerate(program.event_types) for b in program.event_types[n:]]
    always = [(a, b) for a, b in pairs if () in program.dependence.restrictions(a, b)]
    own = [(a, b) for a, b in always if a is b and a not in program.markers]
    a, b = (own or always or pairs)[0]
    names = a.__name__, b.__name__
    shared = [name for name in field_names(a) if name in field_names(b) and name != time_field(a)]
    text = f"every {names[0]} depends on every {'other' if a is b else names[1]}"
    text += f" ({stated})" if (stated := _find_statement(program, a, b)) else ""
    text += ", so their order matters and they stay together"
    if shared:
        text += (
            f". If only those of equal {' or '.join(shared)} do, "
            f"declare depends({', '.join(names)}, same={shared[0]!r})"
        )
    text += ". If they commute, drop the dependence: independent_updates_commute is then checked"
    return Obstacle(names, "independence", text)


def _find_statement(program: Program, a: type, b: type) -> str:
    for part in program._parts:
        if isinstance(part, Depends) and part.where is not None:
            forwards = part.event_type is a and b in part.others
            if forwards or (part.event_type is b and a in part.others):
                return f"{os.path.basename(part.where.file)}:{part.where.line}"
    return ""


def _explain_missing_fork(program: Program, apart: tuple[type, type, tuple[str, ...]]) -> Obstacle:
    a, b, fields = apart
    names = a.__name__, b.__name__
    if fields:
        subject = f"{' and '.join(dict.fromkeys(names))} of different {', '.join(fields)}"
        cure = f"with state=MapOf(..., by={fields[0]!r}) the state forks by itself"
    else:
        subject = _name_pair(*names)
        cure = "give the program fork= and join=, or a ready-made state that has them"
    text = (
        f"{subject} are independent, but there is no fork and join, so they share one state: "
        f"{cure}. They must keep join_undoes_fork and update_passes_through_join; "
        "`anabranch check --synthesise` looks for a pair that does"
    )
    return Obstacle(names, "fork", text)


def _explain_missing_chain(program: Program, pair: tuple[str, str]) -> Obstacle:
    forks = ", ".join(f"{f.parent} -> {f.left}, {f.right}" for f in program.forks)
    text = (
        f"{pair[0]} and {pair[1]} could run in parallel, but no fork leads from {program.initial.name} "
        f"to state types that handle them separately; the program has {forks}"
    )
    return Obstacle(pair, "fork", text)


def _explain_rates(
    program: Program, rates: Rates, apart: tuple[type, type, tuple[str, ...]]
) -> Obstacle:
    """Return why nothing separates at these rates: ordering events are too frequent, or all is one slice."""
    for event_type in program.event_types:
        own = [load for load in rates.loads if load.slice.event_type is event_type]
        if len(connect(program.dependence, [load.slice for load in own])) > 1:
            others = [
                t.__name__ for t in program.dependence.neighbours(event_type) if t is not event_type
            ]
            text = (
                f"{_name_pair(event_type.__name__, event_type.__name__)} could run in parallel, but at these "
                f"rates {' and '.join(others)} {'are' if len(others) > 1 else 'is'} about as frequent, "
                "and each requires a join"
            )
            return Obstacle((event_type.__name__, event_type.__name__), "events", text)
    busiest = max(rates.loads, key=lambda load: load.rate)
    text = (
        f"the program could be cut, but at these rates there is nothing to separate: {busiest.slice} "
        f"arrives as one slice of {name_rate(busiest.rate)}, and a node can take "
        f"{name_rate(PRICES.capacity)}. More channels, more keys or a higher rate would cut it"
    )
    return Obstacle((apart[0].__name__, apart[1].__name__), "events", text)


def _name_pair(a: str, b: str) -> str:
    return f"two {a}" if a == b else f"{a} and {b}"


def _explain_choice(
    program: Program, plan: Plan, cut: Plan, rates: Rates, pair: tuple[str, str]
) -> Obstacle:
    here, there = price(program, plan, rates), price(program, cut, rates)
    subject = _name_pair(*pair)
    if plan.name in ("sequential", "keyed"):
        text = (
            f"{subject} could run in parallel, but the optimizer {plan.name!r} never separates them"
        )
        return Obstacle(pair, "choice", text)
    text = (
        f"{subject} could run in parallel, but not at these rates: one node is busy "
        f"{name_share(here.busiest)} of its time, and {len(cut.nodes())} nodes would cost "
        f"{there.total / here.total:.3g} times as much, for {there.rounds:,.2g} rounds of "
        "synchronization a second"
    )
    return Obstacle(pair, "events", text)


def _pair_of(node: TypeNode) -> tuple[str, str]:
    first, second = (
        sorted(event_type.__name__ for event_type in child.event_types())
        for child in node.children[:2]
    )
    return first[0], second[0]


def note_plan(
    program: Program, plan: Plan, rates: Rates, duties: Mapping[str, Duty]
) -> tuple[str, ...]:
    """Return the effects of the rates on a plan: spread slices, shared nodes, overloaded nodes."""
    notes = [*_note_lanes(plan, rates)]
    for path, duty in duties.items():
        shared = _find_shared(program, duty)
        if shared and len(duties) > 1:
            notes.append(
                f"node {path} could be cut further ({shared}), but {name_rate(duty.rate)} keep "
                f"it busy for {name_share(duty.busy)} of its time: joining would cost more"
            )
        if duty.busy > 1:
            notes.append(
                f"node {path} can't keep up: it would need {name_share(duty.busy)} of its time"
            )
    waits = [d for d in duties.values() if not d.node.children and d.parent_syncs]
    bare = {d.node.state for d in waits if program.state_type(d.node.state).shape.zero is MISSING}
    if bare:
        which = "" if len(program.state_types) == 1 else f" for {', '.join(sorted(bare))}"
        notes.append(
            f"no zero is declared{which}, so leaves can't fold from nothing: "
            "each waits for its part of the state after a marker"
        )
    return tuple(notes)


def _note_lanes(plan: Plan, rates: Rates) -> list[str]:
    notes = []
    laned = [part for part in plan.root.subtree() if part.choice(LANE) is not None]
    for load in rates.loads:
        lanes = sum(part.overlaps(load.slice) for part in laned)
        if lanes > 1 and load.slice.choice(LANE) is None:
            notes.append(
                f"{load.slice} has {name_rate(load.rate)}, more than one node's "
                f"{name_rate(PRICES.capacity)}: it is spread over {lanes} lanes"
            )
    return notes


def _find_shared(program: Program, duty: Duty) -> str:
    """Return the names of slices of one leaf that could have nodes of their own."""
    if duty.node.children or len(duty.loads) < 2:
        return ""
    below = grow_type_tree(program, duty.loads).children
    return " | ".join(_name_loads(_all_loads(child)) for child in below[:3])


def _all_loads(node: TypeNode) -> list[Load]:
    return [*node.loads, *(load for child in node.children for load in _all_loads(child))]


def _name_loads(loads: list[Load]) -> str:
    first = str(loads[0].slice)
    return first if len(loads) == 1 else f"{first} +{len(loads) - 1} more"
