"""Count events per key, and reset the count when a key is read.

This is the running example of dependency-guided synchronization. `Read(1)` depends on the `Inc(1)`
before it, but not on key 2, and two `Inc(1)` are independent of each other. So keys run in parallel, as
in other engines; and *within* a key the increments run in parallel too, which a `keyBy` can't do. The
last plan is the one in the paper: key 1 on one node, the busy key 2 on three.
"""

from typing import NamedTuple

from anabranch import Event, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import Count, MapOf


class Inc(NamedTuple):
    time: int
    key: int


class Read(NamedTuple):
    time: int
    key: int


key_counter = Program(
    on(Inc, update=lambda count, inc: count + 1),
    on(Read, output=lambda count, read: (read.key, count), update=lambda count, read: 0),
    depends(Read, Inc, Read, same="key"),
    state=MapOf(Count(), by="key"),
)

events = [
    Event(Inc(1, key=1), "a", 0),
    Event(Inc(2, key=2), "a", 1),
    Event(Read(3, key=1), "reads", 0),
    Event(Inc(4, key=2), "b", 0),
    Event(Read(5, key=1), "reads", 1),
]
channels = (Channel("a"), Channel("b"), Channel("reads"))
expected = [(1, 1), (1, 0)]

key_1 = PlanNode(take(Inc, key=1), take(Read, key=1))
key_2 = PlanNode(take(Inc, key=2), take(Read, key=2))
inc_2a, inc_2b = (PlanNode(take(Inc, key=2, channel=name)) for name in ("a", "b"))
even, odd = (PlanNode(take(Inc, key=Shard(n, 2)), take(Read, key=Shard(n, 2))) for n in (0, 1))
plans = {
    "sequential": Plan(PlanNode(Inc, Read)),
    "by key": Plan(PlanNode(children=(key_1, key_2))),
    "by hash of key": Plan(PlanNode(children=(even, odd))),
    "within each key": Plan(
        PlanNode(
            Read, children=(PlanNode(take(Inc, channel="a")), PlanNode(take(Inc, channel="b")))
        )
    ),
    "as in the paper": Plan(
        PlanNode(children=(key_1, PlanNode(take(Read, key=2), children=(inc_2a, inc_2b))))
    ),
}


def describe(time: int, output: tuple[int, int]) -> str:
    key, count = output
    return f"at {time}: key {key} was counted {count} times"


if __name__ == "__main__":
    show(key_counter, events, channels=channels, line=describe)
