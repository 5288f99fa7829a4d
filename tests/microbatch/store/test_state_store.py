"""Values of the state: one that has changed or is gone is an error that names it, never another answer."""

import copy
import random

import pytest

from anabranch.eventtime.channels import Channel, end_channels
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.shards.deferred_outputs import DeferredOutputs
from anabranch.microbatch.store.column_entries import forget_tables
from anabranch.microbatch.store.state_store import (
    DamagedStateError,
    Inventory,
    MemoryStore,
    StorePart,
    seal,
    unseal,
)
from anabranch.model.events import Event
from anabranch.model.targets import load, load_module
from anabranch.plan.layouts import choose_layout
from anabranch.reference.sequential import run
from anabranch.state.durable.codec import make_codec
from tests.microbatch.test_microbatches import Engine, cut, emitted_rows, expected_rows

SHARDS = 2


def half_way(name, *, columns):
    """Return an engine that has had half of an example's batches, the others, and the answer."""
    module = load_module(f"examples/{name}.py")
    program = load(f"examples/{name}.py")
    items = end_channels(module.events, channels=module.channels)
    batches = list(cut(random.Random(7), items))
    engine = Engine(program, module.channels, SHARDS, columns=columns)
    for batch in batches[: len(batches) // 2]:
        engine.batch(batch)
    return engine, batches[len(batches) // 2 :], run(program, items, module.channels)


def name_values(engine):
    for kind in ("stores", "root_stores", "deferred_stores"):
        for number, store in enumerate(getattr(engine, kind)):
            for book in ("values", "pages"):
                yield from ((kind, number, book, name) for name in getattr(store, book))


def go_on(engine, batches):
    forget_tables()
    for batch in batches:
        engine.batch(batch)


def flip(data, place):
    changed = bytearray(data)
    changed[place] ^= 1 << (place % 8)
    return bytes(changed)


CASES = [
    ("key_counter", False), ("key_counter", True), ("value_barrier", False), ("value_barrier", True),
    ("fraud", False), ("page_view", False), ("busy_airports", True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_a_bit_that_has_turned_is_found_in_every_value(name, columns):
    engine, batches, answer = half_way(name, columns=columns)
    found = 0
    for kind, number, book, value in list(name_values(engine)):
        whole = getattr(getattr(engine, kind)[number], book)[value]
        for place in (0, 3, 4, 7, 8, len(whole) // 2, len(whole) - 1):
            broken = copy.deepcopy(engine)
            getattr(getattr(broken, kind)[number], book)[value] = flip(whole, place)
            try:
                go_on(broken, batches)
            except DamagedStateError:
                found += 1
            else:  # Nobody had to read it.
                assert emitted_rows(broken) == expected_rows(answer)
                assert broken.ledger == answer.ledger
    assert found > 7


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_a_value_that_is_gone_is_not_taken_for_one_that_never_was(name, columns):
    engine, batches, answer = half_way(name, columns=columns)
    found = []
    for kind, number, book, value in list(name_values(engine)):
        broken = copy.deepcopy(engine)
        del getattr(getattr(broken, kind)[number], book)[value]
        try:
            go_on(broken, batches)
        except DamagedStateError:
            found.append((kind, value))
        else:
            assert emitted_rows(broken) == expected_rows(answer), f"without {value!r} of {kind}"
            assert broken.ledger == answer.ledger, f"without {value!r} of {kind}"
    assert ("stores", "head") in found


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_state_from_before_there_were_sums_is_read(name, columns):
    engine, batches, answer = half_way(name, columns=columns)
    codec = engine.job.codec
    for kind, number, book, value in list(name_values(engine)):
        held = getattr(getattr(engine, kind)[number], book)
        full = value if isinstance(value, str) else "/".join(value)
        held[value] = unseal(full, held[value], "")
        if value == "head":
            held[value] = codec.encode(codec.decode(held[value])[:5])
        if kind == "deferred_stores" and value == "ledger":
            held[value] = codec.encode(codec.decode(held[value])[:6])
    go_on(engine, batches)
    assert emitted_rows(engine) == expected_rows(answer)
    assert engine.ledger == answer.ledger


def test_a_value_is_bound_to_its_name():
    with pytest.raises(DamagedStateError, match="'state'"):
        unseal("state", seal("head", b"data"), "shard 0")


@pytest.mark.parametrize(
    "old", [b"", b"\xc1", b"\x93\xa1t\x01", b'{"a": 1}', b"\xff\xff\xff\xff1234", b"\x00" * 9]
)
def test_what_has_no_mark_is_read_as_it_is(old):
    assert unseal("head", old, "shard 0") == old


@pytest.mark.parametrize("place", range(20))
def test_every_byte_of_a_sealed_value_counts(place):
    sealed = seal("head", b"twelve bytes")
    assert unseal("head", sealed, "shard 0") == b"twelve bytes"
    for bit in range(8):
        changed = bytearray(sealed)
        changed[place] ^= 1 << bit
        with pytest.raises(DamagedStateError):
            unseal("head", bytes(changed), "shard 0")


def test_a_part_of_a_store_is_guarded_as_the_whole_is():
    store = MemoryStore()
    part = StorePart(store, "root")
    assert part.is_empty()
    part.write("spine", b"one")
    part.write_page("entries", "3", b"two")
    assert (part.read("spine"), part.read_page("entries", "3")) == (b"one", b"two")
    assert not part.is_empty()
    store.values["root:spine"] = flip(store.values["root:spine"], 9)
    with pytest.raises(DamagedStateError, match="'root:spine'"):
        part.read("spine")


def test_a_page_that_was_forgotten_is_not_missed():
    store = MemoryStore()
    inventory = Inventory(store)
    inventory.write_page("entries", "3", b"three")
    inventory.write_page("entries", "4", b"four")
    inventory.write_page("entries", "3", None)
    again = Inventory(store, inventory.held)
    assert again.read_page("entries", "3") is None
    assert again.read_page("entries", "5") is None
    store.pages.clear()
    with pytest.raises(DamagedStateError, match="entries/4"):
        again.read_page("entries", "4")


def test_a_speaker_misses_the_state_that_it_speaks_of():
    program = load("examples/fraud.py")
    txn, rule = program.event_type("Txn"), program.event_type("Rule")
    job = Job(program, choose_layout(program, 1), {}, make_codec(program))
    store = MemoryStore()
    key = program.ranks[rule]
    DeferredOutputs(job, store).process([], [((3, key, "rules", 0), ("totals", 7, 0))])
    del store.values["state"]
    with pytest.raises(DamagedStateError, match="'state'"):
        DeferredOutputs(job, store).process(
            [((4, program.ranks[txn], "a", 0), Event(txn(4, 7), "a", 0))], []
        )


def test_the_error_says_whose_value_it_is_and_what_to_do(message):
    store = MemoryStore()
    store.owner = "shard 3"
    store.write("head", b"twelve bytes")
    store.values["head"] = flip(store.values["head"], 12)
    with pytest.raises(DamagedStateError) as refusal:
        store.read("head")
    message("a_value_of_the_state_is_damaged", str(refusal.value))


def test_a_page_of_entries_that_is_gone_is_named(message):
    program = load("examples/key_counter.py")
    inc = program.event_type("Inc")
    engine = Engine(program, (Channel("s", unique_times=True),), 1)
    engine.stores[0].owner = "shard 0"
    rows = [
        {"type": "Inc", "channel": "s", "seq": n, "heartbeat": None, **inc(n + 1, n % 5)._asdict()}
        for n in range(50)
    ]
    engine.batch([rows[:25]])
    pages = [page for book, page in engine.stores[0].pages if book == "entries"]
    assert len(pages) == 5
    for page in pages:
        del engine.stores[0].pages["entries", page]
    with pytest.raises(DamagedStateError) as refusal:
        engine.batch([rows[25:]])
    message("a_page_of_entries_is_gone", str(refusal.value))
