"""Flag transactions that match the total of the last period.

Each rule closes a period: it emits the period's total, which the next transactions are compared with. A
transaction is suspicious if its last three digits are those of the last period's total. So the *leaves*
have outputs, and these depend on a number that only the root knows. The fork copies that number to both
sides and leaves the running total on one side; the join adds the totals. Flink's key-by can't share such
a rule, and runs this program on one core.
"""

from typing import NamedTuple

from anabranch import Event, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel


class Txn(NamedTuple):
    time: int
    amount: int


class Rule(NamedTuple):
    time: int


class Totals(NamedTuple):
    previous: int
    current: int


def is_suspicious(totals: Totals, txn: Txn) -> bool:
    return totals.previous % 1000 == txn.amount % 1000


fraud = Program(
    on(
        Txn,
        output=lambda totals, txn: ("txn", txn.amount) if is_suspicious(totals, txn) else None,
        update=lambda totals, txn: Totals(totals.previous, totals.current + txn.amount),
    ),
    on(
        Rule,
        output=lambda totals, rule: ("rule", totals.current),
        update=lambda totals, rule: Totals(previous=totals.current, current=0),
    ),
    depends(Rule, Txn, Rule),
    init=Totals(0, 0),
    zero=Totals(0, 0),
    fork=lambda totals, left, right: (totals, Totals(totals.previous, 0)),
    join=lambda a, b: Totals(a.previous, a.current + b.current),
)

events = [
    Event(Txn(1, 3), "north", 0),
    Event(Txn(2, 4), "south", 0),
    Event(Rule(3), "rules", 0),
    Event(Txn(4, 7), "north", 1),
    Event(Txn(5, 0), "south", 1),
    Event(Txn(6, 1007), "south", 2),
    Event(Rule(7), "rules", 1),
    Event(Txn(8, 5), "north", 2),
    Event(Txn(9, 12), "south", 3),
    Event(Txn(10, 1012), "north", 3),
    Event(Txn(11, 2), "south", 4),
    Event(Rule(12), "rules", 2),
]
channels = (Channel("north"), Channel("south"), Channel("rules"))
expected = [("rule", 7), ("txn", 7), ("txn", 1007), ("rule", 1014), ("rule", 1031)]

north, south = (PlanNode(take(Txn, channel=name)) for name in ("north", "south"))
half, other = (PlanNode(take(Txn, channel="south", lane=Shard(n, 2))) for n in (0, 1))
plans = {
    "sequential": Plan(PlanNode(Txn, Rule)),
    "by branch": Plan(PlanNode(Rule, children=(north, south))),
    "lopsided": Plan(PlanNode(Rule, take(Txn, channel="north"), children=(half, other))),
    "deep": Plan(PlanNode(Rule, children=(PlanNode(children=(half, other)), north))),
}

if __name__ == "__main__":
    show(
        fraud,
        events,
        channels=channels,
        line=lambda time, output: f"at {time:>2}: {output[0]} {output[1]}",
    )
