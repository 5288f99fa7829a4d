"""Smooth the readings of each sensor with an exponentially weighted moving average.

Readings are in Celsius, outputs in Fahrenheit: half the new reading and half the last output of that
sensor. A reading depends on the one before it from the same sensor, so the readings of a sensor are
sequential; sensors are parallel. All arithmetic is in floats, which round: the answer is nevertheless
the same to the bit under every plan, because the order within a sensor is the same.
"""

from typing import NamedTuple

from anabranch import Event, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import MapOf, Replicated

ALPHA = 0.5


class Reading(NamedTuple):
    time: int
    sensor: str
    celsius: float


def smooth(last: float | None, reading: Reading) -> float:
    fahrenheit = reading.celsius * 9 / 5 + 32
    return fahrenheit if last is None else ALPHA * fahrenheit + (1 - ALPHA) * last


ewma = Program(
    on(
        Reading,
        output=lambda last, reading: (reading.sensor, smooth(last, reading)),
        update=smooth,
    ),
    depends(Reading, Reading, same="sensor"),
    # A sensor's entry is never forked: all its readings go to one node.
    state=MapOf(Replicated(), by="sensor"),
)

events = [
    Event(Reading(1, "roof", 20.0), "gateway", 0),
    Event(Reading(2, "cellar", 0.0), "gateway", 1),
    Event(Reading(3, "roof", 25.0), "gateway", 2),
    Event(Reading(4, "roof", 30.0), "radio", 0),
    Event(Reading(5, "cellar", 100.0), "radio", 1),
    Event(Reading(6, "attic", 36.6), "radio", 2),
    Event(Reading(7, "attic", 36.7), "gateway", 3),
]
channels = (Channel("gateway"), Channel("radio"))
expected = [
    ("roof", 68.0),
    ("cellar", 32.0),
    ("roof", 72.5),
    ("roof", 79.25),
    ("cellar", 122.0),
    ("attic", 97.88000000000001),
    ("attic", 97.97),
]

roof, cellar, attic = (PlanNode(take(Reading, sensor=name)) for name in ("roof", "cellar", "attic"))
shards = [PlanNode(take(Reading, sensor=Shard(n, 4))) for n in range(4)]
plans = {
    "sequential": Plan(PlanNode(Reading)),
    "by sensor": Plan(PlanNode(children=(roof, PlanNode(children=(cellar, attic))))),
    "by hash of sensor": Plan(
        PlanNode(children=(PlanNode(children=shards[:2]), PlanNode(children=shards[2:])))
    ),
    "lopsided": Plan(PlanNode(take(Reading, sensor="roof"), children=(cellar, attic))),
}

if __name__ == "__main__":
    show(
        ewma,
        events,
        channels=channels,
        line=lambda time, output: f"at {time}: {output[0]:<6} {output[1]} °F",
    )
