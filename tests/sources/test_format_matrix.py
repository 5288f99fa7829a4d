"""File formats × readers: every runtime finds the same events and the same rejected rows in a file; no Spark is needed."""

import json
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Event, Heartbeat, Malformed, Program, depends, on
from anabranch.eventtime.channels import Channel, find_fault
from anabranch.kernels.column_layouts import read_record
from anabranch.microbatch.columns.event_tables import read_columns
from anabranch.microbatch.exchange.envelope_kinds import Kind
from anabranch.microbatch.exchange.envelopes import unpack_chunks, unpack_events
from anabranch.microbatch.ingest.file_rows import Folder, list_columns, read_rows, take_in_rows
from anabranch.microbatch.ingest.row_reader import Reading, describe_malformed
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.job import Job
from anabranch.plan.layouts import choose_layout
from anabranch.reference.event_files import read_items
from anabranch.sources.files import Files, Taken, list_files, read_file
from anabranch.state import Count, MapOf
from anabranch.state.durable.codec import make_codec


class Put(NamedTuple):
    time: int
    text: str
    price: float
    flag: bool


program = Program(
    on(Put, update=lambda n, e: n + 1),
    depends(Put, Put, same="text"),
    state=MapOf(Count(), by="text"),
)
layout = choose_layout(program, 2)
CHANNELS = {"s": Channel("s", lateness=None)}
PLAN = plan_columns(program, layout, CHANNELS, numbered=True)
READING = Reading(event_type="Put", channel="s", heartbeat="heartbeat")
GOOD = {"time": 1, "text": "a", "price": 0.5, "flag": True}


class Result(NamedTuple):
    """What a reader made of a file: events by place, rejected rows by place, and the largest heartbeat."""

    events: dict[int, str]
    rejected: dict[int, str]
    promised: int | None


def read_as_reference(file, reading=READING):
    events, rejected, promised = {}, {}, None
    for item in read_items(program, [str(file)]):
        fault = find_fault(item, program.event_types) if isinstance(item, Event) else None
        if isinstance(item, Heartbeat):
            promised = item.time if promised is None else max(promised, item.time)
        elif isinstance(item, Malformed) or fault:
            raw = item.raw if isinstance(item, Malformed) else None
            rejected[item.seq] = show(raw)
        else:
            assert type(item.data.price) is float
            events[item.seq] = repr(item.data)
    return Result(events, rejected, promised)


def show(raw):
    """Return a raw row of the reference as other runtimes write it: with no byte that is no text."""
    if isinstance(raw, str):
        raw = raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return None if raw is None else describe_malformed(Malformed(raw, ""))[7]


def read_as_task(folder, form, *, columns, reading=READING):
    job = Job(program, layout, CHANNELS, make_codec(program), columns=PLAN if columns else None)
    files = Folder(Files(folder, format=form), reading)
    envelopes = [
        envelope
        for batches in read_rows(job, files, list_files(files.files, Taken()))
        for envelope in take_in_rows(job, files, batches)
    ]
    events, rejected, promised = {}, {}, None
    for shard, kind, payload in envelopes:
        if kind == "rejected":
            rejected |= {row[4]: row[7] for row in job.codec.decode(payload)}
        elif kind == "chunks" and shard == 0:
            beats = [
                c.promised for c in unpack_chunks(job.codec, payload) if c.promised is not None
            ]
            promised = max([*beats, *([] if promised is None else [promised])], default=None)
        elif kind == "events":
            carried = unpack_events(job.codec, program.event_types, payload)
            events |= {one.event.seq: repr(one.event.data) for one in carried}
        elif kind in (Kind.TABLE, Kind.LATE_TABLE):
            table = read_columns(lambda _: read_record(Put), payload)
            seqs = table.more["seq"].tolist()
            events |= dict(zip(seqs, map(repr, table.columns.unpack()), strict=True))
    return Result(events, rejected, promised)


def line(**changes):
    return json.dumps(GOOD | changes)


def raw_line(**cells):
    """Return a line of JSON with values as they are spelled."""
    pairs = {name: json.dumps(value) for name, value in GOOD.items()} | cells
    return "{" + ", ".join(f'"{name}": {value}' for name, value in pairs.items()) + "}"


INTS = ["0", "-0", "7", "-3", "1.0", "1e3", "-1E2", "1e400", "007", "+5", "0x1F", "true", "null", '"7"',
        "9223372036854775806", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
        "8999999999999999999", "1" + "0" * 30, "9" * 400, "9" * 5000, "NaN", "Infinity", "[1]", "{}", "",
        "1_0", "2026-01-01", '"2026-01-01"', "٣", " 5 ", "\t5", "5\r", "5,", "'5'"]  # fmt: skip
FLOATS = [*INTS, "-0.0", "0.0", "1.5", ".5", "1.", "1e-400", "1e308", "1e309", "-1e309", "1" + "0" * 400,
          "1" + "0" * 400 + ".5", "0." + "0" * 400 + "1", "4.9e-324", "-Infinity", "nan", "inf", "1E+5",
          "0.1", "123456789.123456789123456789", "179769313486231580793728971405301e276"]  # fmt: skip
TEXTS = ['""', '"a"', '"é"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud800x"',
         '"\\n\\t\\/\\b"', '"\\u0000"', '"\x00"', '"\t"', '"\\x"', '"a', 'a"', "5", "null", "true", "[]",
         '{"a": 1}', '"2026-01-01"', '"NaN"', '"{}"', '"\\"time\\": 2"', '"12:30:00"', '"' + "x" * 3000 + '"',
         '"\u2028\u2029\x85\x0b\x0c"', "'a'", '"\\u00E9\\uD83D\\uDE00"', '"😀"', '"\\u12"']  # fmt: skip
FLAGS = ["true", "false", "True", "TRUE", "1", "0", '"true"', "null", "tru", "truefalse"]

CELLS = {
    **{f"time={v[:40]!r}": raw_line(time=v) for v in INTS},
    **{f"price={v[:40]!r}": raw_line(price=v) for v in FLOATS},
    **{f"text={v[:40]!r}": raw_line(text=v) for v in TEXTS},
    **{f"flag={v!r}": raw_line(flag=v) for v in FLAGS},
    **{f"more={v[:40]!r}": raw_line(more=v) for v in [*FLOATS, *TEXTS]},
    **{f"heartbeat={v[:40]!r}": raw_line(heartbeat=v) for v in INTS},
}
"""Lines with one odd value, each of which is read alone, and among plain ones."""

DEEP = "[" * 150 + "]" * 150
LINES = {
    "null": "null", "a number": "5", "an array": "[1]", "a text": '"x"', "nothing": "", "spaces": " \t ",
    "empty object": "{}", "open": "{", "half": line()[:20], "two objects": line() + line(time=2),
    "two objects with a space": line() + " " + line(time=2), "an object and a comma": line() + ",",
    "an object and a text": line() + "x", "duplicate": '{"time": 5, ' + line()[1:],
    "duplicate last": line()[:-1] + ', "time": "x"}', "duplicate of another": line()[:-1] + ', "x": 1, "x": 2}',
    "escaped name": line().replace('"time"', '"ti\\u006de"'), "both names": line()[:-1] + ', "ti\\u006de": 9}',
    "nested": line(more={"time": 3, "list": [1, {"a": [2]}]}), "nested twice": line(more=[[{"time": 3}]]),
    "deep": line()[:-1] + f', "more": {DEEP}}}', "deeper": line()[:-1] + f', "more": {DEEP[:150] * 9}}}',
    "deeper and closed": line()[:-1] + ', "more": ' + "[" * 900 + "]" * 900 + "}",
    "very deep": "[" * 100_000, "brackets in a text": line(more="[" * 5000),
    "trailing comma": line()[:-1] + ",}", "comment": line() + " // x", "single quotes": str(GOOD),
    "spread": '{ "time" : 1 ,\t"text":"a" , "price" :0.5, "flag": true }  ', "space before": "  " + line(),
    "missing time": line().replace('"time"', '"when"'), "missing text": line().replace('"text"', '"words"'),
    "beat": '{"heartbeat": 4}', "beat and event": line(heartbeat=4), "no beat": line(heartbeat=None),
    "long": line(text="x" * 2_000), "form source": "\x0c" + line(), "vertical tab": line() + "\x0b",
    "name in a text": line(text='"time"'), "empty name": line()[:-1] + ', "": 1}',
    "name with a quote": line()[:-1] + ', "a\\"b": 1}', "name é": line(é=1), "no-break space": "\u00a0" + line(),
    "lone return": line().replace(" ", "\r", 1), "return in a text": line()[:-1] + ', "x": "a\rb"}',
}  # fmt: skip

JOINED = "\n".join([line(time=n) for n in range(3)])
BYTES = {
    "empty": b"", "one newline": b"\n", "newlines": b"\n\n\n", "no newline at the end": JOINED.encode(),
    "crlf": JOINED.replace("\n", "\r\n").encode() + b"\r\n", "lone cr": JOINED.replace("\n", "\r").encode(),
    "cr crlf": JOINED.replace("\n", "\r\r\n").encode(), "blank lines": JOINED.replace("\n", "\n\n \n").encode(),
    "bom": b"\xef\xbb\xbf" + JOINED.encode(), "only a bom": b"\xef\xbb\xbf", "bom and a blank": b"\xef\xbb\xbf \n",
    "bom twice": b"\xef\xbb\xbf" * 2 + JOINED.encode(), "bom inside": JOINED.replace("\n", "\n\ufeff").encode(),
    "bom and a return": b"\xef\xbb\xbf\r\n" + JOINED.encode(),
    "utf-16": JOINED.encode("utf-16"), "utf-16-le": JOINED.encode("utf-16-le"), "utf-32": JOINED.encode("utf-32"),
    "utf-16-be": JOINED.encode("utf-16-be"), "latin-1": line(time=2).replace("a", "é").encode("latin-1"),
    "one bad byte": JOINED.encode() + b'\n{"time": 9, "text": "\xff", "price": 1, "flag": true}\n' + line().encode(),
    "bad byte elsewhere": line()[:-1].encode() + b', "more": "\xff"}\n' + line().encode(),
    "surrogate bytes": line().replace('"a"', '"@"').encode().replace(b"@", b"\xed\xa0\x80"),
    "overlong": line().replace('"a"', '"@"').encode().replace(b"@", b"\xc0\x80"),
    "object over two lines": line().replace(", ", ",\n", 1).encode(), "first null": b"null\n" + JOINED.encode(),
    "array over lines": ("[\n" + JOINED.replace("\n", ",\n") + "\n]").encode(), "only null": b"null",
    "many nulls": b"null\n" * 50, "nul bytes": b"\x00" * 100, "a nul after": JOINED.encode() + b"\x00\n",
    "tabs": b"\t\n" + JOINED.encode(), "ff line": b"\x0c\n" + JOINED.encode(), "gzip": bytes.fromhex("1f8b0800"),
    "zip": b"PK\x03\x04" + b"\x00" * 30, "parquet": b"PAR1" + b"\x00" * 30 + b"PAR1",
}  # fmt: skip


def check(tmp_path, form, data, ending=None):
    file = tmp_path / f"s.{ending or form}"
    file.write_bytes(data)
    compare(tmp_path, form, file)


def compare(folder, form, file):
    expected = read_as_reference(file)
    rows, columns = (read_as_task(folder, form, columns=by_columns) for by_columns in (False, True))
    assert rows == columns
    assert rows._replace(rejected={}) == expected._replace(rejected={})
    assert [*rows.rejected] == [*expected.rejected]
    for place, raw in expected.rejected.items():
        assert raw is None or rows.rejected[place] == raw
    return expected


def test_the_columnar_path_is_tested():
    assert not isinstance(PLAN, str)


@pytest.mark.parametrize("text", [*CELLS.values(), *LINES.values()], ids=[*CELLS, *LINES])
def test_a_line_of_json_means_the_same_to_every_reader(tmp_path, text):
    check(tmp_path, "json", text.encode() + b"\n")
    lines = [line(time=2), text, line(time=3, more=1), text, line(time=4)]
    check(tmp_path, "json", "\n".join(lines).encode())


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES)
def test_a_file_of_json_means_the_same_to_every_reader(tmp_path, data):
    check(tmp_path, "json", data)


HEADER = "time,text,price,flag,heartbeat"
PLAIN_CELLS = ["1", "a", "0.5", "true", ""]
CSV_TEXTS = ["", '""', "a", "é", '"a, b"', '"a\nb"', '"a\r\nb"', '"a\rb"', "a\rb", '"say ""x"""', '5" disk', ' "x"',
             '"a"b', '"a', 'a"', '"', '"""', "\x00", '"\x00"', " ", "null", "NA", "007", "2026-01-01", "\ufeff",
             "\u2028", "😀", '"{""a"":1}"', "x" * 3000, "a\tb", "a;b", "'a'", "\x0b", "\x85"]  # fmt: skip
CSV_FLAGS = [
    "true",
    "True",
    "TRUE",
    "tRue",
    "falſe",
    "false",
    "FALSE",
    "1",
    "0",
    "",
    " true",
    "yes",
    '"true"',
    '"TRUE"',
]


def csv_row(place, cell):
    return ",".join([*PLAIN_CELLS[:place], cell, *PLAIN_CELLS[place + 1 :]])


CSV_ROWS = {
    f"{name}={cell[:40]!r}": csv_row(place, cell)
    for place, (name, cells) in enumerate([
        ("time", [*INTS, '"7"', '" 7"', '"7']), ("text", CSV_TEXTS), ("price", [*FLOATS, '"1.5"', '"-0"', "++nan", "-nan"]),
        ("flag", CSV_FLAGS), ("heartbeat", [*INTS, '"4"']),
    ])
    for cell in cells
} | {"short": "1,a", "long": "1,a,1,true,,", "blank": "", "spaces": "  ", "commas": ",,,,", "tab": "1\ta", "quote": '"',
     "beat": ",,,,4", "only quotes": '"","","","",""', "open": '1,"a,1,true,', "return": "1,a,1,true,\r"}  # fmt: skip

SHEET = "\n".join([HEADER, *(f"{n},t,{n}.5,true," for n in range(3))])
SHEETS = {
    "empty": b"", "newlines": b"\n\r\n", "header only": HEADER.encode(), "no newline at the end": SHEET.encode(),
    "crlf": SHEET.replace("\n", "\r\n").encode(), "cr crlf": SHEET.replace("\n", "\r\r\n").encode(),
    "bom": b"\xef\xbb\xbf" + SHEET.encode(), "only a bom": b"\xef\xbb\xbf", "blank first": b"\n\r\n" + SHEET.encode(),
    "blank lines": SHEET.replace("\n", "\n\n").encode(), "quoted names": SHEET.replace("text", '" text "').encode(),
    "name twice": SHEET.replace("heartbeat", "text").encode(), "name missing": SHEET.replace("text", "words").encode(),
    "one column": b"time\n1\n\n2\n", "more columns": SHEET.replace("\n", ",x\n").encode() + b",x",
    "bad byte": SHEET.encode() + b"\n5,a\xff,1,true,\n6,b,1,true,", "bad byte elsewhere": b"time,text,price,flag,x\n1,a,1,true,\xff\n2,a,1,true,\n",
    "latin-1": SHEET.replace("t,", "é,").encode("latin-1"), "nul": SHEET.encode() + b"\n\x00,\x00",
    "open quote at the end": SHEET.encode() + b'\n9,"a,1,true,\n9,b,1,true,\n', "quote over lines": SHEET.encode() + b'\n9,"a\n\n8,b,1,true,\n",1,true,\n7,c,1,true,\n',
    "open and closed quotes": SHEET.encode() + b'\n9,"a,1,true,\n9,"b",1,true,\n9,"c\nd",1,true,\n9,"e,1,true,\n',
    "names é": SHEET.replace("heartbeat", "é").encode(), "same name empty": b"time,,text,,price,flag\n1,x,a,y,1,true\n",
}  # fmt: skip


@pytest.mark.parametrize("row", CSV_ROWS.values(), ids=CSV_ROWS)
def test_a_row_of_csv_means_the_same_to_every_reader(tmp_path, row):
    check(tmp_path, "csv", f"{HEADER}\n{row}\n".encode())
    rows = [HEADER, csv_row(0, "2"), row, csv_row(1, '"b"'), row, csv_row(0, "4")]
    check(tmp_path, "csv", "\n".join(rows).encode())


@pytest.mark.parametrize("data", SHEETS.values(), ids=SHEETS)
def test_a_file_of_csv_means_the_same_to_every_reader(tmp_path, data):
    check(tmp_path, "csv", data)


def table(**columns):
    size = max(len(column) for column in columns.values()) if columns else 1
    plain = {
        "time": pa.array(range(size)), "text": pa.array(["a"] * size), "price": pa.array([0.5] * size),
        "flag": pa.array([True] * size),
    }  # fmt: skip
    return pa.table(plain | columns)


def broken_text(kind):
    """Return texts, of which one is not UTF-8."""
    texts = pa.array([b"a", b"\xff", None], pa.binary())
    return pa.StringArray.from_buffers(3, *texts.buffers()[1:], texts.buffers()[0]).cast(kind)


def moments(unit, zone, *numbers):
    return pa.array(numbers, pa.int64()).cast(pa.timestamp(unit, zone))


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = {
    "plain": table(), "no rows": table().slice(0, 0), "nulls": table(time=pa.array([1, None]), text=pa.array(["a", "b"])),
    **{f"time {k}": table(time=pa.array([1, 2], k)) for k in (pa.int8(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float64())},
    "uint64 of 2**63": table(time=pa.array([1, 1 << 63, (1 << 64) - 1, 5], pa.uint64())),
    "least and largest": table(time=pa.array([-(1 << 63), 1 - (1 << 63), (1 << 63) - 2, (1 << 63) - 1])),
    **{f"price {k}": table(price=pa.array([1, 2]).cast(k)) for k in (pa.float32(), pa.int64(), pa.uint64(), pa.decimal128(21, 1), pa.string())},
    "odd floats": table(price=pa.array([float("nan"), float("inf"), -0.0, 5e-324, None])),
    "half floats": table(price=pa.array([0.5, 1.5]).cast(pa.float16())),
    **{f"text {k}": table(text=pa.array(["a", None, ""], k)) for k in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))},
    "binary text": table(text=pa.array([b"a", b"\xff"])), "text of lists": table(text=pa.array([["a"], None])),
    "broken text": table(text=broken_text(pa.string())), "long text": table(text=pa.array(["x" * 5000])),
    "flag int": table(flag=pa.array([1, 0])), "flag nulls": table(flag=pa.array([True, None])),
    "null column": table(text=pa.nulls(2)), "missing column": table().drop_columns(["text"]),
    "more columns": table(more=pa.array([{"a": 1}])), "beats": table(heartbeat=pa.array([None, 5, None])),
    "beats of uint64": table(heartbeat=pa.array([None, 1 << 63, 4], pa.uint64())),
    **{f"moments {u} {z}": table(time=moments(u, z, -1, 0, 1_700_000_000)) for u in ("s", "ms", "us", "ns") for z in ("UTC", "Europe/Berlin")},
    "odd nanoseconds": table(time=moments("ns", "UTC", -1_001, -1_000, -999, 999, 1_700_000_000_123_456_789)),
    "moments far away": table(time=moments("us", "UTC", 1 << 61, -(1 << 61), 5)),
    "seconds far away": table(time=moments("s", "UTC", 1 << 50, 5)),
    "dates": table(time=pa.array([MOMENT.date()])), "durations": table(time=pa.array([timedelta(seconds=1)])),
    "decimals": table(time=pa.array([Decimal(5)])),
}  # fmt: skip


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("columns", TABLES.values(), ids=TABLES)
def test_a_table_means_the_same_to_every_reader(tmp_path, columns, form):
    file = tmp_path / f"s.{form}"
    write_table(file, columns)
    compare(tmp_path, form, file)


def write_table(file, columns):
    if file.suffix == ".parquet":
        pq.write_table(columns, file)
        return
    with pa.ipc.new_file(str(file), columns.schema) as writer:
        writer.write_table(columns)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_required_and_optional_columns_of_one_task_are_read(tmp_path, form):
    optional = table().schema
    required = pa.schema([field.with_nullable(False) for field in optional])
    for number, schema in enumerate([optional, required, optional.with_metadata({"a": "b"})]):
        write_table(tmp_path / f"{number}.{form}", pa.table(table().columns, schema=schema))
    for columns in (False, True):
        found = read_as_task(tmp_path, form, columns=columns)
        assert [*found.events] == [0, 1 << 32, 2 << 32]
        assert not found.rejected


def test_a_dictionary_with_a_null_in_it_is_read(tmp_path):
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None]))
    write_table(tmp_path / "s.arrow", table(text=texts))
    expected = compare(tmp_path, "arrow", tmp_path / "s.arrow")
    assert [*expected.rejected] == [1]


def test_broken_lines_leave_the_others_on_the_columnar_path(tmp_path):
    lines = [line(time=n) if n % 50 else line(time=n)[:-3] for n in range(1, 1000)]
    (tmp_path / "s.json").write_text("\n".join(lines))
    rows = [csv_row(0, str(n)) if n % 50 else f"{n},a" for n in range(1, 1000)]
    (tmp_path / "s.csv").write_text("\n".join([HEADER, *rows]))
    job = Job(program, layout, CHANNELS, make_codec(program), columns=PLAN)
    for form in ("json", "csv"):
        files = Files(tmp_path, format=form)
        (found,) = (f for f in list_files(files, Taken()) if f.name.endswith(form))
        (batch,) = read_file(files, found, list_columns(job, READING))
        assert batch.column("time").null_count == 19
        envelopes = list(take_in_rows(job, Folder(files, READING), [batch]))
        chunks = [
            unpack_chunks(job.codec, p) for to, kind, p in envelopes if (to, kind) == (0, "chunks")
        ]
        assert [len(part) for part in chunks] == [0, 1]


def test_floats_come_back_to_the_bit(tmp_path):
    spelled = [
        "0.1",
        "1e23",
        "9007199254740993",
        "123456789012345678901234567890",
        "1.7976931348623157e30",
        "5e-99",
    ]
    (tmp_path / "s.json").write_text("\n".join(raw_line(price=cell) for cell in spelled))
    compare(tmp_path, "json", tmp_path / "s.json")
    job = Job(program, layout, CHANNELS, make_codec(program), columns=PLAN)
    files = Files(tmp_path, format="json")
    (batch,) = read_file(files, list_files(files, Taken())[0], list_columns(job, READING))
    bits = [struct.pack("d", value) for value in batch.column("price").to_pylist()]
    assert bits == [struct.pack("d", float(cell)) for cell in spelled]
