"""Limits: states with a maximum size, checked at each event."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from anabranch.errors import ProgramError, StateTooLargeError
from anabranch.model.shapes import MISSING, AnyState, Shape
from anabranch.model.values.maps import Map
from anabranch.state.durable.codec import find_records
from anabranch.state.value_order import write_canonically

Overflow = Literal["reject", "stop"]


@dataclass(frozen=True)
class Limited:
    """A state with a maximum number of `bytes`, in its durable form, or of `items`.

    An event whose update would exceed the limit is rejected, with key and size in the reason, and the state
    is unchanged; with `on_overflow="stop"` the run stops instead. The limit is on the whole state, so it
    can't be forked: keep it per key. To count bytes, the state is encoded once per event.

    >>> from anabranch.state import ListOf
    >>> Limited(ListOf(), items=2).add((1,), 2)
    (1, 2)
    """

    inner: Shape
    _: KW_ONLY
    bytes: int | None = None
    items: int | None = None
    on_overflow: Overflow = "reject"
    by: None = None

    def __post_init__(self) -> None:
        inner: Any = self.inner
        if isinstance(inner, type) or not hasattr(inner, "by") or inner.by is not None:
            raise ProgramError(
                f"Limited can't be used with {inner!r}",
                expected="a ready-made state without entries, such as Limited(ListOf(), items=100)",
                got="a class, not an instance" if isinstance(inner, type) else repr(inner),
                cure="put the limit inside the map: MapOf(Limited(...), by='key')",
            )
        given = [most for most in (self.bytes, self.items) if most is not None]
        if not given or any(type(most) is not int or most < 1 for most in given):
            raise ProgramError(
                "Limited has no limit",
                expected="bytes= or items=, of 1 or more",
                got=f"bytes={self.bytes!r}, items={self.items!r}",
            )
        if self.on_overflow not in ("reject", "stop"):
            raise ProgramError(
                "on_overflow of Limited is not known",
                expected='on_overflow="reject" or "stop"',
                got=repr(self.on_overflow),
            )
        if self.items is not None and not _has_items(inner):
            raise ProgramError(
                f"a {type(inner).__name__} has no items to count",
                expected="a state of many items, such as ListOf, SetOf or Dictionary",
                got=repr(inner),
                cure="give bytes=",
            )

    @property
    def init(self) -> AnyState:
        """Return the inner initial state."""
        return self.inner.init

    @property
    def zero(self) -> AnyState:
        """Return MISSING: a part can't check the size of the whole."""
        return MISSING

    @property
    def fork(self) -> None:
        """Return None: the state can't be forked."""
        return

    @property
    def join(self) -> None:
        """Return None: the state can't be forked."""
        return

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that the state may contain."""
        return find_records(self.inner)

    def same(self, a: AnyState, b: AnyState) -> bool:
        """Return whether two states are equal, as the inner state compares them."""
        return self.inner.same(a, b)

    def add(self, state: AnyState, *values: Any) -> AnyState:
        """Return the state with a value added."""
        return self.inner.add(state, *values)  # type: ignore[attr-defined]

    def value(self, state: AnyState) -> Any:
        """Return the value of the inner state."""
        return self.inner.value(state)  # type: ignore[attr-defined]

    def check_size(self, state: AnyState) -> None:
        """Raise `StateTooLargeError` if a state exceeds the limit."""
        within = getattr(self.inner, "check_size", None)
        if within is not None:
            within(state)
        stops = self.on_overflow == "stop"
        if self.items is not None:
            size = getattr(self.inner, "size", len)(state)
            if size > self.items:
                raise StateTooLargeError(size, self.items, "items", stops=stops)
        if self.bytes is not None:
            size = len(write_canonically(state))
            if size > self.bytes:
                raise StateTooLargeError(size, self.bytes, "bytes", stops=stops)


def _has_items(shape: Any) -> bool:
    start = shape.init
    return hasattr(shape, "size") or type(start) is tuple or isinstance(start, frozenset | Map)
