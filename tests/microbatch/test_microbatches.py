"""Shards and roots against the fold, under any cut into batches and tasks; no Spark is needed."""

import json
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from anabranch import Event, Heartbeat, load
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.result_rows import ResultRow, identify
from anabranch.microbatch.ingest.column_reader import take_in_columns
from anabranch.microbatch.ingest.row_reader import MOST_CHUNKS, Reading, take_in
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.shards.columnar_shard import ColumnShard
from anabranch.microbatch.shards.deferred_outputs import DeferredOutputs
from anabranch.microbatch.shards.root import Root
from anabranch.microbatch.shards.row_shard import RowShard
from anabranch.microbatch.store.column_entries import forget_tables
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.model.targets import load_module
from anabranch.model.values.fields import encode_value
from anabranch.plan.layouts import choose_layout
from anabranch.reference.sequential import run
from anabranch.state.durable.codec import make_codec
from tests.microbatch.programs import PROGRAMS

EXAMPLES = [
    "busy_airports", "card_watch", "click_through", "energy_forecast", "ewma", "exchange", "fraud", "inc_dec", "key_counter",
    "max_temperature", "outlier_detection",
    "page_view",
    "smart_home", "taxi_tips", "trending_words", "value_barrier",
]  # fmt: skip
READING = Reading(
    type_column="type", channel_column="channel", seq="seq", heartbeat="heartbeat", time="time"
)


class Engine:
    """What Spark does with shards and a root, in a few lines."""

    def __init__(self, program, channels, shards, hot_keys=(), *, columns=False, numbered=True):
        self.reading = READING if numbered else replace(READING, seq=None)
        layout = choose_layout(program, shards, hot_keys=hot_keys)
        known = {s.name: s for s in channels}
        plan = plan_columns(program, layout, known, numbered=numbered)
        self.columns = plan if columns and not isinstance(plan, str) else None
        self.job = Job(program, layout, known, make_codec(program), columns=self.columns)
        self.stores, self.root_stores, self.deferred_stores = (
            [MemoryStore() for _ in range(layout.shards)] for _ in range(3)
        )
        self.emitted = []

    def take_in(self, rows, place=0):
        if self.columns is None:
            return take_in(self.job, self.reading, rows, place)
        names = {name: None for row in rows for name in row}
        columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
        return take_in_columns(self.job, self.reading, [pa.record_batch(columns)], place)

    def batch(self, tasks, clock_ms=None):
        taken = [e for place, rows in enumerate(tasks) for e in self.take_in(rows, place)]
        self.batch_of(taken, clock_ms)

    def batch_of(self, envelopes, clock_ms=None):
        random.Random(len(self.emitted)).shuffle(envelopes)
        deltas, ledgers, deferred, states = [], [], {}, []
        for number, store in enumerate(self.stores):
            shard = (ColumnShard if self.columns else RowShard)(self.job, number, store)
            mine = [(kind, data) for to, kind, data in envelopes if to == number]
            shard.process(mine, clock_ms)
            self.watermark, self.standings = shard.watermark, shard.standings
            self.emitted += shard.emitted
            self.emitted += [
                ResultRow(**row) for table in shard.tables for row in table.to_pylist()
            ]
            deltas += shard.deltas
            deferred[number] = shard.deferred
            ledgers.append(shard.ledger)
        for number, store in enumerate(self.root_stores):
            root = Root(self.job, store)
            root.process([delta for delta in deltas if delta.root == number])
            self.emitted += root.emitted
            states += root.states
            ledgers.append(root.ledger)
        for number, store in enumerate(self.deferred_stores):
            deferred_outputs = DeferredOutputs(self.job, store)
            deferred_outputs.process(deferred[number], states)
            self.emitted += deferred_outputs.emitted
            ledgers.append(deferred_outputs.ledger)
        self.ledger = Ledger(*map(sum, zip(*ledgers, strict=True)))
        assert self.ledger.balanced, self.ledger


def to_row(item):
    row = {"channel": item.channel, "seq": item.seq, "heartbeat": None, "time": None}
    if isinstance(item, Heartbeat):
        return row | {"heartbeat": item.time}
    return row | {"type": type(item.data).__name__} | item.data._asdict()


def cut(rng, items):
    """Cut each channel at random places, as batches and tasks would, and keep its order."""
    queues = {}
    for item in items:
        queues.setdefault(item.channel, []).append(to_row(item))
    batches = []
    while any(queues.values()):
        tasks = []
        for rows in queues.values():
            for _ in range(rng.randint(0, 2)):
                size = rng.randint(0, max(1, len(rows) // 2))
                tasks.append([rows.pop(0) for _ in range(min(size, len(rows)))])
        rng.shuffle(tasks)
        # A task may hold parts of several channels, in any order of rows.
        if rng.random() < 0.3 and len(tasks) > 1:
            merged = tasks.pop() + tasks.pop()
            by_channel = {row["channel"] for row in merged}
            if len(by_channel) == 2:
                rng.shuffle(merged)
            tasks.append(merged)
        batches.append([task for task in tasks if task])
    return [batch for batch in batches if batch]


def numbered(items):
    return [item for item in items if item.seq is not None] == list(items)


def expected_rows(answer):
    return sorted(
        (f"{identify(o.key)}#{o.index}", json.dumps(encode_value(o.value), sort_keys=True))
        for o in answer.outputs
    )


def emitted_rows(engine):
    return sorted(
        (s.id, json.dumps(json.loads(s.value), sort_keys=True))
        for s in engine.emitted
        if s.kind == "output"
    )


WAYS = pytest.mark.parametrize("columns", [False, True], ids=["events", "columns"])


@WAYS
@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("name", EXAMPLES)
def test_differential_any_cut_into_batches_gives_the_sequential_answer(name, shards, columns):
    module = load_module(f"examples/{name}.py")
    program = load(f"examples/{name}.py")
    items = end_channels(module.events, channels=module.channels)
    assert numbered(items)
    answer = run(program, items, module.channels)
    for seed in range(5 if columns else 10):
        engine = Engine(program, module.channels, shards, columns=columns)
        for batch in cut(random.Random(seed), items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger


def draw_items(rng, program, count):
    """Draw events of every event type, most of them of the first, with times that often coincide."""
    first, *others = program.inputs
    items = []
    for name in ("a", "b", "c"):
        time = 0
        for seq in range(count):
            time += rng.choice((0, 0, 1, 1, 2))
            event_type = rng.choice(others) if others and rng.random() < 0.15 else first
            values = [rng.randint(0, 3), rng.randint(0, 999)]
            fields = event_type._fields[1:]
            data = event_type(time, *(values[field != "meter"] for field in fields))
            items.append(Event(data, name, seq))
    return items


@WAYS
@pytest.mark.parametrize("shards", [1, 3, 8])
@pytest.mark.parametrize("name", PROGRAMS)
def test_differential_random_events_give_the_sequential_answer_to_the_bit(name, shards, columns):
    program = PROGRAMS[name]
    channels = tuple(Channel(name) for name in "abc")
    emitted = set()
    for seed in range(5 if columns else 8):
        rng = random.Random(seed)
        items = end_channels(draw_items(rng, program, 40), channels=channels)
        answer = run(program, items, channels)
        hot_keys = [1, 2] if seed % 2 and not columns else ()
        engine = Engine(program, channels, shards, hot_keys, columns=columns)
        for batch in cut(rng, items):
            engine.batch(batch)
            if rng.random() < 0.3:
                forget_tables()  # As a new worker would not know them.
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger
        rejected = sorted(s.reason for s in engine.emitted if s.kind == "rejected")
        assert rejected == sorted(r.reason for r in answer.rejected)
        emitted |= {o.event.event_type for o in answer.outputs}
    assert {
        event_type
        for event_type in program.event_types
        if program.initial.handlers[event_type].output
    } >= emitted
    assert emitted


@WAYS
@pytest.mark.parametrize("channel", [
    Channel("a", lateness=3), Channel("a", lateness=0), Channel("a", unique_times=True),
    Channel("a", lateness=None), Channel("a", lateness=2, max_ahead=9),
    Channel("a", lateness=Estimated(0.9, within=12, most=6)),
    Channel("a", lateness=Estimated(0.75, within=None), max_ahead=30),
])  # fmt: skip
def test_differential_what_is_late_does_not_depend_on_batches(channel, columns):
    module = load_module("examples/value_barrier.py")
    program = load("examples/value_barrier.py")
    value, barrier = program.event_type("Value"), program.event_type("Barrier")
    for seed in range(20 if columns else 60):
        rng = random.Random(seed)
        times = [
            max(1, n + rng.randint(-4, 4) + (50 if rng.random() < 0.05 else 0)) for n in range(40)
        ]
        items = [Event(value(t, t), "a", n) for n, t in enumerate(times)]
        items += [Event(barrier(t), "b", t) for t in range(5, 40, 7)]
        items = end_channels(items)
        channels = (channel, Channel("b"))
        answer = run(program, items, channels)
        engine = Engine(program, channels, 3, columns=columns)
        for batch in cut(rng, items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer)
        assert engine.ledger == answer.ledger
        late = sorted((s.channel, s.seq) for s in engine.emitted if s.kind == "late")
        assert late == sorted((x.event.channel, x.event.seq) for x in answer.late)
    assert module.expected


def test_differential_files_packed_into_tasks_out_of_order_change_nothing():
    program = load("examples/value_barrier.py")
    value, barrier = program.event_type("Value"), program.event_type("Barrier")
    rng = random.Random(0)
    times = [max(1, n + rng.randint(-3, 3)) for n in range(200)]
    items = [Event(value(t, t), "a", n) for n, t in enumerate(times)]
    items += [Event(barrier(t), "b", t) for t in range(10, 200, 10)]
    items = end_channels(items)
    channels = (Channel("a", lateness=2), Channel("b"))
    answer = run(program, items, channels)
    assert answer.ledger.late > 5
    files = [[to_row(i) for i in items if i.channel == "a"][n : n + 20] for n in range(0, 220, 20)]
    others = [to_row(item) for item in items if item.channel == "b"]
    engine = Engine(program, channels, 3)
    engine.batch([files[0] + files[3] + files[5], files[4] + files[1], files[2], others[:9]])
    engine.batch([others[9:], files[8] + files[6] + files[10], files[9] + files[7]])
    assert emitted_rows(engine) == expected_rows(answer)
    assert engine.ledger == answer.ledger


def test_a_batch_reads_only_the_pages_it_touches():
    program = load("examples/key_counter.py")
    inc = program.event_type("Inc")
    channels = (Channel("s", unique_times=True),)
    engine = Engine(program, channels, 1)
    store = engine.stores[0]
    engine.batch([[to_row(Event(inc(n + 1, n), "s", n)) for n in range(2000)]])
    everything = len(store.pages)
    before = store.reads
    engine.batch([[to_row(Event(inc(3000, 7), "s", 3000))]])
    assert everything > 100
    assert store.reads - before <= 4


@WAYS
def test_tasks_that_share_numbers_with_gaps_all_over_are_refused(columns):
    program = load("examples/key_counter.py")
    inc = program.event_type("Inc")
    engine = Engine(program, (Channel("s"),), 2, columns=columns)
    rows = [to_row(Event(inc(n + 1, 1), "s", n)) for n in range(3 * MOST_CHUNKS)]
    with pytest.raises(InputError, match="overlap, and have gaps everywhere"):
        engine.batch([rows[::2], rows[1::2]])


def test_a_batch_of_bad_rows_alone_still_counts_everything_so_far():
    program = load("examples/key_counter.py")
    inc = program.event_type("Inc")
    engine = Engine(program, (Channel("s", unique_times=True),), 4)
    engine.batch([[to_row(Event(inc(n + 1, n), "s", n)) for n in range(20)]])
    bad = to_row(Event(inc(30, 1), "s", 30)) | {"type": "Nope"}
    heard = {shard for shard, _, _ in take_in(engine.job, READING, [bad])}
    assert heard == {0, 1, 2, 3}
    engine.batch([[bad]])
    assert (engine.ledger.input, engine.ledger.processed, engine.ledger.rejected) == (21, 20, 1)


@pytest.mark.parametrize(("change", "reason"), [
    ({"type": "Nope"}, "unknown event type 'Nope'; the program knows Inc, Read"),
    ({"time": None}, "time 'time' is null or missing"),
    ({"time": "noon"}, 'field \'time\' of Inc: expected int, got "noon" (text)'),
    ({"key": 1.5}, "field 'key' of Inc: expected int, got 1.5 (float)"),
    ({"channel": "x"}, "unknown channel 'x'; declared are s: add Channel('x'), or correct the name"),
    ({"seq": None}, "sequence 'seq' is None, not an integer"),
    ({"time": 1 << 70}, f"time {1 << 70} does not fit into 64 bits"),
])  # fmt: skip
def test_a_bad_row_is_rejected_with_its_reason_and_counted(change, reason):
    program = load("examples/key_counter.py")
    inc = program.event_type("Inc")
    engine = Engine(program, (Channel("s"),), 2)
    good = to_row(Event(inc(1, 1), "s", 5))
    engine.batch([[good, good | {"seq": 6} | change]])
    rejected = [s for s in engine.emitted if s.kind == "rejected"]
    assert [s.reason for s in rejected] == [reason]
    assert (engine.ledger.input, engine.ledger.rejected) == (2, 1)
