"""What golden savepoints and checkpoints were made of. Add to it; never change what is here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple

from anabranch import Event, Heartbeat, Program, depends, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.windows.window_types import Sliding
from anabranch.model.events import Item
from anabranch.model.shapes import WrittenShape
from anabranch.query.window_aggregates import aggregate
from anabranch.state import (
    Count,
    Default,
    Dictionary,
    Drop,
    ListOf,
    MapOf,
    Max,
    Mean,
    Rename,
    Replicated,
    Retype,
    SetOf,
    Shared,
    Struct,
    Sum,
    Value,
)


class Reading(NamedTuple):
    time: int
    meter: int
    amount: int


class Day(NamedTuple):
    time: int
    meter: int


class Month(NamedTuple):
    time: int


class Limit(NamedTuple):
    time: int
    most: int


class Silence(NamedTuple):
    time: int
    meter: int


class Meter(NamedTuple):
    last: int = 0
    total: int = 0


class Kept(NamedTuple):
    amount: int
    before: int | None


def add(total, event):
    return total + event.amount


def say(state, event):
    return state


@dataclass(frozen=True)
class Golden:
    """A program, and how its input is drawn: with a sign now and then of each of the other event types."""

    program: Program
    columns: bool = True
    hot_keys: tuple[int, ...] = ()
    channels: tuple[Channel, ...] = (Channel("a", lateness=2), Channel("b"))
    runtimes: tuple[str, ...] = ("reference", "spark")
    checkpoint: bool = False
    later: dict[str, Program] = field(default_factory=dict)

    def list_items(self) -> list[Item]:
        """Return the whole input, with its end."""
        return end_channels(list_events(self.program.inputs, self.channels), channels=self.channels)

    def cut(self) -> tuple[list[Item], list[Item]]:
        """Return what came before it was saved, and the rest; channel b lags behind then."""
        items = self.list_items()
        before = {self.channels[0].name: 30, self.channels[-1].name: 22}
        return (
            [item for item in items if item.seq < before[item.channel]],
            [item for item in items if item.seq >= before[item.channel]],
        )


def list_events(event_types: Sequence[type], channels: Sequence[Channel]) -> list[Item]:
    """Return forty items of each channel by plain arithmetic, so that they never change."""
    items: list[Item] = []
    for place, channel in enumerate(channels):
        for seq in range(40):
            time = 5 + seq - (seq % 3 if channel.lateness else 0) - (9 if seq % 17 == 16 else 0)
            values = {
                "meter": (seq * 7 + place) % 4,
                "amount": (seq * 37 + place * 11) % 50,
                "most": seq + 20,
            }
            number = (seq // 5) % len(event_types) if seq % 5 == 4 else 0
            event_type = event_types[number]
            if seq % 13 == 12:
                items.append(Heartbeat(time - 3, channel.name, seq))
                continue
            fields = [values[name] for name in event_type._fields[1:]]
            items.append(Event(event_type(time, *fields), channel.name, seq))
    return items


# --- programs -----------------------------------------------------------------------------------

counted = Program(
    on(Reading, update=lambda n, e: n + 1, output=lambda n, e: (e.meter, n)),
    depends(Reading, Reading, same="meter"),
    state=MapOf(Count(), by="meter"),
    name="counted",
)
recent = Struct(
    last=ListOf(last=3), kinds=SetOf(), seen=Dictionary(Count()), kept=Value(of=Kept), mean=Mean()
)


def note(state, event):
    state = recent.add(state, last=event.amount, kinds=event.amount % 5, mean=event.amount)
    before = state.kept.amount if state.kept else None
    seen = Dictionary(Count()).add(state.seen, event.amount % 2 == 0)
    return state._replace(seen=seen, kept=Kept(event.amount, before))


nested = Program(
    on(Reading, update=note, output=lambda s, e: (e.meter, sorted(s.kinds), s.last, s.mean)),
    depends(Reading, Reading, same="meter"),
    state=MapOf(recent, by="meter"),
    name="nested",
)
barrier = Program(
    on(Reading, update=add),
    on(Month, output=say),
    depends(Month, Reading, Month),
    state=Sum(),
    name="barrier",
)
hot_keys = Program(
    on(Reading, update=lambda top, e: Max().add(top, e.amount)),
    on(Day, output=lambda top, day: (day.meter, top), update=lambda top, day: None),
    depends(Day, Reading, Day, same="meter"),
    state=MapOf(Max(), by="meter"),
    name="hot_keys",
)
lanes = Program(
    on(Reading, update=lambda total, e: total + e.amount / 7),
    on(Day, output=say),
    on(Month, output=lambda meters, month: sorted(meters.items())),
    depends(Day, Reading, Day, same="meter"),
    depends(Month, Reading, Day, Month),
    state=MapOf(Sum(0.1), by="meter"),
    lanes=3,
    name="lanes",
)
lasting = Program(
    on(Reading, update=add, output=lambda total, e: (e.meter, total)),
    on(Day, output=lambda total, e: (e.meter, total)),
    depends(Reading, Reading, Day, same="meter"),
    state=MapOf(Sum(), by="meter", ttl=5),
    name="lasting",
)
limited = Program(
    on(
        Reading,
        update=lambda s, e: min(s.common, s.entry + e.amount),
        output=lambda s, e: (s.common, s.entry),
    ),
    on(Limit, update=lambda most, e: e.most + most // 2),
    depends(Reading, Reading, same="meter"),
    state=Shared(Replicated(50), MapOf(Sum(), by="meter")),
    name="limited",
)
silent = Program(
    on(Reading, update=lambda m, e: Meter(e.time, m.total + e.amount)),
    on(
        Silence,
        due=lambda m: m.last + 4 if m.last else None,
        output=lambda m, e: (e.meter, m.total),
        update=lambda m, e: Meter(0, m.total),
    ),
    depends(Reading, Reading, same="meter"),
    state=MapOf(WrittenShape(Meter()), by="meter"),
    name="silent",
)
windows = aggregate(
    Reading, Sliding(12, every=4), per="meter", name="windows", n=Count(), sum=(Sum(), "amount")
)


class Stats(NamedTuple):
    count: int = 0
    total: int = 0
    top: int = 0


def make_later_stats() -> type:
    class Stats(NamedTuple):
        total: Decimal
        seen: int
        first: int | None
        note: str = "none"

    return Stats


Later = make_later_stats()


def measure(state, event):
    return Stats(state.count + 1, state.total + event.amount, max(state.top, event.amount))


def measure_later(state, event):
    total = state.total + event.amount * 100
    return Later(total, state.seen + 1, state.first or event.amount, "some")


measured = Program(
    on(Reading, update=measure, output=lambda s, e: (e.meter, *s)),
    depends(Reading, Reading, same="meter"),
    state=MapOf(WrittenShape(Stats()), by="meter"),
    name="measured",
)
measured_later = Program(
    on(Reading, update=measure_later, output=lambda s, e: (e.meter, str(s.total), s.seen, s.first, s.note)),
    depends(Reading, Reading, same="meter"),
    state=MapOf(WrittenShape(Later(Decimal(0), 0, None)), by="meter"),
    changes=(
        Rename("Stats", "count", "seen"),
        Retype("Stats", "total", lambda total: Decimal(total * 100)),
        Drop("Stats", "top"),
        Default("Stats", "first", 7),
    ),
    name="measured",
)  # fmt: skip


class Colour(Enum):
    RED = 1
    GREEN = 2


class Account(NamedTuple):
    total: Decimal = Decimal(0)
    colours: tuple[Colour, ...] = ()
    notes: frozenset[str] = frozenset()
    by_day: dict[int, int] = {}  # noqa: RUF012 - nobody changes it in place
    last: datetime | None = None
    share: Fraction = Fraction(0)
    raw: bytes = b""
    large: int = 1


def buy(account, event):
    day = event.time // 10
    return account._replace(
        total=account.total + Decimal(event.amount).scaleb(-2),
        colours=(*account.colours, Colour(event.amount % 2 + 1))[-3:],
        notes=account.notes | {f"n{event.amount % 5}"},
        by_day=account.by_day | {day: account.by_day.get(day, 0) + 1},
        last=datetime.fromtimestamp(event.time, UTC),
        share=account.share + Fraction(1, event.time + 3),
        raw=account.raw + bytes([event.amount]),
        large=account.large * (event.amount + 2),
    )


shop = Program(
    on(Reading, update=buy, output=lambda a, e: (e.meter, str(a.total), str(a.share), a.raw.hex())),
    depends(Reading, Reading, same="meter"),
    state=MapOf(WrittenShape(Account()), by="meter"),
    name="shop",
)

GOLDEN: dict[str, Any] = {
    "counted": Golden(counted, checkpoint=True),
    "counted-as-objects": Golden(counted, columns=False, checkpoint=True),
    "nested": Golden(nested),
    "barrier": Golden(barrier, checkpoint=True),
    "barrier-as-objects": Golden(barrier, columns=False),
    "hot_keys": Golden(hot_keys, columns=False, hot_keys=(1, 2), runtimes=("spark",)),
    "lanes": Golden(lanes),
    "lasting": Golden(lasting, checkpoint=True),
    "limited": Golden(limited),
    "silent": Golden(silent),
    "windows": Golden(windows, checkpoint=True),
    "measured": Golden(measured, later={"measured_later": measured_later}),
    "shop": Golden(shop),
}
