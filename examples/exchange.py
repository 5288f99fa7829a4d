"""Add up the payments of each customer in one currency, at the current exchange rates.

Payments of a customer are added up in order; customers are independent. But all payments read the
same rates, which change rarely. Keyed by customer, no node has the rates; keyed by currency, no node
has the customers. With `Shared` every node has a copy of the rates, which only a `Rate` can change, and
each payment reads the rates as of its own time.
"""

from typing import Any, NamedTuple

from anabranch import Event, Program, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import MapOf, Replicated, Shared, Sum


class Payment(NamedTuple):
    time: int
    customer: str
    currency: str
    cents: int


class Rate(NamedTuple):
    time: int
    currency: str
    per_euro: int


def convert(state: Any, payment: Payment) -> int:
    return int(payment.cents // state.common.get(payment.currency, 1))


exchange = Program(
    on(Rate, update=lambda old, rate: rate.per_euro),
    on(
        Payment,
        update=lambda state, payment: state.entry + convert(state, payment),
        output=lambda state, payment: (payment.customer, state.entry + convert(state, payment)),
    ),
    depends(Payment, Payment, same="customer"),
    state=Shared(MapOf(Replicated(), by="currency"), MapOf(Sum(), by="customer")),
)

events = [
    Event(Rate(1, "yen", per_euro=160), "rates", 0),
    Event(Payment(2, "ada", "yen", cents=320_000), "shop", 0),
    Event(Payment(3, "bob", "euro", cents=1_000), "shop", 1),
    Event(Rate(4, "yen", per_euro=200), "rates", 1),
    Event(Payment(4, "ada", "yen", cents=320_000), "kiosk", 0),
    Event(Payment(5, "bob", "yen", cents=10_000), "kiosk", 1),
    Event(Payment(6, "ada", "euro", cents=400), "shop", 2),
]
channels = (Channel("rates"), Channel("shop"), Channel("kiosk"))
expected = [
    ("ada", 2_000),
    ("bob", 1_000),
    ("ada", 3_600),
    ("bob", 1_050),
    ("ada", 4_000),
]

ada, bob = (PlanNode(take(Payment, customer=name)) for name in ("ada", "bob"))
plans = {
    "sequential": Plan(PlanNode(Rate, Payment)),
    "by customer": Plan(PlanNode(Rate, children=(ada, bob))),
    "one of many": Plan(
        PlanNode(
            Rate,
            children=(
                PlanNode(children=(ada, bob)),
                PlanNode(take(Payment, customer="cleo")),
            ),
        )
    ),
}


def describe(time: int, output: tuple[str, int]) -> str:
    customer, cents = output
    return f"at {time}: {customer} has paid {cents / 100:.2f} euro"


if __name__ == "__main__":
    show(exchange, events, channels=channels, line=describe)
