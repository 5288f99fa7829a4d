"""Lookups: the rows in force at an event's time, as a dict that follows the tables has them."""

import random
from typing import NamedTuple

import pytest

from anabranch import Event, Heartbeat
from anabranch.errors import ProgramError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.laws import check
from anabranch.plan.layouts import choose_layout
from anabranch.query import Matched, Table, asof_join, lookup
from anabranch.reference.sequential import run
from tests.microbatch.test_microbatches import Engine, cut, emitted_rows, expected_rows


class Order(NamedTuple):
    time: int
    product: int
    currency: str
    paid_in: str


class Rate(NamedTuple):
    time: int
    currency: str
    value: int


class Product(NamedTuple):
    time: int
    id: int
    name: str


class Dropped(NamedTuple):
    time: int
    id: int


RATE = Table(Rate, key="currency")
PAID = Table(Rate, key="currency", on="paid_in")
PRODUCT = Table(Product, key="id", on="product", gone=Dropped)
CHANNELS = (Channel("orders", lateness=2), Channel("rates"), Channel("products"))


def tell(order, rows):
    names = [None if row is None else row[1:] for row in rows]
    return [order.time, *names]


def make(how="left", ties="right_first"):
    return lookup(Order, how=how, ties=ties, select=tell, rate=RATE, paid=PAID, product=PRODUCT)


def draw(rng, count=30):
    def rate(time):
        return Rate(time, rng.choice("EGU"), rng.randint(1, 9))

    def product(time):
        number = rng.randint(1, 3)
        return Product(time, number, f"p{time}") if rng.random() < 0.7 else Dropped(time, number)

    def order(time):
        at = max(0, time - rng.randint(0, 2))
        return Order(at, rng.randint(1, 3), rng.choice("EGU"), rng.choice("EGU"))

    items = []
    for channel, event in zip(CHANNELS, (order, rate, product), strict=True):
        time = 0
        for seq in range(count if channel.name == "orders" else count // 3):
            time += rng.choice((0, 1, 1, 2) if channel.name == "orders" else (0, 2, 5))
            items.append(Event(event(time), channel.name, seq))
    return end_channels(items, channels=CHANNELS)


def look_up(events, how):
    rates, products, emitted = {}, {}, []
    for event in events:
        if isinstance(event, Rate):
            rates[event.currency] = event
        elif isinstance(event, Product):
            products[event.id] = event
        elif isinstance(event, Dropped):
            products.pop(event.id, None)
        else:
            rows = rates.get(event.currency), rates.get(event.paid_in), products.get(event.product)
            if how == "left" or None not in rows:
                emitted.append(tell(event, rows))
    return emitted


@pytest.mark.parametrize("ties", ["right_first", "left_first"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_oracle_a_dict_that_follows_the_tables_says_the_same(how, ties):
    program = make(how, ties)
    for seed in range(30):
        items = draw(random.Random(seed))
        answer = run(program, items, CHANNELS)
        events = sorted((e for e in items if isinstance(e, Event)), key=program.order)
        assert answer.values == look_up([e.data for e in events], how), seed
        assert answer.values


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
def test_differential_any_cut_into_batches_gives_the_sequential_answer(shards, columns):
    program = make()
    for seed in range(6):
        rng = random.Random(seed)
        items = draw(rng)
        answer = run(program, items, CHANNELS)
        engine = Engine(program, CHANNELS, shards, columns=columns)
        for batch in cut(rng, items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer), seed
        assert engine.ledger == answer.ledger


def test_every_shard_follows_the_tables_and_events_go_anywhere():
    layout = choose_layout(make(), 4)
    assert layout.way == "replicated"
    assert layout.cuts == {Rate, Product, Dropped}
    assert check(make(), cases=60, seed=1).ok


def test_an_event_waits_for_the_tables_to_have_come_as_far():
    program = lookup(Order, rate=RATE)
    order, rate = Order(5, 1, "E", "E"), Rate(3, "E", 7)
    items = [Event(order, "orders", 0), Heartbeat(9, "orders", 1), Event(rate, "rates", 0)]
    assert run(program, items).values == []
    answer = run(program, [*items, Heartbeat(5, "rates", 1)])
    assert answer.values == [Matched(order, (rate,))]
    assert answer.values[0].right.rate == rate


def test_at_equal_times_a_row_comes_first_unless_it_is_to_come_last():
    items = end_channels(
        [Event(Order(5, 1, "E", "E"), "orders", 0), Event(Rate(5, "E", 7), "a", 0)]
    )
    for ties, found in (("right_first", 1), ("left_first", 0)):
        assert len(run(lookup(Order, ties=ties, rate=RATE), items).values) == found


def test_one_table_by_one_key_says_what_the_as_of_join_says():
    pick = lookup(Order, how="left", select=lambda order, rows: (order, rows.rate), rate=RATE)
    join = asof_join(Order, Rate, on="currency", how="left", select=lambda *pair: pair)
    for seed in range(10):
        items = [e for e in draw(random.Random(seed)) if e.channel != "products"]
        assert run(pick, items, CHANNELS[:2]).values == run(join, items, CHANNELS[:2]).values


WRONG = {
    "lookup_without_a_table": lambda: lookup(Order),
    "lookup_in_a_number": lambda: lookup(Order, rate=3),
    "lookup_by_an_absent_key": lambda: lookup(Order, rate=Table(Rate, key="id", on="product")),
    "lookup_on_an_absent_field": lambda: lookup(Order, product=Table(Product, key="id")),
    "lookup_of_rows_in_themselves": lambda: lookup(Rate, rate=RATE),
    "lookup_right": lambda: lookup(Order, how="right", rate=RATE),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_can_not_be_looked_up_is_refused(name, message):
    with pytest.raises(ProgramError) as caught:
        WRONG[name]()
    message(name, str(caught.value))
