"""Channels and their watermarks: which events are on time, late or rejected.

Lateness is computed per channel, in the channel's own sequence. So which events are late is a function of
the channels alone, and independent of batches, restarts and interleaving.

All runtimes use the functions of this module. Items that are read together (an input of the reference, a
batch on Spark) are sorted by sequence number first. An event whose number is not larger than the last of
its channel is rejected. If channels are declared, an event of any other channel is rejected too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

from anabranch.errors import InputError
from anabranch.eventtime.disorder import Disorder, Estimated, Kept
from anabranch.model.events import (
    FOREVER,
    Event,
    EventType,
    Heartbeat,
    Item,
    Malformed,
    field_types,
)
from anabranch.model.program import Program
from anabranch.model.values.durations import SecondsField, SpanField, check_spans, list_spans
from anabranch.model.values.event_times import is_timestamped, time_field, to_moment, to_time

NEVER = -(1 << 63)
"""The watermark of a channel without events or heartbeats so far."""

Order = Literal["time", "arrival"]
"""The order of the events of a channel: by time, or by arrival."""

BEFORE_ALL = -(1 << 63)
"""The sequence number of a heartbeat that precedes all items of its channel, numbered or not."""


@dataclass(frozen=True)
class Channel:
    """A channel: one ordered sequence of events, with its rules for lateness and order.

    `lateness` is how far an event may be behind the largest time seen and still be on time; 0 means
    in order, equal times allowed. It is a duration (`"5 s"`, a `timedelta`) if times are datetimes, and an
    integer if times are integers; so is `max_ahead`. With None only heartbeats move the watermark. With
    `Estimated(...)` the lateness is estimated from the channel's own disorder.

    With `unique_times=True` no two events have the same time, so each event moves the watermark up to its
    own time. An event more than `max_ahead` after the largest time or heartbeat seen is rejected: it would
    move the watermark into the future and make all later events late.

    A channel without items for `idle_after_s` seconds of a running query does not hold back the watermark
    any more (`eventtime.idleness`). Without this option, a silent channel holds it back for ever.

    With `order="arrival"`, events are processed in the order of arrival, and none is late: the time of each
    becomes the largest time of the channel so far, which a replay reproduces. Windows with early and
    late panes then use another time field, which is not changed.
    """

    name: str
    _: KW_ONLY
    lateness: SpanField[Estimated | None] = SpanField(
        "lateness of channel {name!r}",
        least=0,
        default=0,
        also=(Estimated, type(None)),
        error=InputError,
    )
    unique_times: bool = False
    max_ahead: SpanField[None] = SpanField(
        "max_ahead of channel {name!r}", least=0, default=None, also=(type(None),), error=InputError
    )
    idle_after_s: SecondsField = SecondsField("idle_after_s of channel {name!r}")
    order: Order = "time"

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            raise InputError(
                f"order of channel {self.name!r} is not known",
                expected=" or ".join(map(repr, get_args(Order))),
                got=repr(self.order),
            )
        if self.unique_times and self.lateness != 0:
            raise InputError(
                f"channel {self.name!r} can't have both unique times and a lateness",
                expected="unique_times=True with lateness=0",
                got=f"lateness={self.lateness}",
            )
        if self.in_arrival_order and (self.unique_times or self.lateness != 0):
            raise InputError(
                f"channel {self.name!r} is in arrival order, in which no event is late",
                expected="order='arrival' with lateness=0",
                got="unique_times=True" if self.unique_times else f"lateness={self.lateness}",
            )
        check_idle_time(self.name, self.idle_after_s)

    @property
    def in_arrival_order(self) -> bool:
        """Return whether events are processed in the order in which they arrive."""
        return self.order == "arrival"

    @property
    def needs_each_item(self) -> bool:
        """Return whether a verdict depends on all earlier items, not only on the largest time."""
        return (
            self.max_ahead is not None
            or self.in_arrival_order
            or isinstance(self.lateness, Estimated)
        )


def check_units(program: Program, channels: Iterable[Channel]) -> None:
    """Raise if a channel's `lateness` or `max_ahead` is not in the unit of a program's event times."""
    check_spans(
        (span for channel in channels for span in list_spans(channel)),
        timestamped=program.timestamped,
        of=program.name,
        error=InputError,
    )


def check_idle_time(name: str, seconds: object) -> None:
    """Raise if `idle_after_s` is not a number of seconds or None."""
    if seconds is None:
        return
    if type(seconds) not in (int, float) or not 0.001 <= float(seconds) < 1e12:  # type: ignore[arg-type]
        raise InputError(
            f"idle_after_s of channel {name!r} is not a span of time",
            expected="seconds, 0.001 or more, by the clock of the query; or None for no limit",
            got=repr(seconds),
        )


class Late(NamedTuple):
    """An event at or before its channel's watermark, and its distance from the watermark."""

    event: Event
    distance: int


class Rejected(NamedTuple):
    """An input that could not be used, and the reason."""

    item: Event | Malformed
    reason: str


@dataclass
class Watch:
    """The watermark of one channel, updated item by item in the channel's own sequence."""

    channel: Channel
    watermark: int = NEVER
    largest: int | None = field(default=None)
    kept: Kept = ()
    last: int | None = None

    def __post_init__(self) -> None:
        lateness = self.channel.lateness
        self.disorder = Disorder(lateness, self.kept) if isinstance(lateness, Estimated) else None

    @property
    def delay(self) -> int | None:
        """Return how far behind the next event may be; None if only heartbeats move the watermark."""
        lateness = self.channel.lateness
        if self.disorder is not None:
            return self.disorder.delay
        assert not isinstance(lateness, Estimated)
        return lateness

    def see(self, item: Item, event_types: Iterable[EventType]) -> Event | Late | Rejected | None:
        """Process the next item; return the event if it is on time, a `Late`, a `Rejected`, or None for a heartbeat."""
        if isinstance(item, Malformed):
            return Rejected(item, item.reason)
        if isinstance(item, Heartbeat):
            reason = find_heartbeat_fault(item)
            if reason is not None:
                return Rejected(spoil_heartbeat(item, reason), reason)
            self.advance(item.time)
            return None
        reason = find_fault(item, event_types) or self.count(item.seq)
        if reason is not None:
            return Rejected(item, reason)
        verdict = self.judge(item.time)
        if isinstance(verdict, str):
            return Rejected(item, verdict)
        if verdict is not None:
            return Late(item, verdict)
        return set_time(item, self.largest) if self.channel.in_arrival_order else item

    def advance(self, promised: int) -> None:
        """Process a heartbeat. Its sequence number is not counted: it may equal that of the event before it."""
        self.watermark = max(self.watermark, promised)

    def count(self, seq: int | None) -> str | None:
        """Set the last sequence number; return the reason if the event is rejected because it is not larger."""
        if seq is None:
            return None
        if self.last is not None and seq <= self.last:
            return describe_repeat(self.channel.name, seq)
        self.last = seq
        return None

    def judge(self, time: int) -> int | str | None:
        """Check the time of the next event; return None if it is on time, how late it is, or why it is rejected.

        Only an event that is on time moves the watermark.
        """
        ahead = self.channel.max_ahead
        reached = self.watermark if self.largest is None else max(self.largest, self.watermark)
        if ahead is not None and reached > NEVER and time > reached + ahead:
            return f"time {time} is {time - reached} ahead of the channel; at most {ahead}"
        if self.channel.in_arrival_order and self.largest is not None:
            time = max(time, self.largest)
        if self.disorder is not None:
            # Late events count too: a delay computed only from accepted events would shrink for ever.
            self.disorder.note(0 if self.largest is None else max(0, self.largest - time))
        if time <= self.watermark:
            return self.watermark - time
        self.largest = time if self.largest is None else max(self.largest, time)
        self.watermark = max(self.watermark, promise_of(self.channel, self.largest, self.delay))
        return None


class Followed(NamedTuple):
    """The verdicts on a channel's items, and the watermarks that they produced."""

    good: list[Event]
    late: list[Late]
    rejected: list[Rejected]
    promises: list[int]

    @property
    def watermark(self) -> int:
        """Return the last watermark of the channel."""
        return self.promises[-1] if self.promises else NEVER


def follow(
    channel: Channel,
    items: Iterable[Item],
    event_types: Iterable[EventType],
    watch: Watch | None = None,
) -> Followed:
    """Return the verdicts on a channel's items, which are in its own sequence; a given `watch` is continued."""
    watch = Watch(channel) if watch is None else watch
    followed = Followed([], [], [], [])
    for item in items:
        before = watch.watermark
        verdict = watch.see(item, event_types)
        if isinstance(verdict, Late):
            followed.late.append(verdict)
        elif isinstance(verdict, Rejected):
            followed.rejected.append(verdict)
        elif verdict is not None:
            followed.good.append(verdict)
        if watch.watermark > before:
            followed.promises.append(watch.watermark)
    return followed


def set_time(event: Event, time: int | None) -> Event:
    """Return an event with another time."""
    data = event.data
    changed = data._replace if hasattr(data, "_replace") else partial(replace, data)
    kind: EventType = type(data)
    name = time_field(kind)
    if time is not None and isinstance(getattr(data, name), datetime):
        return event._replace(data=changed(**{name: to_moment(time)}))
    return event._replace(data=changed(**{name: time}))


def promise_of(channel: Channel, largest: int | None, delay: int | None) -> int:
    """Return a channel's watermark, given its largest time and its delay."""
    if largest is None or delay is None:
        return NEVER
    # An event exactly `delay` behind is still on time, so the watermark is one less.
    return largest - (0 if channel.unique_times else delay + 1)


def describe_repeat(channel: str, seq: int) -> str:
    """Return the reason for rejecting an event whose number is not larger than the last of its channel.

    The last number is not included, because it may depend on how the input was split into batches.
    """
    return f"sequence {seq} of channel {channel!r} is not larger than the last: it came before, or too late"


def describe_stranger(channel: object, declared: Iterable[str]) -> str:
    """Return the reason for rejecting an event of an undeclared channel."""
    known = ", ".join(declared)
    cure = (
        "name one of them" if channel is None else f"add Channel({channel!r}), or correct the name"
    )
    return f"unknown channel {channel!r}; declared are {known}: {cure}"


def find_heartbeat_fault(beat: Heartbeat) -> str | None:
    """Return why a heartbeat is invalid, or None."""
    fault = find_sequence_fault(beat.seq)
    if fault is not None or fits(beat.time):
        return fault
    return f"heartbeat {beat.time} does not fit into 64 bits"


def find_sequence_fault(seq: int | None) -> str | None:
    """Return why a sequence number is invalid, or None."""
    return None if seq is None or fits(seq) else f"sequence {seq} does not fit into 64 bits"


def fits(number: int) -> bool:
    """Return whether a number fits into a column of 64 bits."""
    return NEVER <= number <= FOREVER


def spoil_heartbeat(beat: Heartbeat, reason: str) -> Malformed:
    """Return an invalid heartbeat as malformed input."""
    raw = {"heartbeat": beat.time, "channel": beat.channel, "seq": beat.seq}
    return Malformed(raw, reason, beat.channel, beat.seq)


def find_fault(event: Event, event_types: Iterable[EventType]) -> str | None:
    """Return why an event is invalid for a program with these event types, or None; lateness is not checked."""
    fault = find_sequence_fault(event.seq)
    if fault is not None:
        return fault
    if type(event.data) not in event_types:
        known = ", ".join(event_type.__name__ for event_type in event_types)
        return f"unknown event type {type(event.data).__name__}; the program knows {known}"
    kind: EventType = type(event.data)
    held = getattr(event.data, time_field(kind))
    if is_timestamped(kind) != isinstance(held, datetime) and _annotates_time(kind):
        return f"time is {held!r}, not {'a datetime' if is_timestamped(kind) else 'an integer'}"
    time: Any = to_time(held)
    if not isinstance(time, int) or isinstance(time, bool):
        return f"time is {held!r}, not an integer"
    if not NEVER < time < FOREVER:
        return f"time {time} does not fit into 64 bits"
    return None


def _annotates_time(event_type: EventType) -> bool:
    """Return whether the time field of an event type has a type annotation."""
    return field_types(event_type)[time_field(event_type)] is not Any


class Brought(NamedTuple):
    """The channels of a run, the items of each in sequence, and the rejected items of undeclared channels."""

    channels: dict[str, Channel]
    items: dict[str, list[Item]]
    rejected: list[Rejected]


def read_channels(items: Iterable[Item], declared: Iterable[Channel]) -> Brought:
    """Return the items grouped by channel, each group sorted by sequence number.

    If no channels are declared, each channel in the items is one with events in order. Otherwise items of
    undeclared channels are rejected. Items without a number, or with equal numbers, keep their order.
    """
    channels: dict[str, Channel] = {}
    for channel in declared:
        if channel.name in channels:
            raise InputError(f"channel {channel.name!r} is declared twice")
        channels[channel.name] = channel
    closed = bool(channels)
    brought: dict[str, list[Item]] = {name: [] for name in channels}
    rejected: list[Rejected] = []
    for item in items:
        if item.channel not in brought:
            if closed:
                rejected.append(_reject_undeclared(item, channels))
                continue
            channels[item.channel] = Channel(item.channel)
            brought[item.channel] = []
        brought[item.channel].append(item)
    for name, mine in brought.items():
        if _check_sequence(name, mine):
            # A heartbeat with the number of an event is about the items after that event.
            mine.sort(key=lambda item: (item.seq or 0, isinstance(item, Heartbeat)))
        else:
            mine.sort(key=lambda item: item.seq is None)
    return Brought(channels, brought, rejected)


def _reject_undeclared(item: Item, declared: Iterable[str]) -> Rejected:
    if isinstance(item, Malformed):
        return Rejected(item, item.reason)
    reason = describe_stranger(item.channel, declared)
    if isinstance(item, Heartbeat):
        return Rejected(spoil_heartbeat(item, reason), reason)
    return Rejected(item, reason)


def _check_sequence(name: str, items: list[Item]) -> bool:
    """Return whether the items of a channel are numbered; raise if only some of them are."""
    own = [i for i in items if not (isinstance(i, Heartbeat) and i.seq == BEFORE_ALL)]
    # A bad row may have lost its number; it is rejected, and does not stop the run.
    own = [i for i in own if not (isinstance(i, Malformed) and i.seq is None)]
    numbered = sum(item.seq is not None for item in own)
    if numbered not in (0, len(own)):
        raise InputError(
            f"channel {name!r} numbers only some of its items",
            expected="a sequence number on every item of a channel, or on none",
            got=f"{numbered} of {len(own)}",
        )
    return numbered > 0


def end_channels(items: Iterable[Item], *, channels: Iterable[Channel] = ()) -> list[Item]:
    """Return a bounded input: the items, then a final heartbeat of each channel.

    If channels are declared, only these get a heartbeat.
    """
    bounded = list(items)
    last: dict[str, int | None] = {channel.name: None for channel in channels}
    closed = bool(last)
    for item in bounded:
        if closed and item.channel not in last:
            continue
        seen = last.get(item.channel)
        last[item.channel] = item.seq if seen is None else max(seen, item.seq or 0)
    return [*bounded, *(Heartbeat(FOREVER, name, _follow(seq)) for name, seq in last.items())]


def _follow(seq: int | None) -> int | None:
    """Return the next sequence number; a heartbeat may have the last possible one."""
    return None if seq is None else min(seq + 1, FOREVER)
