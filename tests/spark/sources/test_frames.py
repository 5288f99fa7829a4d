from decimal import Decimal
from typing import NamedTuple

import pytest

from anabranch import Event, Heartbeat, Malformed, Program, on
from anabranch.errors import InputError
from anabranch.spark.sources.frames import _lay_out, derive_schema, derive_types, name_columns


class Sale(NamedTuple):
    time: int
    shop: str
    price: float
    gift: bool
    note: str | None = None


class Visit(NamedTuple):
    time: int
    source: str


class Refund(NamedTuple):
    time: int
    price: int


class Invoice(NamedTuple):
    time: int
    total: Decimal


def make(*tags):
    return Program(*(on(tag, update=lambda n, e: n + 1) for tag in tags), init=0)


def test_columns_follow_the_annotations():
    assert derive_schema(make(Sale)) == (
        "`tag` string, `source` string, `seq` bigint, `heartbeat` bigint, `time` bigint, "
        "`shop` string, `price` double, `gift` boolean, `note` string"
    )


def test_a_field_called_source_leaves_the_word_to_the_field():
    assert name_columns(make(Sale, Visit))["source"] == "@source"
    assert derive_types(make(Visit)) == {
        "tag": "string", "@source": "string", "seq": "bigint", "heartbeat": "bigint",
        "time": "bigint", "source": "string",
    }  # fmt: skip


def test_a_type_without_a_column_is_named_with_its_field():
    with pytest.raises(InputError, match=r"field Invoice\.total has a type") as caught:
        derive_types(make(Invoice))
    assert caught.value.got == "Decimal"


def test_two_types_in_one_column_are_refused():
    with pytest.raises(InputError, match=r"Sale\.price and Refund\.price share a column") as caught:
        derive_types(make(Sale, Refund))
    assert caught.value.got == "double and bigint"


@pytest.mark.parametrize(
    ("item", "row"),
    [
        (
            Event(Sale(5, "a", 3, gift=True), "north", 7),
            ("Sale", "north", 7, None, 5, "a", 3.0, True, None, None, None),
        ),
        (
            Heartbeat(9, "north", 8),
            (None, "north", 8, 9, None, None, None, None, None, None, None),
        ),
        (
            Malformed("nonsense", "in.jsonl:3: not JSON", "north", 9),
            (
                None, "north", 9, None, None, None, None, None, None,
                "nonsense", "in.jsonl:3: not JSON",
            ),
        ),
    ],
)  # fmt: skip
def test_an_item_has_a_row(item, row):
    program = make(Sale)
    assert _lay_out(item, derive_types(program), name_columns(program)) == row


def test_an_integer_beyond_64_bits_is_rejected_and_not_wrapped():
    program = make(Refund)
    item = Event(Refund(1, 1 << 63), "north", 0)
    laid_out = _lay_out(item, derive_types(program), name_columns(program))
    assert laid_out[0] is None
    assert laid_out[-1] == f"field 'price' is {1 << 63}, which does not fit into 64 bits"
