"""Sliding windows with early panes on Parquet, then one aggregate more with the state carried over."""

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.sinks import read_outputs, write_directory
from anabranch.sources import Files
from anabranch.state import Count, Max, Sum
from anabranch.windows import AfterCount, AfterWatermark, Sliding, Windowing, aggregate
from tests.acceptance.sizes import choose_size

pytestmark = pytest.mark.spark

ROWS = choose_size(small=400, full=100_000)
START = datetime(2026, 7, 1, 12, tzinfo=UTC)
SIZE, EVERY, LATENESS = timedelta(minutes=10), timedelta(minutes=5), timedelta(seconds=30)
EARLY = 3


class Reading(NamedTuple):
    time: datetime
    sensor: str
    watts: int


ten_minutes = Windowing(Sliding("10 min", every="5 min"), AfterWatermark(early=AfterCount(EARLY)))
before = aggregate(
    Reading, ten_minutes, per="sensor", n=Count(), total=(Sum(), "watts"), name="power"
)
after = aggregate(
    Reading,
    ten_minutes,
    per="sensor",
    n=Count(),
    total=(Sum(), "watts"),
    top=(Max(), "watts"),
    name="power",
)


def make_readings(rng):
    """Return readings in order of arrival, each at most 30 s behind the others."""
    times = [START + timedelta(seconds=15 * number) for number in range(ROWS)]
    arrivals = [time + timedelta(seconds=rng.choice([0, 0, 25])) for time in times]
    order = sorted(range(ROWS), key=lambda number: (arrivals[number], number))
    return [Reading(times[n], rng.choice("xyz"), rng.randrange(1, 500)) for n in order]


def write_file(path, readings):
    columns = {
        "time": pa.array([one.time for one in readings], pa.timestamp("us", "Europe/Berlin")),
        "sensor": [one.sensor for one in readings],
        "watts": [one.watts for one in readings],
    }
    pq.write_table(pa.table(columns), path)


def find_panes(readings, carried):
    """Return every pane of the readings: after each third one, and when the watermark completes a window.

    The largest is known of what was not yet processed when the state was carried over.
    """
    known = find_watermark(readings[:carried])
    windows = {}
    last = find_watermark(readings)
    for place, one in sorted(enumerate(readings), key=lambda pair: (pair[1].time, pair[0])):
        first = START + (one.time - START) // EVERY * EVERY
        for start in (first - EVERY, first):
            windows.setdefault((one.sensor, start), []).append((place, one))
    panes = []
    for (sensor, start), held in windows.items():
        panes += [
            summarise(sensor, start, "early", held[:count], known)
            for count in range(EARLY, len(held) + 1, EARLY)
            if held[count - 1][1].time <= last
        ]
        if start + SIZE - timedelta(microseconds=1) <= last:
            panes.append(summarise(sensor, start, "on_time", held, known))
    return sorted(panes, key=str)


def find_watermark(readings):
    return max(one.time for one in readings) - LATENESS - timedelta(microseconds=1)


def summarise(sensor, start, timing, held, known):
    total = sum(one.watts for _, one in held)
    fired = held[-1][1].time if timing == "early" else start + SIZE
    top = max((one.watts for _, one in held if one.time > known), default=None)
    # What the older program said has no such column.
    said_before = (
        fired <= known if timing == "early" else fired - timedelta(microseconds=1) <= known
    )
    return sensor, start, timing, len(held), total, None if said_before else top


def run_once(program, source, home, checkpoint, output, spark, shards=2):
    from anabranch.spark import run

    result = run(program, source, spark=spark, shards=shards)
    query = write_directory(
        result, output=home / output, checkpoint=home / checkpoint, available_now=True
    )
    query.awaitTermination()


def read_panes(spark, folder, top):
    rows = read_outputs(spark, folder).selectExpr(
        "id", "key", "unix_micros(start) AS start", "timing", "value.n", "value.total", top
    )
    found = rows.collect()
    assert len({row.id for row in found}) == len(found)
    return [
        (row.key, START + timedelta(microseconds=row.start - start_micros()), row.timing, *row[4:])
        for row in found
    ]


def start_micros():
    return (START - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_oracle_an_aggregate_more_goes_on_from_the_savepoint(spark, tmp_path):
    from anabranch.spark import create_savepoint, restore_savepoint

    readings = make_readings(random.Random(5))
    carried = ROWS * 2 // 3
    (tmp_path / "in").mkdir()
    source = Files(tmp_path / "in", lateness="30 s")
    write_file(tmp_path / "in" / "1.parquet", readings[: ROWS // 3])
    run_once(before, source, tmp_path, "checkpoint", "out", spark)
    write_file(tmp_path / "in" / "2.parquet", readings[ROWS // 3 : carried])
    run_once(before, source, tmp_path, "checkpoint", "out", spark)

    saved = create_savepoint(tmp_path / "saved", checkpoint=tmp_path / "checkpoint", spark=spark)
    restore_savepoint(
        saved,
        after,
        source,
        output=tmp_path / "out-new",
        checkpoint=tmp_path / "checkpoint-new",
        spark=spark,
        shards=3,
    )
    write_file(tmp_path / "in" / "3.parquet", readings[carried:])
    run_once(after, source, tmp_path, "checkpoint-new", "out-new", spark, shards=3)

    found = read_panes(spark, tmp_path / "out", "CAST(NULL AS long) AS top")
    found += read_panes(spark, tmp_path / "out-new", "value.top")
    assert sorted(found, key=str) == find_panes(readings, carried)
