"""What a query does beside its answer: replays, refusals, late and bad rows.

That it gives the fold's answer, as a batch and as a stream, is shown in `tests/runtimes`.
"""

import json
import random

import pytest

from anabranch.errors import InputError
from anabranch.eventtime.ledger import Ledger
from tests.microbatch.streams import Story

pytestmark = pytest.mark.spark


def make_result(spark, rows):
    """Return a result of rows, of which kind, id and value are given."""
    from anabranch.microbatch.exchange.result_rows import COLUMNS, ResultRow
    from anabranch.spark.sinks.results import Result, pack_rows

    made = [
        ResultRow(kind, name, 1, None, None, None, 0, value, None, None)
        for kind, name, value in rows
    ]
    return Result(pack_rows(spark.createDataFrame(made, COLUMNS)))


def test_a_replayed_batch_is_consumed_and_dropped(spark, tmp_path):
    from anabranch.spark.sinks.directory import publish

    rows = [
        ("output", "a#0", "1"),
        ("ledger", "ledger:shard:0", json.dumps(Ledger(1, 1)._asdict())),
    ]
    frame = make_result(spark, rows)
    assert publish(frame, 7, tmp_path, "json") is True
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert publish(frame, 7, tmp_path, "json") is False
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_ledger_that_does_not_balance_stops_the_query_before_anything_is_published(
    spark, tmp_path
):
    from anabranch.spark.sinks.directory import publish

    rows = [("ledger", "ledger:shard:0", json.dumps(Ledger(2, 1)._asdict()))]
    frame = make_result(spark, rows)
    with pytest.raises(AssertionError, match="events are not conserved"):
        publish(frame, 0, tmp_path, "json")
    assert not (tmp_path / "batch=0").exists()


def test_a_restart_with_another_number_of_shards_is_refused(spark, tmp_path):
    from anabranch.microbatch.job.fingerprint import ChangedProgramError
    from anabranch.spark.runs import run
    from anabranch.spark.sinks.directory import write_directory

    story = Story("key_counter")
    for shards, count in ((2, 1), (3, 2)):
        story.write(tmp_path / "in", story.cut(random.Random(0), most=2)[:count])
        frame = spark.readStream.schema(story.schema).option("maxFilesPerTrigger", 1)
        result = run(story.program, story.source(frame.json(str(tmp_path / "in"))), shards=shards)
        if shards == 2:
            write_directory(
                result,
                output=tmp_path / "out",
                checkpoint=tmp_path / "checkpoint",
                available_now=True,
            ).awaitTermination()
        else:
            with pytest.raises(ChangedProgramError, match="made with other shards"):
                write_directory(
                    result,
                    output=tmp_path / "out",
                    checkpoint=tmp_path / "checkpoint",
                    available_now=True,
                )


def test_late_and_bad_rows_come_out_beside_the_outputs(spark):
    from anabranch.spark.runs import run

    story = Story("key_counter")
    row = {"channel": story.channels[0].name, "type": "Inc", "key": 1}
    rows = [
        row | {"seq": 0, "time": 10},
        row | {"seq": 1, "time": 3},
        row | {"seq": 2, "time": None},
        row | {"seq": 3, "time": 11, "type": "Dec"},
    ]
    frame = spark.createDataFrame(rows, story.schema).coalesce(1)
    emitted = run(story.program, story.source(frame), shards=2).rows.collect()
    reasons = {(r.kind, r.seq): r.reason for r in emitted if r.kind in ("late", "rejected")}
    watermark = 10 if story.channels[0].unique_times else 9
    assert reasons == {
        ("late", 1): f"{watermark - 3} behind its channel's watermark",
        ("rejected", 2): "time 'time' is null or missing",
        ("rejected", 3): "unknown event type 'Dec'; the program knows Inc, Read",
    }


def test_a_column_that_is_not_there_is_named_with_those_that_are(spark):
    from anabranch.spark import Frame, run

    story = Story("key_counter")
    frame = spark.createDataFrame([], story.schema)
    with pytest.raises(InputError, match="column 'offset' is not found"):
        run(story.program, [Frame(frame, channel="s", event="Inc", seq="offset")])
    with pytest.raises(InputError, match="column 'line' is not found"):
        run(
            story.program,
            [Frame(frame, channel="s", event="Inc", seq="offset", json_column="line")],
        )
    with pytest.raises(InputError, match="a run has no option 'shard'"):
        run(story.program, Frame(frame, event="Inc"), shard=2)


def test_a_run_that_said_nothing_can_still_be_read(spark, tmp_path):
    from anabranch.spark import read_late, read_outputs, read_rejected
    from anabranch.spark.sinks.directory import publish

    rows = [("ledger", "ledger:shard:0", json.dumps(Ledger(0, 0)._asdict()))]
    frame = make_result(spark, rows)
    assert publish(frame, 0, tmp_path, "parquet") is True
    assert read_outputs(spark, tmp_path).columns == ["id", "time", "op", "value", "batch"]
    for read in (read_outputs, read_late, read_rejected):
        assert read(spark, tmp_path).count() == 0
    assert spark.read.parquet(f"{tmp_path}/batch=*/outputs").count() == 0
