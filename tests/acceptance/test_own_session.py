"""Timestamps, decimals, nulls and nested fields from a session of the user's own into SQLite, exactly once by id."""

import os
import random
import sqlite3
import subprocess
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.acceptance.sizes import choose_size
from tests.conftest import clean_environment

pytestmark = pytest.mark.spark

# With Spark's own sink too, at full size.
TABLES = ["by_result", "by_frame"][: choose_size(small=1, full=2)]
JOB = Path(__file__).with_name("own_session_job.py")
ROWS, FILES = choose_size(small=300, full=20_000), 2
START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)  # Clocks change in Europe half an hour later.
PRICE = pa.decimal128(10, 2)
SCHEMA = pa.schema(
    {
        "at": pa.timestamp("us", "Europe/Berlin"),
        "number": pa.int64(),
        "customer": pa.struct({"name": pa.string(), "country": pa.string()}),
        "price": PRICE,
        "discount": PRICE,
        "pieces": pa.int64(),
        "seq": pa.int64(),
    }
)


def make_rows(rng):
    """Return invoices in order of arrival, each at most 40 s behind the others."""
    rows = []
    for number in range(ROWS):
        moment = START + timedelta(
            seconds=10 * number - rng.choice([0, 0, 0, 40]), microseconds=number
        )
        customer = {"name": rng.choice("abcde"), "country": rng.choice(["DE", None])}
        rows.append(
            {
                "at": moment,
                "number": number,
                "customer": customer,
                "price": Decimal(rng.randrange(1, 10**6)) / 100,
                "discount": rng.choice([None, Decimal("0.01")]),
                "pieces": rng.choice([None, 0, 3]),
                "seq": number,
            }
        )
    return rows


def find_bills(rows):
    """Return each invoice with its customer's total so far, of those that the watermark has passed."""
    last = max(row["at"] for row in rows) - timedelta(minutes=1)
    totals, bills = {}, []
    for row in sorted(rows, key=lambda row: (row["at"], row["number"])):
        if row["at"] >= last:
            break
        who = row["customer"]["name"], row["customer"]["country"]
        pieces = 1 if row["pieces"] is None else row["pieces"]
        totals[who] = totals.get(who, 0) + (row["price"] - (row["discount"] or 0)) * pieces
        micros = (row["at"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        bills.append((row["number"], micros, *who, totals[who], row["pieces"]))
    return sorted(bills)


def test_oracle_a_batch_that_comes_again_is_in_the_database_once(installed, tmp_path):
    rows = make_rows(random.Random(3))
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        part = rows[ROWS * number // FILES : ROWS * (number + 1) // FILES]
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(part, SCHEMA), file)
        os.utime(file, (number, number))  # Spark reads files by age.
    database = tmp_path / "bills.sqlite"
    arguments = [tmp_path / "in", database, tmp_path / "checkpoints", *TABLES]
    # As in an active environment: workers run the `python3` that the path finds.
    path = f"{installed}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [installed / "python", JOB, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(PATH=path, TZ="America/New_York"),
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr[-20_000:]
    expected = find_bills(rows)
    with sqlite3.connect(database) as connection:
        for table in TABLES:
            assert (tmp_path / f"bills.sqlite.{table}.crashed").exists()
            found = connection.execute(
                f"select number, at, name, country, total, pieces from {table} order by number"
            ).fetchall()
            assert [(*row[:4], Decimal(row[4]), row[5]) for row in found] == expected
            batches = f"select distinct batch from {table} order by batch"
            assert len(connection.execute(batches).fetchall()) == FILES
    connection.close()
