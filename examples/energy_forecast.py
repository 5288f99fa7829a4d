"""Forecast the load of houses from the current load and the load at the same time on earlier days.

Smart plugs report their load. When a slice of six hours ends, the load of the slice after the next is
forecast for each house: the mean of the house's current load and of the median of its load in earlier slices
of that time of day. This is the first query of the DEBS 2014 challenge, which Flumina ran as energy
management: thousands of plugs report, the loads of houses, and of plugs of one house, are added up in
parallel, and only the end of a slice, which is rare, synchronises them.
"""

from statistics import median
from typing import Any, NamedTuple

from anabranch import Event, Map, Program, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import Bag, Count, MapOf, Struct, Sum

SLICE, DAY = 6, 24


class Load(NamedTuple):
    time: int
    house: str
    plug: int
    watts: int


class SliceEnd(NamedTuple):
    time: int


house = Struct(watts=Sum(), reports=Count(), past=Bag())
past = Bag()
"""The mean load of each past slice, with the slice's time of day: `(18, 340)`."""


def average(known: Any) -> int:
    return round(known.watts / known.reports)


def forecast(houses: Map[str, Any], end: SliceEnd) -> list[tuple[str, int, int]]:
    """Return for each house the start of the slice after the next, and its forecast load."""
    start = end.time + SLICE
    found = []
    for name, known in sorted(houses.items()):
        if known.reports:
            before = [mean for hour, mean in past.value(known.past) if hour == start % DAY]
            expected = median(before) if before else average(known)
            found.append((name, start, round((average(known) + expected) / 2)))
    return found


def close(houses: Map[str, Any], end: SliceEnd) -> Map[str, Any]:
    """Add the slice to the past of each house, and start the next one."""
    hour = (end.time - SLICE) % DAY
    closed = {
        name: house.init._replace(past=past.add(known.past, (hour, average(known))))
        for name, known in houses.items()
        if known.reports
    }
    return Map({**houses, **closed})


energy_forecast = Program(
    on(Load, update=lambda known, load: house.add(known, watts=load.watts, reports=1)),
    on(SliceEnd, output=forecast, update=close),
    depends(SliceEnd, Load, SliceEnd),
    state=MapOf(house, by="house"),
)

# The load of two plugs of each house, slice by slice, over two days: night, morning, noon, evening.
drawn = {
    "elm": [(40, 60), (300, 200), (150, 150), (500, 420), (45, 61), (320, 210), (140, 150), (530, 400)],
    "oak": [(90, 10), (80, 120), (400, 300), (200, 180), (88, 12), (75, 115), (420, 330), (210, 190)],
}  # fmt: skip
reports = {
    name: [
        Load(n * SLICE + plug + 1, name, plug, watts)
        for n, plugs in enumerate(slices)
        for plug, watts in enumerate(plugs)
    ]
    for name, slices in drawn.items()
}
events = [Event(load, name, n) for name, loads in reports.items() for n, load in enumerate(loads)]
events += [Event(SliceEnd(n * SLICE), "clock", n) for n in range(1, 9)]
channels = (Channel("elm"), Channel("oak"), Channel("clock"))
expected = [
    *[("elm", 12, 50), ("oak", 12, 50)],
    *[("elm", 18, 250), ("oak", 18, 100)],
    *[("elm", 24, 100), ("oak", 24, 200)],
    *[("elm", 30, 355), ("oak", 30, 145)],
    *[("elm", 36, 102), ("oak", 36, 200)],
    *[("elm", 42, 362), ("oak", 42, 142)],
    *[("elm", 48, 98), ("oak", 48, 212)],
    *[("elm", 54, 361), ("oak", 54, 149)],
]

elm, oak = (PlanNode(take(Load, house=name)) for name in ("elm", "oak"))
first, second = (PlanNode(take(Load, house="elm", plug=n)) for n in (0, 1))
plans = {
    "sequential": Plan(PlanNode(Load, SliceEnd)),
    "by house": Plan(PlanNode(SliceEnd, children=(elm, oak))),
    "plug by plug in elm": Plan(
        PlanNode(SliceEnd, children=(PlanNode(children=(first, second)), oak))
    ),
}


def describe(time: int, output: tuple[str, int, int]) -> str:
    name, start, watts = output
    day, hour = divmod(start, DAY)
    return f"at {time:>2}: {name} will draw {watts:>3} W on day {day + 1} from {hour:02}:00"


if __name__ == "__main__":
    show(energy_forecast, events, channels=channels, line=describe)
