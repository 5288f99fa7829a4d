"""Count the flights of the last two hours at each airport, and correct the count for late reports.

A departure is reported after the aircraft has left, and counts for the hours of its scheduled time. Windows
of two hours start every hour. A window emits its count when the clock is half an hour past its end. For a
departure that is reported later, the window retracts its count and emits a new one. Three hours past its
end a window is closed; a departure for it after that is emitted as `Missed`.
"""

from operator import add
from typing import NamedTuple

from anabranch import Event, Shard, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.windows import (
    AfterWatermark,
    Always,
    Fold,
    Missed,
    Result,
    Sliding,
    Windowing,
    aggregate,
)


class Departure(NamedTuple):
    time: int
    airport: str
    flight: int
    scheduled: int


two_hours = Windowing(
    Sliding(120, every=60),
    AfterWatermark(late=Always()),
    accumulation="retracting",
    allowed_lateness=180,
    fold=Fold(0, lambda flights, departure: flights + 1, add),
)
busy_airports = aggregate(
    Departure, two_hours, per="airport", at="scheduled", delay=30, name="busy_airports"
)

events = [
    Event(Departure(15, "JFK", 51, scheduled=10), "tower", 0),
    Event(Departure(20, "LGA", 7, scheduled=20), "tower", 1),
    Event(Departure(70, "JFK", 52, scheduled=65), "tower", 2),
    Event(Departure(95, "JFK", 53, scheduled=40), "radio", 0),
    Event(Departure(180, "JFK", 54, scheduled=50), "radio", 1),
    Event(Departure(380, "JFK", 55, scheduled=100), "radio", 2),
]
channels = (Channel("tower"), Channel("radio"))


def pane(airport: str, start: int, flights: int, timing: str, index: int, op: int = 1) -> Result:
    end, settled, first = start + 120, index, index == 0
    return Result(airport, start, end, flights, end - 1, timing, index, settled, first, False, op)


expected = [
    pane("JFK", -60, 1, "on_time", 0),
    pane("LGA", -60, 1, "on_time", 0),
    pane("JFK", -60, 1, "on_time", 0, op=-1),
    pane("JFK", -60, 2, "late", 1),
    pane("JFK", 0, 3, "on_time", 0),
    pane("LGA", 0, 1, "on_time", 0),
    pane("JFK", -60, 2, "late", 1, op=-1),
    pane("JFK", -60, 3, "late", 2),
    pane("JFK", 0, 3, "on_time", 0, op=-1),
    pane("JFK", 0, 4, "late", 1),
    pane("JFK", 60, 1, "on_time", 0),
    pane("JFK", 60, 1, "on_time", 0, op=-1),
    pane("JFK", 60, 2, "late", 1),
    Missed("JFK", 100, Departure(380, "JFK", 55, scheduled=100), 0, 120, "expired"),
]

waking = busy_airports.timers[0].event_type


def watch(airport: str | Shard) -> PlanNode:
    return PlanNode(take(Departure, airport=airport), take(waking, airport=airport))


shards = [watch(Shard(n, 4)) for n in range(4)]
plans = {
    "sequential": Plan(PlanNode(Departure, waking)),
    "by airport": Plan(PlanNode(children=(watch("JFK"), watch("LGA")))),
    "by hash of airport": Plan(
        PlanNode(children=(PlanNode(children=shards[:2]), PlanNode(children=shards[2:])))
    ),
}


def describe(time: int, output: Result | Missed) -> str:
    if isinstance(output, Missed):
        return f"at {time:>3}: {output.key} missed flight {output.value.flight} in [{output.start}, {output.end})"
    sign = "+" if output.op > 0 else "-"
    return f"at {time:>3}: {output.key} {sign} {output.value} in [{output.start}, {output.end}), {output.timing}"


if __name__ == "__main__":
    show(busy_airports, events, channels=channels, line=describe)
