"""CSV: a row means the same in bulk, line by line, and to the reference; no Spark is needed."""

import random
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch import Event, Heartbeat, Malformed, Program, depends, on
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, describe_stranger, find_fault
from anabranch.microbatch.ingest.file_rows import list_columns, number_rows
from anabranch.microbatch.ingest.row_reader import Reading, read_row
from anabranch.microbatch.job.job import Job
from anabranch.plan.layouts import choose_layout
from anabranch.reference.event_files import read_items
from anabranch.sources.arrow_tables import read_batch
from anabranch.sources.files import ROW, Files, Taken, list_files, read_file
from anabranch.sources.single_rows import read_csv_rows
from anabranch.sources.text_blocks import LINE, read_csv_blocks
from anabranch.state import Count
from anabranch.state.durable.codec import make_codec

pa = pytest.importorskip("pyarrow")


class Put(NamedTuple):
    time: int
    text: str
    price: float
    flag: bool


class Note(NamedTuple):
    time: int
    day: date
    size: int | None
    price: Decimal = Decimal(0)


def make_job(event_type):
    program = Program(
        on(event_type, update=lambda n, e: n + 1), depends(event_type, event_type), state=Count()
    )
    return Job(program, choose_layout(program, 2), {"s": Channel("s")}, make_codec(program))


job = make_job(Put)
program = job.program
READING = Reading(event_type="Put", channel="s", heartbeat="heartbeat")
HEADER = "time,text,price,flag,heartbeat"


def read_tables(folder, reading=READING, job=job):
    files = Files(folder, format="csv")
    wanted = list_columns(job, reading)
    return [
        batch for found in list_files(files, Taken()) for batch in read_file(files, found, wanted)
    ]


def read_all(folder, reading=READING, job=job):
    """Return the items of a folder, and whether some of its rows have no typed columns."""
    items, by_line = [], False
    for batch in read_tables(folder, reading, job):
        typed = [batch.column(name) for name in batch.schema.names if name not in (LINE, ROW)]
        by_line |= not typed or any(
            all(not v.is_valid for v in row) for row in zip(*typed, strict=True)
        )
        complete = number_rows(reading, batch.schema)
        items += [read_row(job, complete, row) for row in read_batch(batch.select([LINE, ROW]))]
    return items, by_line


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "s.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def simplify(item):
    return "malformed" if isinstance(item, Malformed) else item


def expect(file):
    """Return what the reference makes of a file; a fault is found there only when it is folded."""
    for item in read_items(program, [str(file)]):
        good = not isinstance(item, Event) or find_fault(item, program.event_types) is None
        yield simplify(item) if good else "malformed"


INTS = ["1", "20", "-3", "007", "0x1F", " 5", "5 ", "+5", "-0", "1e3", "1.0", "", "x", "9" * 19,
        str(1 << 70), "9" * 5000, "2026-01-01", "true", '"7"', "٣", "1_0", "null", "NaN"]  # fmt: skip
FLOATS = [*INTS, "0.5", "-0.0", ".5", "1.", "nan", "-inf", "Infinity", "++nan", "1e999", "1e-999",
          "1E+5", "-0e1", "0.1", "1" + "0" * 400, "-nan", "+inf"]  # fmt: skip
FLAGS = ["true", "False", "TRUE", "tRue", "1", "0", "", " true", "True ", "yes", "falſe"]
TEXTS = ["a", "é", "2026-01-01", "12:30", "007", "null", "NA", "", '""', '"a, b"', '"a\nb"', '"a\r\nb"',
         '"say ""x"""', '5" disk', ' "x"', "\x00", '"{""a"":1,""b"":2}"', " "]  # fmt: skip
PLAIN = (["1", "20", "-3"], ["a", '"b\nc"', '"x, y"'], ["0.5", "1"], ["true", "False"], [""])


def rows_of(cells):
    return st.lists(st.tuples(*map(st.sampled_from, cells)).map(",".join), max_size=8)


odd_rows = rows_of((INTS, TEXTS, FLOATS, FLAGS, ["", "", "", "4", "x", "04"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(odd_rows | rows_of(PLAIN), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_differential_rows_mean_what_they_mean_to_the_reference(tmp_path, rows, end, closed):
    text = end.join([HEADER, *rows]) + (end if closed else "")
    file = write(tmp_path, text)
    items, _ = read_all(tmp_path)
    assert repr([simplify(item) for item in items]) == repr(list(expect(file)))


BROKEN = ['9,"a,1,true,', "9", '9,"a"b,1,true,', "9,a,1,true,,", "  ", '"', '9,"""a,1,true,']


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(odd_rows | rows_of(PLAIN), st.data())
def test_law_a_broken_line_is_rejected_and_changes_no_other_row(tmp_path, rows, data):
    write(tmp_path, "\n".join([HEADER, *rows]) + "\n")
    before, _ = read_all(tmp_path)
    place = data.draw(st.integers(0, len(rows)))
    broken = data.draw(st.sampled_from(BROKEN))
    write(tmp_path, "\n".join([HEADER, *rows[:place], broken, *rows[place:]]) + "\n")
    after, by_line = read_all(tmp_path)
    lost = after.pop(place)
    assert by_line
    assert isinstance(lost, Malformed)
    assert (lost.raw, lost.seq) == (broken, place)
    moved = [item._replace(seq=item.seq + (number >= place)) for number, item in enumerate(before)]
    assert repr([*map(simplify, after)]) == repr([*map(simplify, moved)])


@given(st.text(alphabet='1,a"\n\r ', max_size=60).map(str.encode) | st.binary(max_size=60))
def test_law_no_byte_of_a_file_is_lost_and_in_blocks_it_has_the_same_rows(body):
    data = b"a,b\n" + body
    rows = list(read_csv_rows(data, "s.csv"))
    kept = b"".join(row.raw for row in rows)
    assert kept.translate(None, b"\r\n") == body.translate(None, b"\r\n")
    bulk = list(read_csv_blocks(data, {"a": "string", "b": "string"}, 3, "s.csv"))
    lines = [line.rstrip(b"\r\n") for batch in bulk for line in batch.column(LINE).to_pylist()]
    assert lines == [row.raw for row in rows]
    for row, cells in zip(rows, (c for batch in bulk for c in batch.to_pylist()), strict=True):
        typed = {name: cells[name] for name in ("a", "b") if cells.get(name) is not None}
        assert not typed or typed == row.columns


def test_plain_cells_are_read_in_bulk_with_quotes(tmp_path):
    write(tmp_path, f'{HEADER}\n1,"a b, ""c""",0.5,true,\n\n,,,,4\n2,2026-01-01,1e3,FALSE,\n')
    (batch,) = read_tables(tmp_path)
    assert batch.schema.names == ["time", "text", "price", "flag", "heartbeat", LINE, ROW]
    assert [str(field.type) for field in batch.schema][:4] == ["int64", "string", "double", "bool"]
    items, by_line = read_all(tmp_path)
    assert not by_line
    assert items == [
        Event(Put(1, 'a b, "c"', 0.5, True), "s", 0),
        Heartbeat(4, "s", 1),
        Event(Put(2, "2026-01-01", 1000.0, False), "s", 2),
    ]


def test_a_broken_line_leaves_its_columns_empty_and_no_others(tmp_path):
    write(tmp_path, f"{HEADER}\n2,a,1,true,\n3,a\n4,a,1,true,\n")
    (batch,) = read_tables(tmp_path)
    assert batch.schema.names == ["time", "text", "price", "flag", "heartbeat", LINE, ROW]
    assert batch.column("time").to_pylist() == [2, None, 4]
    assert batch.column(LINE).to_pylist() == [b"2,a,1,true,\n", b"3,a\n", b"4,a,1,true,\n"]
    assert batch.column(ROW).to_pylist() == [0, 1, 2]


def test_a_text_that_is_not_utf8_is_rejected_if_it_is_asked_for(tmp_path):
    names = b"time,text,price,flag,more\n"
    write(tmp_path, names + b"1,a\xff,1,true,x\n2,b,1,true,x\n3,c,1,true,\xff\n")
    items, _ = read_all(tmp_path)
    assert [type(item) for item in items] == [Malformed, Event, Event]
    assert items[0].raw == "1,a\\xff,1,true,x"
    assert items[0].reason == "field 'text' of Put: not UTF-8: a byte is 0xff"


@pytest.mark.parametrize("header", [
    b"\xef\xbb\xbftime,text,price,flag",
    b"\n\r\ntime,text,price,flag",
    b'"time"," text ",price,"flag"',
    b'time,text,"price",flag\r',
])  # fmt: skip
@pytest.mark.parametrize("more", [b"", b"2,b\n"])
def test_the_first_row_names_the_columns_however_it_is_written(tmp_path, header, more):
    write(tmp_path, header + b"\n1,a,1,true\n" + more)
    items, by_line = read_all(tmp_path)
    assert items[0] == Event(Put(1, "a", 1.0, True), "s", 0)
    assert by_line == bool(more)


@pytest.mark.parametrize("text", ["", "\n\n", HEADER, f"{HEADER}\n", f"{HEADER}\n\r\n\n"])
def test_a_file_without_rows_brings_nothing(tmp_path, text):
    write(tmp_path, text)
    assert read_all(tmp_path)[0] == []


def test_a_header_that_is_no_csv_is_refused_with_the_name_of_the_file(tmp_path):
    file = write(tmp_path, '"time,text\n1,a\n')
    with pytest.raises(InputError, match="a first row that names the columns") as refused:
        read_all(tmp_path)
    assert str(file) in str(refused.value)


def test_a_column_that_stands_twice_is_read_as_the_reference_reads_it(tmp_path):
    file = write(tmp_path, "time,text,text,price,flag\n1,a,b,1,true\n2,a,,1,true\n")
    items, _ = read_all(tmp_path)
    assert items == [Event(Put(1, "b", 1.0, True), "s", 0), Event(Put(2, "a", 1.0, True), "s", 1)]
    assert items == list(expect(file))


@pytest.mark.parametrize("cell", ["", "x"])
def test_a_sequence_and_a_event_type_may_stand_in_columns(tmp_path, cell):
    reading = Reading(type_column="type", channel_column="from", seq="seq", heartbeat="heartbeat")
    rows = ["Put,s,7,1,a,1,true,", ",s,8,,,,,4", f"Put,s,{cell},1,a,1,true,", "Put,t,9,1,a,1,true,"]
    write(tmp_path, "\n".join([f"type,from,seq,{HEADER}", *rows]))
    items, by_line = read_all(tmp_path, reading)
    assert by_line == bool(cell)
    assert items[:2] == [Event(Put(1, "a", 1.0, True), "s", 7), Heartbeat(4, "s", 8)]
    assert items[2].reason == f"sequence 'seq' is {cell or None!r}, not an integer"
    assert items[3].reason == describe_stranger("t", ["s"])


def test_fields_of_other_types_are_columns_of_texts(tmp_path):
    file = write(tmp_path, "time,day,size,price\n1,2026-01-01,,0.10\n2,x,3,\n3,2026-01-02,3,\n")
    other = make_job(Note)
    items, by_line = read_all(tmp_path, Reading(event_type="Note", channel="s"), other)
    assert not by_line
    assert items == [
        Event(Note(1, date(2026, 1, 1), None, Decimal("0.10")), "s", 0),
        Malformed("2,x,3,", items[1].reason, "s", 1),
        Event(Note(3, date(2026, 1, 2), 3), "s", 2),
    ]
    expected = read_items(other.program, [str(file)])
    assert [*map(simplify, items)] == [*map(simplify, expected)]
    assert items[1].reason == expected[1].reason.partition(": ")[2]


def test_a_long_text_is_read_either_way(tmp_path):
    long = "x" * 200_000
    for more in ("", "2\n"):
        write(tmp_path, f'{HEADER}\n1,"{long}",1,true,\n{more}')
        items, by_line = read_all(tmp_path)
        assert by_line == bool(more)
        assert items[0] == Event(Put(1, long, 1.0, True), "s", 0)


def test_many_open_quotes_take_no_more_than_their_lines(tmp_path):
    rng = random.Random(1)
    rows = [rng.choice(['1,"a,1,true,', "1,a,1,true,", '1,"",1,true,']) for _ in range(20_000)]
    write(tmp_path, "\n".join([HEADER, *rows, '1,"a,1,true,']) + "\n")
    items, _ = read_all(tmp_path)
    assert len(items) == len(rows) + 1
    assert sum(isinstance(item, Event) for item in items) == rows.count("1,a,1,true,")
