"""Invoices per customer in a session of one's own, into SQLite; a stranger's session, with none of our settings.

Arguments: input, database, checkpoints, tables. The first time that each query writes its second batch, it fails after
the rows are committed; so the batch comes again.
"""

import sqlite3
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from anabranch import EventTime, Program, depends, on
from anabranch.sinks import for_each_batch
from anabranch.spark import Frame, run
from anabranch.state import MapOf, Value


class Customer(NamedTuple):
    name: str
    country: str | None


class Invoice(NamedTuple):
    at: EventTime[datetime]
    number: int
    customer: Customer
    price: Decimal
    discount: Decimal | None
    pieces: int | None


class Total(NamedTuple):
    price: Decimal = Decimal(0)
    unpriced: int = 0


class Bill(NamedTuple):
    number: int
    at: datetime
    customer: Customer
    total: Decimal
    pieces: int | None


def price(invoice: Invoice) -> Decimal:
    return (invoice.price - (invoice.discount or 0)) * (
        1 if invoice.pieces is None else invoice.pieces
    )


def add(total: Total, invoice: Invoice) -> Total:
    return Total(total.price + price(invoice), total.unpriced + (invoice.pieces is None))


def bill(total: Total, invoice: Invoice) -> Bill:
    sum_ = add(total, invoice).price
    return Bill(invoice.number, invoice.at, invoice.customer, sum_, invoice.pieces)


invoices = Program(
    on(Invoice, update=add, output=bill),
    depends(Invoice, Invoice, same="customer"),
    state=MapOf(Value(Total()), by="customer"),
)


class CrashError(Exception):
    """What happens to the job after a batch is in the database, and before Spark knows."""


def write(database, table, rows, number):
    """Write a batch: a row that is there already stays as it is."""
    with sqlite3.connect(database) as connection:
        connection.execute(
            f"create table if not exists {table}"
            " (id text primary key, number, at, name, country, total, pieces, batch)"
        )
        connection.executemany(
            f"insert or ignore into {table} values (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (row.id, row.number, row.micros, row.customer.name, row.customer.country,
                 str(row.total), row.pieces, number)
                for row in rows.selectExpr("*", "unix_micros(at) AS micros").collect()
            ],
        )  # fmt: skip
    mark = Path(f"{database}.{table}.crashed")
    if number == 1 and not mark.exists():
        mark.touch()
        raise CrashError(table)


def open_source(spark, folder):
    schema = (
        "at timestamp, number long, customer struct<name string, country string>,"
        " price decimal(10,2), discount decimal(10,2), pieces long, seq long"
    )
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
    return Frame(frame, event=Invoice, seq="seq", lateness="1 min")


def start_with_result(spark, folder, database, checkpoint):
    return for_each_batch(
        run(invoices, open_source(spark, folder), spark=spark, shards=2),
        lambda batch, number: write(database, "by_result", batch.outputs, number),
        checkpoint=f"{checkpoint}/by_result",
        available_now=True,
    )


def start_with_frame(spark, folder, database, checkpoint):
    # A query that Spark starts has Spark's 200 tasks, unless it is told otherwise.
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    result = run(invoices, open_source(spark, folder), spark=spark, shards=2)
    writer = result.outputs.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{checkpoint}/by_frame")
    return writer.foreachBatch(
        lambda rows, number: write(database, "by_frame", rows, number)
    ).start()


if __name__ == "__main__":
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    starts = {"by_result": start_with_result, "by_frame": start_with_frame}
    *places, first = sys.argv[1:5]
    for table in (first, *sys.argv[5:]):
        for _ in ("until it crashes", "to the end"):
            query = starts[table](spark, *places)
            try:
                query.awaitTermination()
            except Exception as error:
                if CrashError.__name__ not in str(error):
                    raise
    spark.stop()
