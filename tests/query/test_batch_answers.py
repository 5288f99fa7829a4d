"""What windows have said in the end is what a database says of all events at once.

The events are real ones, in the order in which they became known. DuckDB answers in batch, and knows
nothing of watermarks, panes or lateness.
"""

import json
import random
from datetime import UTC, datetime

import pytest

from anabranch import state as states
from anabranch.query import Missed, Result, aggregate
from anabranch.reference.sequential import run
from anabranch.state import Count, Max, Min, Sum
from anabranch.windows import (
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    Calendar,
    Sessions,
    Sliding,
    Tumbling,
    Windowing,
)
from tests.query.archives import (
    AIRPORTS,
    Flight,
    Power,
    Quake,
    Weather,
    bring,
    fetch_flights,
    open_flights,
    open_power,
    open_quakes,
)
from tests.query.bids import read_names
from tests.runtimes.inputs import cut_rows, run_batches
from tests.runtimes.runtimes import Place, SparkStreaming, sum_up
from tests.vectors.flumina import Vector

JANUARY = "day < '2013-02-01'"
WEEK = "day < '2013-01-08'"
DELAYS = {
    "n": Count(), "total": (Sum(), "delay"), "most": (Max(), "delay"), "least": (Min(), "delay"),
}  # fmt: skip
MEASURES = "count(*), sum(delay)::bigint, max(delay), min(delay)"
TWO_DAYS = 2 * 24 * 60


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return open_flights(tmp_path_factory.mktemp("flights"))


@pytest.fixture(scope="module")
def january(base):
    return fetch_flights(base, JANUARY)


@pytest.fixture(scope="module")
def week(base):
    """Return the 6,043 flights of the first week: enough for most tests, and soon done."""
    return fetch_flights(base, WEEK)


def keep_last(values):
    """Return the last pane of each window, as a row: key, start, folds."""
    last = {(v.key, v.start): read_names(v.value).values() for v in values if isinstance(v, Result)}
    return sorted((*place, *folds) for place, folds in last.items())


def ask(base, query):
    return sorted(base.execute(query).fetchall())


def hourly(base, where="true", table="flights"):
    return ask(base, f"""
        select origin, scheduled // 60 * 60 as start, {MEASURES} from {table}
        where {where} group by all""")  # fmt: skip


def panes(accumulation="accumulating", lateness=TWO_DAYS, window=None):
    """Return windows that speak early every half an hour, on time, and with every late flight."""
    return Windowing(
        window or Tumbling(60),
        AfterWatermark(early=AfterProcessingTime(30), late=Always()),
        accumulation=accumulation,
        allowed_lateness=lateness,
    )


def flights_by_hour(windowing, per="origin"):
    return aggregate(Flight, windowing, per=per, at="scheduled", delay=15, **DELAYS)


def test_the_flights_are_those_of_the_year(base):
    assert base.execute("select count(*) from flights").fetchone() == (328_521,)
    assert base.execute("select max(delay) from flights").fetchone() == (1301,)


def test_oracle_hours_in_early_and_late_panes_end_as_the_database_has_them(base, january):
    answer = run(flights_by_hour(panes()), bring(january), AIRPORTS)
    assert answer.ledger.processed == len(january) == 26_483
    assert keep_last(answer.values) == hourly(base, JANUARY)
    timings = [value.timing for value in answer.values]
    assert {name: timings.count(name) > 1000 for name in ("early", "on_time", "late")} == {
        "early": True, "on_time": True, "late": True,
    }  # fmt: skip


def test_oracle_discarded_parts_add_up_to_what_the_database_has(base, week):
    answer = run(flights_by_hour(panes("discarding")), bring(week), AIRPORTS)
    parts = {}
    for value in answer.values:
        parts.setdefault((value.key, value.start), []).append(read_names(value.value))
    added = sorted(
        (
            *place,
            sum(part["n"] for part in emitted),
            sum(part["total"] for part in emitted),
            max(part["most"] for part in emitted if part["most"] is not None),
            min(part["least"] for part in emitted if part["least"] is not None),
        )
        for place, emitted in parts.items()
    )
    assert added == hourly(base, WEEK)


def test_oracle_what_is_not_taken_back_is_what_the_database_has(base, week):
    answer = run(flights_by_hour(panes("retracting")), bring(week), AIRPORTS)
    standing = {}
    for value in answer.values:
        place = (value.key, value.start, *read_names(value.value).values())
        standing[place] = standing.get(place, 0) + value.op
    assert sorted(place for place, n in standing.items() if n) == hourly(base, WEEK)
    assert set(standing.values()) == {0, 1}


@pytest.mark.parametrize("lateness", [0, 45])
def test_oracle_what_is_missed_is_what_the_database_says_came_too_late(base, week, lateness):
    answer = run(flights_by_hour(panes(lateness=lateness)), bring(week), AIRPORTS)
    taken = f"departed - 15 <= scheduled // 60 * 60 + 59 + {lateness}"
    assert keep_last(answer.values) == hourly(base, f"{WEEK} and {taken}")
    missed = [value.value for value in answer.values if isinstance(value, Missed)]
    assert missed == fetch_flights(base, f"{WEEK} and not ({taken})")
    assert len(missed) > 100


def test_oracle_windows_that_slide_hold_what_a_join_with_their_starts_holds(base, week):
    windowing = Windowing(
        Sliding(360, every=60), AfterWatermark(late=AfterCount(1)), allowed_lateness=TWO_DAYS
    )
    answer = run(flights_by_hour(windowing), bring(week), AIRPORTS)
    assert keep_last(answer.values) == ask(base, f"""
        select origin, start, {MEASURES} from (
            select *, unnest(range(scheduled // 60 * 60 - 300, scheduled + 1, 60)) as start
            from flights where {WEEK})
        where start <= scheduled and scheduled < start + 360 group by all""")  # fmt: skip


def test_oracle_days_are_those_of_the_calendar_in_new_york(base):
    """Around the days of 23 and 25 hours; the dates are those of the data."""
    two = "day between '2013-03-09' and '2013-03-11' or day between '2013-11-02' and '2013-11-04'"
    window = Calendar("day", "America/New_York", per_second=1)
    rows = [
        f._replace(scheduled=f.scheduled * 60, time=f.time * 60) for f in fetch_flights(base, two)
    ]
    program = aggregate(
        Flight, Windowing(window, allowed_lateness=TWO_DAYS * 60), per="origin", at="scheduled", delay=0,
        n=Count(), total=(Sum(), "delay"),
    )  # fmt: skip
    answer = run(program, bring(rows), AIRPORTS)
    wanted = ask(base, f"""
        select origin, epoch(timezone('America/New_York', day::timestamp))::bigint,
               count(*), sum(delay)::bigint
        from flights where {two} group by all""")  # fmt: skip
    assert keep_last(answer.values) == wanted
    assert {(v.end - v.start) // 3600 for v in answer.values} == {23, 24, 25}


def test_oracle_an_aircraft_is_busy_while_its_flights_are_less_than_five_hours_apart(base):
    where = "day < '2013-01-11' and tail <> '?'"
    flights = sorted(fetch_flights(base, where), key=lambda f: f.scheduled)
    rows = [flight._replace(time=flight.scheduled) for flight in flights]
    answer = run(aggregate(Flight, Sessions(300), per="tail", **DELAYS), bring(rows), AIRPORTS)
    assert keep_last(answer.values) == ask(base, f"""
        select tail, min(scheduled), {MEASURES} from (
            select *, count(*) filter (where far) over (partition by tail order by scheduled) as s
            from (select *, scheduled - lag(scheduled) over (
                      partition by tail order by scheduled) >= 300 as far
                  from flights where {where}))
        group by tail, s""")  # fmt: skip
    assert answer.state == {}


def test_oracle_the_weather_of_a_winter_day_by_day(base):
    """A quarter of the year's readings. Gusts are missing more often than not."""
    winter = f"hour < {datetime(2013, 4, 1, tzinfo=UTC).timestamp() // 3600}"
    query = f"select hour, origin, temp, gust from weather where {winter} order by all"
    rows = [Weather(*row) for row in base.execute(query).fetchall()]
    assert len(rows) > 6000
    folds = {"n": Count(), "high": (Max(), "temp"), "low": (Min(), "temp"), "gust": (Max(), "gust")}
    answer = run(aggregate(Weather, Tumbling(24), per="origin", **folds), bring(rows), AIRPORTS)
    assert keep_last(answer.values) == ask(base, f"""
        select origin, hour // 24 * 24, count(*), max(temp), min(temp), max(gust)
        from weather where {winter} group by all""")  # fmt: skip


@pytest.mark.skipif(not hasattr(states, "Median"), reason="there is no median yet")
def test_oracle_medians_and_distinct_aircraft_are_those_of_the_database(base, week):
    folds = {"median": (states.Median(), "delay"), "tails": (states.Distinct(), "tail")}
    program = aggregate(
        Flight, panes(window=Tumbling(720)), per="origin", at="scheduled", delay=15, **folds
    )
    answer = run(program, bring(week), AIRPORTS)
    assert keep_last(answer.values) == ask(base, f"""
        select origin, scheduled // 720 * 720, median(delay), count(distinct tail)
        from flights where {WEEK} group by all""")  # fmt: skip


@pytest.mark.parametrize(("size", "shards"), [(4000, 5), (300, 2)])
def test_oracle_shards_say_what_the_database_says(base, week, size, shards):
    program, items = flights_by_hour(panes()), bring(week)
    batches = cut_rows(random.Random(size), items, size)
    outcome = run_batches(program, AIRPORTS, batches, shards)
    emitted = [json.loads(value) for _, value in outcome.outputs]
    last = {}
    for pane in sorted(emitted, key=lambda pane: pane["index"]):
        last[pane["key"], pane["start"]] = [pane["value"][name] for name in DELAYS]
    assert sorted((*place, *folds) for place, folds in last.items()) == hourly(base, WEEK)
    assert outcome.ledger.processed == len(week)


@pytest.mark.spark
def test_oracle_spark_says_what_the_database_says(base, request, tmp_path):
    """The flights of the first three days, in four batches and two lives."""
    days = "day < '2013-01-04'"
    flights = fetch_flights(base, days)
    items = bring(flights)
    story = Vector(flights_by_hour(panes()), lambda: items, AIRPORTS, [], {})
    place = Place(lambda: request.getfixturevalue("spark"), tmp_path)
    (outcome,) = SparkStreaming("flights", shards=4, batches=4).run(story, place)
    answer = run(story.program, items, AIRPORTS)
    assert outcome == sum_up(answer)
    assert keep_last(answer.values) == hourly(base, days)


# --- archives that are not on PyPI --------------------------------------------------------------

HOURS_MS = 6 * 3_600_000


@pytest.mark.parametrize("lateness_days", [0, 7])
def test_oracle_earthquakes_by_the_time_they_were_last_corrected(lateness_days):
    base = open_quakes()
    rows = base.execute("select told, net, happened, mag from quakes order by all").fetchall()
    lateness = lateness_days * 24 * 3_600_000
    windowing = Windowing(
        Tumbling(HOURS_MS),
        AfterWatermark(early=AfterCount(10), late=Always()),
        allowed_lateness=lateness,
    )
    folds = {"n": Count(), "top": (Max(), "mag")}
    program = aggregate(Quake, windowing, per="net", at="when", delay=3_600_000, **folds)
    answer = run(program, bring([Quake(*row) for row in rows], "usgs"))
    start = f"happened // {HOURS_MS} * {HOURS_MS}"
    assert keep_last(answer.values) == ask(base, f"""
        select net, {start}, count(*), max(mag) from quakes
        where told - 3600000 <= {start} + {HOURS_MS} - 1 + {lateness} group by all""")  # fmt: skip
    missed = sum(isinstance(value, Missed) for value in answer.values)
    assert (missed == 0) == bool(lateness_days)


def test_oracle_the_power_that_a_house_takes(tmp_path):
    """Two million minutes, with gaps; of one in eighty there is no value."""
    base = open_power(tmp_path)
    rows = base.execute("select minute, kilowatts from power order by all").fetchall()
    folds = {"n": Count(), "high": (Max(), "kilowatts"), "low": (Min(), "kilowatts")}
    answer = run(aggregate(Power, Tumbling(1440), **folds), bring([Power(*r) for r in rows], "s"))
    emitted = [(v.start, *read_names(v.value).values()) for v in answer.values]
    assert emitted == ask(base, """
        select minute // 1440 * 1440, count(*), max(kilowatts), min(kilowatts)
        from power group by all""")  # fmt: skip
