"""Refuse payments that do not look like earlier payments of the same card.

The state of a card is its last three payments, the countries it was used in, and how often it was refused for
which reason. A payment of more than ten times the largest of the three locks the card until an `Unlock`.
A payment depends on those before it, so events of a card keep their order; cards are independent.
"""

from typing import Any, NamedTuple

from anabranch import Event, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import Count, Dictionary, ListOf, MapOf, SetOf, Struct, Value


class Payment(NamedTuple):
    time: int
    card: str
    amount: int
    country: str


class Unlock(NamedTuple):
    time: int
    card: str


card = Struct(
    recent=ListOf(last=3),
    countries=SetOf(),
    refused=Dictionary(Count()),
    locked=Value(start=False),
)


def judge(seen: Any, payment: Payment) -> str | None:
    if seen.locked:
        return "locked"
    if seen.recent and payment.amount > 10 * max(seen.recent):
        return "large"
    if seen.countries and payment.country not in seen.countries:
        return "abroad"
    return None


def refuse(seen: Any, payment: Payment) -> tuple[str, int, str] | None:
    reason = judge(seen, payment)
    return None if reason is None else (payment.card, payment.amount, reason)


def note(seen: Any, payment: Payment) -> Any:
    reason = judge(seen, payment)
    if reason is None:
        return card.add(seen, recent=payment.amount, countries=payment.country)
    seen = card.add(seen, refused=reason, locked=seen.locked or reason == "large")
    return card.add(seen, countries=payment.country) if reason == "abroad" else seen


card_watch = Program(
    on(Payment, output=refuse, update=note),
    on(
        Unlock,
        output=lambda seen, unlock: (unlock.card, sorted(seen.refused.items())),
        update=lambda seen, unlock: seen._replace(locked=False, refused=card.init.refused),
    ),
    depends(Payment, Payment, Unlock, same="card"),
    depends(Unlock, Unlock, same="card"),
    state=MapOf(card, by="card"),
)

events = [
    Event(Payment(1, "ann", 20, "NL"), "shops", 0),
    Event(Payment(2, "bob", 500, "US"), "web", 0),
    Event(Payment(3, "ann", 35, "NL"), "shops", 1),
    Event(Payment(4, "ann", 400, "NL"), "web", 1),
    Event(Payment(5, "bob", 30, "FR"), "shops", 2),
    Event(Payment(6, "bob", 30, "FR"), "shops", 3),
    Event(Payment(7, "ann", 5, "NL"), "shops", 4),
    Event(Unlock(8, "ann"), "desk", 0),
    Event(Payment(9, "ann", 340, "NL"), "web", 2),
    Event(Unlock(10, "bob"), "desk", 1),
]
channels = (Channel("shops"), Channel("web"), Channel("desk"))
expected: list[tuple[Any, ...]] = [
    ("ann", 400, "large"),
    ("bob", 30, "abroad"),
    ("ann", 5, "locked"),
    ("ann", [("large", 1), ("locked", 1)]),
    ("bob", [("abroad", 1)]),
]


def watch(cards: str | Shard) -> PlanNode:
    return PlanNode(take(Payment, card=cards), take(Unlock, card=cards))


shards = [watch(Shard(n, 4)) for n in range(4)]
plans = {
    "sequential": Plan(PlanNode(Payment, Unlock)),
    "by card": Plan(PlanNode(children=(watch("ann"), watch("bob")))),
    "by hash of card": Plan(
        PlanNode(children=(PlanNode(children=shards[:2]), PlanNode(children=shards[2:])))
    ),
}

if __name__ == "__main__":
    show(
        card_watch,
        events,
        channels=channels,
        line=lambda time, output: f"at {time:>2}: " + " ".join(map(str, output)),
    )
