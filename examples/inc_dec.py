"""Find the highest level that a counter reached between two marks.

Increments are independent of increments, and decrements of decrements; but an increment and a
decrement must keep their order, or the counter would reach another level. So one kind at a time runs
in parallel, and the other kind synchronises it like a mark. The join is correct although it looks wrong:
the right side started from zero and has seen one kind only, so the highest level of both sides is either
that of the left side or the level at the end.
"""

from typing import NamedTuple

from anabranch import Event, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel


class Inc(NamedTuple):
    time: int
    amount: int


class Dec(NamedTuple):
    time: int
    amount: int


class Mark(NamedTuple):
    time: int


class Level(NamedTuple):
    now: int = 0
    top: int = 0

    def move(self, amount: int) -> "Level":
        return Level(self.now + amount, max(self.top, self.now + amount))


def join(left: Level, right: Level) -> Level:
    now = left.now + right.now
    return Level(now, max(left.top, now))


inc_dec = Program(
    on(Inc, update=lambda level, inc: level.move(inc.amount)),
    on(Dec, update=lambda level, dec: level.move(-dec.amount)),
    on(Mark, output=lambda level, mark: level.top, update=lambda level, mark: Level()),
    depends(Inc, Dec),
    depends(Mark, Inc, Dec, Mark),
    init=Level(),
    zero=Level(),
    fork=lambda level, left, right: (level, Level()),
    join=join,
)

events = [
    Event(Inc(1, 2), "ups", 0),
    Event(Inc(2, 5), "more ups", 0),
    Event(Dec(3, 1), "downs", 0),
    Event(Mark(4), "marks", 0),
    Event(Dec(5, 2), "downs", 1),
    Event(Inc(6, 3), "ups", 1),
    Event(Dec(7, 3), "downs", 2),
    Event(Mark(8), "marks", 1),
]
channels = (Channel("ups"), Channel("more ups"), Channel("downs"), Channel("marks"))
expected = [7, 1]

ups, more_ups = (PlanNode(take(Inc, channel=name)) for name in ("ups", "more ups"))
half, other = (PlanNode(take(Inc, channel="ups", lane=Shard(n, 2))) for n in (0, 1))
downs = [PlanNode(take(Dec, lane=Shard(n, 2))) for n in (0, 1)]
plans = {
    "sequential": Plan(PlanNode(Inc, Dec, Mark)),
    "increments apart": Plan(PlanNode(Mark, Dec, children=(ups, more_ups))),
    "decrements apart": Plan(PlanNode(Mark, Inc, children=downs)),
    "deep": Plan(PlanNode(Mark, Dec, children=(more_ups, PlanNode(children=(half, other))))),
}

if __name__ == "__main__":
    show(inc_dec, events, channels=channels, line="mark at {}: the counter reached {}".format)
