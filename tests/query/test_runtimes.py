"""Joins say the same however they run: in batches over shards, and under every plan."""

import random

import pytest

from anabranch import Event, take
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.plan.layouts import choose_layout
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.query import asof_join, band_join, interval_join, window_join
from anabranch.reference.sequential import run
from anabranch.reference.simulator import rehearse
from tests.microbatch.test_microbatches import Engine, cut, emitted_rows, expected_rows
from tests.query.oracles import HOWS, Click, Show

JOINS = {
    **{
        f"interval, {how}": interval_join(Show, Click, on="ad", lower=-2, upper=4, how=how)
        for how in HOWS
    },
    "interval after": interval_join(Show, Click, on="ad", lower=1, upper=4, how="full"),
    "tumbling": window_join(Show, Click, on="ad", window=Tumbling(5), how="full"),
    "sliding": window_join(Show, Click, on="ad", window=Sliding(6, every=2), how="full"),
    "sessions": window_join(Show, Click, on="ad", window=Sessions(2), how="full"),
    "as of": asof_join(Show, Click, on="ad", how="left"),
    "as of, left first": asof_join(Show, Click, on="ad", ties="left_first"),
    "as of, within": asof_join(Show, Click, on="ad", how="left", within=2),
    **{
        f"band, {how}": band_join(
            Show, Click, left="price", right="limit", low=-1, high=0, lower=-1, upper=2, how=how
        )
        for how in HOWS
    },
}
CHANNELS = (Channel("a", lateness=3), Channel("b", lateness=1), Channel("c", lateness=4))
every_join = pytest.mark.parametrize("name", JOINS)


def draw_events(seed, count=30):
    """Draw events of both types from each channel, out of order by chance, some of them too much."""
    rng = random.Random(seed)
    items = []
    for channel in CHANNELS:
        time = 0
        for seq in range(count):
            time += rng.choice((0, 0, 1, 2))
            event_type = rng.choice((Show, Click))
            event = event_type(
                max(0, time - rng.choice((0, 0, 0, 1, 3, 5))), rng.randint(0, 3), rng.randint(0, 9)
            )
            items.append(Event(event, channel.name, seq))
    return end_channels(items, channels=CHANNELS)


@every_join
@pytest.mark.parametrize("shards", [1, 5])
def test_differential_any_cut_into_batches_gives_the_sequential_answer(name, shards):
    for seed in range(6):
        items = draw_events(seed)
        answer = run(JOINS[name], items, CHANNELS)
        assert answer.ledger.late > 0
        assert answer.values
        engine = Engine(JOINS[name], CHANNELS, shards, columns=bool(seed % 2))
        for batch in cut(random.Random(seed), items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger


@every_join
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_differential_every_plan_gives_the_sequential_answer(name, optimizer):
    program = JOINS[name]
    keyed = program.initial.shape.by is not None
    slices = [
        take(event_type, **({"ad": ad} if keyed else {}))
        for event_type in program.event_types
        for ad in (range(4) if keyed else [0])
    ]
    plan = OPTIMIZERS[optimizer](program, Rates([Load(one) for one in slices]))
    for seed in range(2):
        items = draw_events(seed, 20)
        answer = run(program, items, CHANNELS)
        simulation = rehearse(program, plan, items, CHANNELS).run(seed)
        assert sorted((o.id, o.value) for o in simulation.outputs) == sorted(
            (o.id, o.value) for o in answer.outputs
        )
        assert simulation.ledger == answer.ledger


@every_join
def test_shards_keep_nothing_when_nobody_waits(name):
    items = draw_events(1)
    engine = Engine(JOINS[name], CHANNELS, 3)
    kept = 0
    for batch in cut(random.Random(1), items):
        engine.batch(batch)
        kept = max(kept, sum(book == "entries" for s in engine.stores for book, _ in s.pages))
    if choose_layout(JOINS[name], 3).way == "keyed":
        assert kept > 0
    assert [page for store in engine.stores for page in store.pages] == []
