"""Add up the tips of each taxi, hour by hour.

Three taxis report their tips; every 60 minutes an `Hour` emits the tips of each taxi and resets them. A tip
given on the hour belongs to the next one, because at equal times the marker is first. The state has one
entry per taxi: a `Tip` reads and changes its own, the `Hour`, which has no taxi, reads them all. Taxis
without tips send a heartbeat every 10 minutes.
"""

from typing import NamedTuple

from anabranch import Event, Heartbeat, Map, Program, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import MapOf, Sum


class Tip(NamedTuple):
    time: int
    taxi: int
    amount: int


class Hour(NamedTuple):
    time: int


taxi_tips = Program(
    on(Tip, update=lambda tips, tip: tips + tip.amount),
    on(
        Hour,
        output=lambda taxis, hour: tuple(taxis.get(taxi, 0) for taxi in (1, 2, 3)),
        update=lambda taxis, hour: Map(),
    ),
    depends(Hour, Tip, Hour),
    state=MapOf(Sum(), by="taxi"),
)

# fmt: off
given = {
    1: [(1, 15), (10, 20), (14, 28), (25, 10), (45, 21), (75, 15), (100, 23), (121, 10), (150, 34),
        (174, 12), (210, 21), (234, 15), (250, 12)],
    2: [(5, 25), (32, 26), (41, 10), (53, 24), (59, 30), (71, 15), (84, 29), (103, 21), (125, 18),
        (156, 12), (189, 21), (195, 15), (210, 18), (231, 12), (245, 21), (268, 15), (290, 12)],
    3: [(11, 15), (21, 15), (41, 25), (51, 25), (60, 30), (69, 15), (78, 23), (94, 12), (112, 32),
        (125, 18), (149, 12), (174, 21), (196, 15), (209, 19), (228, 15), (239, 13), (272, 24),
        (285, 28)],
}
# fmt: on


def beat(channel: str, brought: list[NamedTuple]) -> list[Event | Heartbeat]:
    """Return the events of a channel with a heartbeat every 10 minutes, after any event at that time."""
    times = [(data.time, 0, data) for data in brought] + [(t, 1, None) for t in range(10, 651, 10)]
    return [
        Event(data, channel, n) if data else Heartbeat(time, channel, n)
        for n, (time, _, data) in enumerate(sorted(times, key=lambda item: item[:2]))
    ]


events = [
    *beat("id1", [Tip(time, 1, amount) for time, amount in given[1]]),
    *beat("id2", [Tip(time, 2, amount) for time, amount in given[2]]),
    *beat("id3", [Tip(time, 3, amount) for time, amount in given[3]]),
    *beat("hours", [Hour(time) for time in range(60, 601, 60)]),
]
channels = tuple(Channel(name, unique_times=True) for name in ("id1", "id2", "id3", "hours"))
expected = [
    (94, 115, 80),
    (38, 65, 112),
    (56, 30, 51),
    (36, 66, 62),
    (12, 48, 52),
    *[(0, 0, 0)] * 5,
]

taxi_1, taxi_2, taxi_3 = (PlanNode(take(Tip, taxi=n)) for n in (1, 2, 3))
id1, id2, id3 = (PlanNode(take(Tip, channel=name)) for name in ("id1", "id2", "id3"))
plans = {
    "sequential": Plan(PlanNode(Tip, Hour)),
    "by taxi": Plan(PlanNode(Hour, children=(taxi_1, PlanNode(children=(taxi_2, taxi_3))))),
    "by channel": Plan(PlanNode(Hour, children=(PlanNode(children=(id3, id1)), id2))),
    "lopsided": Plan(PlanNode(Hour, take(Tip, taxi=2), children=(taxi_1, taxi_3))),
}

if __name__ == "__main__":
    show(taxi_tips, events, channels=channels, line="hour ending at {}: {}".format)
