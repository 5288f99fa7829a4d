"""Shared state: a common part that the handlers of all keys read, each at its point in the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from anabranch.errors import ProgramError
from anabranch.model.events import Event, EventType, field_names
from anabranch.model.handlers import Handler
from anabranch.model.shapes import MISSING, AnyState, Shape
from anabranch.model.slices import Slices
from anabranch.model.step import Stepped, has_ages, step, step_whole
from anabranch.model.values.maps import Map
from anabranch.state.collections import MapOf


class View(NamedTuple):
    """The state that a handler of a keyed event sees: the common part at that time, and its own entry."""

    common: Any
    entry: Any


class Held(NamedTuple):
    """A value of `Shared`: the common part, and the entry of each key."""

    common: Any
    each: Any

    def get(self, key: Any, default: Any = MISSING) -> Any:
        """Return the entry of a key."""
        return self.each.get(key, default)

    def entries(self) -> dict[Any, Any]:
        """Return the entries of all keys."""
        return self.each.entries()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Shared:
    """A common part that control events change, and one entry per key.

    Control events are those without the key field: their handlers see the common part and return it.
    Handlers of events with the field see a `View(common, entry)` and return only the entry, so they can't
    change the common part. A handler with `whole=True` sees and returns a `Held`.
    """

    common: Shape
    entries: MapOf

    def __post_init__(self) -> None:
        if not isinstance(self.entries, MapOf):
            raise ProgramError(
                "the entries of Shared are not a MapOf",
                expected="Shared(common, MapOf(..., by='key'))",
                got=repr(self.entries),
                cure="use the common part alone; a state without entries is already shared",
            )
        if isinstance(self.common, type) or not isinstance(self.common, Shape):
            raise ProgramError(
                f"{self.common!r} can't be the common part of Shared",
                expected="a ready-made state, such as Replicated(start) or MapOf(..., by='row')",
                got="a class, not an instance" if isinstance(self.common, type) else "no state",
            )
        if has_ages(self.common):
            raise ProgramError(
                "the common part of Shared has a ttl",
                expected="a common part that only control events change",
                got=repr(self.common),
                cure="remove expired items by control events",
            )

    @property
    def by(self) -> str:
        """Return the key field of the entries."""
        return self.entries.by

    @property
    def inner(self) -> Shape:
        """Return the shape of an entry."""
        return self.entries.inner

    @property
    def fresh(self) -> AnyState:
        """Return the initial state of an entry."""
        return self.entries.fresh

    @property
    def has_ages(self) -> bool:
        """Return whether entries have a `ttl`."""
        return self.entries.has_ages

    @property
    def init(self) -> Held:
        """Return the initial common part, without entries."""
        return Held(self.common.init, Map())

    @property
    def zero(self) -> Any:
        """Return MISSING: the common part can't start from a zero."""
        return MISSING

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that the common part may contain."""
        found: list[type] = []
        shape: Any = self.common
        while shape is not None:
            starts = (start for start in (shape.init, shape.zero) if hasattr(start, "_fields"))
            found += [*getattr(shape, "records", ()), *map(type, starts)]
            shape = getattr(shape, "inner", None)
        return tuple(found)

    def find_part(self, event_type: EventType) -> Shape:
        """Return the part that events of an event type change: the entries, or the common part."""
        return self.entries if self.by in field_names(event_type) else self.common

    def fork(self, state: Held, left: Slices, right: Slices) -> tuple[Held, Held]:
        """Return two states: both have the common part, and each entry is on the side of its events."""
        a, b = self.entries.fork(state.each, left, right)
        return Held(state.common, a), Held(state.common, b)

    def join(self, a: Held, b: Held) -> Held:
        """Return the entries joined; both sides have a copy of the common part."""
        return Held(a.common, self.entries.join(a.each, b.each))

    def same(self, a: Held, b: Held) -> bool:
        """Return whether both parts are equal."""
        return self.common.same(a.common, b.common) and self.entries.same(a.each, b.each)

    def collapse(self, state: Held) -> Held:
        """Return the state as handlers with `whole=True` see it."""
        return Held(state.common, self.entries.collapse(state.each))

    def expand(self, state: Held) -> Held:
        """Undo `collapse`."""
        common, each = state
        return Held(common, self.entries.expand(each))

    def renew(self, before: Held, after: Held, time: int) -> Held:
        """Undo `collapse` for entries with a `ttl`."""
        common, each = after
        return Held(common, self.entries.renew(before.each, each, time))

    def take_event(
        self, handler: Handler, state: Held, event: Event, *, delta: bool = False
    ) -> Stepped:
        """Return the state after an event, which changes the common part or its entry, and the outputs."""
        if handler.whole:
            return step_whole(self, handler, state, event)
        if self.by not in handler.enters:
            common, outputs = step(self.common, handler, state.common, event)
            return Held(common, state.each), outputs
        bound = handler if handler.expires else _bind(handler, state.common)
        each, outputs = step(self.entries, bound, state.each, event)
        return Held(state.common, each), outputs


def _bind(handler: Handler, common: Any) -> Handler:
    """Return a handler of entries that passes the common part to the user's functions."""
    update, output = handler.update, handler.output
    return replace(
        handler,
        update=None if update is None else lambda entry, data: _change(update, common, entry, data),
        output=None if output is None else lambda entry, data: output(View(common, entry), data),
    )


def _change(update: Callable[[Any, Any], Any], common: Any, entry: Any, data: Any) -> Any:
    changed = update(View(common, entry), data)
    if isinstance(changed, View):
        raise TypeError("the update returned a View; it must return only its entry")
    return changed
