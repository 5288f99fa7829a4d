"""Bad rows in a stream: each is rejected with its reason, and the query goes on."""

import json
import os
from typing import NamedTuple

import pytest

from anabranch import Program, depends, on
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER
from anabranch.state import Sum
from tests.faults.inputs import published

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
    from anabranch.spark.query import Feed, run
    from anabranch.spark.sinks import write_directory

    (tmp_path / "in").mkdir()
    for number, rows in enumerate((FIRST, SECOND)):
        write(tmp_path / "in" / f"{number}.json", rows, number)
    frame = (
        spark.readStream.schema("seq long, time long, text string, heartbeat long")
        .option("maxFilesPerTrigger", 1)
        .json(str(tmp_path / "in"))
    )
    feed = Feed(frame, "s", tag=Put, seq="seq", heartbeat="heartbeat")
    query = write_directory(run(lengths, [feed], shards=2), tmp_path / "out", tmp_path / "state")
    query.awaitTermination()

    assert published(tmp_path / "out") == [0, 1]
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    outputs = {row.seq: json.loads(row.value) for row in rows if row.kind == "output"}
    # An output sees the state before its own event.
    assert outputs == {0: 0, 6: 1, 7: 1 + len(LARGE)}
    reasons = sorted(
        (-1 if row.seq is None else row.seq, row.reason) for row in rows if row.kind == "rejected"
    )
    assert reasons == [
        (-1, "sequence 'seq' is None, not an integer"),
        (1, "on Put: ValueError: this text can't be swallowed"),
        (2, "time 'time' is null or missing"),
        (3, "time 'time' is null or missing"),
        (4, "time 'time' is null or missing"),
        (5, "field 'text' of Put is missing"),
    ]
    ledger = Ledger(**json.loads((tmp_path / "out" / "batch=1" / "_ledger.json").read_text()))
    assert ledger == Ledger(input=9, processed=3, rejected=6)
