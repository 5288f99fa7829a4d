"""Sources and their frontiers: what a source has promised, and which of its events break that.

Lateness is judged against the event's own source, in the source's own sequence. So what is late
is a function of the sources alone: batches, restarts and interleavings do not show in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.disorder import Disorder, Estimated, Kept
from anabranch.model.events import FOREVER, Event, Heartbeat, Item, Malformed, Tag

NEVER = -(1 << 63)
"""The frontier of a source that has promised nothing yet."""


@dataclass(frozen=True)
class Source:
    """What a source promises about time.

    `lateness` is how far an event may lie behind the largest time seen and still be on time; 0
    means in order, equal times allowed. None means that only heartbeats move the frontier, and an
    `Estimated` one is learnt from the source's own disorder. With `strict` no two events have one
    time, so that each event moves the frontier up to itself. An event more than `ahead` beyond the
    largest time seen or promised is rejected: it would drag the frontier into the future and make
    everything after it late.

    A source that is silent for `idle_after_s` seconds of a running query is no longer waited for
    (`eventtime.idleness`). Without it, a silent source holds the frontier back for ever.

    With `in_turn`, events are taken in the order in which the source brings them, and none is late: the
    time of each becomes the largest that the source has brought so far, which is a clock that a replay
    reads alike. Windows that are to speak early and late are cut by another field, which stays as it is.
    """

    name: str
    lateness: int | Estimated | None = 0
    strict: bool = False
    ahead: int | None = None
    idle_after_s: float | None = None
    in_turn: bool = False

    def __post_init__(self) -> None:
        for label, value in (("lateness", self.lateness), ("ahead", self.ahead)):
            if label == "lateness" and isinstance(value, Estimated):
                continue
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(
                    f"{label} of source {self.name!r} is not a distance in time",
                    expected="an integer of 0 or more, in the unit of your event times, or None",
                    got=repr(value),
                )
        if self.strict and self.lateness != 0:
            raise InputError(
                f"source {self.name!r} can't be strict and late at once",
                expected="strict=True with lateness=0",
                got=f"lateness={self.lateness}",
            )
        if self.in_turn and (self.strict or self.lateness != 0):
            raise InputError(
                f"events of source {self.name!r} come in turn, and so none of them is late",
                expected="in_turn=True with lateness=0",
                got="strict=True" if self.strict else f"lateness={self.lateness}",
            )
        check_idle_time(self.name, self.idle_after_s)

    @property
    def needs_each_item(self) -> bool:
        """Say whether a verdict depends on every item before it, not only on the largest time."""
        return self.ahead is not None or self.in_turn or isinstance(self.lateness, Estimated)


def check_idle_time(name: str, seconds: object) -> None:
    """Refuse anything but a span of time after which a source counts as idle."""
    if seconds is None:
        return
    if type(seconds) not in (int, float) or not 0.001 <= float(seconds) < 1e12:  # type: ignore[arg-type]
        raise InputError(
            f"idle_after_s of source {name!r} is not a span of time",
            expected="seconds, 0.001 or more, by the clock of the query; or None, to wait for ever",
            got=repr(seconds),
        )


class Late(NamedTuple):
    """An event that its source had promised not to bring, and how far behind it lies."""

    event: Event
    distance: int


class Rejected(NamedTuple):
    """An input that could not be used, as it came, with the reason."""

    item: Event | Malformed
    reason: str


@dataclass
class Watch:
    """Follow one source, item by item, in its own sequence."""

    source: Source
    frontier: int = NEVER
    largest: int | None = field(default=None)
    kept: Kept = ()

    def __post_init__(self) -> None:
        lateness = self.source.lateness
        self.disorder = Disorder(lateness, self.kept) if isinstance(lateness, Estimated) else None

    @property
    def delay(self) -> int | None:
        """Return how far behind the next event may lie; None if only heartbeats tell."""
        lateness = self.source.lateness
        if self.disorder is not None:
            return self.disorder.delay
        assert not isinstance(lateness, Estimated)
        return lateness

    def see(self, item: Item, tags: Iterable[Tag]) -> Event | Late | Rejected | None:
        """Judge the next item; return the event if it is good, None for a heartbeat."""
        if isinstance(item, Heartbeat):
            self.hear(item.time)
            return None
        if isinstance(item, Malformed):
            return Rejected(item, item.reason)
        reason = find_fault(item, tags)
        if reason is not None:
            return Rejected(item, reason)
        verdict = self.judge(item.time)
        if isinstance(verdict, str):
            return Rejected(item, verdict)
        if verdict is not None:
            return Late(item, verdict)
        return set_time(item, self.largest) if self.source.in_turn else item

    def hear(self, promised: int) -> None:
        """Take a heartbeat."""
        self.frontier = max(self.frontier, promised)

    def judge(self, time: int) -> int | str | None:
        """Judge the next event by its time: None if it is good, how late it is, or why it can't be.

        A good event moves the frontier; no other does.
        """
        ahead = self.source.ahead
        reached = self.frontier if self.largest is None else max(self.largest, self.frontier)
        if ahead is not None and reached > NEVER and time > reached + ahead:
            return f"time {time} is {time - reached} ahead of the source; at most {ahead}"
        if self.source.in_turn and self.largest is not None:
            time = max(time, self.largest)
        if self.disorder is not None:
            # Late ones count too: a delay that saw only what it let pass would shrink for ever.
            self.disorder.note(0 if self.largest is None else max(0, self.largest - time))
        if time <= self.frontier:
            return self.frontier - time
        self.largest = time if self.largest is None else max(self.largest, time)
        self.frontier = max(self.frontier, promise_of(self.source, self.largest, self.delay))
        return None


class Followed(NamedTuple):
    """What became of a source's items, and each frontier it promised on the way."""

    good: list[Event]
    late: list[Late]
    rejected: list[Rejected]
    promises: list[int]

    @property
    def frontier(self) -> int:
        """Return how far the source has come."""
        return self.promises[-1] if self.promises else NEVER


def follow(
    source: Source, items: Iterable[Item], tags: Iterable[Tag], watch: Watch | None = None
) -> Followed:
    """Judge a source's items, which are in its own sequence; a watch goes on where it stands."""
    watch = Watch(source) if watch is None else watch
    followed = Followed([], [], [], [])
    for item in items:
        before = watch.frontier
        verdict = watch.see(item, tags)
        if isinstance(verdict, Late):
            followed.late.append(verdict)
        elif isinstance(verdict, Rejected):
            followed.rejected.append(verdict)
        elif verdict is not None:
            followed.good.append(verdict)
        if watch.frontier > before:
            followed.promises.append(watch.frontier)
    return followed


def set_time(event: Event, time: int | None) -> Event:
    """Return an event with another time."""
    data = event.data
    changed = data._replace if hasattr(data, "_replace") else partial(replace, data)
    return event._replace(data=changed(time=time))


def promise_of(source: Source, largest: int | None, delay: int | None) -> int:
    """Return what a source has promised by the largest time it has brought, with such a delay."""
    if largest is None or delay is None:
        return NEVER
    # An event exactly `delay` behind is still on time, hence one less.
    return largest - (0 if source.strict else delay + 1)


def find_fault(event: Event, tags: Iterable[Tag]) -> str | None:
    """Return why an event can't be used by a program with these tags, whatever its time."""
    if type(event.data) not in tags:
        known = ", ".join(tag.__name__ for tag in tags)
        return f"unknown tag {type(event.data).__name__}; the program knows {known}"
    time: Any = event.data.time
    if not isinstance(time, int) or isinstance(time, bool):
        return f"time is {time!r}, not an integer"
    if not NEVER < time < FOREVER:
        return f"time {time} does not fit into 64 bits"
    return None


def read_sources(
    items: Iterable[Item], declared: Iterable[Source]
) -> tuple[dict[str, Source], dict[str, list[Item]]]:
    """Sort items by source, each in its own sequence; a source nobody declared is in order.

    Items without a sequence keep the order in which they came.
    """
    sources: dict[str, Source] = {}
    for source in declared:
        if source.name in sources:
            raise InputError(f"source {source.name!r} is declared twice")
        sources[source.name] = source
    brought: dict[str, list[Item]] = {name: [] for name in sources}
    for item in items:
        if item.source not in brought:
            sources[item.source] = Source(item.source)
            brought[item.source] = []
        brought[item.source].append(item)
    for name, mine in brought.items():
        _check_sequence(name, mine)
        if mine and mine[0].seq is not None:
            # A heartbeat may share the number of an event: it then speaks of what follows it.
            mine.sort(key=lambda item: (item.seq or 0, isinstance(item, Heartbeat)))
    return sources, brought


def _check_sequence(name: str, items: list[Item]) -> None:
    numbered = sum(item.seq is not None for item in items)
    if numbered not in (0, len(items)):
        raise InputError(
            f"source {name!r} numbers only some of its items",
            expected="a sequence number on every item of a source, or on none",
            got=f"{numbered} of {len(items)}",
        )
    events = [item.seq for item in items if not isinstance(item, Heartbeat)]
    if numbered and len(set(events)) < len(events):
        raise InputError(f"source {name!r} gives one sequence number to two items")


def end_sources(items: Iterable[Item], declared: Iterable[Source] = ()) -> list[Item]:
    """Return a bounded input: the items, then each source's word that it has ended."""
    bounded = list(items)
    last: dict[str, int | None] = {source.name: None for source in declared}
    for item in bounded:
        seen = last.get(item.source)
        last[item.source] = item.seq if seen is None else max(seen, item.seq or 0)
    ends = [Heartbeat(FOREVER, name, None if s is None else s + 1) for name, s in last.items()]
    return [*bounded, *ends]
