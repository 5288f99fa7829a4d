"""A program whose state and events hold a bit of everything."""

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from anabranch import Event, Map, Program, depends, on
from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.ledger import Ledger
from anabranch.model.shapes import WrittenShape
from anabranch.reference.sequential import run
from anabranch.savepoints.snapshot import Snapshot
from anabranch.state import MapOf


class Colour(Enum):
    RED = 1
    GREEN = 2


class Order(NamedTuple):
    time: int
    customer: str
    price: Decimal
    colour: Colour
    notes: tuple[str, ...] = ()


class Return(NamedTuple):
    time: int
    customer: str
    channel: str
    seq: int | None = None


class Account(NamedTuple):
    total: Decimal = Decimal(0)
    orders: int = 0
    colours: tuple[Colour, ...] = ()
    notes: frozenset[str] = frozenset()
    by_day: dict[int, int] = {}  # noqa: RUF012 - nobody changes it in place
    last: datetime | None = None
    share: Fraction = Fraction(0)
    raw: bytes = b""


def buy(account, order):
    day = order.time // 10
    return account._replace(
        total=account.total + order.price,
        orders=account.orders + 1,
        colours=(*account.colours, order.colour),
        notes=account.notes | set(order.notes),
        by_day=account.by_day | {day: account.by_day.get(day, 0) + 1},
        last=datetime.fromtimestamp(order.time, UTC),
        share=account.share + Fraction(1, order.time + 3),
        raw=account.raw + bytes([order.time % 256]),
    )


shop = Program(
    on(Order, update=buy, output=lambda a, e: (e.customer, a.orders)),
    on(Return, update=lambda a, e: a._replace(orders=a.orders - 1), output=lambda a, e: e.channel),
    depends(Order, Order, Return, same="customer"),
    depends(Return, Return, same="customer"),
    state=MapOf(WrittenShape(Account()), by="customer"),
    name="shop",
)
CHANNELS = [Channel("web", lateness=5), Channel("till", lateness=None)]
CUSTOMERS = ["ann", "bob", "zoë", ""]


def list_items(count=24):
    items = []
    for n in range(count):
        who = CUSTOMERS[n % 4]
        if n % 5 == 4:
            items.append(Event(Return(n, who, f"desk {n}", None if n % 2 else n), "web", n))
        else:
            price = Decimal(n).scaleb(-2)
            notes = ("gift", f"n{n}")[: n % 3]
            items.append(Event(Order(n, who, price, Colour(n % 2 + 1), notes), "web", n))
    return items


def take(count=24) -> Snapshot:
    """Return a snapshot with entries, and with pending events of both event types."""
    from anabranch import Heartbeat

    items = [*list_items(count), Heartbeat(count // 2, "till", 0)]
    return run(shop, items, CHANNELS).snapshot()


FULL = Snapshot(
    Map({"ann": Account(Decimal("1.5"), 2)}),
    {"state": Map({"bob": Account(orders=1)})},
    (Event(Order(9, "zoë", Decimal(3), Colour.RED), "web", 7),),
    {"web": Standing(5, 9, 7, ((0, 1, 2), (3, 0, 1)), 250, 4)},
    Ledger(4, 2, 1, 0, 0, 1),
    1_700_000_000_000,
)
