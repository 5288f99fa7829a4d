"""Bad rows in a stream: each is rejected with its reason, and the query goes on."""

import json
import os
from typing import NamedTuple

import pytest

from anabranch import Program, depends, on
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER
from anabranch.state import Sum
from tests.faults.inputs import published
from tests.microbatch.streams import read_published

pytestmark = pytest.mark.spark

LARGE = "x" * 1_000_000


class Put(NamedTuple):
    time: int
    text: str


def add_length(total, put):
    if put.text == "poison":
        raise ValueError("this text can't be swallowed")
    return total + len(put.text)


lengths = Program(
    on(Put, update=add_length, output=lambda total, put: total),
    depends(Put, Put),
    state=Sum(),
)
FIRST = [
    {"seq": 0, "time": 1, "text": "a"},
    {"seq": 1, "time": 2, "text": "poison"},
    {"seq": 2, "time": None, "text": "null time"},
    {"seq": 3, "text": "no time"},
    {"seq": 4, "time": "noon", "text": "time in words"},
    {"seq": 5, "time": 3},
    "{ this is no JSON",
    {"seq": 6, "time": 4, "text": LARGE},
]
SECOND = [{"seq": 7, "time": 5, "text": "bc"}, {"seq": 8, "heartbeat": FOREVER}]


def write(file, rows, number):
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    file.write_text("".join(f"{line}\n" for line in lines))
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def test_bad_rows_are_rejected_with_their_reasons_and_the_query_goes_on(spark, tmp_path):
    from anabranch.spark import Frame
    from anabranch.spark.runs import run
    from anabranch.spark.sinks.directory import write_directory

    (tmp_path / "in").mkdir()
    for number, rows in enumerate((FIRST, SECOND)):
        write(tmp_path / "in" / f"{number}.json", rows, number)
    frame = (
        spark.readStream.schema("seq long, time long, text string, heartbeat long")
        .option("maxFilesPerTrigger", 1)
        .json(str(tmp_path / "in"))
    )
    source = Frame(frame, channel="s", event=Put, seq="seq", heartbeat="heartbeat")
    query = write_directory(
        run(lengths, [source], shards=2),
        output=tmp_path / "out",
        checkpoint=tmp_path / "state",
        available_now=True,
    )
    query.awaitTermination()

    assert published(tmp_path / "out") == [0, 1]
    rows = read_published(tmp_path / "out", lengths)
    outputs = {row.seq: json.loads(row.value) for row in rows if row.kind == "output"}
    # An output sees the state before its own event.
    assert outputs == {0: 0, 6: 1, 7: 1 + len(LARGE)}
    reasons = sorted(
        (-1 if row.seq is None else row.seq, row.reason) for row in rows if row.kind == "rejected"
    )
    assert reasons == [
        (-1, "sequence 'seq' is None, not an integer"),
        (1, "on Put: ValueError: this text can't be swallowed (test_bad_input.py:29)"),
        (2, "time 'time' is null or missing"),
        (3, "time 'time' is null or missing"),
        (4, "time 'time' is null or missing"),
        (5, "field 'text' of Put is missing"),
    ]
    ledger = Ledger(**json.loads((tmp_path / "out" / "batch=1" / "_ledger.json").read_text()))
    assert ledger == Ledger(input=9, processed=3, rejected=6)
    assert max(len(row.event) for row in rows if row.kind == "rejected") < 2100


LINES = [
    b'{"type": "Put", "channel": "s", "seq": 0, "time": 1, "text": "a"}',
    b'{"type": "Put", "channel": "s", "seq": 1, "time": "abc", "text": "b"}',
    b'{"type": "Put", "channel": "s", "seq": 2, "time": 2, "text": 5}',
    b'{"type": "Put", "channel": "s", "seq": 3, "time": "2026-02-30", "text": "c"}',
    b"{ this is no JSON",
    b"\xff\xfe not UTF-8",
    b"",
    b'{"type": "Put", "channel": "s", "seq": 4, "time": 3, "text": "' + b"x" * 5000 + b'"}',
    b'{"type": "Put", "channel": "s", "seq": 5, "time": 4, "text": "poison"}',
    b'{"type": "Put", "channel": "s", "seq": 6, "time": 9000, "text": "far ahead"}',
    b'{"type": "Put", "channel": "s", "seq": 7, "time": 5, "text": "bc"}',
]
REASONS = {
    1: "field 'time' of Put: expected int, got \"abc\" (text)",
    2: "field 'text' of Put: expected str, got 5 (int)",
    3: "field 'time' of Put: expected int, got \"2026-02-30\" (text)",
    4: "not JSON: Expecting property name enclosed in double quotes: line 1 column 3 (char 2)",
    5: "not UTF-8: byte 1 is 0xff",
    7: "the text takes 5,064 bytes; the limit is 2,000 (max_record_bytes)",
    8: "on Put: ValueError: this text can't be swallowed (test_bad_input.py:29)",
    9: "time 9000 is 8996 ahead of the channel; at most 100",
}


def test_whatever_is_wrong_with_a_line_the_line_is_kept(spark, tmp_path):
    from anabranch.spark import Files, read_rejected, run, write_directory

    (tmp_path / "in").mkdir()
    beat = json.dumps({"channel": "s", "seq": 8, "heartbeat": FOREVER}).encode()
    for number, lines in enumerate((LINES, [beat])):
        file = tmp_path / "in" / f"{number}.jsonl"
        file.write_bytes(b"\n".join(lines))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    source = Files.of(
        lengths,
        str(tmp_path / "in"),
        format="json",
        files_per_batch=1,
        channels=[Channel("s", max_ahead=100)],
    )
    result = run(lengths, [source], shards=2, max_record_bytes=2000)
    write_directory(
        result, output=tmp_path / "out", checkpoint=tmp_path / "state", available_now=True
    ).awaitTermination()

    rows = read_published(tmp_path / "out", lengths)
    found = {row.reason: row.raw for row in read_rejected(spark, tmp_path / "out").collect()}
    assert set(found) == set(REASONS.values())
    for place, reason in REASONS.items():
        line = LINES[place].decode("utf-8", "backslashreplace")
        if place in (8, 9):  # They were events before they were rejected.
            fields = json.loads(line)
            assert json.loads(found[reason]) == {n: fields[n] for n in ("time", "text")}
        else:
            assert found[reason] == (
                line if len(line) < 2000 else f"{line[:2000]}… (5,064 characters)"
            )
    outputs = {row.seq: json.loads(row.value) for row in rows if row.kind == "output"}
    assert outputs == {0: 0, 7: 1}
    ledger = Ledger(**json.loads((tmp_path / "out" / "batch=1" / "_ledger.json").read_text()))
    assert ledger == Ledger(input=10, processed=2, rejected=8)


def test_what_sparks_reader_gave_up_on_is_rejected_with_its_text(spark, tmp_path):
    from anabranch.spark import Frame, run

    (tmp_path / "in.json").write_bytes(b"\n".join([*LINES[:5], LINES[7]]))
    schema = "seq long, time long, text string, _corrupt_record string"
    frame = spark.read.schema(schema).json(str(tmp_path / "in.json"))
    source = Frame(frame, channel="s", event=Put, seq="seq", corrupt_column="_corrupt_record")
    result = run(lengths, [source], shards=2)
    found = {row.raw: (row.reason, row.seq) for row in result.rejected.collect()}
    # The number where a text should be is no fault to Spark's reader: it makes a text of it.
    expected = {LINES[n].decode(): (REASONS[n], n if n < 4 else None) for n in (1, 3, 4)}
    assert found == expected


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_column_of_json_is_read_as_kafka_brings_it(spark, kind):
    from anabranch.spark import Frame, run

    rows = [(0, '{"time": 1, "text": "ab", "offset": 77}'), (1, "nonsense"), (2, None)]
    rows += [(3, '{"time": 2, "text": "c"}')]
    frame = spark.createDataFrame(rows, "offset long, value string").coalesce(1)
    frame = frame.selectExpr("offset", f"CAST(value AS {kind}) AS value")
    source = Frame(frame, channel="s", event=Put, seq="offset", json_column="value")
    result = run(lengths, [source], shards=2)
    emitted = result.outputs.orderBy("time").collect()
    assert [(row.time, row.value) for row in emitted] == [(1, "0"), (2, "2")]
    bad = {row.seq: (row.reason, row.raw) for row in result.rejected.collect()}
    assert bad == {
        1: ("not JSON: Expecting value: line 1 column 1 (char 0)", "nonsense"),
        2: (
            "column 'value' is null; expected a JSON object",
            '{"offset":2,"value":null}',
        ),
    }


def test_a_text_column_that_is_not_utf8_does_not_stop_the_query(spark):
    from anabranch.spark import Frame, run

    frame = spark.range(1).selectExpr(
        "explode(array(struct(0L AS seq, 1L AS time, X'6162' AS raw), "
        "struct(1L AS seq, 2L AS time, X'FF' AS raw))) AS row"
    )
    frame = frame.selectExpr("row.seq", "row.time", "CAST(row.raw AS STRING) AS text").coalesce(1)
    result = run(lengths, [Frame(frame, channel="s", event=Put, seq="seq")], shards=2)
    assert [row.time for row in result.outputs.collect()] == [1]
    (bad,) = result.rejected.collect()
    assert bad.reason == "field 'text' of Put: expected str, got b'\\xff' (bytes)"
    assert json.loads(bad.raw) == {"seq": 1, "time": 2, "text": "\\xff"}
