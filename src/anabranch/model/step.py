"""One step of the fold: the state after an event, and the event's outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from types import GeneratorType
from typing import Any, cast

from anabranch.errors import StateTooLargeError
from anabranch.model.events import CHANNEL, LANE, Event
from anabranch.model.failures import note_place
from anabranch.model.handlers import Handler
from anabranch.model.shapes import MISSING, AnyState, CheckSize, EntryShape, Shape
from anabranch.model.slices import field_value
from anabranch.model.values.keys import plain_key
from anabranch.model.values.maps import Map

Outputs = tuple[Any, ...]
Stepped = tuple[AnyState, Outputs]
Step = Callable[[AnyState, Event], Stepped]
"""A function from a state and an event to the state after it, and the outputs."""


def step(
    shape: Shape, handler: Handler, state: AnyState, event: Event, *, delta: bool = False
) -> Stepped:
    """Return the state after an event, and the outputs, which are computed on the state before it.

    In a state with entries, the handler sees the entry that the event's fields name; a handler whose
    event type lacks the field (a marker) sees the whole state. The entries of a delta start from zero.
    A shape with a `take_event` method determines itself which part of the state a handler sees.
    """
    return prepare_step(shape, handler, delta=delta)(state, event)


def prepare_step(shape: Shape, handler: Handler, *, delta: bool = False) -> Step:
    """Return `step` for one shape and handler: what depends on these alone is found once, not for each event."""
    own = getattr(shape, "take_event", None)
    if own is not None:
        return cast("Step", partial(_step_own, own, handler, delta=delta))
    if shape.by is None:
        return partial(_step_value, handler, find_limit(shape))
    shape = cast("EntryShape", shape)
    if shape.by not in handler.enters:
        return partial(step_whole, shape, handler)
    return _prepare_entry_step(shape, handler, delta=delta)


def _step_own(own: Any, handler: Handler, state: AnyState, event: Event, *, delta: bool) -> Stepped:
    return cast("Stepped", own(handler, state, event, delta=delta))


def _step_value(
    handler: Handler, check: CheckSize | None, state: AnyState, event: Event
) -> Stepped:
    changed, outputs = run(handler, state, event.data)
    if check is not None and changed is not state:
        check(changed)
    return changed, outputs


def _prepare_entry_step(shape: EntryShape, handler: Handler, *, delta: bool) -> Step:
    inner, find_key = shape.inner, _prepare_key(shape)
    step_inner = prepare_step(inner, handler, delta=delta)
    ages, sparse = has_ages(inner), getattr(shape, "sparse", False)

    def step_entry(state: AnyState, event: Event) -> Stepped:
        key = find_key(event)
        entry = state.get(key, MISSING)
        if entry is MISSING:
            entry = begin_delta(inner) if delta else shape.fresh
        try:
            changed, outputs = step_inner(entry, event)
        except StateTooLargeError as error:
            raise error.within(key) from None
        if changed is MISSING or (ages and _is_empty_map(changed)):
            return state.remove(key), outputs
        if sparse and inner.same(changed, shape.fresh):
            return state.remove(key), outputs
        return state.set(key, changed), outputs

    return step_entry


def _prepare_key(shape: EntryShape) -> Callable[[Event], Any]:
    """Return a function from an event to the key of its entry."""
    by = cast("str", shape.by)
    if by in (LANE, CHANNEL):
        lanes = getattr(shape, "lanes", None) if by == LANE else None
        return lambda event: field_value(event, by, lanes)
    read = attrgetter(by)
    return lambda event: plain_key(read(event.data))


def find_limit(shape: Shape) -> CheckSize | None:
    """Return the size check of the innermost state of a shape, or None if it has no limit."""
    inner: Any = shape
    while inner.by is not None:
        inner = inner.inner
    return getattr(inner, "check_size", None)


def check_sizes(shape: Shape, state: AnyState) -> None:
    """Raise `StateTooLargeError` if the state, or one of its entries, exceeds its limit."""
    check = find_limit(shape)
    if check is None:
        return
    if shape.by is None:
        check(state)
        return
    for key in state:
        try:
            check_sizes(cast("EntryShape", shape).inner, state[key])
        except StateTooLargeError as error:
            raise error.within(key) from None


def step_whole(shape: EntryShape, handler: Handler, state: AnyState, event: Event) -> Stepped:
    """Run a handler on all entries at once; entries with a `ttl` that it changes are refreshed."""
    whole, outputs = run(handler, shape.collapse(state), event.data)
    if has_ages(shape):
        if handler.update is None:
            return state, outputs
        changed = shape.renew(state, whole, event.time)  # type: ignore[attr-defined]
    else:
        changed = shape.expand(whole)
    if handler.update is not None:
        check_sizes(shape, changed)
    return changed, outputs


def has_ages(shape: Shape) -> bool:
    """Return whether entries of a state, or entries within them, expire after a `ttl`."""
    return bool(getattr(shape, "has_ages", False))


def _is_empty_map(entry: AnyState) -> bool:
    """Return whether an entry is a map of which the last entry has expired."""
    return isinstance(entry, Map) and not entry


def begin_delta(shape: Shape) -> AnyState:
    """Return the value that a delta of a state, or of an entry, starts from.

    Shards, the simulator and the law checker all use this function, so that they fold the same deltas.
    """
    return shape.zero


def add_delta(shape: Shape, state: AnyState, delta: AnyState) -> AnyState:
    """Return a state joined with a delta that was folded from zero."""
    if shape.by is None or shape.by == LANE:
        assert shape.join is not None
        return shape.join(state, delta)
    shape = cast("EntryShape", shape)
    for key in delta.entries():
        # An entry that only the delta has still starts from the value of a fresh entry.
        entry = state.get(key, MISSING)
        entry = shape.fresh if entry is MISSING else entry
        state = state.set(key, add_delta(shape.inner, entry, delta[key]))
    return state


def set_aside(shape: Shape, handler: Handler, state: AnyState, event: Event) -> AnyState:
    """Return the state after an event that could not be handled: unchanged, except for lanes.

    An event that sees all lanes joins them even if its handler raises: the point at which lanes restart
    must not depend on the result of a marker's handler.
    """
    by = shape.by
    if by is None or has_ages(shape) or hasattr(shape, "take_event"):
        return state
    shape = cast("EntryShape", shape)
    if by not in handler.enters:
        return shape.expand(shape.collapse(state))
    lanes = getattr(shape, "lanes", None) if by == LANE else None
    key = field_value(event, by, lanes)
    entry = state.get(key, MISSING)
    if entry is MISSING or shape.inner.by is None:
        return state
    return state.set(key, set_aside(shape.inner, handler, entry, event))


def run(handler: Handler, state: AnyState, data: Any) -> tuple[AnyState, Outputs]:
    """Call a handler's output and update functions; note the handler's location on exceptions."""
    try:
        outputs = collect(handler.output(state, data)) if handler.output is not None else ()
        if outputs and handler.check is not None:
            handler.check.check(outputs)
        if handler.update is not None:
            state = handler.update(state, data)
    except BaseException as error:
        note_place(error, handler.where)
        raise
    return state, outputs


def collect(returned: Any) -> Outputs:
    """Return the outputs in an output function's return value: None is none, a list or generator is many.

    >>> collect(None), collect([1, 2]), collect((1, 2)), collect("ab")
    ((), (1, 2), ((1, 2),), ('ab',))
    """
    if returned is None:
        return ()
    if isinstance(returned, list | GeneratorType):
        return tuple(returned)
    return (returned,)
