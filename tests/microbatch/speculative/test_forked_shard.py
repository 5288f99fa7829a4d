"""Forked programs in speculative mode: what pending segments come to, over many shards, and what it costs."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from anabranch import Event, Heartbeat, Program, depends, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.speculative import forked_shard
from anabranch.microbatch.store import page_sizes
from anabranch.microbatch.store.state_store import DamagedStateError, MemoryStore
from anabranch.model.order import sort_events
from anabranch.model.targets import load
from anabranch.reference.sequential import fold, run
from anabranch.state import Max, Sum
from tests.microbatch import test_microbatches as settled
from tests.microbatch.programs import PROGRAMS, Day, Limit, Month, Reading
from tests.microbatch.speculative.test_keyed_shard import Engine, tell
from tests.microbatch.test_microbatches import READING, to_row

FORKED = {
    **{name: load(f"examples/{name}.py") for name in (
        "inc_dec", "max_temperature", "smart_home", "taxi_tips", "value_barrier",
    )},
    "started": PROGRAMS["started"],
    "failing": PROGRAMS["failing"],
    # Days are no leaves, and leaves do not wait for them.
    "beside": Program(
        on(Reading, update=lambda top, reading: Max().add(top, reading.amount)),
        on(Day, output=lambda top, day: day.meter // (day.time % 3), update=lambda top, day: top),
        on(Month, output=lambda top, month: top, update=lambda top, month: (top or 0) // 2),
        depends(Day, Day),
        depends(Month, Month, Reading, Day),
        state=Max(),
    ),
}  # fmt: skip


def draw(rng, program, *, numbered):
    """Draw items of three channels, out of order, which promise now and then what is true."""
    leaf, *others = program.inputs
    queues = {}
    for name in ("a", "b", "c"):
        arriving = []
        for _ in range(40):
            time = rng.randint(0, 30)
            event_type = rng.choice(others) if rng.random() < 0.3 else leaf
            data = event_type(
                time, *(draw_field(rng, name) for name in event_type._fields if name != "time")
            )
            arriving.append((time + rng.choice((0, 0, 2, 9, 25)), rng.random(), data))
        times = sorted(arriving)
        items, promised = [], -1
        for place, (_, _, data) in enumerate(times):
            items.append(Event(data, name, len(items) if numbered else None))
            least = min((d.time for _, _, d in times[place + 1 :]), default=99) - 1
            if least > promised and rng.random() < 0.5:
                promised = least
                items.append(Heartbeat(promised, name, len(items) if numbered else None))
        queues[name] = items
    return queues


def draw_field(rng, name):
    few = rng.randint(1, 3)
    return {"room": "xyz"[few - 1], "meter": few, "taxi": few}.get(name, rng.randint(0, 9))


def deal(rng, queues):
    """Yield batches of items, each channel's in their order."""
    while any(queues.values()):
        batch = []
        for items in queues.values():
            count = rng.choice((0, 1, 1, 3, 12))
            batch += items[:count]
            del items[:count]
        if batch:
            yield batch


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(page_sizes, "ORDERED_VALUES", 2)
    monkeypatch.setattr(page_sizes, "PENDING_OBJECTS", 5)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "unnumbered"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", FORKED)
def test_differential_after_each_batch_what_stands_is_what_the_fold_says_so_far(
    name, count, numbered
):
    program = FORKED[name]
    channels = tuple(Channel(name, lateness=None) for name in "abc")
    reading = READING if numbered else replace(READING, seq=None)
    taken_back, settled_early = 0, 0
    for seed in range(6):
        rng = random.Random(seed)
        queues = draw(rng, program, numbered=numbered)
        items = end_channels(
            [item for queue in queues.values() for item in queue], channels=channels
        )
        answer = run(program, items, channels)
        assert answer.ledger.late == 0
        engine, come = Engine(program, channels, count, hot_keys=[1], reading=reading), []
        assert engine.job.layout.shards == count
        for batch in deal(rng, queues):
            engine.batch([[to_row(item) for item in batch]])
            come += [item for item in batch if isinstance(item, Event)]
            now = tell(fold(program, sort_events(program.ranks, come))[1])
            assert engine.outputs() == sorted(now), f"seed {seed}"
        settled_early += len(engine.settled)
        ends = [item for item in items if isinstance(item, Heartbeat) and item.time > 1 << 60]
        engine.batch([[to_row(item) for item in ends]])
        assert [(row.id, row.value) for row in engine.settled] == tell(answer.outputs)
        assert engine.ledger == answer.ledger
        rejected = sorted(row.reason for row in engine.rest if row.kind == "rejected")
        assert rejected == sorted(entry.reason for entry in answer.rejected)
        engine.check_nothing_is_remembered()
        taken_back += sum(row.op < 0 for row in engine.emitted)
    assert taken_back
    assert settled_early


class Tally:
    """How often the functions of a program were called, and how many events were read again."""

    def __init__(self, monkeypatch):
        self.calls = Counter()
        unpack = forked_shard.unpack_events

        def count(*arguments):
            found = unpack(*arguments)
            self.calls["decoded"] += len(found)
            return found

        monkeypatch.setattr(forked_shard, "unpack_events", count)
        self.program = Program(
            on(Reading, update=self._add),
            on(Month, output=self._say),
            on(Limit, output=self._say, update=lambda total, limit: 0),
            depends(Month, Reading, Month, Limit),
            depends(Limit, Reading, Limit),
            state=Sum(),
        )

    def _add(self, total, reading):
        self.calls["leaves"] += 1
        return total + reading.amount

    def _say(self, total, event):
        self.calls["cuts"] += 1
        return total


def fill(monkeypatch, pending, ends=Month):
    """Return a tally, and an engine in which that many events are pending, a cut among each ten."""
    tally = Tally(monkeypatch)
    engine = Engine(tally.program, (Channel("s", lateness=None),), 4)
    rows = [
        to_row(Event(Reading(n, 0, 1) if n % 10 else _make(ends, n), "s", n))
        for n in range(1, pending + 1)
    ]
    for start in range(0, pending, 500):
        engine.batch([rows[start : start + 500]])
    tally.calls.clear()
    for store in (*engine.stores, engine.root):
        store.reads = 0
    engine.emitted.clear()
    return tally, engine


def _make(event_type, time):
    return event_type(time, 1) if event_type is Limit else event_type(time)


def count_reads(engine):
    return sum(store.reads for store in engine.stores), engine.root.reads


def test_a_late_leaf_is_folded_once_and_nothing_is_read_again_however_much_is_pending(monkeypatch):
    found = set()
    for pending in (1000, 4000):
        tally, engine = fill(monkeypatch, pending)
        engine.batch([[to_row(Event(Reading(pending - 5, 0, 7), "s", 9999))]])
        # Of the cuts, those from the kept state on, of which only the last one changes.
        assert tally.calls["cuts"] <= 2 * page_sizes.ORDERED_VALUES
        assert [row.op for row in engine.emitted] == [-1, 1]
        found.add((tally.calls["leaves"], tally.calls["decoded"], *count_reads(engine)))
    # A head, the ends of pages and a roll's cover in each shard, and a page of it where the leaf is.
    # At the root, a ledger, a cover, a page and the state before it.
    assert found == {(1, 0, 3 * 4 + 1, 4)}


def test_only_what_follows_a_change_is_run_again_and_only_until_nothing_differs(monkeypatch):
    for ends, least, most in ((Month, 200, 200 + 2 * 32), (Limit, 1, 2 * 32)):
        tally, engine = fill(monkeypatch, 4000, ends)
        engine.batch([[to_row(Event(Reading(2005, 0, 7), "s", 9999))]])
        # A total goes on through all 200 cuts that follow; one that begins anew ends at the first.
        assert least <= tally.calls["cuts"] <= most
        assert len(engine.emitted) == 2 * (200 if ends is Month else 1)


def test_a_late_cut_makes_only_the_events_around_it_be_read_again(monkeypatch):
    tally, engine = fill(monkeypatch, 4000)
    late = [Event(Reading(2206, 0, 0), "s", 9998), Event(Month(2205), "s", 9999)]
    engine.batch([[to_row(event) for event in late]])
    assert [json.loads(row.value) for row in engine.emitted] == [220 * 9 + 4]
    assert tally.calls["leaves"] == 9 + 1
    # Two pages in each of the four shards: of the 500 events that came together, and of what is new.
    assert tally.calls["decoded"] == 450 + 50 * 4 + 1 + 4
    tally.calls.clear()
    # Where a cut divides no leaves, nothing is read.
    engine.batch([[to_row(Event(Month(2210), "s", 10000)), to_row(Event(Month(9000), "s", 10001))]])
    assert tally.calls["decoded"] == tally.calls["leaves"] == 0


def test_a_cut_between_leaves_that_settled_and_pending_ones_finds_both_sides_right():
    value, barrier = (FORKED["value_barrier"].event_type(name) for name in ("Value", "Barrier"))
    engine = Engine(FORKED["value_barrier"], (Channel("s", lateness=None),), 1)
    batches = [
        [Event(value(time, time), "s", time) for time in (1, 10, 20)] + [Heartbeat(2, "s", 21)],
        [Event(barrier(15), "s", 22)],  # It divides leaves, one of which has settled.
        [Event(barrier(5), "s", 23)],
    ]
    for batch in batches:
        engine.batch([[to_row(item) for item in batch]])
    assert [(row.op, row.time, row.value) for row in engine.emitted] == [(1, 15, "11"), (1, 5, "1")]


def test_that_leaves_settle_changes_nothing_and_costs_nothing_ahead(monkeypatch):
    tally, engine = fill(monkeypatch, 1000)
    engine.batch([[to_row(Heartbeat(505, "s", 9999))]])
    assert tally.calls["leaves"] == 455  # As in the settled mode.
    assert tally.calls["decoded"] == 0
    assert tally.calls["cuts"] <= 50 + 2 * page_sizes.ORDERED_VALUES
    assert engine.emitted == []
    assert len(engine.settled) == 50


def test_every_value_that_is_lost_is_missed_or_was_not_needed(monkeypatch):
    monkeypatch.setattr(page_sizes, "ORDERED_VALUES", 2)
    monkeypatch.setattr(page_sizes, "PENDING_OBJECTS", 5)
    program = FORKED["value_barrier"]
    channels = tuple(Channel(name, lateness=None) for name in "abc")
    queues = draw(random.Random(3), program, numbered=True)
    items = end_channels([item for queue in queues.values() for item in queue], channels=channels)
    batches = [[to_row(item) for item in batch] for batch in deal(random.Random(4), queues)]
    batches.append([to_row(item) for item in items if item.time > 1 << 60])
    answer = tell(run(program, items, channels).outputs)

    def go_on(engine, batches):
        for batch in batches:
            engine.batch([batch])
        return [(row.id, row.value) for row in engine.settled]

    engine = Engine(program, channels, 2)
    middle = len(batches) // 2
    go_on(engine, batches[:middle])
    stores = [*engine.stores, engine.root]
    lost, missed = 0, 0
    for place, store in enumerate(stores):
        for kind, name in [("values", n) for n in store.values] + [
            ("pages", n) for n in store.pages
        ]:
            again = copy_engine(engine)
            del getattr([*again.stores, again.root][place], kind)[name]
            lost += 1
            try:
                assert go_on(again, batches[middle:]) == answer, name
            except DamagedStateError:
                missed += 1
    assert lost > 30
    assert missed > lost * 0.8


def copy_engine(engine):
    again = object.__new__(Engine)
    again.__dict__.update(engine.__dict__)
    again.stores = [copy_store(store) for store in engine.stores]
    again.root, again.barrier = copy_store(engine.root), copy_store(engine.barrier)
    again.standing, again.emitted = dict(engine.standing), list(engine.emitted)
    again.settled, again.rest = list(engine.settled), list(engine.rest)
    return again


def copy_store(store):
    again = MemoryStore()
    again.values, again.pages = dict(store.values), dict(store.pages)
    return again


def test_what_a_leaf_said_is_taken_back_if_it_can_not_be_folded_when_it_settles():
    def add(total, reading):
        if total + reading.amount > 10:
            raise ValueError("too much")
        return total + reading.amount

    program = Program(
        on(Reading, update=add, output=lambda total, reading: reading.meter),
        on(Month, output=lambda total, month: total, update=lambda total, month: 0),
        depends(Month, Reading, Month),
        state=Sum(),
    )
    readings = [
        Event(Reading(time, time, amount), "s", 2 * seq)
        for seq, (time, amount) in enumerate([(3, 6), (1, 7), (2, 11)])
    ]
    engine = Engine(program, (Channel("s", lateness=None),), 2)
    plain = settled.Engine(program, (Channel("s", lateness=None),), 2)
    last = [Event(Month(5), "s", 6), Heartbeat(9, "s", 7)]
    for item in (*readings, *last):
        engine.batch([[to_row(item)]])
        plain.batch([[to_row(item)]])
    emitted = sorted((row.id, row.value) for row in engine.settled)
    assert emitted == settled.emitted_rows(plain)
    assert engine.outputs() == emitted
    assert [row.reason for row in engine.rest] == [
        r.reason for r in plain.emitted if r.kind == "rejected"
    ]
    assert sum(row.op < 0 for row in engine.emitted) > 0


def test_a_program_that_forks_ahead_is_laid_over_the_shards_as_in_the_settled_mode():
    program = FORKED["taxi_tips"]
    engine = Engine(program, (), 8, hot_keys=[1])
    layout = settled.Engine(program, (), 8, hot_keys=[1]).job.layout
    found: Job = engine.job
    assert replace(found.layout, reasons=()) == replace(layout, reasons=())
