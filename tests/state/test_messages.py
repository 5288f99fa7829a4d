"""What a user reads where a state can't be written, read or carried over, word for word."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest

from anabranch import Map, Program, depends, on
from anabranch.cli.state.state import load_side
from anabranch.errors import AnabranchError
from anabranch.model.shapes import WrittenShape
from anabranch.state import Count, MapOf, Max, Rekey, Reshape, Retype, Sum
from anabranch.state.durable.codec import Codec
from anabranch.state.durable.kinds import BIGINT, INT, STR, Record
from anabranch.state.durable.row_tables import from_table
from anabranch.state.durable.value_columns import from_arrow, to_arrow
from anabranch.state.evolution.migration import Migration
from anabranch.state.evolution.schemas import describe_program, describe_snapshot, read_schema


class Click(NamedTuple):
    time: int
    user: str
    page: str


class Stats(NamedTuple):
    n: int
    total: int


class Point(NamedTuple):
    x: int


CODEC = Codec([Point])
POINT = Record("Point", (("x", INT),))


def keyed(shape: Any, *changes: Any, by: str = "user") -> Program:
    return Program(on(Click), depends(Click, Click), state=MapOf(shape, by=by), changes=changes)


def carry(old: Any, state: Any, new: Any, *changes: Any) -> Any:
    schema = describe_snapshot(keyed(old), state, {}, [])
    return Migration(schema, keyed(new, *changes)).migrate_state(state)


def decode(data: Any) -> Any:
    return Codec().decode(msgspec.msgpack.encode(data))


def fail(value: Any) -> Any:
    raise KeyError(value)


STATS = WrittenShape(Stats(0, 0))
STATE = Map({"a": Stats(1, 2), "b": Stats(3, 4)})
TWICE = keyed(Count(), Retype("Clicks", "total", str))

REFUSED: dict[str, Callable[[], Any]] = {
    "state_of_an_object": lambda: Codec().encode(range(3)),
    "bytes_that_are_nothing": lambda: Codec().decode(b"\xc1"),
    "bytes_with_a_map": lambda: decode({}),
    "bytes_with_an_unknown_record": lambda: decode(["n", "Point", 1]),
    "bytes_with_an_unknown_enum": lambda: decode(["e", "Colour", "RED"]),
    "bytes_with_an_array_of_objects": lambda: decode(["A", "|O", [1], b"12345678"]),
    "bytes_with_a_short_array": lambda: decode(["A", "<f8", [2], b"12345678"]),
    "bytes_with_an_unknown_zone": lambda: decode(["T", "2024-01-01T00:00:00", "Mars/Olympus", 0]),
    "column_of_another_kind": lambda: to_arrow(INT, ["a"], CODEC),
    "column_with_a_null": lambda: from_arrow(INT, pa.array([None], pa.int64()), {}, CODEC),
    "column_with_an_unknown_record": lambda: from_arrow(POINT, pa.array([{"x": 1}]), {}, CODEC),
    "column_with_other_fields": lambda: from_arrow(
        Record("Point", (("y", INT),)), pa.array([{"y": 1}]), CODEC.records, CODEC
    ),
    "column_that_can_not_be_read": lambda: from_arrow(BIGINT, pa.array(["ten"]), {}, CODEC),
    "table_with_other_columns": lambda: from_table(STR, INT, pa.table({"a": [1]}), {}, CODEC),
    "schema_that_is_none": lambda: read_schema([]),
    "schema_without_a_state": lambda: read_schema({"version": 1}),
    "evolution_function_fails": lambda: carry(STATS, STATE, STATS, Retype("Stats", "total", fail)),
    "evolution_whole_function_fails": lambda: carry(STATS, STATE, STATS, Reshape(fail)),
    "evolution_entries_meet": lambda: carry(STATS, STATE, STATS, Rekey(lambda key: "all")),
    "evolution_key_is_no_pair": lambda: carry(
        Count(), Map({"a": 1}), MapOf(Count(), by="page"), Rekey(lambda key: key)
    ),
    "evolution_sum_is_no_count": lambda: carry(Sum(), Map({"a": 1.5}), Count()),
    "evolution_of_a_misspelt_field": lambda: Migration(describe_program(keyed(Count())), TWICE),
    "evolution_of_an_entry": lambda: carry(Count(), Map({"a": 1}), STATS),
    "evolution_of_a_number_to_an_option": lambda: carry(Max(), Map({"a": "x"}), Count()),
    "evolution_of_a_change_replaced": lambda: Migration(
        describe_program(keyed(STATS, Retype("Stats", "n", fail))),
        keyed(STATS, Retype("Stats", "n", str)),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_to_do(name, message):
    with pytest.raises(AnabranchError) as caught:
        REFUSED[name]()
    message(name, str(caught.value))


def test_a_folder_that_is_no_savepoint(tmp_path, message):
    with pytest.raises(AnabranchError) as caught:
        load_side(str(tmp_path))
    message("state_diff_of_a_folder", str(caught.value).replace(str(tmp_path), "FOLDER"))
