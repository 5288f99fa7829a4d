"""A plain value, a value that is the latest of many, and a dictionary of states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
    """A value that an update may replace by any other. Keep it per key: it can't be cut.

    The next value may depend on the one before, so events that change it keep their order. If it comes to
    hold a record that it does not start with, name that as `of`.

    >>> Value(start="closed").add("closed", "open")
    'open'
    """

    start: Any = None
    of: Any = None
    by: None = None

    @property
    def init(self) -> Any:
        """Return the value to begin with."""
        return self.start

    @property
    def zero(self) -> Any:
        """Return that there is none: no value changes nothing."""
        return MISSING

    @property
    def fork(self) -> None:
        """Return that there is none: of two parts, none would know the value."""
        return

    @property
    def join(self) -> None:
        """Return that there is none: nobody could say which of two values came last."""
        return

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records that a value may be, or hold."""
        return list_records(self.of)

    def same(self, a: Any, b: Any) -> bool:
        """Compare exactly."""
        return is_written_alike(a, b)

    def add(self, state: Any, value: Any) -> Any:
        """Return the new value."""
        return value

    def value(self, state: Any) -> Any:
        """Return the value."""
        return state


@dataclass(frozen=True)
class Latest:
    """The item that is last in an order of its own; None before there is one.

    Unlike a `Value`, it does not care in which order items come: a field, or a function, of the item says
    when it was. Of two with the same place, the one whose bytes are larger is taken for the later. So it may
    be cut, and folded apart.

    >>> latest = Latest(ordered_by=lambda pair: pair[0])
    >>> latest.join((5, "there"), (3, "here"))
    (5, 'there')
    """

    ordered_by: Order = "time"
    of: Any = None
    by: None = None

    def __post_init__(self) -> None:
        check_order("Latest", self.ordered_by)

    @property
    def init(self) -> None:
        """Return that there is no item yet."""
        return

    zero = init

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records that an item may be, or hold."""
        return list_records(self.of)

    def fork(self, state: Any, left: Slices, right: Slices) -> tuple[Any, Any]:
        """Leave the item on the left."""
        return state, None

    def join(self, a: Any, b: Any) -> Any:
        """Return the later of two."""
        if a is None or b is None:
            return b if a is None else a
        return max(a, b, key=lambda item: rank_item(self.ordered_by, item))

    def same(self, a: Any, b: Any) -> bool:
        """Compare exactly."""
        return is_written_alike(a, b)

    def add(self, state: Any, item: Any) -> Any:
        """Return the later of what there was and one item more."""
        rank_item(self.ordered_by, item)
        return self.join(state, item)

    def value(self, state: Any) -> Any:
        """Return the item."""
        return state


@dataclass(frozen=True)
class Dictionary:
    """A state of the `inner` kind under each of many names, which an update chooses as it likes.

    `MapOf` has its entries by a field, and each event sees one; here a handler sees all of them, and the
    names may be anything that can be hashed. It may be cut if the inner state may, and starts from its zero.

    >>> from anabranch.state import Count
    >>> shops = Dictionary(Count())
    >>> shops.add(shops.add(shops.init, "north"), "north")
    Map({'north': 2})
    """

    inner: Shape = Value()
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
            # A part that meets a name for the first time can't know if another part has begun it.
            raise ProgramError(
                "the states of a Dictionary would begin twice, if it is cut",
                expected=f"a state that begins as {inner.zero!r}",
                got=repr(inner),
                cure="add what it begins with when it is read",
            )

    @property
    def init(self) -> Map[Any, AnyState]:
        """Return no names."""
        return Map()

    @property
    def zero(self) -> Any:
        """Return no names, or MISSING where the inner state has no zero."""
        return MISSING if self.inner.zero is MISSING else Map()

    @property
    def fork(self) -> Fork | None:
        """Return how to cut it, if its states can be folded apart."""
        return None if self.zero is MISSING or self.inner.fork is None else self._fork

    @property
    def join(self) -> Join | None:
        """Return how to put it together, if its states can be."""
        return None if self.fork is None else self._join

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records that its states may hold."""
        return find_records(self.inner)

    @property
    def check_size(self) -> CheckSize | None:
        """Return how to check the size of each state, if they have a limit."""
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
        """Compare name by name; one that is absent is one that has just started."""
        start = self.inner.init
        return all(self.inner.same(a.get(n, start), b.get(n, start)) for n in {*a, *b})

    def add(self, state: Map[Any, AnyState], name: Any, *value: Any) -> Map[Any, AnyState]:
        """Return the dictionary with a value more under a name."""
        before = state.get(name, self.inner.init)
        return state.set(name, self.inner.add(before, *value))  # type: ignore[attr-defined]

    def get(self, state: Map[Any, AnyState], name: Any) -> Any:
        """Return what the state under a name says; one that is absent says what a new one would."""
        found = state.get(name, self.inner.init)
        return self.inner.value(found)  # type: ignore[attr-defined]

    def value(self, state: Map[Any, AnyState]) -> dict[Any, Any]:
        """Return what the state under each name says, in the order of the names."""
        return {name: self.get(state, name) for name in state}


def check_order(role: str, order: Any) -> None:
    """Refuse an order that is neither a field nor a function."""
    if not (isinstance(order, str) and order.isidentifier()) and not callable(order):
        raise ProgramError(
            f"{role} can't tell what comes first",
            expected='a field of the items, ordered_by="time", or a function of them',
            got=repr(order),
        )


def rank_item(order: Order, item: Any) -> tuple[Any, bytes]:
    """Return an item's place in an order: no two items share one, unless they are alike."""
    if isinstance(order, str):
        kind: Any = type(item)
        place = getattr(item, time_field(kind) if order == "time" else order)
    else:
        place = order(item)
    if place != place:  # noqa: PLR0124 - NaN, of whatever type
        raise ValueError(f"items need a place that has an order, got {place!r}")
    return place, write_canonically(item)
