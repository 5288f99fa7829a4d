"""Several folds of one event are what each of them is alone."""

import pickle
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Program, depends, on
from anabranch.eventtime.windows.panes import Windowing, WindowState
from anabranch.eventtime.windows.window_types import Sessions
from anabranch.model.shapes import WrittenShape
from anabranch.state import (
    ApproxDistinct,
    ApproxQuantile,
    Count,
    Distinct,
    ExactMean,
    MapOf,
    Max,
    Mean,
    Median,
    Mode,
    Several,
    Struct,
    TopK,
)
from anabranch.state.collections import make_struct_type
from anabranch.state.durable.codec import CodecError, make_codec
from anabranch.state.exact import MeanState
from anabranch.state.numbers import Average
from tests.eventtime.windows.recorded_log import Elements, End, take
from tests.state.laws import check_laws, fold, read


class Sale(NamedTuple):
    time: int
    shop: str
    price: int | None


def end_of(sale: Sale) -> int:
    return sale.time % 10


sales = Several(
    n=Count(),
    priced=(Count(), "price"),
    top=(Max(), "price"),
    mean=(Mean(), "price"),
    middle=(Median(), "price"),
    usual=(Mode(), "shop"),
    shops=(Distinct(), "shop"),
    about=(ApproxDistinct(k=3), "shop"),
    nearly=(ApproxQuantile(0.9), "price"),
    ends=(TopK(2), end_of),
    exact=(ExactMean(), "price"),
    last=Max(),
)
events = st.builds(Sale, st.integers(0, 99), st.sampled_from("abc"), st.none() | st.integers(-5, 5))
RECORDS = (make_struct_type(tuple(sales.parts)), Average, MeanState, Sale)


@given(st.lists(st.lists(events, max_size=5), min_size=3, max_size=3), st.integers())
def test_laws(parts, seed):
    # Events that are equal up to None have no order among each other, so none is the largest.
    plain = Several(**{name: part for name, part in sales.parts.items() if name != "last"})
    check_laws(plain, parts, seed, (make_struct_type(tuple(plain.parts)), *RECORDS))


@given(st.lists(events, max_size=20))
def test_each_says_what_it_says_alone(bought):
    bought = [sale._replace(time=n) for n, sale in enumerate(bought)]
    priced = [sale.price for sale in bought if sale.price is not None]
    found = read(sales, bought)
    assert found.n == len(bought)
    assert found.priced == len(priced)
    assert found.top == max(priced, default=None)
    assert found.mean == (sum(priced) / len(priced) if priced else None)
    assert found.middle == read(Median(), priced)
    assert found.shops == len({sale.shop for sale in bought})
    assert found.ends == tuple(sorted(map(end_of, bought), reverse=True)[:2])
    assert found.last == max(bought, default=None)
    assert found._fields == tuple(sales.parts)


def test_it_folds_windows():
    windowing = Windowing(Sessions(5), fold=Several(n=Count(), top=(Max(), "price")))
    bought = [Sale(t, "a", t * 10) for t in (1, 4, 20)]
    held = take(
        windowing, WindowState(), Elements(tuple((sale.time, sale) for sale in bought))
    ).state
    emitted = take(windowing, held, End()).panes
    assert [(tuple(pane.window), tuple(pane.value)) for pane in emitted] == [
        ((1, 9), (2, 40)),
        ((20, 25), (1, 200)),
    ]


@pytest.mark.parametrize("shape", [sales, MapOf(sales, by="shop")], ids=["one", "per shop"])
def test_a_program_writes_and_reads_its_states(shape):
    program = Program(
        on(Sale, update=sales.add), depends(Sale, Sale, same="shop"), state=shape, name="shops"
    )
    state = program.init
    for n in range(9):
        state = program.update(state, Sale(n, "ab"[n % 2], n))
    codec = make_codec(program)
    assert codec.decode(codec.encode(state)) == state


class Seen(NamedTuple):
    price: int


class Remembering(WrittenShape):
    records = (Seen,)


@pytest.mark.parametrize("wrap", [
    lambda shape: shape, lambda shape: MapOf(shape, by="shop"), lambda shape: Struct(a=shape),
    lambda shape: MapOf(Struct(a=Struct(b=shape)), by="shop"),
])  # fmt: skip
def test_a_shape_may_name_records_that_its_states_come_to_hold(wrap):
    def make(shape):
        return make_codec(Program(on(Sale), depends(Sale, Sale), state=wrap(shape)))

    codec = make(Remembering(None))
    assert codec.decode(codec.encode((Seen(1),))) == (Seen(1),)
    with pytest.raises(CodecError, match="contains a Seen"):
        make(WrittenShape(None)).encode((Seen(1),))


def test_it_names_the_fields_that_it_looks_at():
    assert sales.reads == ("price", "shop")


def test_it_is_a_value_and_can_be_sent():
    again: Any = pickle.loads(pickle.dumps(sales))
    assert again == sales
    assert hash(again) == hash(sales)
    assert fold(again, [Sale(1, "a", 2)]) == fold(sales, [Sale(1, "a", 2)])
    assert sales != Several(n=Count())
    assert repr(Several(n=Count(), top=(Max(), "price"))) == (
        "Several(n=Count(start=0, by=None), top=(Max(start=None, by=None), 'price'))"
    )


def test_an_absent_value_is_left_out_also_where_none_could_be_added():
    kinds = Several(kinds=(Distinct(), "price"))
    assert read(kinds, [Sale(1, "a", None)]) == (0,)


def test_a_zero_is_no_absent_value():
    bought = [Sale(1, "a", 0)]
    assert (read(sales, bought).priced, read(sales, bought).mean) == (1, 0)


def test_decimals_stay_decimals():
    means = Several(mean=(Mean(), lambda price: price))
    assert read(means, [Decimal("0.1"), Decimal("0.2")]) == (Decimal("0.15"),)
