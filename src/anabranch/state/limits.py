"""Limits: a state that grows too large is refused by name, at the event that would make it so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from anabranch.errors import ProgramError, StateTooLargeError
from anabranch.model.shapes import MISSING, AnyState, Shape
from anabranch.model.values.maps import Map
from anabranch.state.durable.codec import find_records
from anabranch.state.value_order import write_canonically

Overflow = Literal["reject", "stop"]


@dataclass(frozen=True)
class Limited:
    """A state that may hold at most so many bytes, as it is written, or so many items.

    An event whose update would make it larger is rejected, with key and size as the reason, and the state
    stays as it was; with `on_overflow="stop"` the run stops instead. How large a state is, only its whole
    can tell, so it can't be cut: keep it per key. Bytes are counted by writing the state once per event.

    >>> from anabranch.state import ListOf
    >>> Limited(ListOf(), items=2).add((1,), 2)
    (1, 2)
    """

    inner: Shape
    bytes: int | None = None
    items: int | None = None
    on_overflow: Overflow = "reject"
    by: None = None

    def __post_init__(self) -> None:
        inner: Any = self.inner
        if isinstance(inner, type) or not hasattr(inner, "by") or inner.by is not None:
            raise ProgramError(
                f"Limited can't hold a {inner!r}",
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
                "Limited does not know what to do with an event too many",
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
        """Return the inner start."""
        return self.inner.init

    @property
    def zero(self) -> AnyState:
        """Return that there is none: folded apart, a part would not know how large the whole is."""
        return MISSING

    @property
    def fork(self) -> None:
        """Return that there is none."""
        return

    @property
    def join(self) -> None:
        """Return that there is none."""
        return

    @property
    def records(self) -> tuple[type, ...]:
        """Return the records that the state may hold."""
        return find_records(self.inner)

    def same(self, a: AnyState, b: AnyState) -> bool:
        """Compare as the inner state does."""
        return self.inner.same(a, b)

    def add(self, state: AnyState, *values: Any) -> AnyState:
        """Return the state with a value more."""
        return self.inner.add(state, *values)  # type: ignore[attr-defined]

    def value(self, state: AnyState) -> Any:
        """Return what the state says."""
        return self.inner.value(state)  # type: ignore[attr-defined]

    def check_size(self, state: AnyState) -> None:
        """Refuse a state that is larger than it may be."""
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
