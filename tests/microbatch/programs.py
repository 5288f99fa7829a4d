"""Programs that no example is like: several levels, lanes, hot keys, leaves that speak."""

from typing import NamedTuple

from anabranch import Map, Program, depends, on
from anabranch.model.shapes import WrittenShape
from anabranch.state import Count, Limited, ListOf, MapOf, Max, Replicated, Shared, Sum


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


class Status(NamedTuple):
    limit: int = 100
    total: int = 0


def add(total, reading):
    return total + reading.amount


def divide(total, reading):
    return total + 12 // reading.amount


def say(state, event):
    return state


levels = Program(
    on(Reading, update=add),
    on(Day, output=say, update=lambda total, day: 0),
    on(Month, output=say, update=lambda meters, month: Map()),
    depends(Day, Reading, Day, same="meter"),
    depends(Month, Reading, Day, Month),
    state=MapOf(Sum(), by="meter"),
)
started = Program(
    on(Reading, update=add),
    on(Month, output=say, update=lambda meters, month: meters.remove(1)),
    depends(Month, Reading, Month),
    state=MapOf(Sum(7), by="meter"),
)
floats = Program(
    on(Reading, update=lambda total, reading: total + reading.amount / 7),
    on(Month, output=say),
    on(Limit, output=say, update=lambda total, limit: total / limit.most),
    depends(Month, Reading, Month, Limit),
    depends(Limit, Reading, Limit),
    state=Sum(0.1),
    lanes=5,
)
floats_per_meter = Program(
    on(Reading, update=lambda total, reading: total + reading.amount / 7),
    on(Day, output=say),
    on(Month, output=say, update=lambda meters, month: {k: v / 3 for k, v in meters.items()}),
    depends(Day, Reading, Day, same="meter"),
    depends(Month, Reading, Day, Month),
    state=MapOf(Sum(0.1), by="meter"),
    lanes=3,
)
hot_keys = Program(
    on(Reading, update=lambda top, reading: Max().add(top, reading.amount)),
    on(Day, output=lambda top, day: (day.meter, top), update=lambda top, day: None),
    depends(Day, Reading, Day, same="meter"),
    state=MapOf(Max(), by="meter"),
)
hot_floats = Program(
    on(Reading, update=lambda total, reading: total + reading.amount / 7),
    on(Day, output=lambda total, day: total, update=lambda total, day: total / 3),
    depends(Day, Reading, Day, same="meter"),
    state=MapOf(Sum(0.1), by="meter"),
    lanes=4,
)
deferring = Program(
    on(
        Reading,
        output=lambda s, e: [("over", e.amount, s.limit)] * (e.amount > s.limit),
        update=lambda s, e: Status(s.limit, s.total + e.amount),
    ),
    on(
        Limit,
        output=lambda s, e: ("total", s.total),
        update=lambda s, e: Status(s.total % e.most, s.total),
    ),
    depends(Limit, Reading, Limit),
    init=Status(),
    zero=Status(),
    fork=lambda s, left, right: (s, Status(s.limit, 0)),
    join=lambda a, b: Status(a.limit, a.total + b.total),
)
failing = Program(
    on(Reading, update=divide, output=lambda total, reading: [reading.meter][: reading.amount]),
    on(Limit, output=say, update=lambda total, limit: total // limit.most),
    on(Month, output=say),
    depends(Limit, Reading, Limit, Month),
    depends(Month, Reading, Month),
    state=Sum(),
)
counted = Program(
    on(Reading, update=lambda count, reading: count + 1),
    on(Day, output=lambda count, day: (day.meter, count)),
    depends(Day, Reading, Day, same="meter"),
    depends(Day, Day),
    state=MapOf(Count(), by="meter"),
)

tied = Program(
    on(Reading, output=lambda s, e: (s.limit, e.amount), update=lambda s, e: s),
    on(Limit, update=lambda s, e: Status(e.most, s.total)),
    depends(Limit, Reading),
    init=Status(),
    zero=Status(),
    fork=lambda s, left, right: (s, Status(s.limit, 0)),
    join=lambda a, b: Status(a.limit, a.total + b.total),
)
independent = Program(
    on(Reading, output=lambda s, e: s.limit, update=lambda s, e: Status(s.limit, s.total + 1)),
    init=Status(limit=7),
    zero=Status(0, 0),
    fork=lambda s, left, right: (s, Status(s.limit, 0)),
    join=lambda a, b: Status(a.limit, a.total + b.total),
)


class Silence(NamedTuple):
    time: int
    meter: int


class Alarm(NamedTuple):
    time: int


class Meter(NamedTuple):
    last: int | None = None
    total: int = 0
    asked: int = 0


def watch(meter, reading):
    # Every now and then it asks for a time that has passed, or for the next tick of a clock.
    due = reading.time - 5 if reading.amount % 7 == 0 else reading.time + reading.amount % 9
    return Meter(due, meter.total + 12 // (reading.amount % 6), meter.asked)


def doze(meter, silence):
    again = meter.asked < 2 and meter.total % 2 == 0
    return meter._replace(last=silence.time + 3 if again else None, asked=meter.asked + again)


def wake_all(meters, limit):
    return Map({key: m._replace(last=limit.time + key) for key, m in meters.items()})


silent_meters = Program(
    on(Reading, update=watch),
    on(Limit, output=say, update=wake_all),
    on(Silence, due=lambda meter: meter.last, output=say, update=doze),
    depends(Reading, Reading, same="meter"),
    depends(Limit, Reading, Limit),
    state=MapOf(WrittenShape(Meter()), by="meter"),
)


silent = Program(
    on(Reading, update=watch),
    on(Day, output=say),
    on(Silence, due=lambda meter: meter.last, output=say, update=doze),
    depends(Reading, Reading, Day, same="meter"),
    depends(Day, Day, same="meter"),
    state=MapOf(WrittenShape(Meter()), by="meter"),
)
alarms = Program(
    on(Reading, update=watch),
    on(Alarm, due=lambda meter: meter.last, output=say, update=doze),
    depends(Reading, Reading),
    init=Meter(),
)

lasting = Program(
    on(Reading, update=add, output=say),
    on(Day, output=say),
    depends(Reading, Reading, Day, same="meter"),
    state=MapOf(Sum(), by="meter", ttl=5),
)
looked_at = lasting.changed(state=MapOf(Sum(), by="meter", ttl=5, refresh="reads"))
swept = Program(
    on(Reading, update=add, output=say),
    on(Month, output=say, update=lambda meters, month: Map({m: n // 2 for m, n in meters.items()})),
    depends(Reading, Reading, same="meter"),
    depends(Month, Month, Reading),
    state=MapOf(Sum(), by="meter", ttl=5),
)
limited = Program(
    on(
        Reading,
        update=lambda state, reading: min(state.common, add(state.entry, reading)),
        output=lambda state, reading: (state.common, state.entry),
    ),
    on(Limit, update=lambda most, limit: limit.most + most // 2, output=say),
    depends(Reading, Reading, same="meter"),
    state=Shared(Replicated(500), MapOf(Sum(), by="meter")),
)
limited_lasting = limited.changed(state=Shared(Replicated(500), MapOf(Sum(), by="meter", ttl=4)))
# Not among the others: what it makes of events at random is no answer.
stopping = Program(
    on(Reading, update=lambda amounts, reading: (*amounts, reading.amount)),
    on(Day, output=say, update=lambda amounts, day: ()),
    depends(Reading, Reading, same="meter"),
    depends(Day, Reading, Day, same="meter"),
    state=MapOf(Limited(ListOf(), items=2, on_overflow="stop"), by="meter"),
)

PROGRAMS = {
    "lasting": lasting,
    "looked_at": looked_at,
    "swept": swept,
    "limited": limited,
    "limited_lasting": limited_lasting,
    "silent": silent,
    "silent_meters": silent_meters,
    "alarms": alarms,
    "tied": tied,
    "independent": independent,
    "levels": levels,
    "started": started,
    "floats": floats,
    "floats_per_meter": floats_per_meter,
    "hot_keys": hot_keys,
    "hot_floats": hot_floats,
    "deferring": deferring,
    "failing": failing,
    "counted": counted,
}
