"""What a run holds, dealt out to another number of shards, in another form: it goes on as it would have."""

import random
from typing import NamedTuple

import pytest

from anabranch import Event, load
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.windows.window_types import Sessions, Tumbling
from anabranch.microbatch.exchange.partition_keys import find_keys
from anabranch.microbatch.inspect.state_tables import describe_state, list_pairs, tabulate_store
from anabranch.microbatch.inspect.stored_state import (
    read_overview,
    read_pending,
    sort_stores,
)
from anabranch.microbatch.restore.shard_restore import restore_shard
from anabranch.microbatch.restore.shares import (
    deal_columns,
    deal_heads,
    deal_pending,
    deal_slices,
    deal_state,
    keeps_book,
)
from anabranch.microbatch.savepoints.seeds import read_slices
from anabranch.microbatch.shards.deferred_outputs import DeferredOutputs
from anabranch.microbatch.shards.root import Root
from anabranch.microbatch.store.column_entries import forget_tables, read_entries
from anabranch.microbatch.store.slice_book import read_closed, read_open_slices
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.model.targets import load_module
from anabranch.model.values.maps import Map
from anabranch.plan.foldable_leaves import join_deltas
from anabranch.query import aggregate
from anabranch.reference.sequential import run
from anabranch.state import Count, Max, Min
from anabranch.state.sharing import Held
from tests.microbatch.programs import PROGRAMS
from tests.microbatch.test_microbatches import (
    EXAMPLES,
    Engine,
    cut,
    draw_items,
    emitted_rows,
    expected_rows,
    to_row,
)


def list_values(engine):
    """Yield the values of an engine's stores as Spark's reader of a checkpoint yields them."""
    keys = find_keys(engine.job.layout.shards)
    stores = [(0, keys[n], store) for n, store in enumerate(engine.stores)]
    stores += [(1, n, store) for n, store in enumerate(engine.root_stores)]
    stores += [(2, n, store) for n, store in enumerate(engine.deferred_stores)]
    for operator, key, store in stores:
        for name, data in store.values.items():
            yield operator, key, name, data
        for (book, page), data in store.pages.items():
            yield operator, key, f"{book}/{page}", data


def deal(engine, stores):
    """Deal out what the stores of one engine hold to the shards of another."""
    job = engine.job
    overview = read_overview(stores)
    description, codec = overview.description, job.codec
    own = description.codec

    def lift(value):  # From stand-ins to the program's own records.
        return codec.decode(own.encode(value))

    yield from deal_heads(job, overview.standings, overview.ledger, overview.clock_ms)
    shards = {a.number: store for a, store in stores.items() if a.role == "shard"}
    for number, store in shards.items():
        found = read_pending(description, number, store)
        event_types = {event_type.__name__: event_type for event_type in job.program.event_types}
        events = [e._replace(data=event_types[type(e.data).__name__](*e.data)) for e in found]
        yield from deal_pending(job, events)
    if description.form == "windows":
        for store in shards.values():
            slices = read_open_slices(description.window_plan, store)
            yield from deal_slices(job, slices, read_closed(store))
        return
    if description.keeps_book:
        alike = description.plan.way == "replicated"
        for store in list(shards.values())[: 1 if alike else None]:
            keys, texts, states = read_entries(store, description.entry_layout)
            if keeps_book(job):
                layout = job.columns.kernels[job.program.initial.name].layout
                states = type(states)(layout, states.arrays, states.length, states.strings)
                yield from deal_columns(job, keys, texts, states)
            else:
                named = keys.tolist() if texts is None else [texts[k] for k in keys.tolist()]
                entries = dict(zip(named, map(lift, states.unpack()), strict=True))
                yield from deal_state(job, Map(entries))
        return
    yield from deal_state(job, gather_state(job.program, overview, stores, lift))


def gather_state(program, overview, stores, lift):
    """Put the whole state together that shards and roots hold."""
    description = overview.description
    pairs = [
        (lift(key), lift(entry))
        for address, store in stores.items()
        for key, entry in list_pairs(description, address, store)
    ]
    if description.plan.way == "shared":
        common = next(store for a, store in stores.items() if a.role == "shard").read("state")
        start = program.init.common
        shared = start if common is None else lift(description.codec.decode(common))
        state = Held(shared, Map(pairs))
    elif description.emitted.state.by:
        state = Map(pairs) if pairs else program.init
    else:
        state = pairs[0][1] if pairs else program.init
    for name, several in overview.deltas.items():
        for delta in several:
            state = join_deltas(program, state, {name: lift(delta)})
    return state


def take_up(old, new):
    """Let an engine go on from what another holds."""
    stores = sort_stores(list_values(old))
    letters = list(deal(new, stores))
    random.Random(len(letters)).shuffle(letters)
    new.stores = [MemoryStore() for _ in new.stores]
    spines = {}
    for number, store in enumerate(new.stores):
        mine = ((kind, data) for to, kind, data in letters if to == number)
        spines |= restore_shard(new.job, number, store, mine).spines
    for root, spine in spines.items():
        Root(new.job, new.root_stores[root]).restore(spine)
        for store in new.deferred_stores if new.job.layout.deferring else ():
            DeferredOutputs(new.job, store).restore(spine)
    new.emitted = list(old.emitted)


def go_on(items, engine, other, seed):
    """Run with one engine, then another, cut at random; return the last one."""
    rng = random.Random(seed)
    batches = cut(rng, items)
    change = rng.randint(1, len(batches))
    for batch in batches[:change]:
        engine.batch(batch)
    take_up(engine, other)
    forget_tables()
    for batch in batches[change:]:
        other.batch(batch)
    if change == len(batches):
        other.batch([])
    return other


SHARDS = [(1, 4), (8, 3), (4, 8)]
FORMS = pytest.mark.parametrize(
    "forms", [(False, False), (True, True), (False, True), (True, False)],
    ids=["objects", "columns", "into columns", "into objects"],
)  # fmt: skip


@FORMS
@pytest.mark.parametrize("name", EXAMPLES)
def test_differential_another_number_of_shards_goes_on_with_the_same_answer(name, forms):
    module = load_module(f"examples/{name}.py")
    program = load(f"examples/{name}.py")
    items = end_channels(module.events, channels=module.channels)
    answer = run(program, items, module.channels)
    for seed, shards in enumerate(SHARDS):
        first, second = (
            Engine(program, module.channels, n, columns=c)
            for n, c in zip(shards, forms, strict=True)
        )
        if program.timers and (first.columns is None) != (second.columns is None):
            pytest.skip("slices of windows stay slices")
        engine = go_on(items, first, second, seed)
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger


@FORMS
@pytest.mark.parametrize("name", PROGRAMS)
def test_differential_any_program_goes_on_to_the_bit_also_with_other_hot_keys(name, forms):
    program = PROGRAMS[name]
    channels = tuple(Channel(name) for name in "abc")
    for seed, shards in enumerate(SHARDS):
        rng = random.Random(seed)
        items = end_channels(draw_items(rng, program, 40), channels=channels)
        answer = run(program, items, channels)
        hots = [rng.choice(((), (1, 2), (2, 3))) if not c else () for c in forms]
        engine = go_on(
            items,
            Engine(program, channels, shards[0], hots[0], columns=forms[0]),
            Engine(program, channels, shards[1], hots[1], columns=forms[1]),
            seed,
        )
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger


class Offer(NamedTuple):
    time: int
    bidder: int
    price: int


@pytest.mark.parametrize("window", [Tumbling(10), Sessions(5)], ids=repr)
def test_a_savepoint_of_windows_holds_what_they_hold(window):
    program = aggregate(
        Offer, window, per="bidder", n=Count(), low=(Min(), "price"), top=(Max(), "price"),
        last=(Max(), "time"),
    )  # fmt: skip
    channels = (Channel("a"),)
    engine = Engine(program, channels, 1, columns=True)
    offers = [Offer(3, 1, 5), Offer(4, 1, 7), Offer(6, 1, 1)]  # The last one is pending.
    engine.batch([[to_row(Event(offer, "a", seq)) for seq, offer in enumerate(offers)]])
    stores = sort_stores(list_values(engine))
    ((address, store),) = stores.items()
    description = read_overview(stores).description
    table = tabulate_store(describe_state(description), description, address, store)
    (row,) = table.to_pylist()
    assert (row["events"], row["count"], row["min_price"], row["max_price"]) == (2, 2, 5, 7)
    plan = engine.job.columns.windows
    kept = read_open_slices(plan, store)
    older = [name if name == "key" else name.replace("_", " ") for name in table.column_names]
    turned = table.set_column(
        table.column_names.index("min_price"), "min_price", [[~row["min_price"]]]
    )
    for one in (table, turned.rename_columns(older)):
        again = read_slices(one, plan)
        assert [a.tolist() for a in again.parts] == [a.tolist() for a in kept.parts]
