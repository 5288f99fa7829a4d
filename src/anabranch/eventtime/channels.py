"""Channels and their watermarks: what a channel has promised, and which of its events break that.

Lateness is judged against the event's own channel, in the channel's own sequence. So what is late
is a function of the channels alone: batches, restarts and interleavings do not show in it.

Every runtime follows these rules, by the functions of this module. What is read together (an input of the
reference, a batch on Spark) is put in order of its sequence first. An event whose number is not larger than
the last of its channel is rejected. Where channels are declared, so is an event of any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
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
"""The watermark of a channel that has promised nothing yet."""

Order = Literal["time", "arrival"]
"""What orders the events of a channel: their times, or their arrival."""

BEFORE_ALL = -(1 << 63)
"""The place of a heartbeat on behalf of a channel before everything that it brings, numbered or not."""


@dataclass(frozen=True)
class Channel:
    """What a channel promises about time.

    `lateness` is how far an event may lie behind the largest time seen and still be on time; 0
    means in order, equal times allowed. It is a duration (`"5 s"`, a `timedelta`) where times are
    datetimes, and an integer where they are integers, as is `max_ahead`. None means that only heartbeats move the watermark, and an
    `Estimated` one is learnt from the channel's own disorder. With `unique_times` no two events have one
    time, so that each event moves the watermark up to itself. An event more than `max_ahead` beyond the
    largest time seen or promised is rejected: it would drag the watermark into the future and make
    everything after it late.

    A channel that is silent for `idle_after_s` seconds of a running query is no longer waited for
    (`eventtime.idleness`). Without it, a silent channel holds the watermark back for ever.

    With `order="arrival"`, events are taken in the order in which the channel brings them, and none is late: the
    time of each becomes the largest that the channel has brought so far, which is a clock that a replay
    reads alike. Windows that are to speak early and late are cut by another field, which stays as it is.
    """

    name: str
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
                f"channel {self.name!r} can't have unique times and be late at once",
                expected="unique_times=True with lateness=0",
                got=f"lateness={self.lateness}",
            )
        if self.in_arrival_order and (self.unique_times or self.lateness != 0):
            raise InputError(
                f"events of channel {self.name!r} come in turn, and so none of them is late",
                expected="order='arrival' with lateness=0",
                got="unique_times=True" if self.unique_times else f"lateness={self.lateness}",
            )
        check_idle_time(self.name, self.idle_after_s)

    @property
    def in_arrival_order(self) -> bool:
        """Return whether events are taken in the order in which they arrive."""
        return self.order == "arrival"

    @property
    def needs_each_item(self) -> bool:
        """Say whether a verdict depends on every item before it, not only on the largest time."""
        return (
            self.max_ahead is not None
            or self.in_arrival_order
            or isinstance(self.lateness, Estimated)
        )


def check_units(program: Program, channels: Iterable[Channel]) -> None:
    """Refuse channels whose lateness or `max_ahead` is not in the unit of a program's event times."""
    check_spans(
        (span for channel in channels for span in list_spans(channel)),
        timestamped=program.timestamped,
        of=program.name,
        error=InputError,
    )


def check_idle_time(name: str, seconds: object) -> None:
    """Refuse anything but a span of time after which a channel counts as idle."""
    if seconds is None:
        return
    if type(seconds) not in (int, float) or not 0.001 <= float(seconds) < 1e12:  # type: ignore[arg-type]
        raise InputError(
            f"idle_after_s of channel {name!r} is not a span of time",
            expected="seconds, 0.001 or more, by the clock of the query; or None, to wait for ever",
            got=repr(seconds),
        )


class Late(NamedTuple):
    """An event that its channel had promised not to bring, and how far behind it lies."""

    event: Event
    distance: int


class Rejected(NamedTuple):
    """An input that could not be used, as it came, with the reason."""

    item: Event | Malformed
    reason: str


@dataclass
class Watch:
    """Follow one channel, item by item, in its own sequence."""

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
        """Return how far behind the next event may lie; None if only heartbeats tell."""
        lateness = self.channel.lateness
        if self.disorder is not None:
            return self.disorder.delay
        assert not isinstance(lateness, Estimated)
        return lateness

    def see(self, item: Item, event_types: Iterable[EventType]) -> Event | Late | Rejected | None:
        """Judge the next item; return the event if it is good, None for a heartbeat."""
        if isinstance(item, Malformed):
            return Rejected(item, item.reason)
        if isinstance(item, Heartbeat):
            reason = find_heartbeat_fault(item)
            if reason is not None:
                return Rejected(spoil_heartbeat(item, reason), reason)
            self.hear(item.time)
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

    def hear(self, promised: int) -> None:
        """Take a heartbeat. It takes no number of its own: it may have that of the event before it."""
        self.watermark = max(self.watermark, promised)

    def count(self, seq: int | None) -> str | None:
        """Take the number of the next event; return why the event is rejected, if it is not larger."""
        if seq is None:
            return None
        if self.last is not None and seq <= self.last:
            return describe_repeat(self.channel.name, seq)
        self.last = seq
        return None

    def judge(self, time: int) -> int | str | None:
        """Judge the next event by its time: None if it is good, how late it is, or why it can't be.

        A good event moves the watermark; no other does.
        """
        ahead = self.channel.max_ahead
        reached = self.watermark if self.largest is None else max(self.largest, self.watermark)
        if ahead is not None and reached > NEVER and time > reached + ahead:
            return f"time {time} is {time - reached} ahead of the channel; at most {ahead}"
        if self.channel.in_arrival_order and self.largest is not None:
            time = max(time, self.largest)
        if self.disorder is not None:
            # Late ones count too: a delay that saw only what it let pass would shrink for ever.
            self.disorder.note(0 if self.largest is None else max(0, self.largest - time))
        if time <= self.watermark:
            return self.watermark - time
        self.largest = time if self.largest is None else max(self.largest, time)
        self.watermark = max(self.watermark, promise_of(self.channel, self.largest, self.delay))
        return None


class Followed(NamedTuple):
    """What became of a channel's items, and each watermark it promised on the way."""

    good: list[Event]
    late: list[Late]
    rejected: list[Rejected]
    promises: list[int]

    @property
    def watermark(self) -> int:
        """Return how far the channel has come."""
        return self.promises[-1] if self.promises else NEVER


def follow(
    channel: Channel,
    items: Iterable[Item],
    event_types: Iterable[EventType],
    watch: Watch | None = None,
) -> Followed:
    """Judge a channel's items, which are in its own sequence; a watch goes on where it stands."""
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
    """Return what a channel has promised by the largest time it has brought, with such a delay."""
    if largest is None or delay is None:
        return NEVER
    # An event exactly `delay` behind is still on time, hence one less.
    return largest - (0 if channel.unique_times else delay + 1)


def describe_repeat(channel: str, seq: int) -> str:
    """Return why an event is rejected whose number is not larger than the last of its channel.

    The last number is left out: how far a channel had come may depend on where batches were cut.
    """
    return f"sequence {seq} of channel {channel!r} is not larger than the last: it came before, or too late"


def describe_stranger(channel: object, declared: Iterable[str]) -> str:
    """Return why an event is rejected whose channel is not among those that were declared."""
    known = ", ".join(declared)
    cure = (
        "name one of them" if channel is None else f"add Channel({channel!r}), or correct the name"
    )
    return f"unknown channel {channel!r}; declared are {known}: {cure}"


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
    raw = {"heartbeat": beat.time, "channel": beat.channel, "seq": beat.seq}
    return Malformed(raw, reason, beat.channel, beat.seq)


def find_fault(event: Event, event_types: Iterable[EventType]) -> str | None:
    """Return why an event can't be used by a program with these event types, whatever its time."""
    fault = find_sequence_fault(event.seq)
    if fault is not None:
        return fault
    if type(event.data) not in event_types:
        known = ", ".join(event_type.__name__ for event_type in event_types)
        return f"unknown event type {type(event.data).__name__}; the program knows {known}"
    kind: EventType = type(event.data)
    held = getattr(event.data, time_field(kind))
    if is_timestamped(kind) != isinstance(held, datetime) and _tells_time(kind):
        return f"time is {held!r}, not {'a datetime' if is_timestamped(kind) else 'an integer'}"
    time: Any = to_time(held)
    if not isinstance(time, int) or isinstance(time, bool):
        return f"time is {held!r}, not an integer"
    if not NEVER < time < FOREVER:
        return f"time {time} does not fit into 64 bits"
    return None


def _tells_time(event_type: EventType) -> bool:
    """Return whether an event type is annotated with the type of its time."""
    return field_types(event_type)[time_field(event_type)] is not Any


class Brought(NamedTuple):
    """The channels of a run, what each brings in its own sequence, and the items of no such channel."""

    channels: dict[str, Channel]
    items: dict[str, list[Item]]
    rejected: list[Rejected]


def read_channels(items: Iterable[Item], declared: Iterable[Channel]) -> Brought:
    """Sort items by channel, each in its own sequence.

    If no channel is declared, every channel there is brings its events in order. If some are, items of
    any other are rejected. Items without a sequence, or of one number, keep the order in which they came.
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
                rejected.append(_reject_stranger(item, channels))
                continue
            channels[item.channel] = Channel(item.channel)
            brought[item.channel] = []
        brought[item.channel].append(item)
    for name, mine in brought.items():
        if _check_sequence(name, mine):
            # A heartbeat may share the number of an event: it then speaks of what follows it.
            mine.sort(key=lambda item: (item.seq or 0, isinstance(item, Heartbeat)))
        else:
            mine.sort(key=lambda item: item.seq is None)
    return Brought(channels, brought, rejected)


def _reject_stranger(item: Item, declared: Iterable[str]) -> Rejected:
    if isinstance(item, Malformed):
        return Rejected(item, item.reason)
    reason = describe_stranger(item.channel, declared)
    if isinstance(item, Heartbeat):
        return Rejected(spoil_heartbeat(item, reason), reason)
    return Rejected(item, reason)


def _check_sequence(name: str, items: list[Item]) -> bool:
    """Say whether the items of a channel are numbered; refuse a channel that numbers only some of them."""
    own = [i for i in items if not (isinstance(i, Heartbeat) and i.seq == BEFORE_ALL)]
    numbered = sum(item.seq is not None for item in own)
    if numbered not in (0, len(own)):
        raise InputError(
            f"channel {name!r} numbers only some of its items",
            expected="a sequence number on every item of a channel, or on none",
            got=f"{numbered} of {len(own)}",
        )
    return numbered > 0


def end_channels(items: Iterable[Item], declared: Iterable[Channel] = ()) -> list[Item]:
    """Return a bounded input: the items, then each channel's word that it has ended.

    Where channels are declared, only these end: any other is none of the run's.
    """
    bounded = list(items)
    last: dict[str, int | None] = {channel.name: None for channel in declared}
    closed = bool(last)
    for item in bounded:
        if closed and item.channel not in last:
            continue
        seen = last.get(item.channel)
        last[item.channel] = item.seq if seen is None else max(seen, item.seq or 0)
    return [*bounded, *(Heartbeat(FOREVER, name, _follow(seq)) for name, seq in last.items())]


def _follow(seq: int | None) -> int | None:
    """Return the number after one; a heartbeat may share the last that there is."""
    return None if seq is None else min(seq + 1, FOREVER)
