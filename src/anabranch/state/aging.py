"""Entries with a time to live: the ages that a map with `ttl` stores with its states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Never

from anabranch.errors import ProgramError
from anabranch.model.events import FOREVER, Event
from anabranch.model.handlers import Handler
from anabranch.model.shapes import MISSING, AnyState, Fork, Join, Shape
from anabranch.model.slices import Slices
from anabranch.model.step import Outputs, run
from anabranch.model.values.durations import EXPECTED, SpanField
from anabranch.model.values.event_times import time_of

LONG_AGO = -(1 << 63)
"""The refresh time of an entry that was never refreshed."""

REFRESHES = ("writes", "reads")


class Aged(NamedTuple):
    """An entry with a `ttl`: its state, the time of its last refresh, and the time of its next check.

    The alarm is never later than the entry's expiry. A refresh does not move it, so that an entry has one
    timer at a time, however many events it has.
    """

    state: Any
    refreshed: int = LONG_AGO
    alarm: int = FOREVER


@dataclass(frozen=True)
class Aging:
    """The state of an entry that expires when it was not refreshed for `ttl`. Made by `MapOf`.

    The time is event time. An event at time t sees entries that were refreshed after t - ttl, so an entry
    refreshed exactly `ttl` before has expired. Writes refresh an entry; with refresh="reads", every event
    that sees it does.
    """

    inner: Shape
    ttl: SpanField[Never] = SpanField("ttl")
    refresh: str = "writes"
    sparse: bool = field(default=False, repr=False)
    by: None = None

    def __post_init__(self) -> None:
        if not 1 <= self.ttl < FOREVER:
            raise ProgramError(
                "ttl is not a time to live",
                expected=f"{EXPECTED}, above 0",
                got=repr(self.ttl),
            )
        if self.refresh not in REFRESHES:
            raise ProgramError(
                f"refresh={self.refresh!r} is not known",
                expected="refresh='writes', the default, or refresh='reads'",
                got=repr(self.refresh),
            )
        if self.inner.by is not None:
            raise ProgramError(
                f"a map by {self.inner.by!r} can't expire as a whole",
                expected="a ttl on the innermost map",
                got=f"a ttl on a map of maps by {self.inner.by!r}",
                cure=f"give the ttl to MapOf(..., by={self.inner.by!r})",
            )

    @property
    def init(self) -> Aged:
        """Return the inner initial state, never refreshed."""
        return Aged(self.inner.init)

    @property
    def zero(self) -> AnyState:
        """Return the inner zero, never refreshed, or MISSING if the state has none."""
        return MISSING if self.inner.zero is MISSING else Aged(self.inner.zero)

    @property
    def fork(self) -> Fork | None:
        """Return a fork that gives both sides the times, or None if the state can't be forked."""
        return self._fork if self.inner.fork is not None else None

    @property
    def join(self) -> Join | None:
        """Return a join that keeps the later refresh, or None if the state can't be joined."""
        return self._join if self.inner.join is not None else None

    @property
    def records(self) -> tuple[type, ...]:
        """Return the record types that an entry may contain."""
        return (Aged, *getattr(self.inner, "records", ()))

    def _fork(self, entry: Aged, left: Slices, right: Slices) -> tuple[Aged, Aged]:
        assert self.inner.fork is not None
        a, b = self.inner.fork(entry.state, left, right)
        return entry._replace(state=a), entry._replace(state=b)

    def _join(self, a: Aged, b: Aged) -> Aged:
        assert self.inner.join is not None
        joined = self.inner.join(a.state, b.state)
        return Aged(joined, max(a.refreshed, b.refreshed), min(a.alarm, b.alarm))

    def same(self, a: Aged, b: Aged) -> bool:
        """Return whether states, refresh times and alarms are equal."""
        return a[1:] == b[1:] and self.inner.same(a.state, b.state)

    def take_event(
        self, handler: Handler, entry: Aged, event: Event, *, delta: bool = False
    ) -> tuple[Any, Outputs]:
        """Return the entry after an event, or MISSING if it is removed, and the outputs."""
        if handler.expires:
            return self.expire(entry, event.data), ()
        state, outputs = run(handler, entry.state, event.data)
        if handler.update is None and self.refresh == "writes":
            return (entry if entry.refreshed > LONG_AGO else MISSING), outputs
        if self.sparse and self.inner.same(state, self.inner.init):
            return MISSING, outputs
        return self.renew(entry, state, event.time), outputs

    def renew(self, entry: Aged, state: AnyState, time: int) -> Aged:
        """Return an entry with a new state, refreshed at a time."""
        return Aged(state, max(entry.refreshed, time), min(entry.alarm, self._find_end(time)))

    def expire(self, entry: Aged, timer: Any) -> Any:
        """Return MISSING if an entry has expired, else the entry with its next alarm."""
        end = self._find_end(entry.refreshed)
        return MISSING if end <= time_of(timer) else entry._replace(alarm=end)

    def find_due(self, entry: Aged) -> int:
        """Return the time of an entry's next check."""
        return entry.alarm

    def _find_end(self, refreshed: int) -> int:
        """Return the last time at which an entry is visible: timers fire after all events of that time."""
        return min(refreshed + self.ttl - 1, FOREVER - 1)
