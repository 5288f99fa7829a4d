"""States of one value, of the latest item, and of a dictionary of states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from anabranch.errors import ProgramError, StateTooLargeError
from anabranch.model.shapes import MISSING, AnyState, CheckSize, Fork, Join, Shape, join_entries
from anabranch.model.slices import Slices
from anabranch.model.values.event_times import time_field
from anabranch.model.values.maps import Map
from anabranch.state.durable.codec import find_records, list_records
from anabranch.state.value_order import is_written_alike, write_canonically

Order = str | Callable[[Any], Any]
"""A field of an item, or a function of it."""


@dataclass(frozen=True)
class Value:
    """A value that an update may replace by any other. Keep it per key: it can't be forked.

    The next value may depend on the one before, so events that change it keep their order. If it may
    contain a record type that is not in its start value, give the type as `of`.

    >>> Value(start="closed").add("closed", "open")
    'open'
    """

    start: Any = None
    _: KW_ONLY
    of: Any = None
    by: None = None

    @property
    def init(self) -> Any:
        """Return the start value."""
        return self.start

    @property
    def zero(self) -> Any:
        """Return MISSING: no value is an identity of replacement."""
        return MISSING

    @property
    def fork(self) -> None:
        """Return None: the value can't be divided between two parts."""
        return

    @property
    def join(self) -> None:
        """Return None: two values have no order of their own."""
        return

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that a value may be, or contain."""
        return list_records(self.of)

    def same(self, a: Any, b: Any) -> bool:
        """Return whether two states are exactly equal."""
        return is_written_alike(a, b)

    def add(self, state: Any, value: Any) -> Any:
        """Return the new value."""
        return value

    def value(self, state: Any) -> Any:
        """Return the value."""
        return state


@dataclass(frozen=True)
class Latest:
    """The last item in the order of a field, or of a function, of the items; None if there is none.

    Unlike a `Value`, it does not depend on the order in which items arrive. Ties are broken by the durable
    bytes of the items, the larger one being the later. So the state can be forked and joined.

    >>> latest = Latest(ordered_by=lambda pair: pair[0])
    >>> latest.join((5, "there"), (3, "here"))
    (5, 'there')
    """

    ordered_by: Order = "time"
    _: KW_ONLY
    of: Any = None
    by: None = None

    def __post_init__(self) -> None:
        check_order("Latest", self.ordered_by)

    @property
    def init(self) -> None:
        """Return None: there is no item yet."""
        return

    zero = init

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that an item may be, or contain."""
        return list_records(self.of)

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        """Return the item for the left side, and None for the right."""
        return state, None

    def join(self, a: Any, b: Any) -> Any:
        """Return the later of two items."""
        if a is None or b is None:
            return b if a is None else a
        return max(a, b, key=lambda item: rank_item(self.ordered_by, item))

    def same(self, a: Any, b: Any) -> bool:
        """Return whether two states are exactly equal."""
        return is_written_alike(a, b)

    def add(self, state: Any, item: Any) -> Any:
        """Return the later of the item so far and a new one."""
        rank_item(self.ordered_by, item)
        return self.join(state, item)

    def value(self, state: Any) -> Any:
        """Return the item."""
        return state


@dataclass(frozen=True)
class Dictionary:
    """One state of the `inner` kind per name, where updates choose the names.

    `MapOf` has one entry per value of a field, and each event sees one entry; here a handler sees all
    entries, and names may be any hashable values. It can be forked if the inner state can, and entries
    start from its zero.

    >>> from anabranch.state import Count
    >>> shops = Dictionary(Count())
    >>> shops.add(shops.add(shops.init, "north"), "north")
    Map({'north': 2})
    """

    inner: Shape = Value()
    _: KW_ONLY
    by: None = None

    def __post_init__(self) -> None:
        inner: Any = self.inner
        plain = callable(getattr(inner, "add", None)) and getattr(inner, "by", "") is None
        if isinstance(inner, type) or not plain:
            raise ProgramError(
                f"a Dictionary can't keep a {inner!r}",
                expected="a ready-made state that values are added to, such as Dictionary(Count())",
                got="a class, not an instance" if isinstance(inner, type) else repr(inner),
            )
        if inner.zero is not MISSING and not inner.same(inner.init, inner.zero):
            # Two parts may both create the entry of a name, and each would add the start value.
            raise ProgramError(
                "the states of a Dictionary would count their start value twice when joined",
                expected=f"a state that starts as {inner.zero!r}",
                got=repr(inner),
                cure="add the start value when the state is read",
            )

    @property
    def init(self) -> Map[Any, AnyState]:
        """Return an empty map."""
        return Map()

    @property
    def zero(self) -> Any:
        """Return an empty map, or MISSING if the inner state has no zero."""
        return MISSING if self.inner.zero is MISSING else Map()

    @property
    def fork(self) -> Fork | None:
        """Return the fork, or None if the inner state has no fork or zero."""
        return None if self.zero is MISSING or self.inner.fork is None else self._fork

    @property
    def join(self) -> Join | None:
        """Return the join, or None if the inner state can't be forked."""
        return None if self.fork is None else self._join

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that its states may contain."""
        return find_records(self.inner)

    @property
    def check_size(self) -> CheckSize | None:
        """Return the size check of the inner states, or None if they have no limit."""
        return self._check_size if getattr(self.inner, "check_size", None) else None

    def _fork(
        self, state: Map[Any, AnyState], left: Slices, right: Slices
    ) -> tuple[Map[Any, AnyState], Map[Any, AnyState]]:
        return state, Map()

    def _join(self, a: Map[Any, AnyState], b: Map[Any, AnyState]) -> Map[Any, AnyState]:
        return join_entries(self.inner, a, b)

    def _check_size(self, state: Map[Any, AnyState]) -> None:
        for name in state:
            try:
                self.inner.check_size(state[name])  # type: ignore[attr-defined]
            except StateTooLargeError as error:
                raise error.within(name) from None

    def same(self, a: Map[Any, AnyState], b: Map[Any, AnyState]) -> bool:
        """Return whether the states of all names are equal; an absent one equals the initial state."""
        start = self.inner.init
        return all(self.inner.same(a.get(n, start), b.get(n, start)) for n in {*a, *b})

    def add(self, state: Map[Any, AnyState], name: Any, *value: Any) -> Map[Any, AnyState]:
        """Return the dictionary with a value added to the state of a name."""
        before = state.get(name, self.inner.init)
        return state.set(name, self.inner.add(before, *value))  # type: ignore[attr-defined]

    def get(self, state: Map[Any, AnyState], name: Any) -> Any:
        """Return the value of the state of a name; for an absent name, that of an initial state."""
        found = state.get(name, self.inner.init)
        return self.inner.value(found)  # type: ignore[attr-defined]

    def value(self, state: Map[Any, AnyState]) -> dict[Any, Any]:
        """Return the value of the state of each name, in the order of the names."""
        return {name: self.get(state, name) for name in state}


def check_order(role: str, order: Any) -> None:
    """Raise if an order is neither a field name nor a function."""
    if not (isinstance(order, str) and order.isidentifier()) and not callable(order):
        raise ProgramError(
            f"ordered_by of {role} is not valid",
            expected='a field of the items, ordered_by="time", or a function of them',
            got=repr(order),
        )


def rank_item(order: Order, item: Any) -> tuple[Any, bytes]:
    """Return the sort key of an item: equal only for items with equal durable bytes."""
    if isinstance(order, str):
        kind: Any = type(item)
        place = getattr(item, time_field(kind) if order == "time" else order)
    else:
        place = order(item)
    if place != place:  # noqa: PLR0124 - NaN, of whatever type
        raise ValueError(f"items need a sort key that has an order, got {place!r}")
    return place, write_canonically(item)
