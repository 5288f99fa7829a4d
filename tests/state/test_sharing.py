"""Shared state: every key sees the common part as of one point in the order, on every runtime."""

import random
from typing import NamedTuple

import pytest

from anabranch import Event, Map, Program, depends, on, take
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.laws import check
from anabranch.microbatch.job.speculative_layout import choose_speculative_layout
from anabranch.model.slices import Slices
from anabranch.plan.layouts import choose_layout
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.reference.sequential import run
from anabranch.reference.simulator import rehearse
from anabranch.spark.run_explanation import explain_run
from anabranch.state import MapOf, Replicated, Shared, Sum
from anabranch.state.sharing import Held, View
from tests.microbatch.test_microbatches import Engine, cut, emitted_rows, expected_rows


class Rate(NamedTuple):
    time: int
    currency: str
    value: int


class Pay(NamedTuple):
    time: int
    user: str
    currency: str
    amount: int


class Remind(NamedTuple):
    time: int
    user: str


class Total(NamedTuple):
    time: int


def convert(state, pay):
    return state.entry + pay.amount * state.common.get(pay.currency, 1)


PARTS = (
    on(Rate, update=lambda row, rate: rate.value // (rate.value % 5), output=lambda row, rate: row),
    on(Pay, update=convert, output=lambda state, pay: (pay.user, state.entry, dict(state.common))),
    depends(Pay, Pay, same="user"),
)
RATES = MapOf(Replicated(), by="currency")
bank = Program(*PARTS, state=Shared(RATES, MapOf(Sum(), by="user")))
CHANNELS = (Channel("x", lateness=3), Channel("y", lateness=6))


def numbered(*data):
    return [Event(one, "s", n) for n, one in enumerate(data)]


def draw(rng, count=40):
    items = []
    for channel in CHANNELS:
        time = 0
        for seq in range(count // 2):
            time += rng.choice((0, 1, 1, 2))
            at, money = max(0, time - rng.randint(0, channel.lateness)), rng.choice("EGU")
            rate = Rate(at, money, rng.randint(1, 99))
            pay = Pay(at, rng.choice("abcde"), money, rng.randint(1, 9))
            items.append(Event(rate if rng.random() < 0.25 else pay, channel.name, seq))
    return end_channels(items, channels=CHANNELS)


def look_up(events):
    """Say what two plain dicts say. A rate that ends in 0 or 5 fails, and stays as it was."""
    rates, users, emitted = {}, {}, []
    for event in events:
        if isinstance(event, Pay):
            emitted.append((event.user, users.get(event.user, 0), dict(rates)))
            rate = rates.get(event.currency, 1)
            users[event.user] = users.get(event.user, 0) + event.amount * rate
        elif event.value % 5:
            if event.currency in rates:
                emitted.append(rates[event.currency])
            rates[event.currency] = event.value // (event.value % 5)
    return emitted


def test_oracle_two_dicts_say_the_same():
    for seed in range(60):
        items = draw(random.Random(seed))
        answer = run(bank, items, CHANNELS)
        assert not answer.late
        events = sorted((e for e in items if isinstance(e, Event)), key=bank.order)
        assert answer.values == look_up(e.data for e in events), seed


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_differential_any_cut_into_batches_gives_the_sequential_answer(shards):
    failed = 0
    for seed in range(20):
        rng = random.Random(seed)
        items = draw(rng)
        answer = run(bank, items, CHANNELS)
        engine = Engine(bank, CHANNELS, shards, hot_keys=["a"])
        assert engine.job.layout.way == "shared"
        for batch in cut(rng, items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer), seed
        assert engine.ledger == answer.ledger
        reasons = sorted(row.reason for row in engine.emitted if row.kind == "rejected")
        assert reasons == sorted(rejected.reason for rejected in answer.rejected)
        failed += len(reasons)
    assert failed


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_differential_every_plan_says_what_the_fold_says(optimizer):
    for seed in range(8):
        items = draw(random.Random(seed))
        answer = run(bank, items, CHANNELS)
        loads = [Load(take(Pay, user=user), rate=9) for user in "abcde"] + [Load(take(Rate))]
        plan = OPTIMIZERS[optimizer](bank, Rates(loads))
        simulation = rehearse(bank, plan, items, CHANNELS).run(seed)
        assert sorted((o.id, repr(o.value)) for o in simulation.outputs) == sorted(
            (o.id, repr(o.value)) for o in answer.outputs
        )
        assert simulation.ledger == answer.ledger


def test_the_laws_are_kept():
    assert check(bank, cases=100, seed=2).ok


def test_a_control_event_orders_all_that_sees_what_it_changes():
    assert bank.dependence.restrictions(Rate, Pay) == {()}
    assert bank.dependence.restrictions(Rate, Rate) == {()}
    assert bank.dependence.restrictions(Pay, Pay) == {("user",)}
    assert bank.rank == (Rate, Pay)


def test_control_events_come_to_every_shard_and_are_counted_in_one():
    layout = choose_layout(bank, 5)
    for value in range(20):
        event = Event(Rate(1, "E", value), "s", value)
        assert layout.route(event) == range(5)
        assert sum(layout.counts(event, shard) for shard in range(5)) == 1
    homes = {layout.home(Event(Rate(1, "E", 1), "s", n)) for n in range(20)}
    assert homes == set(range(5))
    pay = Event(Pay(1, "a", "E", 1), "s", 0)
    assert len(layout.route(pay)) == 1
    assert layout.route(pay) == layout.route(Event(Pay(9, "a", "U", 2), "z", 7))


def test_the_run_says_what_it_makes_of_it():
    assert explain_run(bank) == [
        "shared: Rate changes the state that all keys see, in every shard; different values of user are independent",
        (
            "speculative: one shard folds in order what could be folded in parallel, to retract outputs; "
            "a change of the shared state changes all shards at once"
        ),
        (
            "row path: keys share a part of the state "
            "(a common part is not stored beside the columns of entries)"
        ),
    ]
    assert choose_speculative_layout(bank, 4).way == "sequential"
    assert choose_layout(bank, 4, hot_keys=["a"]).reasons[1] == (
        "a hot user is not spread: its entry is changed in order"
    )


def test_an_update_that_returns_what_it_saw_is_set_aside_with_the_reason():
    program = Program(
        on(Pay, update=lambda state, pay: state._replace(common=7)),
        depends(Pay, Pay, same="user"),
        state=Shared(Replicated(1), MapOf(Sum(), by="user")),
    )
    answer = run(program, end_channels(numbered(Pay(1, "a", "E", 1))))
    assert answer.state == Held(1, Map())
    assert "it must return only its entry" in answer.rejected[0].reason


def test_a_handler_of_the_whole_sees_both_parts_in_one_shard():
    program = bank.changed(
        on(
            Total,
            whole=True,
            output=lambda held, total: sum(held.each.values()),
            update=lambda held, total: Held(Map(), held.each.remove("a")),
        ),
        depends(Total, Pay, Rate, Total),
    )
    items = numbered(
        Rate(1, "E", 2), Pay(2, "a", "E", 5), Pay(3, "b", "E", 7), Total(4), Pay(5, "b", "E", 7)
    )
    answer = run(program, end_channels(items))
    assert answer.values[-2:] == [12, ("b", 7, {})]
    assert answer.state == Held(Map(), Map({"b": 14}))
    assert choose_layout(program, 4).reasons == ("shared: Total sees the whole state",)
    engine = Engine(program, (Channel("s"),), 4)
    for batch in cut(random.Random(0), end_channels(items)):
        engine.batch(batch)
    assert emitted_rows(engine) == expected_rows(answer)


def test_a_timer_sees_the_common_part_too_and_a_control_event_moves_none():
    program = bank.changed(
        on(
            Remind,
            due=lambda total: 9 if total else None,
            output=lambda state, remind: (remind.user, state.entry, state.common["E"]),
            update=lambda state, remind: 0,
        )
    )
    items = numbered(Rate(1, "E", 1), Pay(2, "a", "E", 5), Rate(5, "E", 4))
    answer = run(program, end_channels(items))
    assert answer.values[-1] == ("a", 5, 1)
    for seed in range(10):
        engine = Engine(program, (Channel("s"),), 3)
        for batch in cut(random.Random(seed), end_channels(items)):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer)


def test_each_group_of_keys_may_share_a_part_of_its_own():
    class Rule(NamedTuple):
        time: int
        shop: str
        most: int

    class Buy(NamedTuple):
        time: int
        shop: str
        user: str
        price: int

    program = Program(
        on(Rule, update=lambda most, rule: rule.most),
        on(
            Buy,
            update=lambda state, buy: min(state.entry + buy.price, state.common),
            output=lambda state, buy: (buy.shop, buy.user, state.common, state.entry),
        ),
        depends(Buy, Buy, same=("shop", "user")),
        state=MapOf(Shared(Replicated(10), MapOf(Sum(), by="user")), by="shop"),
    )
    assert program.dependence.restrictions(Rule, Buy) == {("shop",)}
    items = numbered(
        Buy(1, "s", "a", 8), Rule(2, "s", 20), Buy(3, "s", "a", 9), Buy(4, "t", "a", 99),
        Buy(5, "s", "a", 1), Buy(6, "t", "a", 1),
    )  # fmt: skip
    answer = run(program, end_channels(items))
    assert [value[2:] for value in answer.values] == [(10, 0), (20, 8), (10, 0), (20, 17), (10, 10)]
    assert check(program, cases=60, seed=1).ok
    assert choose_layout(program, 3).way == "keyed"
    engine = Engine(program, (Channel("s"),), 3, columns=True)
    assert engine.columns is None
    for batch in cut(random.Random(0), end_channels(items)):
        engine.batch(batch)
    assert emitted_rows(engine) == expected_rows(answer)


def test_both_sides_of_a_fork_have_the_common_part():
    shape = Shared(Replicated(3), MapOf(Sum(), by="user"))
    state = Held(7, Map({"a": 1, "b": 2}))
    left, right = shape.fork(state, Slices([take(Pay, user="a")]), Slices([take(Pay, user="b")]))
    assert (left, right) == (Held(7, Map({"a": 1})), Held(7, Map({"b": 2})))
    assert shape.same(shape.join(left, right), state)
    assert not shape.same(state, state._replace(common=8))
    assert not shape.same(state, state._replace(each=Map({"a": 1})))
    assert View(1, 2) == (1, 2)
