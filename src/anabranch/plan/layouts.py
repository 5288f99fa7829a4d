"""Layouts: how a program is laid out over a fixed number of shards in a micro-batch engine.

There are five layouts; a program gets the best that it allows:

* `keyed`: all events of a key are in one shard; keys are independent. Declared hot keys are spread
  over all shards, as if each of them were a forked program of its own.
* `replicated`: only markers change the state. Every shard follows the markers itself, so all other
  events may go to any shard.
* `shared`: all events of a key are in one shard, and all keys see a common part that only control events
  change. Control events are sent to every shard, which follows them itself.
* `forked`: leaves fold the segment between two markers from `zero`, each shard by itself; the root
  joins these deltas and runs the markers. Outputs of leaves that depend on the state are deferred
  until the root has sent the leaves the state after each marker.
* `sequential`: one shard does everything, because no other layout would be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, Literal

from anabranch.model.dependence import write_depends
from anabranch.model.events import LANE, Event, EventType, field_names, spread
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.model.values.hashing import hash_stably
from anabranch.model.values.keys import plain_key
from anabranch.plan.foldable_leaves import find_leaf_types
from anabranch.plan.implied_forks import find_writers, only_markers_write
from anabranch.plan.structure import Structure, read_structure

Way = Literal["keyed", "replicated", "shared", "forked", "sequential"]


@dataclass(frozen=True)
class Layout:
    """The shards of each event, and whether a shard or the root folds it.

    Events of types in `cuts` go to every shard (where `keys` separate, only those of hot keys). Types in
    `leaves` are folded from zero, each by the state type it is mapped to; all others go through their home
    shard to the root. Types in `deferring` have outputs that depend on the state. `entries` names the field
    by which a leaf's state has entries: an entry is folded in one shard, unless it is one of the
    `hot_keys`, which are spread.
    """

    way: Way
    shards: int
    keys: tuple[str, ...]
    cuts: frozenset[EventType]
    reasons: tuple[str, ...]
    leaves: Mapping[EventType, str] = field(default_factory=dict)
    deferring: frozenset[EventType] = frozenset()
    entries: Mapping[EventType, str] = field(default_factory=dict)
    hot_keys: frozenset[Any] = frozenset()
    lanes: int | None = None

    @property
    def has_root(self) -> bool:
        """Return whether shards send deltas to a root."""
        return self.way == "forked" or bool(self.hot_keys)

    def route(self, event: Event) -> range:
        """Return the shards an event goes to."""
        if self.way == "sequential":
            return range(1)
        if self._goes_everywhere(event):
            return range(self.shards)
        spreads = self.way not in ("keyed", "shared") or self.is_hot(event)
        number = self._place(event) if spreads else self.home(event)
        return range(number, number + 1)

    def _goes_everywhere(self, event: Event) -> bool:
        """Return whether an event goes to every shard."""
        if self.way == "sequential" or type(event.data) not in self.cuts:
            return False
        return self.way != "keyed" or self.is_hot(event)

    def _place(self, event: Event) -> int:
        """Return the shard of an event that may go to any shard."""
        if self.lanes is not None and type(event.data) in self.leaves:
            return spread(event) % self.lanes % self.shards
        by = self.entries.get(type(event.data))
        value = None if by is None else plain_key(getattr(event.data, by))
        if by is None or value in self.hot_keys:
            return spread(event) % self.shards
        return hash_stably(value) % self.shards

    def home(self, event: Event) -> int:
        """Return the one shard that counts an event sent to several."""
        if self.way == "sequential":
            return 0
        return self._hash(event) % self.shards

    def counts(self, event: Event, shard: int) -> bool:
        """Return whether a shard is the one that counts an event."""
        return not self._goes_everywhere(event) or self.home(event) == shard

    def is_hot(self, event: Event) -> bool:
        """Return whether an event has a hot key, which is spread."""
        return bool(self.hot_keys) and self.key(event) in self.hot_keys

    def key(self, event: Event) -> Any:
        """Return the key by which an event is routed, where keys separate."""
        values = tuple(plain_key(getattr(event.data, key)) for key in self.keys)
        return values[0] if len(values) == 1 else values

    def root(self, event: Event) -> int:
        """Return the number of the root that runs an event."""
        return self._hash(event) % self.shards if self.way == "keyed" else 0

    def _hash(self, event: Event) -> int:
        if not self.keys or (self.way == "shared" and type(event.data) in self.cuts):
            return spread(event)
        return hash_stably(self.key(event))


def choose_layout(program: Program, shards: int, *, hot_keys: Iterable[Any] = ()) -> Layout:
    """Return the best layout of a program. `hot_keys` are the values of its key that are spread."""
    structure = read_structure(program)
    refused: list[str] = []
    if hasattr(program.initial.shape, "find_part"):
        found = _lay_out_shared(program, shards, frozenset(map(plain_key, hot_keys)), refused)
    elif program.timers:
        # The times of a timer depend on the whole entry, not on a part of it.
        refused.append(
            f"forked: {program.timers[0].event_type.__name__} is a timer, and needs the state"
        )
        found = _lay_out_keyed(program, structure, shards, frozenset(), refused)
    else:
        found = (
            _lay_out_replicated(program, structure, shards, refused)
            or _lay_out_forked(
                program, structure, shards, frozenset(map(plain_key, hot_keys)), refused
            )
            or _lay_out_keyed(
                program, structure, shards, frozenset(map(plain_key, hot_keys)), refused
            )
        )
    return found or Layout("sequential", 1, (), frozenset(), tuple(refused))


def _lay_out_keyed(
    program: Program,
    structure: Structure,
    shards: int,
    hot_keys: frozenset[Any],
    refused: list[str],
) -> Layout | None:
    keys = structure.keys
    shape = program.initial.shape
    if not keys:
        refused.append(f"keyed: {_explain_order(program)}")
        return None
    if shape.by not in keys:
        refused.append(
            f"keyed: the state is not kept per {keys[0]}; use MapOf(..., by={keys[0]!r})"
        )
        return None
    whole = [
        h.event_type.__name__ for h in program.initial.handlers.values() if shape.by not in h.enters
    ]
    if whole:
        refused.append(f"keyed: {', '.join(whole)} sees the whole state")
        return None
    reasons = [f"different values of {shape.by} are independent"]
    if not hot_keys:
        return Layout("keyed", shards, (shape.by,), frozenset(), tuple(reasons))
    leaves = find_leaf_types(program)
    deferring = [
        event_type.__name__ for event_type in _find_deferring(structure) if event_type in leaves
    ]
    if not leaves or deferring:
        why = (
            f"the output of {deferring[0]} depends on it"
            if deferring
            else "no events are free in it"
        )
        reasons.append(f"a hot {shape.by} is not spread: {why}")
        return Layout("keyed", shards, (shape.by,), frozenset(), tuple(reasons))
    names = ", ".join(event_type.__name__ for event_type in leaves)
    reasons.append(f"{names} of a hot {shape.by} is folded in parallel, from zero")
    cuts = _find_cuts(program, leaves)
    return Layout(
        "keyed",
        shards,
        (shape.by,),
        cuts,
        tuple(reasons),
        leaves,
        hot_keys=hot_keys,
        lanes=program.lanes,
    )


def _explain_order(program: Program) -> str:
    """Return which events make keys dependent, and which declaration would make them independent."""
    restrictions = program.dependence.restrictions
    for a, b in combinations_with_replacement(program.event_types, 2):
        keys = program.initial.list_shared_keys(a, b)
        if keys and () in restrictions(a, b):
            return (
                f"{a.__name__} depends on {b.__name__} whatever their fields are; "
                f"with {write_depends(a, b, same=keys)} different values of {keys[0]} run in parallel"
            )
    return "some events depend on each other whatever their fields are"


def _lay_out_shared(
    program: Program, shards: int, hot_keys: frozenset[Any], refused: list[str]
) -> Layout | None:
    handlers, by = program.initial.handlers.values(), program.initial.shape.by
    assert by is not None
    whole = [handler.event_type.__name__ for handler in handlers if handler.whole]
    if whole:
        refused.append(f"shared: {', '.join(whole)} sees the whole state")
        return None
    cuts = frozenset(handler.event_type for handler in handlers if by not in handler.enters)
    tied = find_tie(
        program, by, [event_type for event_type in program.event_types if event_type not in cuts]
    )
    if tied is not None:
        refused.append(f"shared: {tied} depend on each other at different values of {by} too")
        return None
    names = (
        " and ".join(
            event_type.__name__ for event_type in program.event_types if event_type in cuts
        )
        or "nothing"
    )
    shared = f"{names} changes the state that all keys see, in every shard"
    reasons = [f"{shared}; different values of {by} are independent"]
    if hot_keys:
        reasons.append(f"a hot {by} is not spread: its entry is changed in order")
    return Layout("shared", shards, (by,), cuts, tuple(reasons))


def find_tie(program: Program, by: str, event_types: Sequence[EventType]) -> str | None:
    """Return the names of two event types that depend on each other at different values of a field, or None."""
    for place, a in enumerate(event_types):
        for b in event_types[place:]:
            if any(by not in same for same in program.dependence.restrictions(a, b)):
                return f"{a.__name__} and {b.__name__}"
    return None


def _lay_out_replicated(
    program: Program, structure: Structure, shards: int, refused: list[str]
) -> Layout | None:
    others = [role for role in structure.roles if role.role != "marker"]
    if not others or not only_markers_write(program):
        refused.append("replicated: events other than markers change the state")
        return None
    if any(role.role == "ordered" or role.tied for role in others):
        refused.append("replicated: some events other than markers are ordered")
        return None
    names = ", ".join(event_type.__name__ for event_type in find_writers(program))
    reasons = (f"only {names} changes the state",)
    return Layout("replicated", shards, (), frozenset(program.markers), reasons)


def _lay_out_forked(
    program: Program,
    structure: Structure,
    shards: int,
    hot_keys: frozenset[Any],
    refused: list[str],
) -> Layout | None:
    if structure.keys:
        refused.append("forked: keys separate before any marker does")
        return None
    leaves = find_leaf_types(program)
    deferring = {event_type for event_type in _find_deferring(structure) if event_type in leaves}
    # Outputs that depend on a large state would need all of it sent to the leaves after every marker.
    excluded = {
        event_type for event_type in deferring if not _is_small(program, leaves[event_type])
    }
    leaves = {event_type: name for event_type, name in leaves.items() if event_type not in excluded}
    deferring -= excluded
    if not leaves:
        refused.append(_refuse_leaves(program, excluded))
        return None
    cuts = _find_cuts(program, leaves)
    rest = " and ".join(
        event_type.__name__ for event_type in program.event_types if event_type not in leaves
    )
    names = " and ".join(event_type.__name__ for event_type in leaves)
    reasons = [f"in parallel, from zero: {names}; at the root: {rest or 'nothing'}"]
    reasons += [
        f"the output of {event_type.__name__} depends on the state, so it is deferred until the root has it"
        for event_type in leaves
        if event_type in deferring
    ]
    return Layout(
        "forked",
        shards,
        (),
        cuts,
        tuple(reasons),
        leaves,
        frozenset(deferring),
        _find_entries(program, leaves),
        hot_keys,
        program.lanes,
    )


def _find_deferring(structure: Structure) -> list[EventType]:
    """Return the event types whose outputs read the state: a leaf that folds from zero does not have it."""
    return [role.event_type for role in structure.roles if role.emits and role.reads_state]


def _find_cuts(program: Program, leaves: Mapping[EventType, str]) -> frozenset[EventType]:
    """Return the event types at which a leaf's fold stops: those that depend on folded event types."""
    restrictions = program.dependence.restrictions
    others = [event_type for event_type in program.event_types if event_type not in leaves]
    return frozenset(
        event_type
        for event_type in others
        if any(restrictions(event_type, leaf) for leaf in leaves)
    )


def _find_entries(program: Program, leaves: Mapping[EventType, str]) -> dict[EventType, str]:
    shapes = {event_type: program.state_type(name).shape for event_type, name in leaves.items()}
    # An event without the field changes all entries, so it can't be routed to the shard of one.
    return {
        event_type: shape.by
        for event_type, shape in shapes.items()
        if shape.by in field_names(event_type)
    }


def _is_small(program: Program, name: str) -> bool:
    shape = program.state_type(name).shape
    return name == program.initial.name and shape.by in (None, LANE)


def _refuse_leaves(program: Program, excluded: set[EventType]) -> str:
    if excluded:
        names = ", ".join(
            event_type.__name__ for event_type in program.event_types if event_type in excluded
        )
        return f"forked: the output of {names} depends on a state with many entries"
    if all(state_type.shape.zero is MISSING for state_type in program.state_types):
        return "forked: the state has no fork, join and zero to fold deltas from"
    return "forked: no events are free of each other and of a state that can be folded from zero"
