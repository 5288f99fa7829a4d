"""Shapes: how a state starts, forks and joins, without its handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from anabranch.model.events import LANE
from anabranch.model.slices import Slices
from anabranch.model.values.maps import Map

AnyState = Any
"""A value of a state type. It is never changed in place."""

Fork = Callable[[AnyState, Slices, Slices], tuple[AnyState, AnyState]]
Join = Callable[[AnyState, AnyState], AnyState]
CheckSize = Callable[[AnyState], None]
"""The type of `check_size` of a shape with a limit: it raises if a state is too large."""


class _Missing:
    """The value of an argument that was not given, where None is a valid value."""

    def __repr__(self) -> str:
        return "(none)"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


BASE = -1
"""The key, before all lanes, of the joined state as of the last marker."""


@runtime_checkable
class Shape(Protocol):
    """The interface of a state. The ready-made ones are in `anabranch.state`.

    `zero` is the identity of `join`, or MISSING. `fork` and `join` are None where a state can't
    be forked. `by` is the field for whose values the state has one entry each, or None.
    """

    @property
    def init(self) -> AnyState: ...
    @property
    def zero(self) -> AnyState: ...
    @property
    def fork(self) -> Fork | None: ...
    @property
    def join(self) -> Join | None: ...
    @property
    def by(self) -> str | None: ...
    def same(self, a: AnyState, b: AnyState) -> bool: ...


@runtime_checkable
class EntryShape(Shape, Protocol):
    """A shape with one entry per value of `by`. `fresh` is the value of an absent entry."""

    @property
    def inner(self) -> Shape: ...
    @property
    def fresh(self) -> AnyState: ...
    def collapse(self, state: AnyState) -> AnyState: ...
    def expand(self, state: AnyState) -> AnyState: ...


@dataclass(frozen=True)
class WrittenShape:
    """A shape made of a user's own functions."""

    init: AnyState = MISSING
    zero: AnyState = MISSING
    fork: Fork | None = None
    join: Join | None = None
    equal: Callable[[AnyState, AnyState], bool] | None = None
    by: str | None = None

    def same(self, a: AnyState, b: AnyState) -> bool:
        """Return whether two states are equal, by `==` or by the user's function."""
        return bool(a == b) if self.equal is None else bool(self.equal(a, b))


@dataclass(frozen=True)
class LanedShape:
    """A state of a base and a fixed number of lanes. `lanes` is part of the program's meaning.

    Each independent event changes one lane, chosen by the event alone, which starts from `zero`. A
    handler that needs the whole state sees the base and the lanes joined in order, and its result becomes
    the new base. So float sums are the same to the bit, however many shards the lanes are spread over.
    """

    inner: Shape
    lanes: int
    by: str = LANE

    @property
    def init(self) -> Map[int, AnyState]:
        """Return the inner initial state as the base."""
        return self.expand(self.inner.init)

    @property
    def fresh(self) -> AnyState:
        """Return the initial state of a lane."""
        return self.inner.zero

    @property
    def zero(self) -> Map[int, AnyState]:
        """Return a map without lanes."""
        return Map()

    def collapse(self, state: Map[int, AnyState]) -> AnyState:
        """Return the join of the base and the lanes, in order."""
        join = self.inner.join
        assert join is not None
        parts = sorted(state)
        whole = state[parts[0]]
        for part in parts[1:]:
            whole = join(whole, state[part])
        return whole

    def expand(self, state: AnyState) -> Map[int, AnyState]:
        """Return a state with a base and empty lanes."""
        return Map({BASE: state})

    def fork(
        self, state: Map[int, AnyState], left: Slices, right: Slices
    ) -> tuple[Map[int, AnyState], Map[int, AnyState]]:
        """Return two states: each lane is on the side of its events, the base on the right."""
        lanes = state.entries()
        lefts = {lane: entry for lane, entry in lanes.items() if left.has_value(LANE, lane)}
        return Map(lefts), Map({n: entry for n, entry in lanes.items() if n not in lefts})

    def join(self, a: Map[int, AnyState], b: Map[int, AnyState]) -> Map[int, AnyState]:
        """Return the lanes of two sides joined."""
        return join_entries(self.inner, a, b)

    def same(self, a: Map[int, AnyState], b: Map[int, AnyState]) -> bool:
        """Return whether all lanes are equal; an absent lane equals the zero."""
        zero = self.inner.zero
        if zero is MISSING and set(a) != set(b):
            return False
        return all(self.inner.same(a.get(n, zero), b.get(n, zero)) for n in {*a, *b})


def join_entries(inner: Shape, a: Map[Any, AnyState], b: Map[Any, AnyState]) -> Map[Any, AnyState]:
    """Return the join of two maps of states: entries of one side are kept, entries of both are joined."""
    small, large, flipped = (a, b, True) if len(a) < len(b) else (b, a, False)
    joined = large.entries()
    for key, entry in small.entries().items():
        if key not in joined:
            joined[key] = entry
            continue
        assert inner.join is not None, "both sides have a key whose state has no join"
        other = joined[key]
        joined[key] = inner.join(entry, other) if flipped else inner.join(other, entry)
    return Map(joined)
