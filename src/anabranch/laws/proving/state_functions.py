"""Views: a program's state types as plain functions, for one representative key where there are keys.

A `MapOf` state is a function from keys to entries, and works key by key. `step` reads and changes the
entry of the event's own key; `fork` and `join` treat each key separately; `same` compares key by key
and treats an absent entry as a newly created one. So an equation between such states holds if and only
if it holds at each key:

- At the event's key it is the same equation between entries, an entry being absent or present.
- At any other key the event changes nothing, and both sides are the same term.
- Two events with different keys commute: neither reads what the other writes.
- An event t(k) whose key lies on one side only, because everything on the other side that has key k
    depends on it: the other side has no entry for k and gets none, `join` returns the entry
    unchanged, and C1 holds. So only event types that are independent at an equal key are left to prove.

  The reduction ends at a handler that sees the whole map (an hour without the key). Such a handler
  may reset the map without reading it, as long as everything depends on it; anything else it does is
  not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from anabranch.laws.proving.forms import ABSENT
from anabranch.laws.proving.symbols import ONE_KEY, Opaque, Stop
from anabranch.model.events import EventType
from anabranch.model.handlers import Handler
from anabranch.model.program import ForkJoin, Program, StateType
from anabranch.model.shapes import Shape
from anabranch.model.slices import Slices
from anabranch.model.step import Outputs, begin_delta, run
from anabranch.model.values.maps import Map
from anabranch.state.collections import MapOf

Split = tuple[frozenset[EventType], frozenset[EventType]]
"""The event types of the left and of the right side of a fork, as many as possible at once."""


@dataclass(frozen=True)
class StateFunctions:
    """A state type as a proof sees it. `keys` are the fields of the one key of the proof."""

    name: str
    shape: Any
    keys: tuple[str, ...]
    handlers: Mapping[EventType, Handler]

    def change(self, state: Any, event: Any) -> Any:
        """Return the state after an event."""
        return _change(self.shape, self.handlers[type(event)], state, event)

    def change_delta(self, delta: Any, event: Any) -> Any:
        """Return a delta after one more event, as `step_delta` does."""
        return _change(self.shape, self.handlers[type(event)], delta, event, delta=True)

    def add_delta(self, state: Any, delta: Any) -> Any:
        """Return a state joined with a delta, as `model.step.add_delta` does."""
        return _add_delta(self.shape, state, delta)

    def sees_whole(self, event_type: EventType) -> bool:
        """Return whether an event type's handler sees more than the one key."""
        return not self.handlers[event_type].enters.issuperset(self.keys)

    def step(self, state: Any, event: Any) -> tuple[Any, Outputs]:
        """Return the state after an event, and the outputs."""
        if self.sees_whole(type(event)):
            raise Stop(f"{type(event).__name__} sees the whole map")
        return _step(self.shape, self.handlers[type(event)], state, event)


@dataclass(frozen=True)
class ForkView:
    """A fork and join as a proof sees them. A leaf may fold the event types `folded` from zero."""

    name: str
    parent: StateFunctions
    left: StateFunctions
    right: StateFunctions
    fork: Callable[[Any, Slices, Slices], tuple[Any, Any]]
    join: Callable[[Any, Any], Any]
    splits: tuple[Split, ...]
    folded: frozenset[EventType]

    @property
    def uniform(self) -> bool:
        """Return whether both sides have the type of the whole."""
        return self.parent is self.left is self.right


@dataclass(frozen=True)
class OneEntry:
    """The entry of one key of a `MapOf`, or its absence."""

    inner: Any
    by: str
    init: Any = ABSENT
    zero: Any = ABSENT

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        """Return the sides of one key's entry, as `MapOf.fork` does."""
        if state is ABSENT:
            return ABSENT, ABSENT
        to_left = left.has_value(self.by, ONE_KEY)
        to_right = right.has_value(self.by, ONE_KEY)
        if to_left and to_right and self.inner.fork is not None:
            return self.inner.fork(state, left, right)  # type: ignore[no-any-return]
        return (state, ABSENT) if to_left else (ABSENT, state)

    def join(self, a: Any, b: Any) -> Any:
        """Return one key's entries joined, as `join_entries` does."""
        if a is ABSENT or b is ABSENT:
            return b if a is ABSENT else a
        return self.inner.join(a, b)

    def same(self, a: Any, b: Any) -> bool:
        """Return whether one key's entries are the same, as `MapOf.same` does."""
        start = self.inner.init
        return bool(self.inner.same(start if a is ABSENT else a, start if b is ABSENT else b))


def view_program(program: Program) -> tuple[dict[str, StateFunctions], tuple[ForkView, ...]]:
    """Return the views of a program's state types and forks, or raise Stop with the reason."""
    if program.lanes is not None:
        raise Stop("the program has lanes")
    views = {kind.name: _view_state(kind) for kind in program.state_types}
    return views, tuple(_view_fork(program, fork, views) for fork in program.forks)


def _view_state(kind: StateType) -> StateFunctions:
    keys: list[str] = []
    inner: Any = kind.shape
    while inner.by is not None:
        if type(inner) is not MapOf:
            raise Stop(f"the state is a {type(inner).__name__}")
        keys.append(inner.by)
        inner = inner.inner
    if hasattr(inner, "expire"):
        raise Stop("entries of the state have a time to live")
    return StateFunctions(kind.name, _reduce(kind.shape), tuple(keys), kind.handlers)


def _reduce(shape: Any) -> Any:
    return OneEntry(_reduce(shape.inner), shape.by) if isinstance(shape, MapOf) else shape


def _view_fork(program: Program, fork: ForkJoin, views: Mapping[str, StateFunctions]) -> ForkView:
    name = f"{fork.parent} -> {fork.left}, {fork.right}"
    parent, left, right = views[fork.parent], views[fork.left], views[fork.right]
    splits = find_splits(program, left, right)
    # An event type that depends on itself, even per key, is folded in order, never from zero.
    restrictions = program.dependence.restrictions
    folded = frozenset(
        event_type for event_type in program.event_types if not restrictions(event_type, event_type)
    )
    shape: Shape = program.state_type(fork.parent).shape
    if not (parent.keys or left.keys or right.keys):
        return ForkView(name, parent, left, right, fork.fork, fork.join, splits, folded)
    if fork.fork != shape.fork or not (parent is left is right):
        raise Stop(f"{name} forks a map by a function of its own")
    own = parent.shape
    return ForkView(name, parent, left, right, own.fork, own.join, splits, folded)


def find_splits(program: Program, left: StateFunctions, right: StateFunctions) -> tuple[Split, ...]:
    """Return the largest pairs of event type sets that may be on two sides at once.

    An event type that everything depends on, a barrier, is on a side only if the other is empty, so it
    is in none of these. Every cut that a plan can make lies within one of them.
    """
    lefts = [event_type for event_type in program.event_types if event_type in left.handlers]
    rights = [event_type for event_type in program.event_types if event_type in right.handlers]
    apart = {(a, b): may_be_apart(program, left, a, b) for a in lefts for b in rights}
    if len(lefts) > 12:
        raise Stop("there are more than 12 event types")
    found: dict[Split, None] = {}
    for size in range(1, len(lefts) + 1):
        for some in combinations(lefts, size):
            others = frozenset(b for b in rights if all(apart[a, b] for a in some))
            if others:
                mine = frozenset(a for a in lefts if all(apart[a, b] for b in others))
                found[mine, others] = None
    return tuple(found)


def may_be_apart(program: Program, view: StateFunctions, a: EventType, b: EventType) -> bool:
    """Return whether events of two event types can be independent, at one key if both see only one."""
    # A handler of the whole map sees the keys of all others, equal or not.
    keys = (
        ()
        if any(event_type in view.handlers and view.sees_whole(event_type) for event_type in (a, b))
        else view.keys
    )
    return not any(set(same) <= set(keys) for same in program.dependence.restrictions(a, b))


def _change(shape: Any, handler: Handler, state: Any, event: Any, *, delta: bool = False) -> Any:
    if not isinstance(shape, OneEntry):
        return state if handler.update is None else handler.update(state, event)
    if shape.by not in handler.enters:
        return _change_whole(handler, state, event)
    if state is ABSENT:
        state = begin_delta(shape.inner) if delta else shape.inner.init
    return _change(shape.inner, handler, state, event, delta=delta)


def _add_delta(shape: Any, state: Any, delta: Any) -> Any:
    if not isinstance(shape, OneEntry):
        return shape.join(state, delta)
    if delta is ABSENT:
        return state
    return _add_delta(shape.inner, shape.inner.init if state is ABSENT else state, delta)


def _change_whole(handler: Handler, state: Any, event: Any) -> Any:
    if handler.update is None:
        return state
    # If it returns an empty map without reading the given one, it does so for every map.
    changed = handler.update(Opaque(f"the whole map, by {handler.event_type.__name__},"), event)
    if type(changed) is Opaque:
        return state
    if isinstance(changed, Map | dict) and not changed:
        return ABSENT
    raise Stop(f"{handler.event_type.__name__} changes the whole map")


def _step(shape: Any, handler: Handler, state: Any, event: Any) -> tuple[Any, Outputs]:
    if not isinstance(shape, OneEntry):
        return run(handler, state, event)
    return _step(shape.inner, handler, shape.inner.init if state is ABSENT else state, event)
