"""Explanations: what can run in parallel in a program, which plan follows from it, and why.

Pure data, with a plain text and a JSON form; this module changes no plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import TextWrapper
from typing import Any, NamedTuple

from anabranch.errors import InputError, PlanError
from anabranch.model.program import Program
from anabranch.plan.implied_forks import add_copies
from anabranch.plan.obstacles import Obstacle, explain_one_node, note_plan
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.cost import Cost, price
from anabranch.plan.pricing.duties import (
    Duty,
    count_nodes,
    list_duties,
    name_duration,
    name_rate,
    name_share,
    name_slices,
)
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.structure import Level, Structure, read_structure
from anabranch.plan.tree import Plan

APART = "·"
"""The sign for independence in the table."""

_WIDTH = 78
"""The column at which sentences are wrapped; tables are as wide as necessary."""


class Rival(NamedTuple):
    """The result of one optimizer for a program: a plan and its cost, or the reason for no plan."""

    optimizer: str
    plan: Plan | None
    cost: Cost | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "optimizer": self.optimizer,
            "nodes": len(self.plan.nodes()) if self.plan else None,
            "height": self.plan.height if self.plan else None,
            "cost": self.cost._asdict() if self.cost else None,
            "reason": self.reason or None,
        }


@dataclass(frozen=True)
class Explanation:
    """A program's dependence, structure and plan, with the reasons as text.

    `obstacles` holds why everything is on one node; it is empty for a plan of several nodes.
    """

    program: Program
    rates: Rates
    structure: Structure
    plan: Plan
    duties: tuple[Duty, ...]
    cost: Cost
    notes: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]

    @property
    def keeps_up(self) -> bool:
        """Return whether no node is busy for more than all of its time."""
        return self.cost.busiest <= 1

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return the reasons for the plan: what the program allows, then the effects of the rates."""
        return (*self.structure.reasons, *self.notes)

    def dependence_rows(self) -> list[list[str]]:
        """Return the dependence as a table: a row per event type, its name first."""
        return [
            [a.__name__, *(describe_pair(self.program, a, b) for b in self.program.event_types)]
            for a in self.program.event_types
        ]

    def __str__(self) -> str:
        sections = [
            f"{self.program.name}: {self.structure.kind}, {count_nodes(self.plan)}",
            _title("dependence", _align([["", *self._types()], *self.dependence_rows()])),
            _title(
                "event types",
                _align([[r.event_type.__name__, r.describe()] for r in self.structure.roles]),
            ),
            _title("cut", _number(describe_levels(self.structure.levels))),
            _title(f"plan, {self.plan.name}", _align(self.plan_rows(), right=(1, 2, 3))),
            _title("cost", describe_cost(self.cost)),
            _title("reasons", _itemise(self.reasons)),
            _title("why one node?", _itemise([o.text for o in self.obstacles])),
        ]
        return "\n\n".join(section for section in sections if section) + "\n"

    def plan_rows(self) -> list[list[str]]:
        """Return the plan as a table: the tree, then rate, syncs, time, and more as needed."""
        several = len({duty.node.state for duty in self.duties}) > 1
        placed = any(duty.node.machine for duty in self.duties)
        head = ["node", "events", "syncs", "busy"]
        rows = [[*head, *(["state"] if several else []), *(["machine"] if placed else [])]]
        for stem, duty in zip(_grow_stems(self.duties), self.duties, strict=True):
            row = [stem + describe_node(duty), name_rate(duty.rate) if duty.loads else ""]
            row += [name_rate(duty.syncs) if duty.node.children else "", name_share(duty.busy)]
            row += [duty.node.state] if several else []
            rows.append(row + ([duty.node.machine or ""] if placed else []))
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "program": self.program.name,
            "kind": self.structure.kind,
            "event_types": {
                role.event_type.__name__: {
                    "role": role.role,
                    "per": list(role.per),
                    "words": role.describe(),
                    "depends": {
                        other.__name__: describe_pair(self.program, role.event_type, other)
                        for other in self.program.dependence.neighbours(role.event_type)
                    },
                }
                for role in self.structure.roles
            },
            "levels": [
                {
                    "keys": list(level.keys),
                    "markers": [event_type.__name__ for event_type in level.markers],
                    "below": [event_type.__name__ for event_type in level.below],
                }
                for level in self.structure.levels
            ],
            "plan": {
                "name": self.plan.name,
                "height": self.plan.height,
                "nodes": [_describe_duty(duty) for duty in self.duties],
            },
            "cost": self.cost._asdict(),
            "keeps_up": self.keeps_up,
            "reasons": list(self.reasons),
            "why_one_worker": [obstacle._asdict() for obstacle in self.obstacles],
        }

    def _types(self) -> list[str]:
        return [event_type.__name__ for event_type in self.program.event_types]


def explain(
    program: Program, rates: Rates, optimizer: str = "best", machines: Sequence[str] = ()
) -> Explanation:
    """Plan a program at these rates, and return the plan with its reasons.

    A state that only markers change forks by copying, on Spark as in any plan.
    """
    program = add_copies(program)
    if optimizer not in OPTIMIZERS:
        raise InputError(
            f"there is no optimizer {optimizer!r}",
            expected=f"one of {', '.join(OPTIMIZERS)}",
            got=optimizer,
        )
    structure = read_structure(program)
    plan = OPTIMIZERS[optimizer](program, rates, machines)
    duties = list_duties(program, plan, rates)
    notes = note_plan(program, plan, rates, duties)
    obstacles = explain_one_node(program, structure, plan, rates) if len(duties) == 1 else ()
    cost = price(program, plan, rates)
    return Explanation(
        program, rates, structure, plan, tuple(duties.values()), cost, notes, obstacles
    )


def compare(program: Program, rates: Rates, machines: Sequence[str] = ()) -> list[Rival]:
    """Return the result of each optimizer for a program at these rates."""
    program = add_copies(program)
    rivals = []
    for name, optimize in OPTIMIZERS.items():
        try:
            plan = optimize(program, rates, machines)
        except PlanError as error:
            rivals.append(Rival(name, None, None, error.what))
        else:
            rivals.append(Rival(name, plan, price(program, plan, rates), ""))
    return rivals


def rival_rows(rivals: Iterable[Rival]) -> list[list[str]]:
    """Return a comparison as a table; the first row names the columns."""
    rivals = list(rivals)
    least = min((rival.cost.total for rival in rivals if rival.cost), default=0.0)
    rows = [["optimizer", "nodes", "height", "network", "rounds", "busiest", "cost", ""]]
    for name, plan, cost, reason in rivals:
        if plan is None or cost is None:
            rows.append([name, "–", "", "", "", "", "", reason])
            continue
        ratio = f"{cost.total / least:.3g}×" if least else ""
        row = [name, str(len(plan.nodes())), str(plan.height), f"{cost.network_bytes:,.0f} B/s"]
        row += [name_rate(cost.rounds), name_share(cost.busiest), ratio]
        rows.append([*row, "can't keep up" if cost.busiest > 1 else ""])
    return rows


def write_comparison(rivals: Iterable[Rival]) -> str:
    """Return a comparison as plain text."""
    lines = _align(rival_rows(rivals), right=(1, 2, 3, 4, 5, 6))
    return (_title("optimizers, cost as a multiple of the least", lines) or "") + "\n"


def describe_pair(program: Program, a: type, b: type) -> str:
    """Return when two event types depend on each other: `·`, `always`, `same key`."""
    restrictions = program.dependence.restrictions(a, b)
    if not restrictions:
        return APART
    if () in restrictions:
        return "always"
    named = [" and ".join(field.lstrip("@") for field in same) for same in sorted(restrictions)]
    return "same " + " or same ".join(named)


def describe_levels(levels: Iterable[Level]) -> list[str]:
    """Return, for each level, what it cuts by."""
    lines = []
    for level in levels:
        if level.keys:
            lines.append(f"by {', '.join(level.keys)}")
        if level.markers:
            top = ", ".join(event_type.__name__ for event_type in level.markers)
            below = ", ".join(event_type.__name__ for event_type in level.below)
            inside = f" within each {', '.join(level.keys)}" if level.keys else ""
            lines.append(f"{top} above {below}{inside}" if below else f"{top}{inside}")
    return lines or ["nothing: the dependence connects all events"]


def describe_cost(cost: Cost) -> list[str]:
    """Return the cost of a plan as text."""
    rounds = (
        f"{cost.rounds:,.3g} rounds of synchronization a second" if cost.rounds else "no rounds"
    )
    network = f"{cost.network_bytes:,.0f} B/s" if cost.network_bytes else "nothing"
    work = f"{name_duration(cost.total)} of work for each second of stream"
    return [
        f"{network} on the network, {rounds}",
        f"busiest node {name_share(cost.busiest)}, {work}",
    ]


def describe_node(duty: Duty) -> str:
    """Return the slices of a node as text."""
    named = [
        f"{event_type} ({cut})" if cut else event_type
        for event_type, cut in name_slices(duty.node.slices)
    ]
    if len(named) > 4:
        named[3:] = [f"+{len(named) - 3} more"]
    return "; ".join(named) or "(joins and forks)"


def _describe_duty(duty: Duty) -> dict[str, Any]:
    return {
        "path": duty.path,
        "slices": [str(part) for part in duty.node.slices],
        "state": duty.node.state,
        "machine": duty.node.machine,
        "rate": duty.rate,
        "syncs": duty.syncs,
        "busy": duty.busy,
        "synchronises": duty.synchronises,
    }


def _grow_stems(duties: Sequence[Duty]) -> list[str]:
    """Return the tree lines in front of each node, in the order of a walk."""
    stems = []
    for duty in duties:
        sides = duty.path.split(".")[1:]
        above = "".join("   " if side == "1" else "│  " for side in sides[:-1])
        last = ("└─ " if sides[-1] == "1" else "├─ ") if sides else ""
        stems.append(above + last)
    return stems


def _title(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)]) if lines else ""


def _itemise(texts: Iterable[str]) -> list[str]:
    wrap = TextWrapper(_WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    return [line for text in texts for line in wrap.wrap(text)]


def _number(lines: Sequence[str]) -> list[str]:
    return (
        [f"{place}. {line}" for place, line in enumerate(lines, 1)] if len(lines) > 1 else [*lines]
    )


def _align(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
