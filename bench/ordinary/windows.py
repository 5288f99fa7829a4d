"""Windows as users write them: timestamps, string keys, and the aggregates that every team needs."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from anabranch.state import Count, Distinct, ExactMean, Latest, Max, Min, Sum, TopK
from anabranch.windows import AfterCount, AfterWatermark, Sessions, Sliding, Tumbling, Windowing
from anabranch.windows import aggregate as aggregate_windows
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
    list_windows,
)

Held = dict[tuple[Any, ...], list[dict[str, Any]]]


def hold(tables: Tables, table: str, key: str, size: float, every: float) -> Held:
    """Return the rows of each window: the oracle of all windows on a grid."""
    held: Held = defaultdict(list)
    for row in by_time(tables[table]):
        for window in list_windows(row["time"], size, every):
            held[row[key], *window].append(row)
    return held


class Purchase(NamedTuple):
    time: datetime
    user: str
    amount: int


def draw_purchases(n: int, rng: Random) -> Tables:
    """Draw purchases of 500 users that come up to some seconds late."""
    rows = [
        {"time": time, "user": f"user-{rng.randrange(500)}", "amount": rng.randrange(1, 500)}
        for time in draw_times(n, rng, late_s=LATE_S)
    ]
    return {"purchases": [*rows, {"time": after(rows, 7200), "user": CLOSING, "amount": 0}]}


PURCHASES = {"purchases": Input("time timestamp, user string, amount long", lateness=LATENESS)}


def sum_purchases(tables: Tables, size: float = 600, every: float = 60) -> Iterator[Row]:
    """Yield the count and the sum of each window."""
    for key, rows in hold(tables, "purchases", "user", size, every).items():
        yield (*key, len(rows), sum(row["amount"] for row in rows))


def window_purchases(read: Callable[[str], Any], size: str, every: str) -> Any:
    """Return counts and sums by Spark's own windows."""
    from pyspark.sql import functions as f

    grouped = (
        read("purchases")
        .withWatermark("time", WATERMARK)
        .groupBy("user", f.window("time", size, every))
    )
    summed = grouped.agg(f.count("*").alias("n"), f.sum("amount").alias("total"))
    return summed.select("user", "window.start", "window.end", "n", "total")


sliding_counts = Case(
    name="sliding_counts",
    title="count and sum per user, 10 min by 1 min",
    program=aggregate_windows(
        Purchase, Sliding("10 min", every="1 min"), per="user", n=Count(), total=(Sum(), "amount")
    ),
    inputs=PURCHASES,
    columns=("key", "start", "end", "value.n", "value.total"),
    draw=draw_purchases,
    answer=sum_purchases,
    pyspark=lambda read: window_purchases(read, "10 minutes", "1 minute"),
)


def take_on_time(rows: list[Row]) -> list[Row]:
    """Return the last pane of each window: of all, the one with the most events."""
    last: dict[Row, Row] = {}
    for row in rows:
        if row[:3] not in last or row[3] > last[row[:3]][3]:
            last[row[:3]] = row
    return list(last.values())


panes = Case(
    name="early_and_late_panes",
    title="the same by 10 min, a pane per 20 events, and late panes",
    program=aggregate_windows(
        Purchase,
        Windowing(
            Tumbling("10 min"),
            AfterWatermark(early=AfterCount(20), late=AfterCount(1)),
            accumulation="accumulating",
            allowed_lateness="1 min",
        ),
        per="user",
        n=Count(),
        total=(Sum(), "amount"),
    ),
    inputs=PURCHASES,
    columns=("key", "start", "end", "value.n", "value.total"),
    draw=draw_purchases,
    answer=lambda tables: sum_purchases(tables, 600, 600),
    pyspark=lambda read: window_purchases(read, "10 minutes", "10 minutes"),
    mode="update",
    choose=take_on_time,
    note="the last pane of each window is compared; Spark emits a pane per batch, whatever the batch holds",
)


class Status(Enum):
    OK = "ok"
    REDIRECT = "redirect"
    CLIENT_ERROR = "client error"
    SERVER_ERROR = "server error"
    CLOSED = CLOSING


class Request(NamedTuple):
    time: datetime
    status: Status
    millis: int


def draw_requests(n: int, rng: Random) -> Tables:
    """Draw requests, most of them fine."""
    words = ["ok"] * 20 + ["redirect"] * 3 + ["client error"] * 2 + ["server error"]
    rows = [
        {"time": time, "status": rng.choice(words), "millis": rng.randrange(2, 900)}
        for time in draw_times(n, rng, late_s=LATE_S)
    ]
    return {"requests": [*rows, {"time": after(rows, 600), "status": CLOSING, "millis": 0}]}


def count_requests(tables: Tables) -> Iterator[Row]:
    """Yield the requests and the slowest one, per status and minute."""
    for (key, start, _), rows in hold(tables, "requests", "status", 60, 60).items():
        yield key, start, len(rows), max(row["millis"] for row in rows)


def window_requests(read: Callable[[str], Any]) -> Any:
    """Count with Spark's own windows."""
    from pyspark.sql import functions as f

    grouped = (
        read("requests")
        .withWatermark("time", WATERMARK)
        .groupBy("status", f.window("time", "1 minute"))
    )
    counted = grouped.agg(f.count("*").alias("n"), f.max("millis").alias("slowest"))
    return counted.select("status", "window.start", "n", "slowest")


tumbling_enum = Case(
    name="count_by_enum",
    title="requests and the slowest one per status (an enum), tumbling 1 min, JSON",
    program=aggregate_windows(
        Request, Tumbling("1 min"), per="status", n=Count(), slowest=(Max(), "millis")
    ),
    inputs={
        "requests": Input(
            "time timestamp, status string, millis long", format="json", lateness=LATENESS
        )
    },
    columns=("key", "start", "value.n", "value.slowest"),
    draw=draw_requests,
    answer=count_requests,
    pyspark=window_requests,
)


class Sale(NamedTuple):
    time: datetime
    category: str
    price: float


def draw_sales(n: int, rng: Random) -> Tables:
    """Draw sales of 40 categories, with prices in floats."""
    rows = [
        {"time": t, "category": f"category-{rng.randrange(40)}", "price": rng.random() * 100}
        for t in draw_times(n, rng, late_s=LATE_S)
    ]
    return {"sales": [*rows, {"time": after(rows, 3600), "category": CLOSING, "price": 0.0}]}


def average_sales(tables: Tables) -> Iterator[Row]:
    """Yield the mean and the smallest price per category and five minutes."""
    from math import fsum

    for (key, start, _), rows in hold(tables, "sales", "category", 300, 300).items():
        prices = [row["price"] for row in rows]
        yield key, start, fsum(prices) / len(prices), min(prices)


def window_sales(read: Callable[[str], Any]) -> Any:
    """Average with Spark's own windows."""
    from pyspark.sql import functions as f

    grouped = (
        read("sales")
        .withWatermark("time", WATERMARK)
        .groupBy("category", f.window("time", "5 minutes"))
    )
    averaged = grouped.agg(f.avg("price").alias("mean"), f.min("price").alias("low"))
    return averaged.select("category", "window.start", "mean", "low")


mean_by_category = Case(
    name="mean_by_category",
    title="exact mean of floats per category, tumbling 5 min",
    program=aggregate_windows(
        Sale, Tumbling("5 min"), per="category", mean=(ExactMean(), "price"), low=(Min(), "price")
    ),
    inputs={"sales": Input("time timestamp, category string, price double", lateness=LATENESS)},
    columns=("key", "start", "value.mean", "value.low"),
    draw=draw_sales,
    answer=average_sales,
    pyspark=window_sales,
    note="Spark's mean differs in the last bits from run to run; compared to 1e-9",
)


class Click(NamedTuple):
    time: datetime
    user: str
    page: str


def draw_clicks(n: int, rng: Random) -> Tables:
    """Draw visits of users: clicks some seconds apart, then a long pause."""
    rows = []
    for time in draw_times(n, rng, late_s=LATE_S):
        group = int(time.timestamp()) // 120 % 10
        user = f"user-{rng.randrange(group * 40, group * 40 + 40)}"
        rows.append({"time": time, "user": user, "page": f"page-{rng.randrange(30)}"})
    return {"clicks": [*rows, {"time": after(rows, 7200), "user": CLOSING, "page": CLOSING}]}


CLICKS = {"clicks": Input("time timestamp, user string, page string", lateness=LATENESS)}
GAP_S = 30


def find_sessions(tables: Tables) -> Iterator[Row]:
    """Yield the clicks of each session: less than 30 s apart."""
    by_user = defaultdict(list)
    for row in by_time(tables["clicks"]):
        by_user[row["user"]].append(row["time"])
    for user, times in by_user.items():
        first, last, n = times[0], times[0], 1
        for time in times[1:]:
            if (time - last).total_seconds() >= GAP_S:
                yield user, first, n
                first, n = time, 0
            last, n = time, n + 1
        yield user, first, n


def window_sessions(read: Callable[[str], Any]) -> Any:
    """Count with Spark's session windows."""
    from pyspark.sql import functions as f

    clicks = read("clicks").withWatermark("time", WATERMARK)
    counted = clicks.groupBy("user", f.session_window("time", f"{GAP_S} seconds")).count()
    return counted.select("user", "session_window.start", "count")


sessions = Case(
    name="sessions",
    title="clicks per session of a user, 30 s apart",
    program=aggregate_windows(Click, Sessions(f"{GAP_S} s"), per="user", n=Count()),
    inputs=CLICKS,
    columns=("key", "start", "value.n"),
    draw=draw_clicks,
    answer=find_sessions,
    pyspark=window_sessions,
)


def count_visitors(tables: Tables) -> Iterator[Row]:
    """Yield the number of different users per page and five minutes."""
    for (key, start, _), rows in hold(tables, "clicks", "page", 300, 300).items():
        yield key, start, len({row["user"] for row in rows})


def window_visitors(read: Callable[[str], Any]) -> Any:
    """Collect the users of each window: Spark has no exact distinct count on streams."""
    from pyspark.sql import functions as f

    clicks = read("clicks").withWatermark("time", WATERMARK)
    grouped = clicks.groupBy("page", f.window("time", "5 minutes"))
    counted = grouped.agg(f.size(f.collect_set("user")).alias("users"))
    return counted.select("page", "window.start", "users")


distinct_users = Case(
    name="distinct_users",
    title="different users per page, tumbling 5 min, exact",
    program=aggregate_windows(Click, Tumbling("5 min"), per="page", users=(Distinct(), "user")),
    inputs=CLICKS,
    columns=("key", "start", "value.users"),
    draw=draw_clicks,
    answer=count_visitors,
    pyspark=window_visitors,
)


class Score(NamedTuple):
    time: datetime
    game: str
    points: int


def draw_scores(n: int, rng: Random) -> Tables:
    """Draw points in 50 games."""
    rows = [
        {"time": time, "game": f"game-{rng.randrange(50)}", "points": rng.randrange(1_000_000)}
        for time in draw_times(n, rng, late_s=LATE_S)
    ]
    return {"scores": [*rows, {"time": after(rows, 3600), "game": CLOSING, "points": 0}]}


def find_best(tables: Tables) -> Iterator[Row]:
    """Yield the three best of each game and minute."""
    for (key, start, _), rows in hold(tables, "scores", "game", 60, 60).items():
        yield key, start, tuple(sorted((row["points"] for row in rows), reverse=True)[:3])


def window_best(read: Callable[[str], Any]) -> Any:
    """Collect all points of a window, sort them and take three: Spark has no top-k on streams."""
    from pyspark.sql import functions as f

    grouped = (
        read("scores")
        .withWatermark("time", WATERMARK)
        .groupBy("game", f.window("time", "1 minute"))
    )
    best = f.slice(f.sort_array(f.collect_list("points"), asc=False), 1, 3)
    return grouped.agg(best.alias("best")).select("game", "window.start", "best")


top_scores = Case(
    name="top_scores",
    title="the three best per game, tumbling 1 min",
    program=aggregate_windows(Score, Tumbling("1 min"), per="game", best=(TopK(3), "points")),
    inputs={"scores": Input("time timestamp, game string, points long", lateness=LATENESS)},
    columns=("key", "start", "value.best"),
    draw=draw_scores,
    answer=find_best,
    pyspark=window_best,
)


class Reading(NamedTuple):
    time: datetime
    device: str
    celsius: float


def draw_readings(n: int, rng: Random) -> Tables:
    """Draw readings of 300 devices."""
    rows = [
        {"time": time, "device": f"device-{rng.randrange(300)}", "celsius": rng.gauss(20, 4)}
        for time in draw_times(n, rng, late_s=LATE_S)
    ]
    return {"readings": [*rows, {"time": after(rows, 3600), "device": CLOSING, "celsius": 0.0}]}


READINGS = {"readings": Input("time timestamp, device string, celsius double", lateness=LATENESS)}


def find_last(tables: Tables) -> Iterator[Row]:
    """Yield the last value of each device and minute."""
    for (key, start, _), rows in hold(tables, "readings", "device", 60, 60).items():
        yield key, start, rows[-1]["celsius"]


def window_last(read: Callable[[str], Any]) -> Any:
    """Take the value of the largest time with Spark's own aggregate."""
    from pyspark.sql import functions as f

    grouped = (
        read("readings")
        .withWatermark("time", WATERMARK)
        .groupBy("device", f.window("time", "1 minute"))
    )
    last = grouped.agg(f.max_by("celsius", "time").alias("celsius"))
    return last.select("device", "window.start", "celsius")


last_reading = Case(
    name="last_reading",
    title="the last value per device and minute",
    program=aggregate_windows(
        Reading, Tumbling("1 min"), per="device", last=Latest(ordered_by="time")
    ),
    inputs=READINGS,
    columns=("key", "start", "value.last.celsius"),
    draw=draw_readings,
    answer=find_last,
    pyspark=window_last,
)

CASES = (
    sliding_counts,
    panes,
    tumbling_enum,
    mean_by_category,
    sessions,
    distinct_users,
    top_scores,
    last_reading,
)
