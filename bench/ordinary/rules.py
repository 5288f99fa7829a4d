"""Rules per key in Python: records and numbers as state, outputs now and then, in order of time.

The PySpark side sorts the rows of a key within a batch. It would be wrong where rows of two batches overlap in
time, so these inputs are in order.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

from anabranch import Program, depends, on
from anabranch.state import Count, MapOf, Value
from bench.ordinary.cases import CLOSING, Case, Input, Row, Tables, after, by_time, draw_times


def fold_in_pandas(
    read: Callable[[str], Any],
    key: str | tuple[str, ...],
    step: Callable[[Any, Any], tuple[Any, Row | None]],
    *,
    table: str,
    schema: str,
) -> Any:
    """Fold each key with `applyInPandasWithState`: state as JSON, rows of a batch sorted by time."""
    import pandas as pd

    names = [field.split()[0] for field in schema.split(", ")]

    def fold(_: Any, frames: Any, state: Any) -> Any:
        held = json.loads(state.get[0]) if state.exists else None
        emitted = []
        for row in pd.concat(list(frames)).sort_values("time").itertuples(index=False):
            held, output = step(held, row)
            if output is not None:
                emitted.append(output)
        state.update((json.dumps(held),))
        if emitted:
            yield pd.DataFrame(emitted, columns=names)

    grouped = read(table).groupBy(*([key] if isinstance(key, str) else key))
    return grouped.applyInPandasWithState(fold, schema, "held string", "append", "NoTimeout")


# --- A fraud rule ---------------------------------------------------------------------------------


class Payment(NamedTuple):
    time: datetime
    id: str
    account: str
    cents: int


class Account(NamedTuple):
    """What the rule remembers of an account: its last small payment, and how many alerts it had."""

    tried: datetime | None = None
    alerts: int = 0


class Alert(NamedTuple):
    account: str
    payment: str
    cents: int
    alerts: int


MINUTE = timedelta(minutes=1)


def is_suspicious(account: Account, payment: Payment) -> bool:
    """Return whether a large payment follows a small one within a minute."""
    return (
        payment.cents >= 50_000
        and account.tried is not None
        and payment.time - account.tried <= MINUTE
    )


def warn(account: Account, payment: Payment) -> Alert | None:
    """Return an alert of a suspicious payment."""
    if not is_suspicious(account, payment):
        return None
    return Alert(payment.account, payment.id, payment.cents, account.alerts + 1)


def note(account: Account, payment: Payment) -> Account:
    """Return what is remembered after a payment."""
    alerts = account.alerts + is_suspicious(account, payment)
    return Account(payment.time if payment.cents < 100 else None, alerts)


def draw_payments(n: int, rng: Random) -> Tables:
    """Draw payments of some hundred accounts: small, large and in between."""
    rows = []
    for number, time in enumerate(draw_times(n, rng)):
        cents = rng.choice([rng.randrange(1, 100), rng.randrange(50_000, 90_000), 700])
        account = f"account-{rng.randrange(max(5, min(2000, n // 100)))}"
        rows.append({"time": time, "id": f"p{number}", "account": account, "cents": cents})
    closing = {"time": after(rows, 3600), "id": CLOSING, "account": CLOSING, "cents": 0}
    return {"payments": [*rows, closing]}


def find_alerts(tables: Tables) -> Iterator[Row]:
    """Yield the alerts."""
    tried: dict[str, datetime] = {}
    count: dict[str, int] = defaultdict(int)
    for row in by_time(tables["payments"]):
        account, time = row["account"], row["time"]
        small = tried.pop(account, None)
        if row["cents"] < 100:
            tried[account] = time
        elif row["cents"] >= 50_000 and small and (time - small).total_seconds() <= 60:
            count[account] += 1
            yield account, row["id"], row["cents"], count[account]


def step_payment(held: Any, row: Any) -> tuple[Any, Row | None]:
    """Do the rule on a row of pandas."""
    tried, alerts = held or (None, 0)
    moment = row.time.timestamp()
    output = None
    if row.cents >= 50_000 and tried is not None and moment - tried <= 60:
        alerts += 1
        output = (row.account, row.id, row.cents, alerts)
    return (moment if row.cents < 100 else None, alerts), output


fraud_rule = Case(
    name="fraud_rule",
    title="a rule per account on JSON rows: a record as state, alerts as outputs",
    program=Program(
        on(Payment, update=note, output=warn),
        depends(Payment, Payment, same="account"),
        state=MapOf(Value(Account()), by="account"),
        name="fraud_rule",
    ),
    inputs={"payments": Input("time timestamp, id string, account string, cents long", "json")},
    columns=("account", "payment", "cents", "alerts"),
    draw=draw_payments,
    answer=find_alerts,
    pyspark=lambda read: fold_in_pandas(
        read,
        "account",
        step_payment,
        table="payments",
        schema="account string, payment string, cents long, alerts long",
    ),
    note="PySpark sorts a batch; it is wrong if batches overlap in time",
)


# --- Running balances in decimals -----------------------------------------------------------------


class Transfer(NamedTuple):
    time: datetime
    account: str
    amount: Decimal


class Balance(NamedTuple):
    account: str
    amount: Decimal
    balance: Decimal


def show_balance(balance: Decimal, transfer: Transfer) -> Balance:
    """Return the balance after a transfer."""
    return Balance(transfer.account, transfer.amount, balance + transfer.amount)


def draw_transfers(n: int, rng: Random) -> Tables:
    """Draw transfers in cents, of 1,000 accounts."""
    rows = [
        {
            "time": time,
            "account": f"account-{rng.randrange(1000)}",
            "amount": Decimal(rng.randrange(-99_999, 100_000)) / 100,
        }
        for time in draw_times(n, rng)
    ]
    closing = {"time": after(rows, 3600), "account": CLOSING, "amount": Decimal("99999.99")}
    return {"transfers": [*rows, closing]}


def find_balances(tables: Tables) -> Iterator[Row]:
    """Yield the balance after each transfer."""
    balances: dict[str, Decimal] = defaultdict(Decimal)
    for row in by_time(tables["transfers"]):
        balances[row["account"]] += row["amount"]
        yield row["account"], row["amount"], balances[row["account"]]


def step_transfer(held: Any, row: Any) -> tuple[Any, Row | None]:
    """Add a row of pandas."""
    balance = Decimal(held or "0") + row.amount
    return str(balance), (row.account, row.amount, balance)


running_balance = Case(
    name="running_balance",
    title="the balance after each transfer, in decimals",
    program=Program(
        on(
            Transfer,
            update=lambda balance, transfer: balance + transfer.amount,
            output=show_balance,
        ),
        depends(Transfer, Transfer, same="account"),
        state=MapOf(Value(Decimal(0)), by="account"),
        name="running_balance",
    ),
    inputs={"transfers": Input("time timestamp, account string, amount decimal(18,2)")},
    columns=("account", "amount", "balance"),
    draw=draw_transfers,
    answer=find_balances,
    pyspark=lambda read: fold_in_pandas(
        read,
        "account",
        step_transfer,
        table="transfers",
        schema="account string, amount decimal(18,2), balance decimal(18,2)",
    ),
    note="PySpark sorts a batch; it is wrong if batches overlap in time",
)


# --- A moving average with alerts, from CSV -------------------------------------------------------


class Tick(NamedTuple):
    time: datetime
    symbol: str
    price: float


class Trend(NamedTuple):
    """The smoothed price, and the number of ticks; none before the first."""

    smooth: float = 0.0
    ticks: int = 0


class Jump(NamedTuple):
    symbol: str
    time: datetime
    price: float
    smooth: float


def follow(trend: Trend, tick: Tick) -> Trend:
    """Return the trend after a tick."""
    if trend.ticks == 0:
        return Trend(tick.price, 1)
    return Trend(0.1 * tick.price + 0.9 * trend.smooth, trend.ticks + 1)


def find_jump(trend: Trend, tick: Tick) -> Jump | None:
    """Return the jump of a price that is 5 % off its trend."""
    if trend.ticks < 10 or abs(tick.price - trend.smooth) < 0.05 * trend.smooth:
        return None
    return Jump(tick.symbol, tick.time, tick.price, trend.smooth)


def draw_ticks(n: int, rng: Random) -> Tables:
    """Draw prices of 200 symbols, some of them far off."""
    rows = []
    for time in draw_times(n, rng):
        symbol = rng.randrange(min(200, max(2, n // 50)))
        price = 20 + symbol + rng.random() * (20 if rng.random() < 0.02 else 1)
        rows.append({"time": time, "symbol": f"S{symbol}", "price": price})
    return {"ticks": [*rows, {"time": after(rows, 3600), "symbol": CLOSING, "price": 1.0}]}


def list_jumps(tables: Tables) -> Iterator[Row]:
    """Yield the jumps."""
    smooth: dict[str, tuple[float, int]] = {}
    for row in by_time(tables["ticks"]):
        symbol, price = row["symbol"], row["price"]
        last, ticks = smooth.get(symbol, (price, 0))
        if ticks >= 10 and abs(price - last) >= 0.05 * last:
            yield symbol, row["time"], price, last
        smooth[symbol] = (0.1 * price + 0.9 * last if ticks else price, ticks + 1)


def step_tick(held: Any, row: Any) -> tuple[Any, Row | None]:
    """Follow a row of pandas."""
    last, ticks = held or (row.price, 0)
    jumped = ticks >= 10 and abs(row.price - last) >= 0.05 * last
    now = 0.1 * row.price + 0.9 * last if ticks else row.price
    return (now, ticks + 1), (row.symbol, row.time, row.price, last) if jumped else None


price_jumps = Case(
    name="price_jumps",
    title="prices 5 % off their moving average, CSV",
    program=Program(
        on(Tick, update=follow, output=find_jump),
        depends(Tick, Tick, same="symbol"),
        state=MapOf(Value(Trend()), by="symbol"),
        name="price_jumps",
    ),
    inputs={"ticks": Input("time timestamp, symbol string, price double", "csv")},
    columns=("symbol", "time", "price", "smooth"),
    draw=draw_ticks,
    answer=list_jumps,
    pyspark=lambda read: fold_in_pandas(
        read,
        "symbol",
        step_tick,
        table="ticks",
        schema="symbol string, time timestamp, price double, smooth double",
    ),
    note="PySpark sorts a batch; it is wrong if batches overlap in time",
)


# --- Time to live ---------------------------------------------------------------------------------


class Visit(NamedTuple):
    time: datetime
    user: str


class Nth(NamedTuple):
    user: str
    time: datetime
    n: int


def count_visit(n: int, visit: Visit) -> Nth:
    """Return the number of a visit."""
    return Nth(visit.user, visit.time, n + 1)


def draw_visits(n: int, rng: Random) -> Tables:
    """Draw visits: a user pauses for longer than an entry lives, now and then."""
    rows = []
    for time in draw_times(n, rng):
        group = int(time.timestamp()) // 120 % 5
        user = f"user-{rng.randrange(group * 100, group * 100 + max(3, min(100, n // 100)))}"
        rows.append({"time": time, "user": user})
    return {"visits": [*rows, {"time": after(rows, 3600), "user": CLOSING}]}


def number_visits(tables: Tables) -> Iterator[Row]:
    """Yield the number of each visit; a user that was away for a minute begins again."""
    seen: dict[str, tuple[datetime, int]] = {}
    for row in by_time(tables["visits"]):
        last, n = seen.get(row["user"], (row["time"], 0))
        n = 1 if (row["time"] - last).total_seconds() >= 60 else n + 1
        seen[row["user"]] = (row["time"], n)
        yield row["user"], row["time"], n


def step_visit(held: Any, row: Any) -> tuple[Any, Row | None]:
    """Count a row of pandas."""
    moment = row.time.timestamp()
    last, n = held or (moment, 0)
    n = 1 if moment - last >= 60 else n + 1
    return (moment, n), (row.user, row.time, n)


visits_with_ttl = Case(
    name="visits_with_ttl",
    title="the number of each visit, forgotten after a minute (TTL in event time)",
    program=Program(
        on(Visit, update=lambda n, visit: n + 1, output=count_visit),
        depends(Visit, Visit, same="user"),
        state=MapOf(Count(), by="user", ttl="1 min"),
        name="visits_with_ttl",
    ),
    inputs={"visits": Input("time timestamp, user string")},
    columns=("user", "time", "n"),
    draw=draw_visits,
    answer=number_visits,
    pyspark=lambda read: fold_in_pandas(
        read,
        "user",
        step_visit,
        table="visits",
        schema="user string, time timestamp, n long",
    ),
    note="Spark's own TTL goes by the clock of the machine; here its state is never removed",
)

CASES = (fraud_rule, running_balance, price_jumps, visits_with_ttl)
