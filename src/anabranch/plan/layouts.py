"""Wiring: how a program is laid over a fixed number of shards in a micro-batch engine.

Five ways, the best that the program allows:

* `keyed`: a key's events meet in one shard; keys never meet. Keys that are known to be hot are
  spread all the same, as if each of them were a forked program of its own.
* `replicated`: only markers change the state. Every shard follows the markers itself, so all other
  events may go anywhere.
* `shared`: a key's events meet in one shard, and all of them see a common part that only control events
  change. These come to every shard, which follows them itself.
* `forked`: leaves fold what lies between two markers from `zero`, each shard for itself; the root
  joins these deltas and runs the markers. What leaves have to say of the state, they say when the
  root has told them the state after each marker.
* `sequential`: one shard does everything, because nothing less would be right.
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
    """Which events go to which shards, and who folds them.

    `cuts` come to every shard (of a hot key's, if `keys` separate). `leaves` are folded from zero, each
    by the state type it is mapped to; what is neither goes through its home shard to the root.
    `speaking` leaves say something of the state. `entries` names the field by which a leaf's state has
    entries: one of them is folded in one shard, unless it is among the `hot` ones, which are spread.
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
        """Say whether shards hand deltas to a root."""
        return self.way == "forked" or bool(self.hot_keys)

    def route(self, event: Event) -> range:
        """Return the shards an event goes to."""
        if self.way == "sequential":
            return range(1)
        spreads = self.way not in ("keyed", "shared") or self.is_hot(event)
        if (spreads or self.way == "shared") and type(event.data) in self.cuts:
            return range(self.shards)
        number = self._place(event) if spreads else self.home(event)
        return range(number, number + 1)

    def _place(self, event: Event) -> int:
        """Return the shard of an event that could go anywhere."""
        if self.lanes is not None and type(event.data) in self.leaves:
            return spread(event) % self.lanes % self.shards
        by = self.entries.get(type(event.data))
        value = None if by is None else plain_key(getattr(event.data, by))
        if by is None or value in self.hot_keys:
            return spread(event) % self.shards
        return hash_stably(value) % self.shards

    def home(self, event: Event) -> int:
        """Return the one shard that counts an event which comes to several."""
        if self.way == "sequential":
            return 0
        return self._hash(event) % self.shards

    def counts(self, event: Event, shard: int) -> bool:
        """Say whether a shard is the one that counts an event which came to it."""
        reached = self.route(event)
        return len(reached) == 1 or self.home(event) == shard

    def is_hot(self, event: Event) -> bool:
        """Say whether an event is of a key that is spread."""
        return bool(self.hot_keys) and self.key(event) in self.hot_keys

    def key(self, event: Event) -> Any:
        """Return what an event is routed by, where keys separate."""
        values = tuple(plain_key(getattr(event.data, key)) for key in self.keys)
        return values[0] if len(values) == 1 else values

    def root(self, event: Event) -> int:
        """Return the number of the root that runs an event."""
        return self._hash(event) % self.shards if self.way == "keyed" else 0

    def _hash(self, event: Event) -> int:
        if not self.keys or (self.way == "shared" and type(event.data) in self.cuts):
            return spread(event)
        return hash_stably(self.key(event))


def choose_layout(program: Program, shards: int, hot_keys: Iterable[Any] = ()) -> Layout:
    """Choose the best way for a program. `hot` are the values of its key that are spread."""
    structure = read_structure(program)
    refused: list[str] = []
    if hasattr(program.initial.shape, "find_part"):
        found = _wire_shared(program, shards, frozenset(map(plain_key, hot_keys)), refused)
    elif program.timers:
        # Whom a timer wakes, and when, only the whole of its entry can tell.
        refused.append(
            f"forked: {program.timers[0].event_type.__name__} is a timer, and needs the state"
        )
        found = _wire_keyed(program, structure, shards, frozenset(), refused)
    else:
        found = (
            _wire_replicated(program, structure, shards, refused)
            or _wire_forked(
                program, structure, shards, frozenset(map(plain_key, hot_keys)), refused
            )
            or _wire_keyed(program, structure, shards, frozenset(map(plain_key, hot_keys)), refused)
        )
    return found or Layout("sequential", 1, (), frozenset(), tuple(refused))


def _wire_keyed(
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
    reasons = [f"different values of {shape.by} never meet"]
    if not hot_keys:
        return Layout("keyed", shards, (shape.by,), frozenset(), tuple(reasons))
    leaves = find_leaf_types(program)
    deferring = [
        event_type.__name__ for event_type in _find_deferring(structure) if event_type in leaves
    ]
    if not leaves or deferring:
        why = f"what {deferring[0]} says depends on it" if deferring else "no events are free in it"
        reasons.append(f"a hot {shape.by} is not spread: {why}")
        return Layout("keyed", shards, (shape.by,), frozenset(), tuple(reasons))
    names = ", ".join(event_type.__name__ for event_type in leaves)
    reasons.append(f"{names} of a hot {shape.by} folds apart, from zero")
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
    """Say which events keep keys from being apart, and what would let them be."""
    restrictions = program.dependence.restrictions
    for a, b in combinations_with_replacement(program.event_types, 2):
        keys = program.initial.list_shared_keys(a, b)
        if keys and () in restrictions(a, b):
            return (
                f"{a.__name__} depends on {b.__name__} whatever their fields are; "
                f"with {write_depends(a, b, same=keys)} different values of {keys[0]} run apart"
            )
    return "some events depend on each other whatever their fields are"


def _wire_shared(
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
    reasons = [f"{names} changes what all see, in every shard; different values of {by} never meet"]
    if hot_keys:
        reasons.append(f"a hot {by} is not spread: its entry is changed in order")
    return Layout("shared", shards, (by,), cuts, tuple(reasons))


def find_tie(program: Program, by: str, event_types: Sequence[EventType]) -> str | None:
    """Name two event types that depend on each other whatever the value of a field is, or return None."""
    for place, a in enumerate(event_types):
        for b in event_types[place:]:
            if any(by not in same for same in program.dependence.restrictions(a, b)):
                return f"{a.__name__} and {b.__name__}"
    return None


def _wire_replicated(
    program: Program, structure: Structure, shards: int, refused: list[str]
) -> Layout | None:
    others = [role for role in structure.roles if role.role != "marker"]
    if not others or not only_markers_write(program):
        refused.append("replicated: events other than markers change the state")
        return None
    if any(role.role == "ordered" or role.tied for role in others):
        refused.append("replicated: some events that are no markers keep an order")
        return None
    names = ", ".join(event_type.__name__ for event_type in find_writers(program))
    reasons = (f"only {names} changes the state",)
    return Layout("replicated", shards, (), frozenset(program.markers), reasons)


def _wire_forked(
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
    # Whoever speaks of a large state would have to be told all of it after every marker.
    silent = {event_type for event_type in deferring if not _is_small(program, leaves[event_type])}
    leaves = {event_type: name for event_type, name in leaves.items() if event_type not in silent}
    deferring -= silent
    if not leaves:
        refused.append(_refuse_leaves(program, silent))
        return None
    cuts = _find_cuts(program, leaves)
    rest = " and ".join(
        event_type.__name__ for event_type in program.event_types if event_type not in leaves
    )
    names = " and ".join(event_type.__name__ for event_type in leaves)
    reasons = [f"apart, from zero: {names}; at the root: {rest or 'nothing'}"]
    reasons += [
        f"what {event_type.__name__} says depends on the state, so it speaks when the root has"
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
    """Return the event types whose outputs look at the state: folded from zero, they would see too little."""
    return [role.event_type for role in structure.roles if role.emits and role.reads_state]


def _find_cuts(program: Program, leaves: Mapping[EventType, str]) -> frozenset[EventType]:
    """Return what a leaf's fold stops at: the event types that depend on what leaves fold."""
    restrictions = program.dependence.restrictions
    others = [event_type for event_type in program.event_types if event_type not in leaves]
    return frozenset(
        event_type
        for event_type in others
        if any(restrictions(event_type, leaf) for leaf in leaves)
    )


def _find_entries(program: Program, leaves: Mapping[EventType, str]) -> dict[EventType, str]:
    shapes = {event_type: program.state_type(name).shape for event_type, name in leaves.items()}
    # An event without the field changes all entries, and has none that it could follow.
    return {
        event_type: shape.by
        for event_type, shape in shapes.items()
        if shape.by in field_names(event_type)
    }


def _is_small(program: Program, name: str) -> bool:
    shape = program.state_type(name).shape
    return name == program.initial.name and shape.by in (None, LANE)


def _refuse_leaves(program: Program, silent: set[EventType]) -> str:
    if silent:
        names = ", ".join(
            event_type.__name__ for event_type in program.event_types if event_type in silent
        )
        return f"forked: what {names} says depends on a state with many entries"
    if all(state_type.shape.zero is MISSING for state_type in program.state_types):
        return "forked: the state has no fork, join and zero to fold deltas from"
    return "forked: no events are free of each other and of a state that can be folded from zero"
