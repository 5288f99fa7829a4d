"""Sources and their frontiers: what a source has promised, and which of its events break that.

Lateness is judged against the event's own source, in the source's own sequence. So what is late
is a function of the sources alone: batches, restarts and interleavings do not show in it.

Every runtime follows these rules, by the functions of this module. What is read together (an input of the
reference, a batch on Spark) is put in order of its sequence first. An event whose number is not larger than
the last of its source is rejected. Where sources are declared, so is an event of any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.disorder import Disorder, Estimated, Kept
from anabranch.model.events import FOREVER, Event, Heartbeat, Item, Malformed, Tag, field_types
from anabranch.model.program import Program
from anabranch.model.values.durations import SecondsField, SpanField, check_spans, list_spans
from anabranch.model.values.event_times import is_timestamped, time_field, to_moment, to_time

NEVER = -(1 << 63)
"""The frontier of a source that has promised nothing yet."""

BEFORE_ALL = -(1 << 63)
"""The place of a heartbeat on behalf of a source before everything that it brings, numbered or not."""


@dataclass(frozen=True)
class Source:
    """What a source promises about time.

    `lateness` is how far an event may lie behind the largest time seen and still be on time; 0
    means in order, equal times allowed. It is a duration (`"5 s"`, a `timedelta`) where times are
    datetimes, and an integer where they are integers, as is `ahead`. None means that only heartbeats move the frontier, and an
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
    lateness: SpanField[Estimated | None] = SpanField(
        "lateness of source {name!r}",
        least=0,
        default=0,
        also=(Estimated, type(None)),
        error=InputError,
    )
    strict: bool = False
    ahead: SpanField[None] = SpanField(
        "ahead of source {name!r}", least=0, default=None, also=(type(None),), error=InputError
    )
    idle_after_s: SecondsField = SecondsField("idle_after_s of source {name!r}")
    in_turn: bool = False

    def __post_init__(self) -> None:
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


def check_units(program: Program, sources: Iterable[Source]) -> None:
    """Refuse sources whose lateness or `ahead` is not in the unit of a program's event times."""
    check_spans(
        (span for source in sources for span in list_spans(source)),
        timestamped=program.timestamped,
        of=program.name,
        error=InputError,
    )


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
    last: int | None = None

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
        if isinstance(item, Malformed):
            return Rejected(item, item.reason)
        if isinstance(item, Heartbeat):
            reason = find_heartbeat_fault(item)
            if reason is not None:
                return Rejected(spoil_heartbeat(item, reason), reason)
            self.hear(item.time)
            return None
        reason = find_fault(item, tags) or self.count(item.seq)
        if reason is not None:
            return Rejected(item, reason)
        verdict = self.judge(item.time)
        if isinstance(verdict, str):
            return Rejected(item, verdict)
        if verdict is not None:
            return Late(item, verdict)
        return set_time(item, self.largest) if self.source.in_turn else item

    def hear(self, promised: int) -> None:
        """Take a heartbeat. It takes no number of its own: it may have that of the event before it."""
        self.frontier = max(self.frontier, promised)

    def count(self, seq: int | None) -> str | None:
        """Take the number of the next event; return why the event is rejected, if it is not larger."""
        if seq is None:
            return None
        if self.last is not None and seq <= self.last:
            return describe_repeat(self.source.name, seq)
        self.last = seq
        return None

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
    kind: Tag = type(data)
    name = time_field(kind)
    if time is not None and isinstance(getattr(data, name), datetime):
        return event._replace(data=changed(**{name: to_moment(time)}))
    return event._replace(data=changed(**{name: time}))


def promise_of(source: Source, largest: int | None, delay: int | None) -> int:
    """Return what a source has promised by the largest time it has brought, with such a delay."""
    if largest is None or delay is None:
        return NEVER
    # An event exactly `delay` behind is still on time, hence one less.
    return largest - (0 if source.strict else delay + 1)


def describe_repeat(source: str, seq: int) -> str:
    """Return why an event is rejected whose number is not larger than the last of its source.

    The last number is left out: how far a source had come may depend on where batches were cut.
    """
    return f"sequence {seq} of source {source!r} is not larger than the last: it came before, or too late"


def describe_stranger(source: object, declared: Iterable[str]) -> str:
    """Return why an event is rejected whose source is not among those that were declared."""
    known = ", ".join(declared)
    cure = "name one of them" if source is None else f"add Source({source!r}), or correct the name"
    return f"unknown source {source!r}; declared are {known}: {cure}"


def find_heartbeat_fault(beat: Heartbeat) -> str | None:
    """Return why a heartbeat can't be used."""
    fault = find_sequence_fault(beat.seq)
    if fault is not None or fits(beat.time):
        return fault
    return f"heartbeat {beat.time} does not fit into 64 bits"


def find_sequence_fault(seq: int | None) -> str | None:
    """Return why a number can't be one of a sequence."""
    return None if seq is None or fits(seq) else f"sequence {seq} does not fit into 64 bits"


def fits(number: int) -> bool:
    """Say whether a column holds a number: 64 bits do."""
    return NEVER <= number <= FOREVER


def spoil_heartbeat(beat: Heartbeat, reason: str) -> Malformed:
    """Return a heartbeat as input that can't be used."""
    raw = {"heartbeat": beat.time, "source": beat.source, "seq": beat.seq}
    return Malformed(raw, reason, beat.source, beat.seq)


def find_fault(event: Event, tags: Iterable[Tag]) -> str | None:
    """Return why an event can't be used by a program with these tags, whatever its time."""
    fault = find_sequence_fault(event.seq)
    if fault is not None:
        return fault
    if type(event.data) not in tags:
        known = ", ".join(tag.__name__ for tag in tags)
        return f"unknown tag {type(event.data).__name__}; the program knows {known}"
    kind: Tag = type(event.data)
    held = getattr(event.data, time_field(kind))
    if is_timestamped(kind) != isinstance(held, datetime) and _tells_time(kind):
        return f"time is {held!r}, not {'a datetime' if is_timestamped(kind) else 'an integer'}"
    time: Any = to_time(held)
    if not isinstance(time, int) or isinstance(time, bool):
        return f"time is {held!r}, not an integer"
    if not NEVER < time < FOREVER:
        return f"time {time} does not fit into 64 bits"
    return None


def _tells_time(tag: Tag) -> bool:
    """Return whether an event type is annotated with the type of its time."""
    return field_types(tag)[time_field(tag)] is not Any


class Brought(NamedTuple):
    """The sources of a run, what each brings in its own sequence, and the items of no such source."""

    sources: dict[str, Source]
    items: dict[str, list[Item]]
    rejected: list[Rejected]


def read_sources(items: Iterable[Item], declared: Iterable[Source]) -> Brought:
    """Sort items by source, each in its own sequence.

    If no source is declared, every source there is brings its events in order. If some are, items of
    any other are rejected. Items without a sequence, or of one number, keep the order in which they came.
    """
    sources: dict[str, Source] = {}
    for source in declared:
        if source.name in sources:
            raise InputError(f"source {source.name!r} is declared twice")
        sources[source.name] = source
    closed = bool(sources)
    brought: dict[str, list[Item]] = {name: [] for name in sources}
    rejected: list[Rejected] = []
    for item in items:
        if item.source not in brought:
            if closed:
                rejected.append(_reject_stranger(item, sources))
                continue
            sources[item.source] = Source(item.source)
            brought[item.source] = []
        brought[item.source].append(item)
    for name, mine in brought.items():
        if _check_sequence(name, mine):
            # A heartbeat may share the number of an event: it then speaks of what follows it.
            mine.sort(key=lambda item: (item.seq or 0, isinstance(item, Heartbeat)))
        else:
            mine.sort(key=lambda item: item.seq is None)
    return Brought(sources, brought, rejected)


def _reject_stranger(item: Item, declared: Iterable[str]) -> Rejected:
    if isinstance(item, Malformed):
        return Rejected(item, item.reason)
    reason = describe_stranger(item.source, declared)
    if isinstance(item, Heartbeat):
        return Rejected(spoil_heartbeat(item, reason), reason)
    return Rejected(item, reason)


def _check_sequence(name: str, items: list[Item]) -> bool:
    """Say whether the items of a source are numbered; refuse a source that numbers only some of them."""
    own = [i for i in items if not (isinstance(i, Heartbeat) and i.seq == BEFORE_ALL)]
    numbered = sum(item.seq is not None for item in own)
    if numbered not in (0, len(own)):
        raise InputError(
            f"source {name!r} numbers only some of its items",
            expected="a sequence number on every item of a source, or on none",
            got=f"{numbered} of {len(own)}",
        )
    return numbered > 0


def end_sources(items: Iterable[Item], declared: Iterable[Source] = ()) -> list[Item]:
    """Return a bounded input: the items, then each source's word that it has ended.

    Where sources are declared, only these end: any other is none of the run's.
    """
    bounded = list(items)
    last: dict[str, int | None] = {source.name: None for source in declared}
    closed = bool(last)
    for item in bounded:
        if closed and item.source not in last:
            continue
        seen = last.get(item.source)
        last[item.source] = item.seq if seen is None else max(seen, item.seq or 0)
    return [*bounded, *(Heartbeat(FOREVER, name, _follow(seq)) for name, seq in last.items())]


def _follow(seq: int | None) -> int | None:
    """Return the number after one; a heartbeat may share the last that there is."""
    return None if seq is None else min(seq + 1, FOREVER)
