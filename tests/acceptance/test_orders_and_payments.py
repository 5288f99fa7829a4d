"""Orders and payments, left outer within an interval: the same rows as a LEFT JOIN of SQLite."""

import csv
import json
import random
import sqlite3
from typing import NamedTuple

import pytest

from anabranch import run
from anabranch.joins import interval_join
from anabranch.sinks import read_late, read_outputs, write_directory
from anabranch.sources import Files
from tests.acceptance.sizes import choose_size

ROWS = choose_size(small=500, full=50_000)
HOUR = 3600


class Order(NamedTuple):
    time: int
    order_id: int
    amount: float


class Payment(NamedTuple):
    time: int
    order_id: int
    method: str | None


class Row(NamedTuple):
    order_id: int
    amount: float
    ordered: int
    paid: int | None
    method: str | None


def pair(order: Order, payment: Payment | None) -> Row:
    paid, method = (None, None) if payment is None else (payment.time, payment.method)
    return Row(order.order_id, order.amount, order.time, paid, method)


paid_orders = interval_join(
    Order, Payment, on="order_id", lower=0, upper=HOUR, how="left", select=pair
)


def make_rows(rng):
    """Return orders and payments: none, one or two for an order, in time and too late, and of no order."""
    orders, payments = [], []
    for number in range(ROWS):
        time = number * 60
        orders.append(Order(time, number, rng.randrange(1, 10**5) / 4))
        for _ in range(rng.choice([0, 1, 1, 2])):
            after = rng.choice([0, HOUR, HOUR + 1, -1, rng.randrange(2 * HOUR)])
            method = rng.choice(["card", "cash", None])
            payments.append(Payment(max(time + after, 0), number, method))
    payments += [Payment(time * 97, -1 - time, "card") for time in range(20)]
    # A payment may be brought up to ten minutes after others: later in the file, not in time.
    payments.sort(key=lambda payment: payment.time + rng.choice([0, 0, 600]))
    return orders, payments


def join_with_sqlite(orders, payments):
    connection = sqlite3.connect(":memory:")
    connection.execute("create table orders (time integer, order_id integer, amount real)")
    connection.execute("create table payments (time integer, order_id integer, method text)")
    connection.executemany("insert into orders values (?, ?, ?)", orders)
    connection.executemany("insert into payments values (?, ?, ?)", payments)
    rows = connection.execute(
        "select o.order_id, o.amount, o.time, p.time, p.method from orders o left join payments p"
        " on p.order_id = o.order_id and p.time - o.time between 0 and 3600"
    ).fetchall()
    connection.close()
    return sorted(rows, key=str)


def write_files(home, orders, payments, parts):
    for folder in ("orders", "payments"):
        (home / folder).mkdir()
    for number in range(parts):
        some = orders[len(orders) * number // parts : len(orders) * (number + 1) // parts]
        with (home / "orders" / f"{number}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Order._fields)
            writer.writerows(some)
        some = payments[len(payments) * number // parts : len(payments) * (number + 1) // parts]
        lines = [json.dumps(payment._asdict()) + "\n" for payment in some]
        (home / "payments" / f"{number}.jsonl").write_text("".join(lines))


def list_sources(home, **options):
    return [
        Files(home / "orders", format="csv", event=Order, **options),
        Files(home / "payments", format="json", event=Payment, lateness=600, **options),
    ]


@pytest.fixture
def shop(tmp_path):
    orders, payments = make_rows(random.Random(11))
    write_files(tmp_path, orders, payments, 3)
    expected = join_with_sqlite(orders, payments)
    assert any(row[3] is None for row in expected)
    assert len(expected) > len(orders), "an order has two payments"
    # Orders come in order, payments up to 600 s late; another of the last time may still come.
    reached = min(orders[-1].time, max(payment.time for payment in payments) - 600) - 1
    return tmp_path, expected, reached


def test_oracle_without_spark_it_is_a_left_join(shop):
    home, expected, _ = shop
    answer = run(paid_orders, list_sources(home), on="reference")
    assert (answer.late, answer.rejected) == ([], [])
    assert sorted((tuple(row) for row in answer.values), key=str) == expected


@pytest.mark.spark
def test_oracle_a_finished_input_on_spark_is_a_left_join(spark, shop):
    home, expected, _ = shop
    outputs = run(paid_orders, list_sources(home, ended=True), on=spark, shards=3).outputs
    types = {field.name: field.dataType.simpleString() for field in outputs.schema}
    assert types == {
        "id": "string", "time": "bigint", "op": "int", "order_id": "bigint", "amount": "double",
        "ordered": "bigint", "paid": "bigint", "method": "string",
    }  # fmt: skip
    found = outputs.select(*Row._fields).collect()
    assert sorted((tuple(row) for row in found), key=str) == expected


@pytest.mark.spark
def test_oracle_a_stream_has_the_rows_that_no_later_payment_can_change(spark, shop):
    home, expected, reached = shop
    result = run(paid_orders, list_sources(home, files_per_batch=1), on=spark, shards=2)
    write_directory(
        result, output=home / "out", checkpoint=home / "checkpoint", available_now=True
    ).awaitTermination()
    # A pair is known at its payment, an order without one when its hour is over.
    known = [row for row in expected if (row[2] + HOUR if row[3] is None else row[3]) <= reached]
    found = read_outputs(spark, home / "out").select(*Row._fields).collect()
    assert sorted((tuple(row) for row in found), key=str) == known
    assert 0 < len(known) < len(expected)
    assert read_late(spark, home / "out").count() == 0
