"""Wiring: how a program is laid over a fixed number of shards in a micro-batch engine.

Four ways, the best that the program allows:

* `keyed`: a key's events meet in one shard; keys never meet.
* `replicated`: only markers change the state. Every shard follows the markers itself, so all other
  events may go anywhere.
* `forked`: leaves fold what lies between two markers from `zero`, each shard for itself; the root
  joins these deltas and runs the markers.
* `sequential`: one shard does everything, because nothing less would be right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anabranch.model.events import LANE, Event, Tag, field_names, spread
from anabranch.model.hashing import hash_stably
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.plan.structure import Structure, read_structure

Way = Literal["keyed", "replicated", "forked", "sequential"]


@dataclass(frozen=True)
class Wiring:
    """Which events go to which shards, and who folds them."""

    way: Way
    shards: int
    keys: tuple[str, ...]
    markers: frozenset[Tag]
    reasons: tuple[str, ...]

    def route(self, event: Event) -> range:
        """Return the shards an event goes to."""
        if self.way == "sequential":
            return range(1)
        if type(event.data) in self.markers:
            return range(self.shards)
        number = self._hash(event) % self.shards
        return range(number, number + 1)

    def home(self, event: Event) -> int:
        """Return the one shard that counts an event, and says what a marker says."""
        if self.way == "sequential":
            return 0
        return self._hash(event) % self.shards

    def _hash(self, event: Event) -> int:
        if not self.keys or not all(key in field_names(event.tag) for key in self.keys):
            return spread(event)
        values = tuple(getattr(event.data, key) for key in self.keys)
        return hash_stably(values[0] if len(values) == 1 else values)


def wire(program: Program, shards: int) -> Wiring:
    """Choose the best way for a program."""
    structure = read_structure(program)
    refused: list[str] = []
    for attempt in (_wire_replicated, _wire_forked, _wire_keyed):
        found = attempt(program, structure, shards, refused)
        if found is not None:
            return found
    return Wiring("sequential", 1, (), frozenset(), tuple(refused))


def _wire_keyed(
    program: Program, structure: Structure, shards: int, refused: list[str]
) -> Wiring | None:
    keys = structure.levels[0].keys if structure.levels else ()
    shape = program.initial.shape
    if not keys:
        refused.append("keyed: some events depend on each other whatever their fields are")
        return None
    if shape.by not in keys:
        refused.append(
            f"keyed: the state is not kept per {keys[0]}; use MapOf(..., by={keys[0]!r})"
        )
        return None
    whole = [h.tag.__name__ for h in program.initial.handlers.values() if shape.by not in h.enters]
    if whole:
        refused.append(f"keyed: {', '.join(whole)} sees the whole state")
        return None
    reason = f"different values of {shape.by} never meet"
    return Wiring("keyed", shards, (shape.by,), frozenset(), (reason,))


def _wire_replicated(
    program: Program, structure: Structure, shards: int, refused: list[str]
) -> Wiring | None:
    handlers = program.initial.handlers
    writers = [tag for tag in program.tags if handlers[tag].update is not None]
    markers = frozenset(program.markers)
    free = [role for role in structure.roles if role.role == "free" and not role.tied]
    if not free or not writers or not set(writers) <= markers:
        refused.append("replicated: events other than markers change the state")
        return None
    if any(role.role == "ordered" for role in structure.roles):
        refused.append("replicated: some events that are no markers keep an order")
        return None
    names = ", ".join(tag.__name__ for tag in writers)
    return Wiring("replicated", shards, (), markers, (f"only {names} changes the state",))


def _wire_forked(
    program: Program, structure: Structure, shards: int, refused: list[str]
) -> Wiring | None:
    shape = program.initial.shape
    markers = frozenset(program.markers)
    if not markers or any(level.keys and level.markers for level in structure.levels):
        refused.append("forked: there is no marker above all keys")
        return None
    if program.lanes is not None:
        refused.append("forked: canonical lanes go on from their own sums, not from zero")
        return None
    if shape.fork is None or shape.zero is MISSING:
        refused.append("forked: the state has no fork, join and zero to fold deltas from")
        return None
    if structure.needs_forked_state:
        names = ", ".join(tag.__name__ for tag in structure.needs_forked_state)
        refused.append(f"forked: what {names} says depends on the state")
        return None
    roles = {role.tag: role for role in structure.roles if role.tag not in markers}
    if any(role.tied for role in roles.values()):
        refused.append("forked: some events order each other without being markers")
        return None
    ordered = [role for role in roles.values() if role.role == "ordered"]
    keys = tuple(sorted(set.intersection(*(set(role.per) for role in ordered)))) if ordered else ()
    if ordered and not keys:
        refused.append("forked: some events below the markers keep one order among them all")
        return None
    if LANE in keys:
        keys = ()
    names = ", ".join(sorted(tag.__name__ for tag in markers))
    return Wiring("forked", shards, keys, markers, (f"all but {names} folds apart, from zero",))
