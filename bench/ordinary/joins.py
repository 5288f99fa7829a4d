"""Joins of two streams on time, and events enriched by a table that changes."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from anabranch.joins import Table, asof_join, interval_join, lookup, window_join
from anabranch.windows import Tumbling
from bench.ordinary.cases import (
    CLOSING,
    Case,
    Input,
    Row,
    Tables,
    after,
    by_time,
    draw_times,
    list_windows,
)


class Order(NamedTuple):
    time: datetime
    order_id: str
    amount: float


class Paid(NamedTuple):
    time: datetime
    order_id: str
    method: str | None


class PaidOrder(NamedTuple):
    order_id: str
    amount: float
    paid: datetime | None
    method: str | None


def pair_order(order: Order, payment: Paid | None) -> PaidOrder:
    """Return an order with its payment, if it has one."""
    if payment is None:
        return PaidOrder(order.order_id, order.amount, None, None)
    return PaidOrder(order.order_id, order.amount, payment.time, payment.method)


def draw_orders(n: int, rng: Random) -> Tables:
    """Draw orders; most have a payment, some within five minutes, some after more."""
    orders, payments = [], []
    for number, time in enumerate(draw_times(n // 2, rng)):
        name = f"order-{number}"
        orders.append({"time": time, "order_id": name, "amount": rng.random() * 100})
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            paid = time + timedelta(milliseconds=rng.randrange(400_000))
            method = rng.choice(["card", "cash", None])
            payments.append({"time": paid, "order_id": name, "method": method})
    payments.sort(key=lambda row: row["time"])
    orders.append({"time": after(orders, 7200), "order_id": CLOSING, "amount": 0.0})
    closing = {"time": after(orders, 0), "order_id": f"{CLOSING}{CLOSING}", "method": "none"}
    return {"orders": orders, "payments": [*payments, closing]}


def join_orders(tables: Tables) -> Iterator[Row]:
    """Yield every order with each payment within five minutes, or with none."""
    payments = defaultdict(list)
    for row in tables["payments"]:
        payments[row["order_id"]].append(row)
    for order in by_time(tables["orders"]):
        name, amount = order["order_id"], order["amount"]
        found = [
            row
            for row in payments[name]
            if 0 <= (row["time"] - order["time"]).total_seconds() <= 300
        ]
        for row in found:
            yield name, amount, row["time"], row["method"]
        if not found:
            yield name, amount, None, None


def join_orders_on_spark(read: Callable[[str], Any]) -> Any:
    """Join the streams with Spark's own outer join."""
    from pyspark.sql import functions as f

    orders = read("orders").withWatermark("time", "0 seconds").alias("o")
    payments = read("payments").withWatermark("time", "0 seconds").alias("p")
    near = f.expr(
        "o.order_id = p.order_id AND p.time >= o.time AND p.time <= o.time + INTERVAL 5 MINUTES"
    )
    joined = orders.join(payments, near, "left")
    return joined.selectExpr("o.order_id", "o.amount", "p.time AS paid", "p.method")


paid_orders = Case(
    name="paid_orders",
    title="orders and payments, left interval join",
    program=interval_join(
        Order, Paid, on="order_id", lower=0, upper="5 min", how="left", select=pair_order
    ),
    inputs={
        "orders": Input(
            "time timestamp, order_id string, amount double", options={"event": "Order"}
        ),
        "payments": Input(
            "time timestamp, order_id string, method string", options={"event": "Paid"}
        ),
    },
    columns=("order_id", "amount", "paid", "method"),
    draw=draw_orders,
    answer=join_orders,
    pyspark=join_orders_on_spark,
)


class Shown(NamedTuple):
    time: datetime
    ad: str
    page: str


class Clicked(NamedTuple):
    time: datetime
    ad: str
    user: str


class AdClick(NamedTuple):
    ad: str
    page: str
    user: str
    shown: datetime
    clicked: datetime


def pair_click(shown: Shown, clicked: Clicked) -> AdClick:
    """Return a click with the display that it followed."""
    return AdClick(shown.ad, shown.page, clicked.user, shown.time, clicked.time)


def draw_ads(n: int, rng: Random) -> Tables:
    """Draw displays of 5,000 ads, and clicks on a fifth of them."""
    shown, clicked = [], []
    for time in draw_times(n * 5 // 6, rng):
        ad = f"ad-{rng.randrange(5000)}"
        shown.append({"time": time, "ad": ad, "page": f"page-{rng.randrange(30)}"})
        if rng.random() < 0.2:
            when = time + timedelta(milliseconds=rng.randrange(60_000))
            clicked.append({"time": when, "ad": ad, "user": f"user-{rng.randrange(900)}"})
    clicked.sort(key=lambda row: row["time"])
    shown.append({"time": after(shown, 3600), "ad": CLOSING, "page": CLOSING})
    clicked.append({"time": after(shown, 0), "ad": f"{CLOSING}{CLOSING}", "user": CLOSING})
    return {"shown": shown, "clicked": clicked}


def join_ads(tables: Tables) -> Iterator[Row]:
    """Yield the pairs of an ad within 30 seconds."""
    shown = defaultdict(list)
    for row in by_time(tables["shown"]):
        shown[row["ad"]].append(row)
    for click in by_time(tables["clicked"]):
        for row in shown[click["ad"]]:
            if 0 <= (click["time"] - row["time"]).total_seconds() <= 30:
                yield click["ad"], row["page"], click["user"], row["time"], click["time"]


def join_ads_on_spark(read: Callable[[str], Any]) -> Any:
    """Join the streams with Spark's own inner join."""
    from pyspark.sql import functions as f

    shown = read("shown").withWatermark("time", "0 seconds").alias("s")
    clicked = read("clicked").withWatermark("time", "0 seconds").alias("c")
    near = f.expr("s.ad = c.ad AND c.time >= s.time AND c.time <= s.time + INTERVAL 30 SECONDS")
    joined = shown.join(clicked, near)
    return joined.selectExpr("s.ad", "s.page", "c.user", "s.time AS shown", "c.time AS clicked")


ad_clicks = Case(
    name="ad_clicks",
    title="displays and clicks of an ad, inner interval join, JSON",
    program=interval_join(Shown, Clicked, on="ad", lower=0, upper="30 s", select=pair_click),
    inputs={
        "shown": Input(
            "time timestamp, ad string, page string", "json", options={"event": "Shown"}
        ),
        "clicked": Input(
            "time timestamp, ad string, user string", "json", options={"event": "Clicked"}
        ),
    },
    columns=("ad", "page", "user", "shown", "clicked"),
    draw=draw_ads,
    answer=join_ads,
    pyspark=join_ads_on_spark,
)


class Sold(NamedTuple):
    time: datetime
    currency: str
    amount: int


class Rate(NamedTuple):
    time: datetime
    currency: str
    rate: float


class Priced(NamedTuple):
    currency: str
    time: datetime
    euros: float | None


def price(sold: Sold, rate: Rate | None) -> Priced:
    """Return a sale in euros, by the rate of its time."""
    return Priced(sold.currency, sold.time, None if rate is None else sold.amount * rate.rate)


def draw_rates(n: int, rng: Random) -> Tables:
    """Draw sales in 30 currencies, and a new rate of one of them now and then."""
    sold, rates = [], []
    for number, time in enumerate(draw_times(n, rng)):
        currency = f"C{rng.randrange(30)}"
        if number % 50 == 0:
            rates.append({"time": time, "currency": currency, "rate": rng.random()})
        else:
            sold.append({"time": time, "currency": currency, "amount": rng.randrange(1000)})
    sold.append({"time": after(sold, 60), "currency": CLOSING, "amount": 0})
    rates.append({"time": after(sold, 0), "currency": CLOSING, "rate": 1.0})
    return {"sold": sold, "rates": rates}


def price_sales(tables: Tables) -> Iterator[Row]:
    """Yield every sale with the last rate at or before it."""
    times, rates = defaultdict(list), defaultdict(list)
    for row in by_time(tables["rates"]):
        times[row["currency"]].append(row["time"])
        rates[row["currency"]].append(row["rate"])
    for row in by_time(tables["sold"]):
        place = bisect_right(times[row["currency"]], row["time"])
        rate = rates[row["currency"]][place - 1] if place else None
        yield row["currency"], row["time"], None if rate is None else row["amount"] * rate


def price_in_pandas(read: Callable[[str], Any]) -> Any:
    """Union both streams and keep the last rate of a currency: a stream can't look up a changing table."""
    import pandas as pd

    def fold(key: Any, frames: Any, state: Any) -> Any:
        rate = state.get[0] if state.exists else None
        emitted = []
        for row in pd.concat(list(frames)).sort_values("time").itertuples(index=False):
            if not pd.isna(row.rate):
                rate = row.rate
            else:
                emitted.append(
                    (row.currency, row.time, None if rate is None else row.amount * rate)
                )
        if rate is not None:
            state.update((rate,))
        if emitted:
            yield pd.DataFrame(emitted, columns=["currency", "time", "euros"])

    sold = read("sold").selectExpr("time", "currency", "amount", "CAST(NULL AS DOUBLE) AS rate")
    rates = read("rates").selectExpr("time", "currency", "0L AS amount", "rate")
    grouped = sold.unionByName(rates).groupBy("currency")
    return grouped.applyInPandasWithState(
        fold, "currency string, time timestamp, euros double", "rate double", "append", "NoTimeout"
    )


RATES = {
    "sold": Input("time timestamp, currency string, amount long", options={"event": "Sold"}),
    "rates": Input("time timestamp, currency string, rate double", options={"event": "Rate"}),
}
UNALIGNED = "PySpark's answer is right only because both inputs are cut at the same times"

priced_sales = Case(
    name="priced_sales",
    title="sales with the rate of their time (as-of join of a changing table)",
    program=asof_join(Sold, Rate, on="currency", how="left", select=price),
    inputs=RATES,
    columns=("currency", "time", "euros"),
    draw=draw_rates,
    answer=price_sales,
    pyspark=price_in_pandas,
    note=UNALIGNED,
)


def price_by_table(sold: Sold, rows: Any) -> Priced:
    """Return a sale in euros, by the row of the table."""
    return Priced(
        sold.currency, sold.time, None if rows.rate is None else sold.amount * rows.rate.rate
    )


looked_up_sales = Case(
    name="looked_up_sales",
    title="the same by a look-up in a table that every task holds",
    program=lookup(Sold, how="left", rate=Table(Rate, key="currency"), select=price_by_table),
    inputs=RATES,
    columns=("currency", "time", "euros"),
    draw=draw_rates,
    answer=price_sales,
    pyspark=price_in_pandas,
    note=UNALIGNED,
)


class Offer(NamedTuple):
    time: datetime
    product: str
    seller: str


class Demand(NamedTuple):
    time: datetime
    product: str
    buyer: str


class Deal(NamedTuple):
    product: str
    seller: str
    buyer: str


def make_deal(offer: Offer, demand: Demand) -> Deal:
    """Return who could sell to whom."""
    return Deal(offer.product, offer.seller, demand.buyer)


def draw_market(n: int, rng: Random) -> Tables:
    """Draw offers and demands of many products."""
    offers, demands = [], []
    for number, time in enumerate(draw_times(n, rng)):
        product = f"product-{rng.randrange(max(20, n // 20))}"
        if rng.random() < 0.5:
            offers.append({"time": time, "product": product, "seller": f"s{number}"})
        else:
            demands.append({"time": time, "product": product, "buyer": f"b{number}"})
    offers.append({"time": after(offers, 600), "product": CLOSING, "seller": CLOSING})
    demands.append({"time": after(offers, 0), "product": f"{CLOSING}{CLOSING}", "buyer": CLOSING})
    return {"offers": offers, "demands": demands}


def match_market(tables: Tables) -> Iterator[Row]:
    """Yield all pairs of a product and minute."""
    offers = defaultdict(list)
    for row in by_time(tables["offers"]):
        (window,) = list_windows(row["time"], 60, 60)
        offers[row["product"], window].append(row["seller"])
    for row in by_time(tables["demands"]):
        (window,) = list_windows(row["time"], 60, 60)
        for seller in offers[row["product"], window]:
            yield row["product"], seller, row["buyer"]


def match_on_spark(read: Callable[[str], Any]) -> Any:
    """Join on the product and the window."""
    from pyspark.sql import functions as f

    def cut(name: str) -> Any:
        rows = read(name).withWatermark("time", "0 seconds")
        return rows.withColumn("window", f.window("time", "1 minute"))

    joined = cut("offers").drop("time").join(cut("demands").drop("time"), ["product", "window"])
    return joined.select("product", "seller", "buyer")


market = Case(
    name="market",
    title="offers and demands of a product in the same minute (window join)",
    program=window_join(Offer, Demand, on="product", window=Tumbling("1 min"), select=make_deal),
    inputs={
        "offers": Input(
            "time timestamp, product string, seller string", options={"event": "Offer"}
        ),
        "demands": Input(
            "time timestamp, product string, buyer string", options={"event": "Demand"}
        ),
    },
    columns=("product", "seller", "buyer"),
    draw=draw_market,
    answer=match_market,
    pyspark=match_on_spark,
)

CASES = (paid_orders, ad_clicks, priced_sales, looked_up_sales, market)
