"""Idle channels and estimated lateness on Spark: the recorded time of a batch decides, also on a retry."""

import json
import shutil

import pytest

from anabranch import Event
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.disorder import Estimated
from anabranch.microbatch.runs.published_batches import read_ledger, read_waivers, read_watermarks
from anabranch.reference.sequential import run as fold
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from tests.microbatch.streams import read_published
from tests.spark.sinks.test_directory import Put, lengths, outputs, put, write

pytestmark = pytest.mark.spark

# What lies between two batches counts for half at the most, so two without it make a channel idle.
CHANNELS = [Channel("s"), Channel("quiet", idle_after_s=0.002)]
FILES = [
    [put(0, 1), put(0, 1, channel="quiet")],
    [put(1, 10)],
    [put(2, 20)],
    [put(3, 30)],
    [put(4, 40), put(1, 5, "yy", "quiet"), put(2, 35, "zzz", "quiet")],
]


def start(spark, home, channels):
    from anabranch.spark import Files, run, write_directory

    source = Files.of(
        lengths, str(home / "in"), format="json", files_per_batch=1, channels=channels
    )
    result = run(lengths, [source], shards=2)
    write_directory(
        result, output=home / "out", checkpoint=home / "state", available_now=True
    ).awaitTermination()


def test_the_reference_with_what_was_recorded_says_what_the_query_said(spark, tmp_path):
    write(tmp_path / "in", *FILES)
    start(spark, tmp_path, CHANNELS)
    places = [tmp_path / "out" / f"batch={number}" for number in range(5)]
    watermarks = [read_watermarks(place) for place in places]
    assert [f.program for f in watermarks] == [0, 0, 19, 29, 34]
    assert [f.statuses["quiet"].idle for f in watermarks] == [False, False, True, True, False]
    rows = read_published(tmp_path / "out", lengths)
    assert [(row.seq, row.reason) for row in rows if row.kind == "late"] == [
        (1, "24 behind the watermark, which advanced while its channel was silent")
    ]
    told = [row for rows in FILES for row in rows]
    items = [Event(Put(row["time"], row["text"]), row["channel"], row["seq"]) for row in told]
    answer = fold(lengths, [*items, *read_waivers(tmp_path / "out")], CHANNELS)
    assert outputs(rows) == sorted((o.event.seq, o.value) for o in answer.outputs)
    assert read_ledger(places[-1]) == answer.ledger
    assert (answer.ledger.late, answer.ledger.pending) == (1, 2)


def test_a_repeated_batch_decides_by_its_recorded_time(spark, tmp_path):
    channels = [Channel("s"), Channel("quiet", idle_after_s=1000)]
    write(tmp_path / "in", *FILES[:3])
    start(spark, tmp_path, channels)
    last = tmp_path / "out" / "batch=2"
    before = read_watermarks(last)
    # The driver dies after it has planned the batch, and before anybody has heard of it.
    shutil.rmtree(last)
    for file in ("2", ".2.crc"):
        (tmp_path / "state" / "commits" / file).unlink(missing_ok=True)
    (tmp_path / "state" / MANIFEST).unlink()  # It was written after that moment.
    start(spark, tmp_path, channels)
    after = read_watermarks(last)
    assert after == before
    assert 0 < after.statuses["quiet"].silence_ms < 600_000


def test_an_estimate_goes_on_from_batch_to_batch(spark, tmp_path):
    times = [3 * n - 7 * (n % 5 == 4) for n in range(60)]
    write(tmp_path / "in", *([put(n, times[n]) for n in range(a, a + 20)] for a in (0, 20, 40)))
    channels = [Channel("s", lateness=Estimated(0.75, within=10))]
    start(spark, tmp_path, channels)
    items = [Event(Put(time, "x"), "s", n) for n, time in enumerate(times)]
    answer = fold(lengths, items, channels)
    assert answer.ledger.late > 5
    last = tmp_path / "out" / "batch=2"
    assert read_ledger(last) == answer.ledger
    assert read_watermarks(last).channels == answer.watermarks
    status = read_watermarks(last).statuses["s"]
    assert (status.rule, status.delay) == ("estimated for 75%", 0)
    emitted = json.loads((last / "_watermarks.json").read_text())["about"]["s"]
    assert emitted["last"] == 59
