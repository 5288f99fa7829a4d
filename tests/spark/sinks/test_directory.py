"""Sinks end to end: published batches, thresholds, empty batches, previews, and the sides of a result."""

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from anabranch import Program, depends, on
from anabranch.errors import InputError, RejectionError
from anabranch.eventtime.channels import NEVER, Channel
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.runs.published_batches import (
    Watermarks,
    _note_since,
    read_ledger,
    read_watermarks,
)
from anabranch.model.events import FOREVER
from anabranch.spark.sinks.progress import QueryError
from anabranch.state import MapOf, Sum
from tests.microbatch.streams import read_published

pytestmark = pytest.mark.spark


class Put(NamedTuple):
    time: int
    text: str


def add_length(total, put):
    if put.text == "poison":
        raise ValueError("this text can't be swallowed")
    return total + len(put.text)


lengths = Program(
    on(Put, update=add_length, output=lambda total, put: total), depends(Put, Put), state=Sum()
)
counts = Program(
    on(Put, update=lambda seen, put: seen + 1, output=lambda seen, put: seen),
    depends(Put, Put, same="text"),
    state=MapOf(Sum(), by="text"),
)
CHANNELS = [Channel("s"), Channel("quiet")]
END = [{"channel": name, "seq": 99, "heartbeat": FOREVER} for name in ("s", "quiet")]


def put(seq, time, text="x", channel="s"):
    return {"type": "Put", "channel": channel, "seq": seq, "time": time, "text": text}


def write(folder, *files, first=0):
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(files, first):
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        file = folder / f"{number:03}.jsonl"
        file.write_text("".join(f"{line}\n" for line in lines))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def connect(spark, home, **limits):
    from anabranch.spark import Files, run

    source = Files.of(
        lengths, str(home / "in"), format="json", files_per_batch=1, channels=CHANNELS
    )
    return run(lengths, [source], shards=2, **limits)


def outputs(rows):
    return sorted((row.seq, json.loads(row.value)) for row in rows if row.kind == "output")


def test_a_stream_is_published_as_json_and_taken_up_again(spark, tmp_path):
    from anabranch.spark import write_directory

    write(tmp_path / "in", [put(0, 1), put(1, 2, "yy")])
    for more in ([[put(2, 3, "ü"), "nonsense"]], [END]):
        result = connect(spark, tmp_path)
        query = write_directory(
            result,
            output=tmp_path / "out",
            checkpoint=tmp_path / "state",
            format="json",
            available_now=True,
        )
        query.awaitTermination()
        write(tmp_path / "in", *more, first=len(list((tmp_path / "in").iterdir())))
    result = connect(spark, tmp_path)
    write_directory(
        result,
        output=tmp_path / "out",
        checkpoint=tmp_path / "state",
        format="json",
        available_now=True,
    ).awaitTermination()

    lines = [
        json.loads(line)
        for file in (tmp_path / "out").glob("batch=*/*/*.json")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    emitted = sorted((line["time"], line["value"]) for line in lines if "value" in line)
    assert emitted == [(1, "0"), (2, "1"), (3, "3")]
    assert [(line["raw"], line["reason"]) for line in lines if "reason" in line] == [
        ("nonsense", "not JSON: Expecting value: line 1 column 1 (char 0)")
    ]
    assert outputs(read_published(tmp_path / "out", lengths)) == [(0, 0), (1, 1), (2, 3)]
    assert read_ledger(tmp_path / "out" / "batch=2") == Ledger(4, 3, 0, 1)


@pytest.mark.parametrize(("shards", "partitions"), [(1, 1), (3, 3), (8, 4)])
def test_a_new_query_has_no_more_partitions_than_shards(spark, tmp_path, shards, partitions):
    from anabranch.spark import Files, run, write_directory

    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    write(tmp_path / "in", [put(0, 1), put(1, 2), put(2, 3, "y"), *END])
    source = Files.of(
        counts, str(tmp_path / "in"), format="json", files_per_batch=1, channels=CHANNELS
    )
    try:
        result = run(counts, [source], shards=shards)
        write_directory(
            result, output=tmp_path / "out", checkpoint=tmp_path / "ck", available_now=True
        ).awaitTermination()
        assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    settings = json.loads((tmp_path / "ck/offsets/0").read_text().splitlines()[1])["conf"]
    assert settings["spark.sql.shuffle.partitions"] == str(partitions)
    found = outputs(read_published(tmp_path / "out", counts))
    assert found == [(0, 0), (1, 1), (2, 0)]


def test_a_batch_without_a_row_carries_the_ledger_on(spark, tmp_path):
    from anabranch.spark import write_directory

    write(tmp_path / "in", [], [put(0, 1), put(1, 5)], [], ["", "  "], END)
    result = connect(spark, tmp_path)
    write_directory(
        result, output=tmp_path / "out", checkpoint=tmp_path / "state", available_now=True
    ).awaitTermination()
    places = [tmp_path / "out" / f"batch={number}" for number in range(5)]
    assert [read_ledger(place) for place in places] == [
        Ledger(), *[Ledger(2, pending=2)] * 3, Ledger(2, 2),
    ]  # fmt: skip
    watermarks = [read_watermarks(place) for place in places]
    assert watermarks[0].program == NEVER
    assert watermarks[2] == watermarks[3] == watermarks[1]
    assert watermarks[1].channels == {"s": 4, "quiet": NEVER}


def test_a_silent_channel_is_named_with_the_batch_since_which_it_is_silent(spark, tmp_path):
    from anabranch.spark import follow, write_directory

    late = {"channel": "quiet", "seq": 0, "heartbeat": 2}
    write(tmp_path / "in", [put(0, 1), late], [put(1, 5)], [put(2, 9)])
    lines = []
    result = connect(spark, tmp_path)
    follow(
        write_directory(
            result, output=tmp_path / "out", checkpoint=tmp_path / "state", available_now=True
        ),
        lines.append,
        output=tmp_path / "out",
    )
    assert [line.partition("watermark ")[2] for line in lines] == [
        "0, held back by s (in order); quiet 2",
        "2, held back by quiet, silent since batch 0; s 4",
        "2, held back by quiet, silent since batch 0; s 8",
    ]


def test_since_is_the_batch_of_the_last_move():
    first = _note_since(Watermarks(1, {"a": 1, "b": 5}), None, 0)
    second = _note_since(Watermarks(1, {"a": 1, "b": 6}), first, 1)
    third = _note_since(Watermarks(3, {"a": 3, "b": 6}), second, 2)
    assert [f.since for f in (first, second, third)] == [
        {"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 2, "b": 1},
    ]  # fmt: skip


BAD = [[put(0, 1), "nonsense"], [put(1, 2, 5), put(2, 3, "poison"), put(3, 4)], [put(4, 5), *END]]


def test_too_many_rejected_stop_the_query_after_they_are_published(spark, tmp_path):
    from anabranch.spark import follow, read_rejected, write_directory

    write(tmp_path / "in", *BAD)
    out, state = tmp_path / "out", tmp_path / "state"
    query = write_directory(
        connect(spark, tmp_path), output=out, checkpoint=state, most_rejected=1, available_now=True
    )
    with pytest.raises(RejectionError, match="too many events are rejected: 2 of 5") as stopped:
        follow(query, lambda line: None, output=out)
    assert "at:       batch 1" in str(stopped.value)
    assert "once: field 'text' of Put: expected str, got 5 (int)" in str(stopped.value)
    assert f"look at {out}/batch=*/rejected" in str(stopped.value)
    assert read_rejected(spark, out).count() == 2

    # The count stands: the same tolerance stops it before it starts.
    with pytest.raises(RejectionError, match="2 of 5"):
        write_directory(
            connect(spark, tmp_path),
            output=out,
            checkpoint=state,
            most_rejected=1,
            available_now=True,
        )
    query = write_directory(
        connect(spark, tmp_path), output=out, checkpoint=state, most_rejected=3, available_now=True
    )
    query.awaitTermination()
    rows = read_published(out, lengths)
    assert outputs(rows) == [(0, 0), (3, 1), (4, 2)]
    assert sorted(row.event for row in rows if row.kind == "rejected") == sorted(
        ["nonsense", json.dumps(BAD[1][0]), '{"text":"poison","time":3}']
    )
    assert read_ledger(out / "batch=2") == Ledger(6, 3, 0, 3)


def test_a_share_is_judged_when_there_is_enough_to_judge_by(spark, tmp_path):
    from anabranch.spark import follow, write_directory

    write(tmp_path / "in", BAD[0], ["nonsense"] * 15)
    query = write_directory(
        connect(spark, tmp_path),
        output=tmp_path / "out",
        checkpoint=tmp_path / "state",
        most_rejected="1.5%",
        available_now=True,
    )
    with pytest.raises(RejectionError, match="16 of 17") as stopped:
        follow(query, lambda line: None, output=tmp_path / "out")
    assert "16 times: not JSON" in str(stopped.value)
    assert (tmp_path / "out" / "batch=0").is_dir(), "half of the first batch was no reason to stop"


def test_a_function_has_a_batch_before_too_many_rejected_stop_the_query(spark, tmp_path):
    from anabranch.spark import follow, for_each_batch

    write(tmp_path / "in", *BAD)
    seen = []
    query = for_each_batch(
        connect(spark, tmp_path),
        lambda batch, number: seen.append((number, batch.rejected.count())),
        checkpoint=tmp_path / "state",
        most_rejected=1,
        available_now=True,
    )
    with pytest.raises(RejectionError, match="too many events are rejected: 2 of 5"):
        follow(query, lambda line: None)
    assert seen == [(0, 1), (1, 1)]


def test_a_table_in_memory_starts_anew_each_time(spark, tmp_path):
    from anabranch.spark import write_memory

    write(tmp_path / "in", *BAD)
    for _ in range(2):
        write_memory(connect(spark, tmp_path), "tried", available_now=True).awaitTermination()
        emitted = spark.table("tried").orderBy("time").collect()
        assert [(row.time, row.value) for row in emitted] == [(1, "0"), (4, "1"), (5, "2")]


def test_the_console_shows_outputs_and_counts_the_rest(spark, tmp_path):
    from anabranch.spark import write_console

    write(tmp_path / "in", *BAD)
    lines = []
    write_console(
        connect(spark, tmp_path), show=lines.append, most=2, available_now=True
    ).awaitTermination()
    assert lines[:2] == [f"batch {number}  0 outputs, 0 late, 1 rejected" for number in (0, 1)]
    assert lines[2].splitlines() == [
        "batch 2  3 outputs, 0 late, 1 rejected",
        "  time  type  channel  output",
        "     1  Put   s        0",
        "     4  Put   s        1",
        "  … and 1 more",
    ]


def test_the_sides_of_a_result_have_columns_of_their_own(spark):
    from anabranch.spark import Frame, run

    rows = [(0, 10, "ab"), (1, 3, "late"), (2, None, "no time"), (3, 12, "c")]
    frame = spark.createDataFrame(rows, "seq long, time long, text string").coalesce(1)
    result = run(lengths, [Frame(frame, channel="s", event=Put, seq="seq")], shards=2)
    emitted = result.outputs.orderBy("time").collect()
    assert [(row.time, row.op, row.value) for row in emitted] == [(10, 1, "0"), (12, 1, "2")]
    (late,) = result.late.collect()
    assert (late.seq, late.distance, json.loads(late.event)) == (1, 6, {"time": 3, "text": "late"})
    (bad,) = result.rejected.collect()
    assert bad.reason == "time 'time' is null or missing"
    assert json.loads(bad.raw) == {"seq": 2, "time": None, "text": "no time"}
    assert json.loads(result.ledger.first().counts)["processed"] == 2


def test_relative_paths_mean_one_place_to_the_driver_and_its_tasks(spark, tmp_path, monkeypatch):
    from anabranch.spark import Files, run, watch, write_directory

    monkeypatch.chdir(tmp_path)  # The JVM and its workers started elsewhere.
    write(tmp_path / "in", [put(0, 1), put(1, 2, "yy"), *END])
    result = run(
        lengths,
        [Files.of(lengths, "in", format="json", files_per_batch=1, channels=CHANNELS)],
        shards=2,
    )
    query = write_directory(
        result, output="out", checkpoint="state", format="json", available_now=True
    )
    (batch,) = watch(query, output="out")
    assert batch.ledger == Ledger(2, 2)
    assert outputs(read_published(tmp_path / "out", lengths)) == [(0, 0), (1, 1)]
    assert (tmp_path / "state" / "commits" / "0").is_file()


def test_a_disk_that_can_not_be_written_is_the_first_thing_that_is_said(spark, tmp_path):
    from anabranch.spark import follow, write_directory

    write(tmp_path / "in", [put(0, 1)])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".batch=0").write_text("in the way")
    query = write_directory(
        connect(spark, tmp_path),
        output=tmp_path / "out",
        checkpoint=tmp_path / "state",
        available_now=True,
    )
    with pytest.raises(QueryError) as caught:
        follow(query, print, output=tmp_path / "out")
    lines = str(caught.value).splitlines()
    assert lines[0] == "batch 0 can't be written"
    assert lines[1] == f"  at:       {tmp_path}/out"
    assert len(lines) == 5
    (note,) = caught.value.__notes__
    assert "FileExistsError" in Path(note.split()[-1]).read_text()


def test_a_query_streams_on_unless_it_is_asked_to_end(spark, tmp_path):
    from anabranch.spark import write_directory

    write(tmp_path / "in", [put(0, 1)])
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "state"}
    with pytest.raises(InputError, match="a query has two triggers"):
        write_directory(
            connect(spark, tmp_path), **places, available_now=True, trigger={"once": True}
        )
    query = write_directory(connect(spark, tmp_path), **places)
    try:
        query.processAllAvailable()
        assert query.isActive
        (tmp_path / "in" / ".new").write_text(json.dumps(put(1, 2, "yy")) + "\n")
        (tmp_path / "in" / ".new").rename(tmp_path / "in" / "9999.json")
        query.processAllAvailable()
        assert read_ledger(max((tmp_path / "out").glob("batch=*"))).input == 2
    finally:
        query.stop()
