"""Programs that the tests of the planner share: each has one thing that the examples do not."""

from typing import NamedTuple

from anabranch import ForkJoin, Program, State, depends, on
from anabranch.state import Count, MapOf, Sum


class Reading(NamedTuple):
    time: int
    meter: int
    amount: int


class Day(NamedTuple):
    time: int
    meter: int


class Month(NamedTuple):
    time: int


def add(total, reading):
    return total + reading.amount


stateless = Program(
    on(Reading, output=lambda state, reading: reading.meter if reading.amount > 9 else None),
    init=None,
    name="stateless",
)
# Each meter's days, and months over all meters: keys inside one marker, another marker inside.
calendar = Program(
    on(Reading, update=add),
    on(Day, output=lambda total, day: total),
    on(Month, output=lambda meters, month: sum(meters.values())),
    depends(Month, Day, Reading, Month),
    depends(Day, Reading, Day, same="meter"),
    state=MapOf(Sum(), by="meter"),
    name="calendar",
)
# The same question, but nobody has said how to cut the state.
unforked = Program(
    on(Reading, update=add),
    on(Month, output=lambda total, month: total),
    depends(Month, Reading, Month),
    init=0,
    name="unforked",
)
unforked_keyed = Program(
    on(Reading, update=add),
    depends(Reading, Reading, same="meter"),
    init=0,
    name="unforked_keyed",
)
ordered = Program(
    on(Reading, output=lambda last, reading: last, update=lambda last, reading: reading.amount),
    depends(Reading, Reading),
    init=0,
    fork=lambda last, left, right: (last, last),
    join=lambda a, b: a,
    name="ordered",
)
laned = Program(
    on(Reading, update=lambda total, reading: total + reading.amount / 3),
    on(Month, output=lambda total, month: total),
    depends(Month, Reading, Month),
    state=Sum(0.0),
    lanes=4,
    name="laned",
)
laned_per_meter = Program(
    on(Reading, update=lambda total, reading: total + reading.amount / 3),
    on(Day, output=lambda total, day: total),
    depends(Day, Reading, Day, same="meter"),
    state=MapOf(Sum(0.0), by="meter"),
    lanes=2,
    name="laned_per_meter",
)
# The root counts months and may leave readings to a type that knows nothing of months.
typed = Program(
    State("year", on(Reading, update=add), on(Month, output=lambda s, e: s), init=0),
    State("part", on(Reading, update=add)),
    ForkJoin("year", "year", "part", fork=lambda s, left, right: (s, 0), join=lambda a, b: a + b),
    ForkJoin("part", "part", "part", fork=lambda s, left, right: (s, 0), join=lambda a, b: a + b),
    depends(Month, Reading, Month),
    name="typed",
)
counted = Program(
    on(Reading, update=lambda count, reading: count + 1),
    state=Count(),
    name="counted",
)
