"""Blocks of text rows: what Arrow reads of a plain line is what the row reader reads of it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.values.fields import Unfit, read_text, read_value
from anabranch.sources.single_rows import read_csv_rows, read_json_rows
from anabranch.sources.text_blocks import LINE, read_csv_blocks, read_json_blocks

WANTED = {"i": "int64", "f": "float64", "s": "string", "b": "bool"}
KINDS = {"i": int, "f": float, "s": str, "b": bool}

json_values = st.one_of(
    st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.just(-0.0), st.just([1, {"i": 2}]),
    st.integers(-(10**40), 10**40), st.lists(st.integers() | st.text(), max_size=2),
)  # fmt: skip
spellings = json_values.map(json.dumps) | json_values.map(
    lambda v: json.dumps(v, ensure_ascii=False)
)
spellings = spellings | st.from_regex(
    r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
names = st.sampled_from(["i", "f", "s", "b", "more", "é", "a b", 'q"', "i\\", ""]).map(json.dumps)
objects = st.lists(st.tuples(names, spellings), max_size=7).map(
    lambda pairs: "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
)
lines = st.one_of(objects, objects, objects, st.text(max_size=20), st.just("null"))
endings = st.sampled_from(["\n", "\n", "\r\n", "\n\n", "\r", " \n"])


@given(st.lists(st.tuples(lines, endings), max_size=8), st.integers(1, 4))
def test_oracle_plain_lines_have_the_values_that_the_row_reader_finds(parts, size):
    data = "".join(line + end for line, end in parts).encode("utf-8", "surrogatepass")
    rows = list(read_json_rows(data.split(b"\n")))
    blocks = list(read_json_blocks(data, WANTED, size))
    held = [line.rstrip(b"\r\n") for block in blocks for line in block.column(LINE).to_pylist()]
    assert held == [row.raw for row in rows]
    compare(rows, blocks, read_value)


cells = st.one_of(
    st.integers(-(10**20), 10**20).map(str), st.floats().map(str), st.sampled_from(["true", "FALSE", "", '""', "-0"]),
    st.text(max_size=5), st.text(max_size=5).map(lambda text: '"' + text.replace('"', '""') + '"'),
)  # fmt: skip
records = st.lists(cells, min_size=4, max_size=5).map(",".join)


@given(st.lists(st.tuples(records, endings), max_size=8), st.integers(1, 4))
def test_oracle_plain_records_have_the_values_that_the_row_reader_finds(parts, size):
    data = ("i,f,s,b\n" + "".join(record + end for record, end in parts)).encode(
        "utf-8", "surrogatepass"
    )
    rows = list(read_csv_rows(data, "s.csv"))
    blocks = list(read_csv_blocks(data, WANTED, size, "s.csv"))
    held = [line.rstrip(b"\r\n") for block in blocks for line in block.column(LINE).to_pylist()]
    assert held == [row.raw for row in rows]
    compare(rows, blocks, read_text)


def compare(rows, blocks, read):
    """Hold the typed columns of blocks against the columns of rows; a null says nothing."""
    typed = [row for block in blocks for row in block.to_pylist()]
    for row, found in zip(rows, typed, strict=True):
        for name, kind in KINDS.items():
            if found.get(name) is not None:
                assert not isinstance(row.columns, str)
                assert repr(found[name]) == repr(read(row.columns[name], kind))


def test_most_of_what_json_writes_is_plain():
    rows = [
        {"i": n, "f": n / 7, "s": f'é😀"{n}\n', "b": True, "more": {"a": [n]}} for n in range(100)
    ]
    for ascii_only in (True, False):
        data = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows).encode()
        (block,) = read_json_blocks(data, WANTED, 1000)
        assert block.drop_columns([LINE]).to_pylist() == [
            {n: row[n] for n in WANTED} for row in rows
        ]


@pytest.mark.parametrize("first", [b"null", b"[]", b'"x"', b"5", b"{", b"\x00"])
def test_a_first_line_that_is_no_object_harms_no_other(first):
    (block,) = read_json_blocks(first + b'\n{"i": 1}\n', WANTED, 10)
    assert block.column("i").to_pylist() == [None, 1]


def test_a_row_that_fits_no_field_is_unfit_whoever_reads_it(tmp_path):
    file = Path(tmp_path / "s.csv")
    file.write_bytes(b"i,f,s,b\n1,2,\xff,true\n")
    (row,) = read_csv_rows(file.read_bytes(), str(file))
    with pytest.raises(Unfit, match="not UTF-8: a byte is 0xff"):
        read_text(row.columns["s"], str)


def test_a_block_that_arrow_refuses_is_left_to_the_row_reader(monkeypatch):
    import pyarrow as pa

    def refuse(*_):
        raise pa.ArrowInvalid("no")

    monkeypatch.setattr("anabranch.sources.text_blocks._parse_json", refuse)
    monkeypatch.setattr("anabranch.sources.text_blocks._parse_csv", refuse)
    (block,) = read_json_blocks(b'{"i": 1}\n', WANTED, 10)
    assert block.schema.names == [LINE]
    (block,) = read_csv_blocks(b"i\n1\n", WANTED, 10, "s.csv")
    assert block.column(LINE).to_pylist() == [b"1\n"]
