"""Rows of every shape: nested fields, nulls, several types in one file, composite keys, repeated ids."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from random import Random
from typing import Any, NamedTuple

from anabranch import EventTime, Program, depends, on
from anabranch.state import MapOf, Sum, Value
from anabranch.windows import Tumbling, aggregate
from bench.ordinary.cases import (
    CLOSING,
    LATE_S,
    LATENESS,
    WATERMARK,
    Case,
    Input,
    Row,
    Tables,
    after,
    by_time,
    draw_times,
)
from bench.ordinary.rules import fold_in_pandas
from bench.ordinary.windows import hold

# --- Repeated ids ---------------------------------------------------------------------------------


class Message(NamedTuple):
    sent_at: EventTime[datetime]
    id: str
    text: str


class First(NamedTuple):
    id: str
    text: str


def take_first(seen: bool, message: Message) -> First | None:  # noqa: FBT001 - a state
    """Return a message that has not been seen."""
    return None if seen else First(message.id, message.text)


def draw_messages(n: int, rng: Random) -> Tables:
    """Draw messages of which every tenth is sent again within half a minute."""
    rows: list[dict[str, Any]] = []
    for number, time in enumerate(draw_times(n, rng)):
        if rows and rng.random() < 0.1:
            old = rows[rng.randrange(max(0, len(rows) - 20), len(rows))]
            if (time - old["sent_at"]).total_seconds() < 30:
                rows.append({**old, "sent_at": time})
                continue
        rows.append({"sent_at": time, "id": f"m-{number}", "text": f"text {rng.randrange(99)}"})
    closing = {"sent_at": after(rows, 3600, "sent_at"), "id": CLOSING, "text": CLOSING}
    return {"messages": [*rows, closing]}


def drop_repeated(tables: Tables) -> Iterator[Row]:
    """Yield each id once."""
    seen = set()
    for row in by_time(tables["messages"], "sent_at"):
        if row["id"] not in seen:
            seen.add(row["id"])
            yield row["id"], row["text"]


deduplicated = Case(
    name="deduplicated",
    title="each message once, by its id, kept for five minutes; a time of another name",
    program=Program(
        on(Message, update=lambda seen, message: True, output=take_first),
        depends(Message, Message, same="id"),
        state=MapOf(Value(False), by="id", ttl="5 min"),
        name="deduplicated",
    ),
    inputs={"messages": Input("sent_at timestamp, id string, text string")},
    columns=("id", "text"),
    draw=draw_messages,
    answer=drop_repeated,
    pyspark=lambda read: (
        read("messages")
        .withWatermark("sent_at", "5 minutes")
        .dropDuplicatesWithinWatermark(["id"])
        .select("id", "text")
    ),
)


# --- Several event types in one file --------------------------------------------------------------


class Deposit(NamedTuple):
    time: datetime
    account: str
    cents: int


class Withdrawal(NamedTuple):
    time: datetime
    account: str
    cents: int
    place: str | None = None


class Audit(NamedTuple):
    time: datetime
    account: str


class Standing(NamedTuple):
    account: str
    time: datetime
    balance: int


def show_standing(balance: int, audit: Audit) -> Standing:
    """Return the balance at an audit."""
    return Standing(audit.account, audit.time, balance)


def draw_bank(n: int, rng: Random) -> Tables:
    """Draw deposits, withdrawals and audits of 500 accounts, in one file."""
    rows = []
    for time in draw_times(n, rng):
        kind = rng.choices(["Deposit", "Withdrawal", "Audit"], [5, 4, 1])[0]
        row = {"type": kind, "time": time, "account": f"account-{rng.randrange(500)}"}
        if kind != "Audit":
            row["cents"] = rng.randrange(1, 10_000)
        if kind == "Withdrawal" and rng.random() < 0.5:
            row["place"] = rng.choice(["Ulm", "Bern"])
        rows.append(row)
    closing = {"type": "Audit", "time": after(rows, 60), "account": CLOSING}
    return {"bank": [*rows, closing]}


def audit_bank(tables: Tables) -> Iterator[Row]:
    """Yield the balance at each audit."""
    balances: dict[str, int] = defaultdict(int)
    for row in by_time(tables["bank"]):
        if row["type"] == "Audit":
            yield row["account"], row["time"], balances[row["account"]]
        else:
            sign = 1 if row["type"] == "Deposit" else -1
            balances[row["account"]] += sign * row["cents"]


def step_bank(held: Any, row: Any) -> tuple[Any, Row | None]:
    """Fold a row of pandas."""
    balance = held or 0
    if row.type == "Audit":
        return balance, (row.account, row.time, balance)
    return balance + int(row.cents if row.type == "Deposit" else -row.cents), None


several_types = Case(
    name="several_types",
    title="deposits, withdrawals and audits in one JSON file",
    program=Program(
        on(Deposit, update=lambda balance, deposit: balance + deposit.cents),
        on(Withdrawal, update=lambda balance, withdrawal: balance - withdrawal.cents),
        on(Audit, output=show_standing),
        depends(Audit, Deposit, Withdrawal, Audit, same="account"),
        state=MapOf(Sum(), by="account"),
        name="several_types",
    ),
    inputs={
        "bank": Input(
            "type string, time timestamp, account string, cents long, place string",
            "json",
            options={"type_column": "type"},
        )
    },
    columns=("account", "time", "balance"),
    draw=draw_bank,
    answer=audit_bank,
    pyspark=lambda read: fold_in_pandas(
        read,
        "account",
        step_bank,
        table="bank",
        schema="account string, time timestamp, balance long",
    ),
    note="PySpark sorts a batch; it is wrong if batches overlap in time",
)


# --- Nested fields --------------------------------------------------------------------------------


class Customer(NamedTuple):
    id: str
    country: str


class Line(NamedTuple):
    product: str
    quantity: int
    cents: int


class Basket(NamedTuple):
    time: datetime
    shop: str
    customer: Customer
    lines: list[Line]


def add_up(basket: Basket) -> int:
    """Return the price of a basket."""
    return sum(line.quantity * line.cents for line in basket.lines)


def is_abroad(basket: Basket) -> int:
    """Return 1 for a customer from abroad."""
    return int(basket.customer.country != "DE")


def draw_baskets(n: int, rng: Random) -> Tables:
    """Draw baskets of one to four lines."""
    rows = []
    for time in draw_times(n, rng, late_s=LATE_S):
        lines = [
            {
                "product": f"p{rng.randrange(100)}",
                "quantity": rng.randrange(1, 5),
                "cents": rng.randrange(9999),
            }
            for _ in range(rng.randrange(1, 5))
        ]
        customer = {"id": f"c{rng.randrange(999)}", "country": rng.choice(["DE", "CH", "AT"])}
        shop = f"shop-{rng.randrange(40)}"
        rows.append({"time": time, "shop": shop, "customer": customer, "lines": lines})
    closing = {**rows[-1], "time": after(rows, 3600), "shop": CLOSING}
    return {"baskets": [*rows, closing]}


def sum_baskets(tables: Tables) -> Iterator[Row]:
    """Yield the turnover and the baskets from abroad, per shop and minute."""
    for (shop, start, _), rows in hold(tables, "baskets", "shop", 60, 60).items():
        cents = sum(line["quantity"] * line["cents"] for row in rows for line in row["lines"])
        yield shop, start, cents, sum(row["customer"]["country"] != "DE" for row in rows)


def sum_baskets_on_spark(read: Callable[[str], Any]) -> Any:
    """Add the lines up with a higher-order function, then with Spark's own windows."""
    from pyspark.sql import functions as f

    baskets = read("baskets").withWatermark("time", WATERMARK)
    total = f.expr("aggregate(lines, 0L, (sum, line) -> sum + line.quantity * line.cents)")
    grouped = baskets.withColumn("total", total).groupBy("shop", f.window("time", "1 minute"))
    abroad = f.count_if(f.col("customer.country") != "DE")
    summed = grouped.agg(f.sum("total").alias("cents"), abroad.alias("abroad"))
    return summed.select("shop", "window.start", "cents", "abroad")


nested_baskets = Case(
    name="nested_baskets",
    title="turnover per shop and minute, from nested customers and lists of lines, JSON",
    program=aggregate(
        Basket, Tumbling("1 min"), per="shop", cents=(Sum(), add_up), abroad=(Sum(), is_abroad)
    ),
    inputs={
        "baskets": Input(
            "time timestamp, shop string, customer struct<id: string, country: string>, "
            "lines array<struct<product: string, quantity: long, cents: long>>",
            "json",
            LATENESS,
        )
    },
    columns=("key", "start", "value.cents", "value.abroad"),
    draw=draw_baskets,
    answer=sum_baskets,
    pyspark=sum_baskets_on_spark,
)


# --- Nulls ----------------------------------------------------------------------------------------


class Measurement(NamedTuple):
    time: datetime
    sensor: str
    value: int | None
    unit: str | None = None


def take_value(measurement: Measurement) -> int:
    """Return the value, or 0."""
    return 0 if measurement.value is None else measurement.value


def is_missing(measurement: Measurement) -> int:
    """Return 1 for a measurement without a value."""
    return int(measurement.value is None)


def draw_measurements(n: int, rng: Random) -> Tables:
    """Draw measurements of which a tenth has no value and half have no unit."""
    rows = [
        {
            "time": time,
            "sensor": f"sensor-{rng.randrange(400)}",
            "value": None if rng.random() < 0.1 else rng.randrange(100),
            "unit": rng.choice(["C", None]),
        }
        for time in draw_times(n, rng, late_s=LATE_S)
    ]
    closing = {"time": after(rows, 3600), "sensor": CLOSING, "value": 1, "unit": "C"}
    return {"measurements": [*rows, closing]}


def sum_measurements(tables: Tables) -> Iterator[Row]:
    """Yield the sum of all values and the number of missing ones."""
    for (sensor, start, _), rows in hold(tables, "measurements", "sensor", 300, 300).items():
        values = [row["value"] for row in rows if row["value"] is not None]
        yield sensor, start, sum(values), len(rows) - len(values)


def sum_measurements_on_spark(read: Callable[[str], Any]) -> Any:
    """Use Spark's own aggregates."""
    from pyspark.sql import functions as f

    rows = read("measurements").withWatermark("time", WATERMARK)
    grouped = rows.groupBy("sensor", f.window("time", "5 minutes"))
    summed = grouped.agg(
        f.coalesce(f.sum("value"), f.lit(0)).alias("total"),
        f.count_if(f.col("value").isNull()).alias("missing"),
    )
    return summed.select("sensor", "window.start", "total", "missing")


missing_values = Case(
    name="missing_values",
    title="sums per sensor and the number of nulls, tumbling 5 min",
    program=aggregate(
        Measurement,
        Tumbling("5 min"),
        per="sensor",
        total=(Sum(), take_value),
        missing=(Sum(), is_missing),
    ),
    inputs={
        "measurements": Input(
            "time timestamp, sensor string, value long, unit string", lateness=LATENESS
        )
    },
    columns=("key", "start", "value.total", "value.missing"),
    draw=draw_measurements,
    answer=sum_measurements,
    pyspark=sum_measurements_on_spark,
)


# --- Composite keys -------------------------------------------------------------------------------


class Movement(NamedTuple):
    time: datetime
    warehouse: str
    product: int
    pieces: int


class Shortage(NamedTuple):
    warehouse: str
    product: int
    time: datetime
    stock: int


def find_shortage(stock: int, movement: Movement) -> Shortage | None:
    """Return a shortage when the stock falls below 0."""
    left = stock + movement.pieces
    if stock < 0 or left >= 0:
        return None
    return Shortage(movement.warehouse, movement.product, movement.time, left)


def draw_movements(n: int, rng: Random) -> Tables:
    """Draw movements of 100 products in 5 warehouses."""
    rows = [
        {
            "time": time,
            "warehouse": rng.choice(["north", "south", "east", "west", "centre"]),
            "product": rng.randrange(100),
            "pieces": rng.randrange(-50, 51),
        }
        for time in draw_times(n, rng)
    ]
    closing = {"time": after(rows, 60), "warehouse": CLOSING, "product": 0, "pieces": 0}
    return {"movements": [*rows, closing]}


def list_shortages(tables: Tables) -> Iterator[Row]:
    """Yield the moments at which a stock falls below 0."""
    stock: dict[tuple[str, int], int] = defaultdict(int)
    for row in by_time(tables["movements"]):
        key = row["warehouse"], row["product"]
        before, stock[key] = stock[key], stock[key] + row["pieces"]
        if before >= 0 > stock[key]:
            yield *key, row["time"], stock[key]


def step_movement(held: Any, row: Any) -> tuple[Any, Row | None]:
    """Fold a row of pandas."""
    before = held or 0
    left = before + int(row.pieces)
    short = before >= 0 > left
    return left, (row.warehouse, row.product, row.time, left) if short else None


composite_keys = Case(
    name="shortages",
    title="stock per warehouse and product (a composite key), shortages as outputs",
    program=Program(
        on(Movement, update=lambda stock, move: stock + move.pieces, output=find_shortage),
        depends(Movement, Movement, same=("warehouse", "product")),
        state=MapOf(MapOf(Sum(), by="product"), by="warehouse"),
        name="shortages",
    ),
    inputs={"movements": Input("time timestamp, warehouse string, product long, pieces long")},
    columns=("warehouse", "product", "time", "stock"),
    draw=draw_movements,
    answer=list_shortages,
    pyspark=lambda read: fold_in_pandas(
        read,
        ("warehouse", "product"),
        step_movement,
        table="movements",
        schema="warehouse string, product long, time timestamp, stock long",
    ),
    note="PySpark sorts a batch; it is wrong if batches overlap in time",
)

CASES = (deduplicated, several_types, nested_baskets, missing_values, composite_keys)
