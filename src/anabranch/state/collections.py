"""States of many values: top-k, sets, replicated values, one entry per key, and structs of states."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, ClassVar, cast

from anabranch.errors import ProgramError
from anabranch.model.shapes import (
    MISSING,
    AnyState,
    CheckSize,
    EntryShape,
    Fork,
    Join,
    Shape,
    join_entries,
)
from anabranch.model.slices import Slices
from anabranch.model.step import has_ages
from anabranch.model.values.durations import SpanInput, read_span
from anabranch.model.values.maps import Map
from anabranch.state.aging import Aging


@dataclass(frozen=True)
class TopK:
    """The `k` largest values, largest first. To keep names with scores, add tuples (score, name).

    >>> TopK(2).add((5, 3), 4)
    (5, 4)
    """

    k: int
    init: tuple[Any, ...] = ()
    _: KW_ONLY
    by: None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ProgramError("TopK keeps nothing", expected="k of 1 or more", got=repr(self.k))

    @property
    def zero(self) -> tuple[Any, ...]:
        """Return the empty tuple."""
        return ()

    def fork(
        self, state: tuple[Any, ...], left: Slices, right: Slices
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the values for the left side only: a join would count them twice otherwise."""
        return state, ()

    def join(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the `k` largest values of both."""
        return tuple(sorted((*a, *b), reverse=True)[: self.k])

    def same(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
        """Return whether two states are equal."""
        return a == b

    def add(self, state: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        """Return the largest values after adding one."""
        return self.join(state, (value,))

    def value(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values."""
        return state


@dataclass(frozen=True)
class SetOf:
    """The distinct values so far.

    >>> sorted(SetOf().add(frozenset({1}), 2))
    [1, 2]
    """

    init: frozenset[Any] = frozenset()
    _: KW_ONLY
    by: None = None

    @property
    def zero(self) -> frozenset[Any]:
        """Return the empty set."""
        return frozenset()

    def fork(
        self, state: frozenset[Any], left: Slices, right: Slices
    ) -> tuple[frozenset[Any], frozenset[Any]]:
        """Return the values for the left side, and the empty set for the right."""
        return state, frozenset()

    def join(self, a: frozenset[Any], b: frozenset[Any]) -> frozenset[Any]:
        """Return the union."""
        return a | b

    def same(self, a: frozenset[Any], b: frozenset[Any]) -> bool:
        """Return whether two states are equal."""
        return a == b

    def add(self, state: frozenset[Any], value: Any) -> frozenset[Any]:
        """Return the set with one value added."""
        return state if value in state else state | {value}

    def value(self, state: frozenset[Any]) -> frozenset[Any]:
        """Return the set."""
        return state


@dataclass(frozen=True)
class Replicated:
    """A value that only markers change; each side of a fork has a copy.

    Use it for values that many events read, such as a page's metadata in a page-view join.

    >>> Replicated(start=10).fork(7, Slices(), Slices())
    (7, 7)
    """

    start: Any = None
    _: KW_ONLY
    by: None = None
    replicated: ClassVar[bool] = True

    @property
    def init(self) -> Any:
        """Return the start value."""
        return self.start

    @property
    def zero(self) -> Any:
        """Return MISSING: a copy can't start from a zero."""
        return MISSING

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        """Return the value for both sides."""
        return state, state

    def join(self, a: Any, b: Any) -> Any:
        """Return one of the copies: they are equal, as only markers change them."""
        return a

    def same(self, a: Any, b: Any) -> bool:
        """Return whether two states are equal."""
        return bool(a == b)


@dataclass(frozen=True)
class MapOf:
    """One state of the `inner` kind per value of the field `by`.

    Handlers of events with the field see only their own entry; handlers of events without it (an hour, a
    report over all) see the whole `Map`. With `sparse=True`, an entry that equals its initial state is not
    stored, so the state does not grow with all keys that ever occurred.

    With `ttl`, an entry expires when it was not refreshed for that long, by event time (see
    `state.aging.Aging`). `refresh` is "writes" (updates refresh an entry) or "reads" (every event does).
    """

    inner: Shape
    by: str
    _: KW_ONLY
    sparse: bool = field(default=False, repr=False)
    ttl: SpanInput | None = field(default=None, repr=False)
    refresh: str = field(default="writes", repr=False)

    def __post_init__(self) -> None:
        # Not isinstance(…, Shape): that would evaluate the inner start, and run a user's fork.
        if isinstance(self.inner, type) or not hasattr(self.inner, "by"):
            raise ProgramError(
                f"MapOf can't keep a {self.inner!r} per {self.by!r}",
                expected="a ready-made state such as MapOf(Count(), by='key')",
                got="a class, not an instance" if isinstance(self.inner, type) else "no state",
            )
        if self.sparse and self.inner.fork is not None and not isinstance(self.inner, Replicated):
            # Two parts of an entry may only together equal the initial state.
            raise ProgramError(
                f"MapOf can't be sparse, because its entries by {self.by!r} can be forked",
                expected="a state without a fork, or Replicated",
                got=repr(self.inner),
                cure="leave out sparse=True",
            )
        if self.ttl is None and self.refresh != "writes":
            raise ProgramError(
                f"entries by {self.by!r} never expire, so refresh= has no effect",
                expected="refresh= together with ttl=",
                got=f"refresh={self.refresh!r} and no ttl",
            )
        if self.ttl is not None:
            object.__setattr__(self, "ttl", read_span("ttl", self.ttl))
        if self.ttl is not None and not isinstance(self.inner, Aging):
            aging = Aging(self.inner, self.ttl, self.refresh, self.sparse)
            object.__setattr__(self, "inner", aging)

    @property
    def has_ages(self) -> bool:
        """Return whether entries, or entries within them, have a `ttl`."""
        return self.ttl is not None or has_ages(self.inner)

    @property
    def init(self) -> Map[Any, AnyState]:
        """Return an empty map."""
        return Map()

    @property
    def zero(self) -> Any:
        """Return an empty map, or MISSING if the inner state has no zero."""
        return MISSING if self.inner.zero is MISSING else Map()

    @property
    def fresh(self) -> AnyState:
        """Return the initial state of an entry."""
        return self.inner.init

    def fork(
        self, state: Map[Any, AnyState], left: Slices, right: Slices
    ) -> tuple[Map[Any, AnyState], Map[Any, AnyState]]:
        """Return two maps: each entry is on the side of its events, and forked if both sides have some.

        An entry without events on either side is on the right, so that nothing is lost.
        """
        lefts: dict[Any, AnyState] = {}
        rights: dict[Any, AnyState] = {}
        for key, entry in state.entries().items():
            to_left, to_right = left.has_value(self.by, key), right.has_value(self.by, key)
            if to_left and to_right and self.inner.fork is not None:
                # Only slices with this key matter for the fork of its entry.
                here = (left.narrow(self.by, key), right.narrow(self.by, key))
                lefts[key], rights[key] = self.inner.fork(entry, *here)
            else:
                (lefts if to_left else rights)[key] = entry
        return Map(lefts), Map(rights)

    def join(self, a: Map[Any, AnyState], b: Map[Any, AnyState]) -> Map[Any, AnyState]:
        """Return the entries of two sides joined."""
        return join_entries(self.inner, a, b)

    def same(self, a: Map[Any, AnyState], b: Map[Any, AnyState]) -> bool:
        """Return whether all entries are equal; an absent one equals the initial state."""
        start = self.inner.init
        return all(self.inner.same(a.get(k, start), b.get(k, start)) for k in {*a, *b})

    def collapse(self, state: Map[Any, AnyState]) -> Map[Any, AnyState]:
        """Return the state as handlers see it, without lanes and ages."""
        if isinstance(self.inner, Aging):
            return Map({key: entry.state for key, entry in state.entries().items()})
        if self.inner.by is None:
            return state
        inner = cast("EntryShape", self.inner)
        return Map({key: inner.collapse(entry) for key, entry in state.entries().items()})

    def expand(self, state: Map[Any, AnyState]) -> Map[Any, AnyState]:
        """Undo `collapse`."""
        if self.inner.by is None:
            return state if isinstance(state, Map) else Map(state)
        inner = cast("EntryShape", self.inner)
        return Map({key: inner.expand(entry) for key, entry in state.items()})

    def renew(
        self, before: Map[Any, AnyState], after: Map[Any, AnyState], time: int
    ) -> Map[Any, AnyState]:
        """Undo `collapse` for entries with a `ttl`: changed entries are refreshed at `time`."""
        inner: Any = self.inner
        if not isinstance(inner, Aging):
            renewed = {
                key: inner.renew(before.get(key, inner.init), after[key], time) for key in after
            }
            return Map({key: entry for key, entry in renewed.items() if entry})
        found: dict[Any, AnyState] = {}
        for key, state in after.items():
            entry: Any = before.get(key, inner.init)
            kept = key in before and inner.inner.same(entry.state, state)
            found[key] = entry if kept else inner.renew(entry, state, time)
        return Map(found)


class Struct:
    """Several states as the fields of a record.

    >>> from anabranch.state import Count, Max
    >>> stats = Struct(seen=Count(), top=Max())
    >>> stats.add(stats.init, seen=1, top=7)
    Struct(seen=1, top=7)
    """

    by = None

    def __init__(self, **fields: Shape) -> None:
        if not fields:
            raise ProgramError("a Struct has no fields", expected="Struct(seen=Count(), ...)")
        for name, shape in fields.items():
            if isinstance(shape, type) or not isinstance(shape, Shape) or shape.by is not None:
                raise ProgramError(
                    f"field {name!r} of a Struct can't be a {shape!r}",
                    expected="a ready-made state without entries, such as Count()",
                    got=repr(shape),
                    cure="put the Struct inside the map: MapOf(Struct(...), by='key')",
                )
        self.fields = dict(fields)
        self._type = make_struct_type(tuple(fields))

    @property
    def init(self) -> Any:
        """Return the initial state of each field."""
        return self._type(**{name: shape.init for name, shape in self.fields.items()})

    @property
    def zero(self) -> Any:
        """Return the zero of each field, or MISSING if one has none."""
        zeros = {name: shape.zero for name, shape in self.fields.items()}
        return MISSING if any(z is MISSING for z in zeros.values()) else self._type(**zeros)

    @property
    def fork(self) -> Fork | None:
        """Return a fork field by field, or None if a field can't be forked."""
        return self._fork if all(shape.fork for shape in self.fields.values()) else None

    @property
    def join(self) -> Join | None:
        """Return a join field by field, or None if a field can't be joined."""
        return self._join if all(shape.join for shape in self.fields.values()) else None

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that its fields may contain."""
        shapes = self.fields.values()
        return tuple(record for shape in shapes for record in getattr(shape, "records", ()))

    @property
    def check_size(self) -> CheckSize | None:
        """Return the size check of the fields, or None if none has a limit."""
        limits = any(getattr(shape, "check_size", None) for shape in self.fields.values())
        return self._check_size if limits else None

    def _check_size(self, state: Any) -> None:
        for shape, part in zip(self.fields.values(), state, strict=True):
            check = getattr(shape, "check_size", None)
            if check is not None:
                check(part)

    def _fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        forks = [shape.fork for shape in self.fields.values()]
        pairs = [f(s, left, right) for f, s in zip(forks, state, strict=True) if f is not None]
        return self._type(*(a for a, _ in pairs)), self._type(*(b for _, b in pairs))

    def _join(self, a: Any, b: Any) -> Any:
        joins = [shape.join for shape in self.fields.values()]
        return self._type(*(j(x, y) for j, x, y in zip(joins, a, b, strict=True) if j is not None))

    def same(self, a: Any, b: Any) -> bool:
        """Return whether all fields are equal."""
        shapes = self.fields.values()
        return all(shape.same(x, y) for shape, x, y in zip(shapes, a, b, strict=True))

    def add(self, state: Any, **values: Any) -> Any:
        """Return the state with a value added to each named field."""
        changed = {
            name: self.fields[name].add(getattr(state, name), value)  # type: ignore[attr-defined]
            for name, value in values.items()
        }
        return state._replace(**changed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(tuple(self.fields.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_struct, (self.fields,)

    def __repr__(self) -> str:
        return f"Struct({', '.join(f'{name}={shape!r}' for name, shape in self.fields.items())})"


def _rebuild_struct(fields: dict[str, Shape]) -> Struct:
    return Struct(**fields)


@cache
def make_struct_type(fields: tuple[str, ...]) -> Any:
    """Return the record type of structs with these fields; one per process."""
    return namedtuple("Struct", fields)  # noqa: PYI024 - the fields are data here
