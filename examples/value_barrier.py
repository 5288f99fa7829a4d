"""Sum values from two streams, and emit the sum at each barrier.

Values are independent of each other; a barrier depends on everything. This is the smallest
program whose parallel run must synchronise, so every engine is measured with it. The sum is
never reset. The streams contain heartbeats ("nothing more at or before 5"), because a barrier can't
be processed until every stream has passed it.
"""

from typing import NamedTuple

from anabranch import Event, Heartbeat, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import Sum


class Value(NamedTuple):
    time: int
    value: int


class Barrier(NamedTuple):
    time: int


value_barrier = Program(
    on(Value, update=lambda total, value: total + value.value),
    on(Barrier, output=lambda total, barrier: total),
    depends(Barrier, Value, Barrier),
    state=Sum(),
)

events = [
    Event(Value(1, 1), "a1", 0),
    Event(Value(3, 5), "a1", 1),
    Event(Value(4, 3), "a1", 2),
    Heartbeat(5, "a1", 3),
    Event(Value(7, 7), "a1", 4),
    Heartbeat(10, "a1", 5),
    Event(Value(15, 3), "a1", 6),
    Heartbeat(20, "a1", 7),
    Heartbeat(5, "a2", 0),
    Event(Value(6, 6), "a2", 1),
    Event(Value(8, 5), "a2", 2),
    Event(Value(10, 6), "a2", 3),
    Heartbeat(10, "a2", 4),
    Event(Value(11, 5), "a2", 5),
    Event(Value(12, 1), "a2", 6),
    Event(Value(13, 0), "a2", 7),
    Event(Value(14, 9), "a2", 8),
    Heartbeat(20, "a2", 9),
    Event(Barrier(2), "b", 0),
    Event(Barrier(5), "b", 1),
    Heartbeat(7, "b", 2),
    Event(Barrier(9), "b", 3),
    Heartbeat(9, "b", 4),
    Event(Barrier(16), "b", 5),
    Heartbeat(20, "b", 6),
]
channels = (
    Channel("a1", unique_times=True),
    Channel("a2", unique_times=True),
    Channel("b", unique_times=True),
)
expected = [1, 9, 27, 51]

a1, a2 = (PlanNode(take(Value, channel=name)) for name in ("a1", "a2"))
half, other = (PlanNode(take(Value, channel="a2", lane=Shard(n, 2))) for n in (0, 1))
lanes = [PlanNode(take(Value, lane=Shard(n, 4))) for n in range(4)]
plans = {
    "sequential": Plan(PlanNode(Value, Barrier)),
    "by stream": Plan(PlanNode(Barrier, children=(a1, a2))),
    "lopsided": Plan(PlanNode(Barrier, children=(a1, PlanNode(children=(half, other))))),
    "root works too": Plan(PlanNode(Barrier, take(Value, channel="a1"), children=(half, other))),
    "four lanes": Plan(
        PlanNode(Barrier, children=(PlanNode(children=lanes[:2]), PlanNode(children=lanes[2:])))
    ),
}

if __name__ == "__main__":
    show(value_barrier, events, channels=channels, line="barrier at {:>2}: {}".format)
