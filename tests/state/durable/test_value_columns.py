"""What is written as columns is read back to the bit, and other programs can read it too."""

import io
import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch import Map
from anabranch.state.durable.codec import Codec, CodecError
from anabranch.state.durable.kinds import (
    ANY,
    BIGINT,
    FLOAT,
    FRACTION,
    INT,
    STR,
    UUID,
    Array,
    DatetimeKind,
    DecimalKind,
    EnumKind,
    Mapped,
    Option,
    Record,
    describe_values,
    make_optional,
)
from anabranch.state.durable.row_tables import from_table, name_columns, to_table
from anabranch.state.durable.value_columns import arrow_type, from_arrow, to_arrow
from tests.state.values import CODEC, EXAMPLES, Colour, Nothing, Path, Point, keys, spell, values


def through_parquet(table: pa.Table) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=2)
    return pq.read_table(io.BytesIO(file.getvalue()))


@given(st.lists(values, max_size=4))
@example(EXAMPLES)
@example([(), (1, 2), (1,)])
@example([{None: 1}, {"a": None}])
@example([[Nothing()], [], None])
def test_values_are_read_back_from_columns_to_the_bit(some):
    kind = describe_values(some)
    table = pa.table({"column": to_arrow(kind, some, CODEC)})
    assert table.schema.field("column").type == arrow_type(kind)
    for stored in (table, through_parquet(table), table.slice(1)):
        back = from_arrow(kind, stored["column"], CODEC.records, CODEC)
        assert list(map(spell, back)) == list(map(spell, some[len(some) - len(stored) :]))


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: f"{type(value).__name__}")
def test_each_of_a_kind_is_read_back_also_among_nones(value):
    for some in ([value], [value, value], [None, value, None]):
        kind = describe_values(some)
        back = from_arrow(kind, to_arrow(kind, some, CODEC), CODEC.records, CODEC)
        assert list(map(spell, back)) == list(map(spell, some))


@given(st.dictionaries(keys, values, max_size=4), st.randoms())
def test_equal_states_give_equal_tables_whatever_came_first(entries, rng):
    shuffled = list(entries.items())
    rng.shuffle(shuffled)
    tables = []
    for one in (Map(entries), Map(shuffled)):
        kinds = [describe_values([one]), describe_values([set(one.entries())])]
        tables.append(
            pa.table(
                [
                    to_arrow(k, [v], CODEC)
                    for k, v in zip(kinds, (one, set(one.entries())), strict=True)
                ],
                ["m", "s"],
            )
        )
    assert tables[0].schema == tables[1].schema
    files = [io.BytesIO(), io.BytesIO()]
    for table, file in zip(tables, files, strict=True):
        pq.write_table(table, file)
    assert files[0].getvalue() == files[1].getvalue()


@pytest.mark.parametrize(
    ("items", "order"),
    [
        (["b", "ü", "a"], ["a", "b", "ü"]),
        ([10, 9, -1], [-1, 9, 10]),
        ([2.5, float("inf"), -0.0], [-0.0, 2.5, float("inf")]),
        ([b"b", b"a"], [b"a", b"b"]),
    ],
)
def test_sets_and_maps_come_in_the_natural_order_of_their_items(items, order):
    for some in (dict.fromkeys(items, 1), Map(dict.fromkeys(items, 1))):
        (pairs,) = to_arrow(describe_values([some]), [some], CODEC).to_pylist()
        assert [key for key, _ in pairs] == order
    kind = describe_values([set(items)])
    assert to_arrow(kind, [set(items)], CODEC).to_pylist() == [order]


@given(st.dictionaries(keys, st.builds(Path, st.just(()), values), max_size=4))
def test_entries_are_read_back_from_a_table(entries):
    key, entry = describe_values(entries), describe_values(entries.values())
    table = through_parquet(to_table(key, entry, entries.items(), CODEC))
    assert table.column_names == name_columns(key, entry)
    back = from_table(key, entry, table, CODEC.records, CODEC)
    assert spell(back) == spell(list(entries.items()))


def test_a_field_called_key_does_not_hide_the_key():
    table = to_table(STR, describe_values([Path((), 1)]), [("a", Path((), 1))], CODEC)
    assert table.column_names == ["key", "points", "value.key"]


def test_a_state_without_entries_is_one_row_without_a_key():
    kind = describe_values([3])
    table = to_table(None, kind, [(None, 3)], CODEC)
    assert (table.column_names, table.to_pydict()) == (["value"], {"value": [3]})
    assert from_table(None, kind, table, {}, CODEC) == [(None, 3)]


NOON = datetime.fromisoformat("2024-07-01T12:00:00")
ROWS = {
    "b": Point(2, Colour.RED),
    "a": Point(1, None),
}
STORY = {
    "small": 1, "large": 2**70, "half": -0.5, "word": "x", "price": Decimal("1.10"), "share": Fraction(1, 3),
    "there": datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")), "here": NOON, "counts": {"k": 1},
    "pages": [1, 2], "pair": (3, "t"), "vector": np.array([1.0, 2.0]), "members": frozenset({2, 1}), "gone": None,
}  # fmt: skip


def test_duckdb_reads_a_table_as_it_is(tmp_path):
    key, entry = describe_values(ROWS), describe_values(ROWS.values())
    pq.write_table(to_table(key, entry, ROWS.items(), CODEC), tmp_path / "part-0.parquet")
    columns = {name: to_arrow(describe_values([one]), [one], CODEC) for name, one in STORY.items()}
    pq.write_table(pa.table(columns), tmp_path / "story.parquet")
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        found = database.execute(
            f"select key, x, colour from '{tmp_path}/part-*.parquet' where x > 1"
        ).fetchall()
        assert found == [("b", 2, "RED")]
        read = database.execute(
            "select small, large, half, word, price, share, there at time zone 'UTC', here, counts['k'], "
            f"pages, pair._2, vector.values, members, gone from '{tmp_path}/story.parquet'"
        ).fetchone()
    assert read == (
        1, str(2**70), -0.5, "x", Decimal("1.10"), "1/3", NOON - timedelta(hours=2), NOON,
        1, [1, 2], "t", [1.0, 2.0], [1, 2], None,
    )  # fmt: skip


def test_pandas_reads_a_table_as_it_is():
    key, entry = describe_values(ROWS), describe_values(ROWS.values())
    frame = through_parquet(to_table(key, entry, ROWS.items(), CODEC)).to_pandas()
    assert frame.to_dict("list") == {"key": ["b", "a"], "x": [2, 1], "colour": ["RED", None]}
    zoned = [datetime(2024, 7, 1, 12, tzinfo=UTC)]
    story = pa.table({"at": to_arrow(describe_values(zoned), zoned, CODEC)}).to_pandas()
    assert list(story["at"]) == zoned


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        (INT, ["a"]),
        (INT, [2**63]),
        (FLOAT, ["x"]),
        (STR, ["\ud800"]),
        (STR, [1]),
        (EnumKind("Colour"), [1]),
    ],
)
def test_a_value_of_another_kind_is_refused(kind, some):
    with pytest.raises(CodecError, match="a value is no"):
        to_arrow(kind, some, CODEC)


def test_a_null_where_none_can_be_is_refused():
    with pytest.raises(CodecError, match="a column of int has a null"):
        from_arrow(INT, pa.array([1, None]), {}, CODEC)
    assert from_arrow(Option(INT), pa.array([1, None]), {}, CODEC) == [1, None]


def test_a_record_that_the_program_has_not_is_refused():
    kind = describe_values([Point(1, Colour.RED)])
    column = to_arrow(kind, [Point(1, Colour.RED)], CODEC)
    with pytest.raises(CodecError, match="names a record 'Point', which the program does not have"):
        from_arrow(kind, column, {}, CODEC)
    with pytest.raises(CodecError, match="records Point with other fields"):
        from_arrow(
            Record("Point", (("y", INT), ("colour", kind.fields[1][1]))),
            column,
            CODEC.records,
            CODEC,
        )


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (BIGINT, ["ten"]),
        (DecimalKind(), ["ten"]),
        (FRACTION, ["1/0"]),
        (UUID, ["ten"]),
        (EnumKind("Colour"), ["GREEN"]),
        (DatetimeKind(), [{"local": None, "zone": "UTC", "fold": False}]),
        (Array("<f8"), [{"shape": [3], "values": [1.0]}]),
        (Array("|O"), [{"shape": [1], "data": b"12345678"}]),
        (Record("Point", (("x", INT), ("colour", EnumKind("Colour")))), ["no struct"]),
        (ANY, [pickle.dumps(1)]),
        (ANY, [b""]),
    ],
)
def test_a_column_that_holds_something_else_is_refused(kind, column):
    with pytest.raises(CodecError):
        from_arrow(kind, pa.array(column), CODEC.records, CODEC)


def test_a_table_with_other_columns_is_refused():
    with pytest.raises(CodecError, match="other columns than its schema"):
        from_table(None, INT, pa.table({"other": [1]}), {}, CODEC)


def test_maps_are_maps_unless_a_key_may_be_none():
    assert pa.types.is_map(arrow_type(Mapped("dict", STR, INT)))
    assert pa.types.is_list(arrow_type(Mapped("dict", make_optional(STR), INT)))
    assert make_optional(ANY) == ANY


@pytest.mark.parametrize(
    "dtype", ["b1", "i2", ">i2", "u8", "f2", "f4", ">f4", "f8", "c8", "m8[s]", "U2", "S3"]
)
def test_arrays_keep_their_dtype_and_shape(dtype):
    some = [
        np.arange(6).astype(dtype).reshape(2, 3),
        np.empty((0, 4), dtype),
        np.array(1).astype(dtype),
    ]
    kind = describe_values(some)
    assert kind == Array(some[0].dtype.str)
    stored = through_parquet(pa.table({"column": to_arrow(kind, some, CODEC)}))
    back = from_arrow(kind, stored["column"], {}, CODEC)
    assert list(map(spell, back)) == list(map(spell, some))


def test_an_array_of_objects_is_refused():
    for array in (np.array([object()]), np.zeros(1, [("x", "i4")])):
        with pytest.raises(CodecError, match="contains a ndarray, which has no durable form"):
            describe_values([array])
        with pytest.raises(CodecError, match="contains a ndarray, which has no durable form"):
            Codec().encode(array)
