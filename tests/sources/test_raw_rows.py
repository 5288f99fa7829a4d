"""Rows that are no events: what is kept of them, and the reason; no Spark is needed."""

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Event, Heartbeat, Malformed, Program, depends, on
from anabranch.eventtime.channels import Channel
from anabranch.microbatch.exchange.result_rows import RAW_CHARACTERS
from anabranch.microbatch.ingest.row_reader import Reading, read_row, take_in
from anabranch.microbatch.job.job import Job
from anabranch.plan.layouts import choose_layout
from anabranch.reference.event_files import read_items
from anabranch.sources.raw_rows import UNREADABLE, read_batch
from anabranch.state import Count
from anabranch.state.durable.codec import make_codec


class Put(NamedTuple):
    time: int
    text: str
    price: float = 0.0
    note: str | None = None


program = Program(on(Put, update=lambda n, put: n + 1), depends(Put, Put), state=Count())
job = Job(program, choose_layout(program, 2), {"s": Channel("s")}, make_codec(program))
BESIDE = {
    "type_column": "type",
    "channel_column": "channel",
    "seq": "seq",
    "heartbeat": "heartbeat",
}
LINES = Reading(**BESIDE, json_column="line")
CORRUPT = Reading(**BESIDE, corrupt_column="_corrupt_record")
GOOD = {"type": "Put", "channel": "s", "seq": 3, "time": 1, "text": "x"}


def read_line(line):
    return read_row(job, LINES, {"line": line})


def rejected_of(rows, reading):
    envelopes = [data for _, kind, data in take_in(job, reading, rows) if kind == "rejected"]
    return [entry for data in envelopes for entry in job.codec.decode(data)]


@pytest.mark.parametrize("line", [json.dumps(GOOD), json.dumps(GOOD).encode()])
def test_a_line_of_json_is_an_event(line):
    assert read_line(line) == Event(Put(1, "x"), "s", 3)


def test_what_stands_beside_a_text_is_not_the_senders_to_say():
    kafka = Reading(event_type="Put", channel="s", seq="offset", time="sent", json_column="value")
    value = json.dumps({"text": "x", "offset": 9, "sent": 8, "time": 7}).encode()
    row = {"value": value, "offset": 5, "sent": 6}
    assert read_row(job, kafka, row) == Event(Put(6, "x"), "s", 5)
    del row["sent"]
    assert read_row(job, kafka, row) == Event(Put(8, "x"), "s", 5)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{ this is no JSON", "not JSON: Expecting property name enclosed in double quotes"),
        ("nonsense", "not JSON: Expecting value"),
        ("[1, 2]", "not a JSON object but an array (each line is one object): [1, 2]"),
        (b'{"text": "\xff"}', "not UTF-8: byte 11 is 0xff"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8: byte 1 is 0xff"),
        (None, "column 'line' is null; expected a JSON object"),
        ({"text": 5}, "field 'text' of Put: expected str, got 5 (int)"),
        ({"text": None}, "field 'text' of Put: expected str, got null"),
        ({"text": {"a": 1}}, "field 'text' of Put: expected str, got {'a': 1} (dict)"),
        ({"time": "abc"}, "field 'time' of Put: expected int, got \"abc\" (text)"),
        ({"time": "2026-13-45"}, "field 'time' of Put: expected int, got \"2026-13-45\" (text)"),
        ({"time": 1.5}, "field 'time' of Put: expected int, got 1.5 (float)"),
        ({"time": None}, "time 'time' is null or missing"),
        ({"time": 1 << 80}, f"time {1 << 80} does not fit into 64 bits"),
        ({"price": "1"}, "field 'price' of Put: expected float, got \"1\" (text)"),
        ({"seq": "7"}, "sequence 'seq' is '7', not an integer"),
        ({"seq": 1 << 70}, f"sequence {1 << 70} does not fit into 64 bits"),
        ({"heartbeat": -(1 << 63) - 1}, f"heartbeat {-(1 << 63) - 1} does not fit into 64 bits"),
        ({"type": "Nope"}, "unknown event type 'Nope'"),
        ({"channel": None}, "unknown channel None; declared are s"),
        (
            {"text": "\ud800"},
            "field 'text' of Put: UTF-8 can't write \\ud800, half of a surrogate pair",
        ),
    ],
)
def test_a_bad_line_keeps_its_text_and_says_what_is_wrong(line, reason):
    text = json.dumps(GOOD | line) if isinstance(line, dict) else line
    item = read_line(text)
    assert isinstance(item, Malformed)
    assert item.reason.startswith(reason)
    if text is not None:
        shown = text if isinstance(text, str) else text.decode("utf-8", "backslashreplace")
        assert item.raw == shown


def test_differential_lines_are_judged_as_the_reference_judges_them(tmp_path):
    changes = [
        {}, {"text": 5}, {"text": None}, {"time": "abc"}, {"time": 1.5}, {"price": 3}, {"note": 4},
        {"price": None}, {"note": None}, {"extra": 1}, {"price": True}, {"time": True},
    ]  # fmt: skip
    lines = [json.dumps(GOOD | {"seq": n} | change) for n, change in enumerate(changes)]
    lines += ["{", "[]", '"x"']
    file = tmp_path / "s.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines))
    for line, expected in zip(lines, read_items(program, [str(file)]), strict=True):
        item = read_line(line)
        assert type(item) is type(expected), line
        if isinstance(expected, Malformed):
            assert item.raw == expected.raw == line
            assert item.reason == expected.reason.partition(": ")[2]
        else:
            assert item == expected


def test_a_blank_line_is_nothing():
    lines = ["", "  \t", b"\n", json.dumps(GOOD)]
    envelopes = list(take_in(job, LINES, [{"line": line} for line in lines]))
    assert {kind for _, kind, _ in envelopes} == {"chunks", "events"}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (
            '{"seq":3,"time":"abc","text":"x","type":"Put","channel":"s"}',
            "field 'time' of Put: expected int",
        ),
        ("{ broken", "not JSON: "),
        ("1;2;drei", UNREADABLE),
        (json.dumps(GOOD), UNREADABLE),
        (json.dumps(GOOD | {"heartbeat": 4}), UNREADABLE),
    ],
)
def test_a_row_that_a_reader_gave_up_on_is_rejected_with_its_text(raw, reason):
    partial = dict.fromkeys(GOOD) | {"heartbeat": None, "_corrupt_record": raw}
    item = read_row(job, CORRUPT, partial)
    assert isinstance(item, Malformed)
    assert item.reason.startswith(reason)
    assert item.raw == raw


def test_a_row_without_a_corrupt_text_is_read_as_ever():
    row = GOOD | {"heartbeat": None, "_corrupt_record": None}
    assert read_row(job, CORRUPT, row) == Event(Put(1, "x"), "s", 3)
    beat = row | {"heartbeat": 8}
    assert read_row(job, CORRUPT, beat) == Heartbeat(8, "s", 3)


@pytest.mark.parametrize("size", [99, 100, 101, 400])
def test_an_event_is_as_large_as_its_encoded_fields(size):
    reading = Reading(**BESIDE, max_bytes=100)
    overhead = len(job.codec.encode([1, "x" * 60, 0.0, None])) - 60
    row = GOOD | {"text": "x" * (size - overhead), "note": None}
    item = read_row(job, reading, row)
    if size <= 100:
        assert isinstance(item, Event)
    else:
        taken = len(job.codec.encode([1, row["text"], 0.0, None]))
        assert item.reason == f"Put takes {taken} bytes; the limit is 100 (max_record_bytes)"


def test_letters_beyond_ascii_weigh_what_they_weigh():
    reading = Reading(**BESIDE, max_bytes=100)
    assert isinstance(read_row(job, reading, GOOD | {"text": "ä" * 30}), Event)
    assert isinstance(read_row(job, reading, GOOD | {"text": "ä" * 60}), Malformed)


def test_a_text_that_is_too_long_is_not_even_parsed():
    reading = Reading(**BESIDE, json_column="line", max_bytes=1000)
    item = read_row(job, reading, {"line": b'{"text": "' + b"x" * 5000})
    assert item.reason == "the text takes 5,010 bytes; the limit is 1,000 (max_record_bytes)"


@pytest.mark.parametrize("reading", [LINES, Reading(**BESIDE)])
def test_what_comes_out_of_a_bad_row_is_bounded(reading):
    huge = "é" * 3_000_000
    row = GOOD | {"channel": huge, "type": huge, "text": huge}
    (entry,) = rejected_of([{"line": json.dumps(row)} if reading is LINES else row], reading)
    assert all(len(part) < RAW_CHARACTERS + 100 for part in entry if isinstance(part, str))
    name, *_, raw, reason = entry
    assert raw.endswith("characters)")
    assert "…" in reason or reading is LINES
    (other,) = rejected_of(
        [{"line": json.dumps(row | {"seq": 4})} if reading is LINES else row | {"seq": 4}], reading
    )
    assert other[0] != name


@given(
    st.binary(max_size=60)
    | st.text(max_size=60).map(lambda text: json.dumps({"text": text}).encode())
)
def test_law_whatever_a_line_holds_it_is_counted_and_can_be_written(data):
    (entry, *_) = rejected_of([{"line": data}], LINES) or [()]
    assert entry or not data.removeprefix("﻿".encode()).strip()
    for part in entry:
        if isinstance(part, str):
            part.encode("utf-8")


def test_a_text_column_that_is_not_utf8_is_no_poison():
    pa = pytest.importorskip("pyarrow")
    good, bad = json.dumps(GOOD), b"\xff\xfe"
    texts = pa.array([good.encode(), bad, None], pa.binary())
    column = pa.StringArray.from_buffers(3, *texts.buffers()[1:], texts.buffers()[0])
    batch = pa.RecordBatch.from_arrays([column, pa.array([1, 2, 3])], ["text", "seq"])
    with pytest.raises(UnicodeDecodeError):
        batch.to_pylist()
    rows = list(read_batch(batch))
    assert rows == [{"text": good, "seq": 1}, {"text": bad, "seq": 2}, {"text": None, "seq": 3}]
    row = GOOD | {"text": bad}
    item = read_row(job, Reading(**BESIDE), row)
    assert item.reason == "field 'text' of Put: expected str, got b'\\xff\\xfe' (bytes)"
