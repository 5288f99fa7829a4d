"""Collections as state, timers, and reports over all keys."""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from anabranch import Program, depends, on
from anabranch.state import Count as Counted
from anabranch.state import Dictionary, ListOf, MapOf, Sum, Value
from bench.ordinary.cases import CLOSING, Case, Input, Row, Tables, after, by_time, draw_times
from bench.ordinary.rules import fold_in_pandas

SORTED = "PySpark sorts a batch; it is wrong if batches overlap in time"

# --- The last ten values of a device --------------------------------------------------------------


class Sample(NamedTuple):
    time: datetime
    device: str
    value: int


class Outlier(NamedTuple):
    device: str
    time: datetime
    value: int
    recent: list[int]


recent = ListOf(last=10)


def find_outlier(values: tuple[int, ...], sample: Sample) -> Outlier | None:
    """Return a sample that is above twice the mean of the last ten."""
    if len(values) < 10 or sample.value * 10 <= 2 * sum(values):
        return None
    return Outlier(sample.device, sample.time, sample.value, list(values))


def draw_samples(n: int, rng: Random) -> Tables:
    """Draw samples of 200 devices, one in fifty far off."""
    devices = min(200, max(2, n // 60))
    rows = [
        {
            "time": time,
            "device": f"device-{rng.randrange(devices)}",
            "value": rng.randrange(50, 70) * (3 if rng.random() < 0.02 else 1),
        }
        for time in draw_times(n, rng)
    ]
    return {"samples": [*rows, {"time": after(rows, 60), "device": CLOSING, "value": 0}]}


def list_outliers(tables: Tables) -> Iterator[Row]:
    """Yield the outliers."""
    held: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=10))
    for row in by_time(tables["samples"]):
        values = held[row["device"]]
        if len(values) == 10 and row["value"] > 2 * sum(values) / 10:
            yield row["device"], row["time"], row["value"], tuple(values)
        values.append(row["value"])


def step_sample(held: Any, row: Any) -> tuple[Any, Row | None]:
    """Fold a row of pandas."""
    values = held or []
    value = int(row.value)
    found = len(values) == 10 and value * 10 > 2 * sum(values)
    output = (row.device, row.time, value, values) if found else None
    return [*values, value][-10:], output


outliers = Case(
    name="outliers",
    title="samples above twice the mean of a device's last ten (a list as state)",
    program=Program(
        on(
            Sample,
            update=lambda values, sample: recent.add(values, sample.value),
            output=find_outlier,
        ),
        depends(Sample, Sample, same="device"),
        state=MapOf(recent, by="device"),
        name="outliers",
    ),
    inputs={"samples": Input("time timestamp, device string, value long")},
    columns=("device", "time", "value", "recent"),
    draw=draw_samples,
    answer=list_outliers,
    pyspark=lambda read: fold_in_pandas(
        read,
        "device",
        step_sample,
        table="samples",
        schema="device string, time timestamp, value long, recent array<long>",
    ),
    note=SORTED,
)


# --- The favourite page of a user -----------------------------------------------------------------


class PageView(NamedTuple):
    time: datetime
    user: str
    page: str


class Favourite(NamedTuple):
    user: str
    time: datetime
    page: str
    views: int


pages = Dictionary(Counted())


def find_favourite(counts: Mapping[str, int], view: PageView) -> Favourite | None:
    """Return the page of a view if it becomes the only favourite of its user."""
    now = counts.get(view.page, 0) + 1
    others = [n for page, n in counts.items() if page != view.page]
    if now != max(others, default=0) + 1:
        return None
    return Favourite(view.user, view.time, view.page, now)


def draw_views(n: int, rng: Random) -> Tables:
    """Draw views of 12 pages by 300 users."""
    rows = [
        {
            "time": time,
            "user": f"user-{rng.randrange(300)}",
            "page": f"page-{min(rng.randrange(12), rng.randrange(12))}",
        }
        for time in draw_times(n, rng)
    ]
    return {"views": [*rows, {"time": after(rows, 60), "user": CLOSING, "page": CLOSING}]}


def list_favourites(tables: Tables) -> Iterator[Row]:
    """Yield the views that change a favourite."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in by_time(tables["views"]):
        mine = counts[row["user"]]
        mine[row["page"]] += 1
        most = max((n for page, n in mine.items() if page != row["page"]), default=0)
        if mine[row["page"]] == most + 1:
            yield row["user"], row["time"], row["page"], mine[row["page"]]


def step_view(held: Any, row: Any) -> tuple[Any, Row | None]:
    """Fold a row of pandas."""
    counts = dict(held or {})
    counts[row.page] = counts.get(row.page, 0) + 1
    most = max((n for page, n in counts.items() if page != row.page), default=0)
    changed = counts[row.page] == most + 1
    return counts, (row.user, row.time, row.page, counts[row.page]) if changed else None


favourites = Case(
    name="favourites",
    title="when a page becomes the favourite of a user (a dictionary as state)",
    program=Program(
        on(
            PageView,
            update=lambda counts, view: pages.add(counts, view.page),
            output=find_favourite,
        ),
        depends(PageView, PageView, same="user"),
        state=MapOf(pages, by="user"),
        name="favourites",
    ),
    inputs={"views": Input("time timestamp, user string, page string", "json")},
    columns=("user", "time", "page", "views"),
    draw=draw_views,
    answer=list_favourites,
    pyspark=lambda read: fold_in_pandas(
        read,
        "user",
        step_view,
        table="views",
        schema="user string, time timestamp, page string, views long",
    ),
    note=SORTED,
)


# --- Abandoned carts, by a timer ------------------------------------------------------------------


class Step(NamedTuple):
    time: datetime
    cart: str
    action: str
    cents: int


class Cart(NamedTuple):
    """The value of an open cart and its last step; none is open before the first and after a payment."""

    last: datetime | None = None
    cents: int = 0


class Abandonment(NamedTuple):
    time: datetime
    cart: str


class Abandoned(NamedTuple):
    cart: str
    last: datetime
    cents: int


WAIT_S = 60


def take_step(cart: Cart, step: Step) -> Cart:
    """Return the cart after a step."""
    return Cart() if step.action == "pay" else Cart(step.time, cart.cents + step.cents)


def find_due(cart: Cart) -> datetime | None:
    """Return when an open cart is given up."""
    return None if cart.last is None else cart.last + timedelta(seconds=WAIT_S)


def give_up(cart: Cart, timer: Abandonment) -> Abandoned | None:
    """Return a cart that nothing was added to for a minute."""
    return None if cart.last is None else Abandoned(timer.cart, cart.last, cart.cents)


def draw_steps(n: int, rng: Random) -> Tables:
    """Draw steps of carts: a few at a time, and paid in two cases of three."""
    rows = []
    for time in draw_times(n, rng):
        group = int(time.timestamp()) // 100
        cart = f"cart-{group}-{rng.randrange(max(2, n // 400))}"
        action = "pay" if rng.random() < 0.15 else "add"
        cents = 0 if action == "pay" else rng.randrange(1, 9_999)
        rows.append({"time": time, "cart": cart, "action": action, "cents": cents})
    closing = {"time": after(rows, 3600), "cart": CLOSING, "action": "pay", "cents": 0}
    return {"steps": [*rows, closing]}


def list_abandoned(tables: Tables) -> Iterator[Row]:
    """Yield the carts that stayed as they were for a minute."""
    open_carts: dict[str, tuple[datetime, int]] = {}
    for row in by_time(tables["steps"]):
        last, cents = open_carts.pop(row["cart"], (row["time"], 0))
        # A timer fires after all events of its time.
        if cents and (row["time"] - last).total_seconds() > WAIT_S:
            yield row["cart"], last, cents
            cents = 0
        if row["action"] == "add":
            open_carts[row["cart"]] = (row["time"], cents + row["cents"])
    for cart, (last, cents) in open_carts.items():
        yield cart, last, cents


def time_out_in_pandas(read: Callable[[str], Any]) -> Any:
    """Keep carts with `applyInPandasWithState` and a timeout by the watermark."""
    import pandas as pd

    columns = ["cart", "last", "cents"]

    def fold(key: Any, frames: Any, state: Any) -> Any:
        last, cents = json.loads(state.get[0]) if state.exists else (None, 0)
        emitted = []
        if state.hasTimedOut:
            emitted.append((key[0], pd.Timestamp(last, unit="us"), cents))
            state.remove()
        else:
            rows = pd.concat(list(frames)).sort_values("time")
            for row in rows.itertuples(index=False):
                moment = row.time.value // 1000
                if last is not None and moment - last > WAIT_S * 1_000_000:
                    emitted.append((key[0], pd.Timestamp(last, unit="us"), cents))
                    last, cents = None, 0
                last, cents = (None, 0) if row.action == "pay" else (moment, cents + int(row.cents))
            if last is None:
                state.remove()
            else:
                state.update((json.dumps((last, cents)),))
                due = last // 1000 + WAIT_S * 1000
                state.setTimeoutTimestamp(max(due, state.getCurrentWatermarkMs() + 1))
        if emitted:
            yield pd.DataFrame(emitted, columns=columns)

    grouped = read("steps").withWatermark("time", "0 seconds").groupBy("cart")
    return grouped.applyInPandasWithState(
        fold, "cart string, last timestamp, cents long", "held string", "append", "EventTimeTimeout"
    )


abandoned_carts = Case(
    name="abandoned_carts",
    title="carts that nothing was added to for a minute (timers)",
    program=Program(
        on(Step, update=take_step),
        on(Abandonment, due=find_due, output=give_up, update=lambda cart, timer: Cart()),
        depends(Step, Step, same="cart"),
        state=MapOf(Value(Cart()), by="cart"),
        name="abandoned_carts",
    ),
    inputs={"steps": Input("time timestamp, cart string, action string, cents long")},
    columns=("cart", "last", "cents"),
    draw=draw_steps,
    answer=list_abandoned,
    pyspark=time_out_in_pandas,
    note="PySpark's timeouts fire between batches; a gap within a batch has to be found by hand",
)


# --- A report over all keys -----------------------------------------------------------------------


class Trade(NamedTuple):
    time: datetime
    desk: str
    cents: int


class Report(NamedTuple):
    time: datetime
    name: str


class Turnover(NamedTuple):
    report: str
    cents: int


def draw_trades(n: int, rng: Random) -> Tables:
    """Draw trades, and a report every minute."""
    trades = [
        {"time": time, "desk": f"desk-{rng.randrange(20)}", "cents": rng.randrange(1_000_000)}
        for time in draw_times(n, rng)
    ]
    start = trades[0]["time"]
    minutes = int((trades[-1]["time"] - start).total_seconds() // 60)
    reports = [
        {"time": start + timedelta(minutes=m), "name": f"minute {m}"} for m in range(1, minutes + 2)
    ]
    trades.append({"time": after(trades, 3600), "desk": CLOSING, "cents": 0})
    return {"trades": trades, "reports": [*reports, {"time": after(trades, 0), "name": CLOSING}]}


def sum_turnovers(tables: Tables) -> Iterator[Row]:
    """Yield the sum between two reports; a report comes before trades of its time."""
    trades = by_time(tables["trades"])
    before = datetime.min.replace(tzinfo=trades[0]["time"].tzinfo)
    for report in by_time(tables["reports"]):
        until = report["time"]
        cents = sum(row["cents"] for row in trades if before <= row["time"] < until)
        yield report["name"], cents
        before = until


def sum_turnovers_on_spark(read: Callable[[str], Any]) -> Any:
    """Sum with Spark's own windows, which begin with the first minute as the reports do."""
    from pyspark.sql import functions as f

    trades = read("trades").withWatermark("time", "0 seconds")
    # A filter before the aggregate would be moved before the watermark, which the closing event moves.
    grouped = trades.groupBy(f.window("time", "1 minute"))
    minute = "concat('minute ', (unix_timestamp(window.end) - unix_timestamp('2026-07-01 12:00:00')) div 60)"
    summed = grouped.agg(f.sum("cents").alias("cents"), f.max("desk").alias("desk"))
    return summed.selectExpr(f"if(desk = '{CLOSING}', desk, {minute}) AS report", "cents")


turnover = Case(
    name="turnover",
    title="turnover of all desks between two reports (markers, one hot key)",
    program=Program(
        on(Trade, update=lambda total, trade: total + trade.cents),
        on(
            Report,
            output=lambda total, report: Turnover(report.name, total),
            update=lambda total, report: 0,
        ),
        depends(Report, Trade, Report),
        state=Sum(),
        outputs=Turnover,
        name="turnover",
    ),
    inputs={
        "trades": Input("time timestamp, desk string, cents long", options={"event": "Trade"}),
        "reports": Input("time timestamp, name string", options={"event": "Report"}),
    },
    columns=("report", "cents"),
    draw=draw_trades,
    answer=sum_turnovers,
    pyspark=sum_turnovers_on_spark,
    note="PySpark can't sum between events of another stream; its windows fit because reports come each minute",
)

CASES = (outliers, favourites, abandoned_carts, turnover)
