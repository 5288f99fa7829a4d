"""Files of events and outputs: what is written is what is read, and no row is ever lost."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Event, Heartbeat, Malformed, Program, on
from anabranch.errors import InputError
from anabranch.eventtime.channels import end_channels
from anabranch.model.values.fields import encode_value
from anabranch.reference.event_files import encode_item, read_items
from anabranch.reference.rows import read_rows, write_rows
from anabranch.reference.sequential import run


class Temp(NamedTuple):
    time: int
    celsius: float
    room: str = "hall"


class Report(NamedTuple):
    time: int
    kind: Literal["day", "night"] | None


class Colour(Enum):
    RED = "red"


class Spot(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Rich:
    time: int
    flag: bool
    amount: Decimal
    colour: Colour
    spot: Spot
    path: tuple[int, ...]
    note: str | None
    event_types: frozenset[str] = frozenset()


class Odd(NamedTuple):
    time: int
    channel: str
    type: int
    seq: str


two = Program(on(Temp), on(Report), init=None)
one = Program(on(Temp), init=None)
rich = Program(on(Rich), init=None)
odd = Program(on(Odd), init=None)


def write(tmp_path, name, *lines):
    file = tmp_path / name
    file.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return str(file)


def reasons(items):
    return [item.reason.partition(": ")[2] for item in items if isinstance(item, Malformed)]


def test_a_row_is_an_event_with_its_channel_and_sequence(tmp_path):
    file = write(
        tmp_path,
        "rows.jsonl",
        {"type": "Temp", "time": 1, "celsius": 20.5, "channel": "t1", "seq": 4},
        {"type": "Report", "time": 2, "kind": "day", "channel": "r", "seq": 0},
        {"heartbeat": 5, "channel": "t1"},
    )
    assert read_items(two, [file]) == [
        Event(Temp(1, 20.5), "t1", 4),
        Event(Report(2, "day"), "r", 0),
        Heartbeat(5, "t1", 4),
    ]


def test_what_may_be_left_out_is_the_event_type_the_channel_the_sequence_and_defaults(tmp_path):
    file = write(tmp_path, "t1.jsonl", {"time": 1, "celsius": 20}, "", {"time": 2, "celsius": 21})
    assert read_items(one, [file]) == [Event(Temp(1, 20.0), "t1", 0), Event(Temp(2, 21.0), "t1", 1)]


def test_sequence_numbers_go_on_in_the_next_file_of_the_same_channel(tmp_path):
    first = write(tmp_path, "a.jsonl", {"time": 1, "celsius": 1, "channel": "t"})
    second = write(tmp_path, "b.jsonl", {"time": 2, "celsius": 2, "channel": "t"})
    assert [item.seq for item in read_items(one, [first, second])] == [0, 1 << 32]


def test_an_integer_field_takes_no_text_no_float_and_no_bool(tmp_path):
    rows = [{"time": value, "celsius": 1.0} for value in ("1", 1.0, True, None)]
    items = read_items(one, [write(tmp_path, "t.jsonl", *rows)])
    assert reasons(items) == [
        "field 'time' of Temp: expected int, got \"1\" (text)",
        "field 'time' of Temp: expected int, got 1.0 (float)",
        "field 'time' of Temp: expected int, got true (bool)",
        "field 'time' of Temp: expected int, got null",
    ]


def test_every_bad_row_becomes_malformed_with_its_place_and_reason(tmp_path):
    file = write(
        tmp_path,
        "t.jsonl",
        "{broken",
        "[1, 2]",
        {"type": "Temp", "time": 1},
        {"type": "Tmp", "time": 1},
        {"time": 1},
        {"type": "Temp", "time": 1, "celsius": 1, "channel": 5},
        {"heartbeat": "soon"},
        {"type": "Report", "time": 1, "kind": "noon"},
        {"type": "Temp", "time": 9, "celsius": 1},
    )
    items = read_items(two, [file])
    assert len(items) == 9
    assert items[-1] == Event(Temp(9, 1.0), "t", 8)
    assert [item.seq for item in items] == list(range(9))
    assert items[0].raw == "{broken"
    assert items[0].reason.startswith(f"{file}:1: not JSON: Expecting property name")
    assert reasons(items)[1:] == [
        "not a JSON object but an array (each line is one object): [1, 2]",
        "field 'celsius' of Temp is missing",
        "unknown event type 'Tmp'; the program knows Temp, Report",
        "event type is missing; the program knows Temp, Report",
        "channel: expected str, got 5 (int)",
        'heartbeat: expected int, got "soon" (text)',
        "field 'kind' of Report: expected one of 'day', 'night', got \"noon\" (text)",
    ]


def test_bytes_that_are_no_text_are_kept_and_rejected(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'{"time": 1, "celsius": 1, "room": "\xff"}\n')
    (item,) = read_items(one, [str(file)])
    assert item.reason.endswith("not UTF-8: byte 36 is 0xff")
    assert item.raw.encode("utf-8", "surrogateescape") == file.read_bytes().rstrip()


def test_a_deeply_nested_line_is_rejected_and_does_no_harm(tmp_path):
    items = read_items(one, [write(tmp_path, "t.jsonl", "[" * 100_000)])
    assert len(reasons(items)) == 1


def test_a_channel_that_numbers_only_some_rows_loses_none(tmp_path):
    file = write(
        tmp_path,
        "t.jsonl",
        {"time": 1, "celsius": 1, "seq": 0},
        {"time": 2, "celsius": 1},
        {"time": 3, "celsius": 1, "seq": 0},
        "oops",
    )
    items = read_items(one, [file])
    kinds = [type(item).__name__ for item in items]
    assert kinds == ["Event", "Malformed", "Event", "Malformed"]
    assert [item.seq for item in items] == [0, 1, 0, 2]
    assert reasons(items)[0] == "seq is missing, and other rows of channel 't' have one"
    answer = run(one, end_channels(items))
    repeated = "sequence 0 of channel 't' is not larger than the last: it came before, or too late"
    assert [r.reason for r in answer.rejected if r.item is items[2]] == [repeated]
    assert (answer.ledger.processed, answer.ledger.rejected) == (1, 3)


def test_fields_called_as_what_stands_beside_them_keep_the_plain_word(tmp_path):
    event = Event(Odd(1, "mine", 7, "x"), "outside", 3)
    row = encode_item(event)
    assert row == {
        "@type": "Odd", "time": 1, "channel": "mine", "type": 7, "seq": "x",
        "@channel": "outside", "@seq": 3,
    }  # fmt: skip
    assert read_items(odd, [write(tmp_path, "o.jsonl", row)]) == [event]
    bare = {"time": 1, "channel": "mine", "type": 7, "seq": "x"}
    assert read_items(odd, [write(tmp_path, "o.jsonl", bare)]) == [Event(event.data, "o", 0)]


RICH = Rich(
    3, True, Decimal("0.10"), Colour.RED, Spot(1, -2), (1, 2), None, frozenset({"b", "a"})
)  # fmt: skip


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_items_come_back_as_they_were_written(tmp_path, ending):
    items = [Event(RICH, "s", 0), Event(RICH, "s", 1), Heartbeat(9, "s", 2)]
    file = str(tmp_path / f"events.{ending}")
    write_rows(file, [encode_item(item) for item in items])
    assert read_items(rich, [file]) == items


def test_csv_cells_are_read_by_the_type_of_their_field(tmp_path):
    file = write(
        tmp_path,
        "rows.csv",
        "type,time,celsius,room,kind,heartbeat,channel",
        "Temp,1,20,,,,t1",
        'Temp,2,-1.5,"a,b",,,t1',
        "Report,3,,,night,,t2",
        "Report,4,,,,,t2",
        ",,,,,7,t1",
        "Temp,1.5,20,,,,t1",
        "Temp,5,20",
    )
    items = read_items(two, [file])
    assert items[:5] == [
        Event(Temp(1, 20.0), "t1", 0),
        Event(Temp(2, -1.5, "a,b"), "t1", 1),
        Event(Report(3, "night"), "t2", 2),
        Event(Report(4, None), "t2", 3),
        Heartbeat(7, "t1", 4),
    ]
    assert reasons(items) == [
        "field 'time' of Temp: expected int, got 1.5 (float)",
        "3 columns where the header names 7",
    ]


def test_a_csv_cell_that_python_can_not_make_a_number_of_is_rejected(tmp_path):
    cells = [("9" * 5000, "1"), ("1", "++nan"), ("1", "9" * 5000), ("1", "-inf")]
    rows = [f"Temp,{time},{celsius}" for time, celsius in cells]
    *bad, good = read_items(two, [write(tmp_path, "rows.csv", "type,time,celsius", *rows)])
    assert [reason.partition(", got")[0] for reason in reasons(bad)] == [
        "field 'time' of Temp: expected int",
        "field 'celsius' of Temp: expected float",
        "field 'celsius' of Temp: expected float",
    ]
    assert good.data == Temp(1, -math.inf)


def test_timestamps_of_a_parquet_file_are_microseconds(tmp_path):
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    file = str(tmp_path / "t.parquet")
    for unit in ("ms", "us", "ns"):
        times = pa.array([moment], pa.timestamp(unit, "UTC"))
        pq.write_table(pa.table({"time": times, "celsius": [1.0]}), file)
        (item,) = read_items(one, [file])
        assert item.time == 1_714_564_800_000_000


def test_outputs_of_any_kind_survive_parquet(tmp_path):
    file = str(tmp_path / "o.parquet")
    for values in ([1, 2], [1, 2.5], [1, "a"], [{"a": 1}, {"b": 2}], [2**70], [[1, "x"]], [None]):
        rows = [{"time": n, "seq": None, "value": value} for n, value in enumerate(values)]
        write_rows(file, rows)
        assert json.dumps([row.columns for row in read_rows(file)]) == json.dumps(rows)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("gone.jsonl", None, "there is no file"),
        ("rows.txt", "x", "does not show the format of the file"),
        ("rows.parquet", "not parquet", "is not a Parquet file"),
    ],
)
def test_a_file_that_is_no_file_of_events_is_refused(tmp_path, name, content, reason):
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=reason):
        read_items(one, [str(file)])


def test_values_are_encoded_as_json_can_hold_them():
    value = {"a": (1, {2, 1}), "b": Decimal("1.50"), "c": Colour.RED, "d": Spot(1, 2), "e": b"\x00"}
    assert encode_value(value) == {
        "a": [1, [1, 2]], "b": "1.50", "c": "red", "d": {"x": 1, "y": 2}, "e": "AA=="
    }  # fmt: skip
    assert encode_value({1: 2}) == [[1, 2]]


def test_a_row_that_does_not_tell_its_channel_is_counted_with_the_row_before_it(tmp_path):
    file = write(
        tmp_path,
        "both.jsonl",
        "oops",
        {"time": 1, "celsius": 1, "channel": "a"},
        {"time": 1, "celsius": 1, "channel": "b"},
        "oops",
        {"time": 1, "celsius": "warm", "channel": "c"},
        {"time": 1, "channel": "a"},
    )
    items = read_items(one, [file])
    assert [(item.channel, item.seq) for item in items] == [
        ("a", 0), ("a", 1), ("b", 2), ("b", 3), ("c", 4), ("a", 5)
    ]  # fmt: skip
