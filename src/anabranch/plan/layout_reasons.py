"""Where a layout runs each event type, and why it is not more parallel.

Pure data and text, for `explain`. The roles are those of `plan.structure`, the places those of the layout.
"""

from __future__ import annotations

from typing import NamedTuple

from anabranch.model.events import EventType, field_names
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.plan.foldable_leaves import find_leaf_types
from anabranch.plan.layouts import Layout, find_tie
from anabranch.plan.pricing.duties import name_slices
from anabranch.plan.pricing.rates import partition_fields
from anabranch.plan.structure import Role, Structure, read_structure
from anabranch.plan.tree import Plan, PlanNode

MOST_LINES = 8
"""With more shards than this, the middle ones are counted, not listed."""


class Whereabouts(NamedTuple):
    """Where events of a type run, whether in parallel, and the reason."""

    event_type: str
    place: str
    apart: bool
    why: str


def locate_types(program: Program, layout: Layout) -> list[Whereabouts]:
    """Return where each event type runs, in the program's order."""
    structure = read_structure(program)
    return [_locate(program, layout, structure, role) for role in structure.roles]


def _locate(program: Program, layout: Layout, structure: Structure, role: Role) -> Whereabouts:
    event_type, name, words = role.event_type, role.event_type.__name__, role.describe()
    if layout.way == "sequential" or layout.shards == 1:
        why = _explain_one(program, structure, role) if layout.way == "sequential" else "one shard"
        return Whereabouts(name, "in one shard, in order", False, why)
    if event_type in layout.cuts and layout.way in ("replicated", "shared"):
        return Whereabouts(name, "in every shard, in order", False, _explain_copied(layout, role))
    if layout.way == "forked":
        if event_type not in layout.leaves:
            return Whereabouts(name, "at the root, in order", False, _explain_root(program, role))
        spread = layout.lanes is not None or event_type not in layout.entries
        by = (
            "spread over the shards"
            if spread
            else f"in the shard of its {layout.entries[event_type]}"
        )
        later = "; its outputs follow the root's state" if event_type in layout.deferring else ""
        return Whereabouts(name, by, True, words + later)
    if layout.way == "replicated":
        return Whereabouts(name, "spread over the shards", True, words)
    (key,) = layout.keys
    return Whereabouts(
        name, f"in the shard of its {key}", True, _explain_key(program, layout, role)
    )


def _explain_copied(layout: Layout, role: Role) -> str:
    if layout.way == "shared":
        return "it changes the state that all keys see"
    return f"{role.describe()}; each shard follows it on a copy of the state"


def _explain_key(program: Program, layout: Layout, role: Role) -> str:
    (key,) = layout.keys
    if layout.way == "shared":
        return f"it changes the entry of its {key} only"
    if role.event_type in layout.leaves:
        return f"{role.describe()}; events of a hot {key} are spread"
    free = role.event_type in find_leaf_types(program) and not (role.emits and role.reads_state)
    return f"free within one {key}: hot keys can be spread" if free else role.describe()


def _explain_root(program: Program, role: Role) -> str:
    if role.role != "free" or role.tied:
        return role.describe()
    if role.emits and role.reads_state:
        return "its output reads a state with many entries"
    return "its state has no fork, join and zero to fold from"


def _explain_one(program: Program, structure: Structure, role: Role) -> str:
    restrictions = program.dependence.restrictions(role.event_type, role.event_type)
    if () in restrictions:
        return f"every {role.event_type.__name__} depends on every other"
    if structure.keys and program.initial.shape.by not in structure.keys:
        return f"the state is not kept per {structure.keys[0]}"
    always = [
        t for t in program.event_types if () in program.dependence.restrictions(role.event_type, t)
    ]
    if program.initial.shape.zero is MISSING or not program.forks:
        return f"{role.describe()}, but the state has no fork, join and zero"
    if always:
        return f"every {role.event_type.__name__} depends on every {always[0].__name__}"
    return role.describe()


def explain_fields(program: Program) -> list[str]:
    """Return, for each field that some dependence requires to be equal, whether its values separate."""
    lines = []
    for field in partition_fields(program):
        tie = find_tie(program, field, program.event_types)
        without = [
            event_type.__name__
            for event_type in program.event_types
            if field not in field_names(event_type)
        ]
        if tie is None:
            lines.append(f"{field} separates: different values are independent")
        elif without:
            lines.append(f"{field} does not separate everything: {without[0]} has no {field}")
        else:
            lines.append(
                f"{field} does not separate: {tie} depend on each other at different {field}"
            )
    return lines


def draw_layout(plan: Plan) -> list[str]:
    """Return the plan of a layout as a tree in text; nodes that only join and fork are left out."""
    several = len({node.state for node in plan.nodes().values()}) > 1
    lines = [_name_node(plan.root, several=several)]
    _draw_below(plan.root, "", lines, several=several)
    return lines


def _draw_below(node: PlanNode, stem: str, lines: list[str], *, several: bool) -> None:
    below = [found for child in node.children for found in _skip_joins(child)]
    for place, child in enumerate(below):
        last = place == len(below) - 1
        middle = len(below) > MOST_LINES and 2 < place < len(below) - 1
        if middle and not child.children and not below[place - 1].children:
            if place == 3:
                lines.append(f"{stem}├─ … {_count_alike(below, place)} more like these")
            continue
        lines.append(f"{stem}{'└─ ' if last else '├─ '}{_name_node(child, several=several)}")
        _draw_below(child, stem + ("   " if last else "│  "), lines, several=several)


def _count_alike(below: list[PlanNode], place: int) -> int:
    return sum(not w.children for w in below[place:-1])


def _skip_joins(node: PlanNode) -> list[PlanNode]:
    if len(node.slices) or not node.children:
        return [node]
    return [found for child in node.children for found in _skip_joins(child)]


def _name_node(node: PlanNode, *, several: bool) -> str:
    named = [
        f"{event_type} ({cut})" if cut else event_type
        for event_type, cut in name_slices(node.slices)
    ]
    if len(named) > 6:
        named[5:] = [f"+{len(named) - 5} more"]
    place = node.machine or "no root: shards are independent"
    kept = f"  [{node.state}]" if several else ""
    return f"{place}  {'; '.join(named)}".rstrip() + kept


def name_types(event_types: frozenset[EventType] | set[EventType], program: Program) -> str:
    """Return the names of some event types, in the program's order."""
    return ", ".join(
        event_type.__name__ for event_type in program.event_types if event_type in event_types
    )
