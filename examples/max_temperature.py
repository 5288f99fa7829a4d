"""Report the highest temperature since the last report.

Two thermometers send readings; reports are requested from time to time. Readings are independent of
each other, because the order of readings does not change a maximum. Only a report depends on the
readings before it, as declared in `depends`. All parallelism follows from that line: nodes fold readings
in parallel, on copies of the maximum, and join them when a report is due.
"""

from typing import NamedTuple

from anabranch import Event, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel


class Temp(NamedTuple):
    time: int
    degrees: int


class Report(NamedTuple):
    time: int


max_temperature = Program(
    on(Temp, update=lambda top, temp: max(top, temp.degrees)),
    on(Report, output=lambda top, report: top, update=lambda top, report: 0),
    depends(Report, Temp, Report),
    init=0, zero=0, fork=lambda top, left, right: (top, top), join=max,
)  # fmt: skip


events = [
    *(Event(Temp(t, d), "t1", n) for n, (t, d) in enumerate([(1, 20), (4, 25), (9, 18)])),
    *(Event(Temp(t, d), "t2", n) for n, (t, d) in enumerate([(2, 23), (5, 22), (8, 19)])),
    *(Event(Report(t), "reports", n) for n, t in enumerate([6, 10, 11])),
]
channels = (
    Channel("t1", unique_times=True),
    Channel("t2", unique_times=True),
    Channel("reports", unique_times=True),
)
expected = [25, 19, 0]

t1, t2 = (PlanNode(take(Temp, channel=name)) for name in ("t1", "t2"))
half, other = (PlanNode(take(Temp, channel="t2", lane=Shard(n, 2))) for n in (0, 1))
plans = {
    "sequential": Plan(PlanNode(Temp, Report)),
    "by thermometer": Plan(PlanNode(Report, children=(t1, t2))),
    "lopsided": Plan(PlanNode(Report, take(Temp, channel="t1"), children=(half, other))),
    "deep": Plan(PlanNode(Report, children=(t1, PlanNode(children=(half, other))))),
}

if __name__ == "__main__":
    show(max_temperature, events, channels=channels, line="report at {:>2}: {} degrees".format)
