"""Dependence: the symmetric relation of events that must keep their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.errors import Location, ProgramError
from anabranch.model.events import LANE, Event, EventType, field_names
from anabranch.model.locations import locate_caller
from anabranch.model.slices import Choice, Equals, Slice, choices_overlap, field_value

Same = tuple[str, ...]
"""Fields that must be equal for two events to depend on each other; () means always."""


@dataclass(frozen=True)
class Depends:
    """One declaration that an event type depends on others. Made by `depends`."""

    event_type: EventType
    others: tuple[EventType, ...]
    same: Same = ()
    where: Location | None = None


def depends(event_type: EventType, *others: EventType, same: str | Iterable[str] = ()) -> Depends:
    """Return the declaration that events of `event_type` and of each of `others` must keep their order.

    With `same`, only events with equal values of these fields: `depends(View, Update, same="page")`.
    The relation is symmetric: `depends(A, B)` and `depends(B, A)` are the same.
    """
    fields = (same,) if isinstance(same, str) else tuple(sorted(same))
    where = locate_caller()
    if not others:
        raise ProgramError(
            "depends() has one event type, and none that it depends on",
            where=where,
            expected="depends(Report, Temp, Report): an event type, then the event types it depends on",
            got="one event type",
            cure="if the event type depends on itself, name it twice: depends(Report, Report)",
        )
    return Depends(event_type, others, fields, where)


class Dependence:
    """A symmetric relation on event types, each pair optionally restricted to equal fields."""

    __slots__ = ("_table", "event_types", "lanes")

    def __init__(
        self,
        event_types: Iterable[EventType],
        statements: Iterable[Depends],
        lanes: int | None = None,
    ) -> None:
        self.event_types = tuple(event_types)
        self.lanes = lanes
        table: dict[tuple[EventType, EventType], frozenset[Same]] = {}
        for statement in statements:
            for other in statement.others:
                _check_pair(self.event_types, statement, other)
                for pair in ((statement.event_type, other), (other, statement.event_type)):
                    table[pair] = _weaken(table.get(pair, frozenset()) | {statement.same})
        self._table = table

    def restrictions(self, a: EventType, b: EventType) -> frozenset[Same]:
        """Return the sets of fields whose equality makes two event types dependent; empty if they never are."""
        return self._table.get((a, b), frozenset())

    def depend(self, a: Any, b: Any) -> bool:
        """Return whether two events depend on each other, or two slices or event types may depend.

        Each side is an event, an event's data, a `Slice`, or an event type.
        """
        restrictions = self._table.get((_event_type_of(a), _event_type_of(b)))
        if restrictions is None:
            return False
        return any(all(self._may_agree(field, a, b) for field in same) for same in restrictions)

    def independent(self, a: Any, b: Any) -> bool:
        """Return whether two events, slices or event types never depend on each other."""
        return not self.depend(a, b)

    def neighbours(self, event_type: EventType) -> tuple[EventType, ...]:
        """Return the event types that an event type depends on, itself included if it does."""
        return tuple(other for other in self.event_types if (event_type, other) in self._table)

    def components(
        self, parts: Iterable[Slice | EventType] | None = None
    ) -> tuple[frozenset[Any], ...]:
        """Return the connected components of the dependence graph on slices (default: the event types).

        No event of one component depends on an event of another, so components can run in parallel.
        """
        left = list(self.event_types if parts is None else parts)
        found: list[frozenset[Any]] = []
        while left:
            component, queue = [left[0]], [left.pop(0)]
            while queue:
                current = queue.pop()
                near = [part for part in left if self.depend(current, part)]
                left = [part for part in left if part not in near]
                component += near
                queue += near
            found.append(frozenset(component))
        return tuple(found)

    def _may_agree(self, field: str, a: Any, b: Any) -> bool:
        return choices_overlap(field, self._choice(field, a), self._choice(field, b))

    def _choice(self, field: str, part: Any) -> Choice | None:
        if isinstance(part, Slice):
            return part.choice(field)
        if isinstance(part, Event):
            return Equals(field_value(part, field, self.lanes))
        if isinstance(part, type) or field == LANE:
            return None
        return Equals(getattr(part, field))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dependence) and self._table == other._table

    def __hash__(self) -> int:
        return hash(frozenset(self._table.items()))

    def __repr__(self) -> str:
        pairs = []
        for (a, b), restrictions in self._table.items():
            if self.event_types.index(a) <= self.event_types.index(b):
                for same in sorted(restrictions):
                    cut = f" same {', '.join(same)}" if same else ""
                    pairs.append(f"{a.__name__}–{b.__name__}{cut}")
        return f"Dependence({'; '.join(pairs) or 'none'})"


def _event_type_of(part: Any) -> EventType:
    if isinstance(part, Slice):
        return part.event_type
    if isinstance(part, Event):
        return type(part.data)
    return part if isinstance(part, type) else type(part)


def _weaken(restrictions: frozenset[Same]) -> frozenset[Same]:
    # Events that depend if `a` is equal also depend if `a` and `b` are: the longer condition is redundant.
    return frozenset(
        same for same in restrictions if not any(set(o) < set(same) for o in restrictions)
    )


def _check_pair(event_types: tuple[EventType, ...], statement: Depends, other: EventType) -> None:
    for event_type in (statement.event_type, other):
        if event_type not in event_types:
            raise ProgramError(
                f"a dependence names {getattr(event_type, '__name__', event_type)!r}, which the program "
                "does not handle",
                where=statement.where,
                expected=f"one of {', '.join(known.__name__ for known in event_types)}",
                got=str(getattr(event_type, "__name__", event_type)),
                cure=f"add `on({getattr(event_type, '__name__', event_type)}, ...)`, or drop the dependence",
            )
        for field in statement.same:
            if field != LANE and field not in field_names(event_type):
                raise ProgramError(
                    f"a dependence asks for equal `{field}`, which {event_type.__name__} does not have",
                    where=statement.where,
                    expected=f"a field of both {statement.event_type.__name__} and {other.__name__}",
                    got=f"{event_type.__name__} has {', '.join(field_names(event_type))}",
                    cure=f"add `{field}` to {event_type.__name__}, or leave out `same`",
                )


def write_depends(a: EventType, b: EventType, *, same: Sequence[str] = ()) -> str:
    """Return the source code of a `depends` statement."""
    option = ""
    if same:
        option = f", same={(same[0] if len(same) == 1 else tuple(same))!r}".replace("'", '"')
    return f"depends({a.__name__}, {b.__name__}{option})"
