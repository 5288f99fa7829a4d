"""Schemas against event types: what can never fit, and what may."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pytest

from anabranch.errors import InputError
from anabranch.sources.schema_check import ColumnNames, explain_misfits, find_misfits


class Txn(NamedTuple):
    time: int
    account: str
    amount: float
    note: str | None
    fee: float = 0.0


class Close(NamedTuple):
    time: int
    account: str
    amount: int


COLUMNS = {"time": pa.int64(), "account": pa.string(), "amount": pa.float64()}


def misfits(changes, event_types=(Txn,), names=ColumnNames()):  # noqa: B008 - a constant
    columns = {name: kind for name, kind in (COLUMNS | changes).items() if kind is not None}
    schema = pa.schema(list(columns.items()))
    return [(one.column, one.found) for one in find_misfits(schema, list(event_types), names)]


def test_a_schema_that_fits_has_no_misfits():
    assert misfits({}) == []


@pytest.mark.parametrize(("column", "kind"), [
    ("time", pa.string()),
    ("time", pa.float64()),
    ("time", pa.date32()),
    ("amount", pa.decimal128(10, 2)),
    ("amount", pa.string()),
    ("account", pa.int64()),
    ("account", pa.binary()),
    ("account", pa.null()),
    ("note", pa.int32()),
    ("fee", pa.bool_()),
])  # fmt: skip
def test_a_type_of_which_no_value_fits_is_a_misfit(column, kind):
    assert misfits({column: kind}) == [(column, str(kind))]


@pytest.mark.parametrize(("column", "kind"), [
    ("time", pa.int32()),
    ("time", pa.timestamp("us", tz="UTC")),
    ("time", pa.timestamp("ns")),
    ("amount", pa.int64()),
    ("amount", pa.float32()),
    ("account", pa.large_string()),
    ("account", pa.dictionary(pa.int32(), pa.string())),
    ("note", pa.string()),
    ("note", pa.null()),
    ("fee", pa.null()),
    ("other", pa.list_(pa.int64())),
])  # fmt: skip
def test_a_type_of_which_some_value_fits_is_none(column, kind):
    assert misfits({column: kind}) == []


def test_a_missing_column_is_a_misfit_unless_its_field_may_be_left_out():
    assert misfits({"account": None, "amount": None}) == [("account", None), ("amount", None)]
    assert misfits({"note": None, "fee": None}) == []


def test_the_time_has_the_column_that_was_named():
    names = ColumnNames(time="at")
    assert misfits({"time": None, "at": pa.int64()}, names=names) == []
    assert misfits({"at": pa.string()}, names=names) == [("at", "string")]


def test_of_several_event_types_one_that_fits_is_enough():
    # The amounts of Txn and of Close lie in one column; rows may be of either.
    assert misfits({}, (Txn, Close)) == []
    assert misfits({"amount": pa.int64()}, (Txn, Close)) == []
    assert misfits({"amount": None, "note": pa.string()}, (Txn, Close)) == [("amount", None)]


def test_a_column_that_fits_no_event_type_is_a_misfit_though_another_type_has_no_such_field():
    class Tick(NamedTuple):
        time: int

    assert misfits({"amount": pa.string()}, (Txn, Tick)) == [("amount", "string")]
    assert misfits({"amount": None}, (Txn, Tick)) == []


def test_what_stands_beside_an_event_has_a_type_too():
    names = ColumnNames(seq="offset", heartbeat="beat", event_type="type")
    good = {"offset": pa.int64(), "beat": pa.timestamp("us"), "type": pa.string()}
    assert misfits(good, names=names) == []
    bad = {"offset": pa.timestamp("us"), "beat": pa.string(), "type": pa.int64()}
    assert misfits(bad, names=names) == [
        ("offset", "timestamp[us]"), ("beat", "string"), ("type", "int64"),
    ]  # fmt: skip


def test_texts_may_spell_what_has_a_spelling():
    @dataclass(frozen=True)
    class Spelled:
        time: int
        price: Decimal
        day: date
        at: datetime
        event_types: tuple[str, ...]

    columns = {name: pa.string() for name in ("price", "day", "at", "event_types")}
    assert misfits(columns, (Spelled,)) == []
    assert misfits(columns | {"price": pa.float64()}, (Spelled,)) == [("price", "double")]


def test_the_message_names_columns_types_and_what_to_do(message):
    schema = pa.schema([("time", pa.string()), ("acount", pa.string()), ("amount", pa.float64())])
    found = find_misfits(schema, [Txn], ColumnNames())
    error = explain_misfits(found, [Txn], schema.names, what="the frame of 'north'", place="frame")
    assert isinstance(error, InputError)
    message("frame_that_never_fits", str(error))
