"""Speculative shards against the fold, under any cut into batches; then the same as a query."""

import json
import random
from collections import Counter

import pytest

from anabranch import Event, Heartbeat
from anabranch.errors import InputError, StateTooLargeError
from anabranch.eventtime.channels import NEVER, Channel, end_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.result_rows import (
    ResultRow,
    describe_ledger,
    encode_json,
    identify,
)
from anabranch.microbatch.ingest.row_reader import take_in
from anabranch.microbatch.job.fingerprint import ChangedProgramError, check_fingerprint
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.job.speculative_layout import check_mode, choose_speculative_layout
from anabranch.microbatch.shards.root import Root
from anabranch.microbatch.shards.row_shard import RowShard
from anabranch.microbatch.speculative import keyed_shard
from anabranch.microbatch.speculative.row_barrier import RowBarrier
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.model.order import sort_events
from anabranch.model.targets import load, load_module
from anabranch.reference.sequential import fold, run
from anabranch.spark.run_explanation import explain_run
from anabranch.state.durable.codec import make_codec
from tests.microbatch.programs import PROGRAMS, Day, Reading, stopping
from tests.microbatch.streams import Story, read_published
from tests.microbatch.test_microbatches import EXAMPLES, READING, cut, draw_items, to_row


class Engine:
    """What Spark does with speculative shards, the root, and a barrier behind them.

    Whoever works is made anew for every batch, from the bytes in its store.
    """

    def __init__(self, program, channels, shards, hot_keys=(), reading=READING):
        self.reading = reading
        layout = choose_speculative_layout(program, shards, hot_keys=hot_keys)
        known = {channel.name: channel for channel in channels}
        self.job = Job(program, layout, known, make_codec(program), mode="speculative")
        self.stores = [MemoryStore() for _ in range(layout.shards)]
        self.root, self.barrier = MemoryStore(), MemoryStore()
        self.standing, self.emitted, self.settled, self.rest = {}, [], [], []

    def batch(self, tasks):
        envelopes = [e for rows in tasks for e in take_in(self.job, self.reading, rows)]
        random.Random(len(self.emitted)).shuffle(envelopes)
        rows, ledgers, deltas, ahead = [], [], [], []
        for number, store in enumerate(self.stores):
            shard = RowShard(self.job, number, store)
            shard.process([(kind, data) for to, kind, data in envelopes if to == number])
            more = {"watermark": shard.watermark}
            rows += [*shard.emitted, describe_ledger("shard", number, shard.ledger, more)]
            ledgers.append(shard.ledger)
            deltas += shard.deltas
            ahead += shard.ahead
            self.watermark = shard.watermark
        if self.job.layout.has_root:
            root = Root(self.job, self.root)
            random.Random(len(self.emitted)).shuffle(ahead)
            root.process(deltas, ahead)
            rows += [*root.emitted, describe_ledger("root", 0, root.ledger, {})]
            ledgers.append(root.ledger)
        self.rest += [row for row in rows if row.kind not in ("output", "ledger")]
        self.add_up([row for row in rows if row.kind == "output"])
        self.ledger = Ledger(*map(sum, zip(*ledgers, strict=True)))
        assert self.ledger.balanced
        self.emitted += [row for row in rows if row.kind == "output"]
        random.Random(len(self.emitted)).shuffle(rows)
        released = RowBarrier(self.barrier).process(rows)
        self.settled += [row for row in released if row.kind == "output"]

    def add_up(self, rows):
        for row in rows:
            if row.op > 0:
                assert row.id not in self.standing
                self.standing[row.id] = row
            else:
                assert self.standing.pop(row.id) == row._replace(op=1)

    def check_nothing_is_remembered(self):
        """See that nothing is kept of what was pending, when nothing is, but the open segment."""
        assert not self.root.pages
        left = Counter(book for store in self.stores for book, _ in store.pages)
        assert not left.keys() & {"changes", "pending", "ties"}
        assert left["segments"] <= len(self.stores)

    def outputs(self):
        return sorted((row.id, row.value) for row in self.standing.values())


def tell(outputs):
    """Return outputs of the fold as rows tell of them, in order."""
    return [(f"{identify(o.key)}#{o.index}", encode_json(o.value)) for o in outputs]


def say_so_far(program, items, rows):
    """Return what the fold says of the good events among those that have come."""
    come = {(row["channel"], row["seq"]) for row in rows}
    # A heartbeat may share its number with an event.
    good = [item for item in items if isinstance(item, Event) and (item.channel, item.seq) in come]
    return sorted(tell(fold(program, sort_events(program.ranks, good))[1]))


@pytest.mark.parametrize("shards", [1, 3, 4])
@pytest.mark.parametrize("name", EXAMPLES)
def test_differential_after_each_batch_what_stands_is_what_the_fold_says_so_far(name, shards):
    module, program = load_module(f"examples/{name}.py"), load(f"examples/{name}.py")
    items = end_channels(module.events, channels=module.channels)
    answer = run(program, items, module.channels)
    assert answer.ledger.late == 0
    for seed in range(5):
        engine, come = Engine(program, module.channels, shards), []
        for batch in cut(random.Random(seed), items):
            engine.batch(batch)
            come += [row for task in batch for row in task]
            # How far timers have come is not a matter of what was seen alone.
            if not program.timers:
                assert engine.outputs() == say_so_far(program, items, come), f"seed {seed}"
        assert [(row.id, row.value) for row in engine.settled] == tell(answer.outputs)
        assert engine.ledger == answer.ledger
        engine.check_nothing_is_remembered()


@pytest.mark.parametrize("shards", [1, 3, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_differential_out_of_order_late_and_failing_events_settle_as_the_fold_has_them(
    name, shards
):
    program = PROGRAMS[name]
    channels = (Channel("a", lateness=3), Channel("b", lateness=5), Channel("c", lateness=None))
    taken_back = 0
    for seed in range(5):
        rng = random.Random(seed)
        items = []
        for item in draw_items(rng, program, 30):
            data = item.data._replace(time=max(0, item.data.time - rng.choice((0, 0, 1, 3, 6))))
            if "amount" in data._fields:
                data = data._replace(amount=data.amount % 13)
            items.append(Event(data, item.channel, 2 * item.seq))
            if rng.random() < 0.2:
                items.append(Heartbeat(item.time - 8, item.channel, 2 * item.seq + 1))
        items = end_channels(items, channels=channels)
        answer = run(program, items, channels)
        late = {(entry.event.channel, entry.event.seq) for entry in answer.late}
        good = [item for item in items if (item.channel, item.seq) not in late]
        engine, come = Engine(program, channels, shards), []
        for batch in cut(rng, items):
            engine.batch(batch)
            come += [row for task in batch for row in task]
            if not program.timers:
                assert engine.outputs() == say_so_far(program, good, come), f"seed {seed}"
        assert [(row.id, row.value) for row in engine.settled] == tell(answer.outputs)
        assert engine.outputs() == sorted(tell(answer.outputs))
        assert engine.ledger == answer.ledger
        rejected = sorted(row.reason for row in engine.rest if row.kind == "rejected")
        assert rejected == sorted(entry.reason for entry in answer.rejected)
        engine.check_nothing_is_remembered()
        taken_back += sum(row.op < 0 for row in engine.emitted)
    # What is said of no state is never wrong.
    assert taken_back or name == "independent"


def test_only_the_entries_that_new_events_touch_are_folded_again(monkeypatch):
    program = load("examples/key_counter.py")
    inc, read = program.event_type("Inc"), program.event_type("Read")
    engine = Engine(program, (Channel("s", lateness=None),), 1)
    rows = [to_row(Event(inc(n, n % 1000), "s", n)) for n in range(2000)]
    rows += [to_row(Event(read(3000 + n, n), "s", 3000 + n)) for n in range(1000)]
    engine.batch([rows])
    store = engine.stores[0]
    before, unpack, decoded = store.reads, keyed_shard.unpack_events, []

    def note(*arguments):
        decoded.append(unpack(*arguments))
        return decoded[-1]

    monkeypatch.setattr(keyed_shard, "unpack_events", note)
    engine.batch([[to_row(Event(inc(5, 7), "s", 5000))]])
    # The head, a page of entries, and one of what is pending and was said of it.
    assert store.reads - before == 3
    assert [one.event.time for one in decoded[0]] == [7, 1007, 3007]
    assert len(decoded) == 1
    assert [(row.op, json.loads(row.value)) for row in engine.emitted[-2:]] == [
        (-1, [7, 2]),
        (1, [7, 3]),
    ]
    assert len(engine.emitted) == 1002


def test_a_limit_stops_a_shard_only_where_it_would_stop_the_fold():
    program, channels = stopping, (Channel("s", lateness=None),)
    readings = [to_row(Event(Reading(time, 1, time), "s", time)) for time in (1, 2, 4)]
    end = [to_row(Heartbeat(9, "s", 6))]
    engine = Engine(program, channels, 1)
    for batch in (readings, [to_row(Event(Day(3, 1), "s", 5))], end):
        engine.batch([batch])
    assert engine.ledger.processed == 4
    engine = Engine(program, channels, 1)
    engine.batch([readings])
    with pytest.raises(StateTooLargeError):
        engine.batch([end])


def test_what_settles_unchanged_is_not_said_again():
    program = load("examples/value_barrier.py")
    value, barrier = program.event_type("Value"), program.event_type("Barrier")
    engine = Engine(program, (Channel("a"), Channel("b")), 4)
    engine.batch([[to_row(Event(value(1, 5), "a", 0)), to_row(Event(barrier(2), "b", 0))]])
    assert [row.value for row in engine.emitted] == ["5"]
    assert engine.settled == []
    beats = [to_row(Heartbeat(9, name, 1)) for name in "ab"]
    engine.batch([beats])
    assert len(engine.emitted) == 1
    assert [row.value for row in engine.settled] == ["5"]


def test_the_barrier_over_rows_drops_a_replay_and_waits_for_a_watermark():
    row = ResultRow("output", '[5,0,"s",1]#0', 5, "T", "s", 1, 0, "1", "{}", None)
    store = MemoryStore()

    def beat(time):
        return describe_ledger("shard", 0, Ledger(), {"watermark": time})

    assert RowBarrier(store).process([row, beat(NEVER)]) == [beat(NEVER)]
    assert RowBarrier(store).process([beat(4)]) == [beat(4)]
    assert RowBarrier(store).process([beat(5)]) == [beat(5), row]
    assert RowBarrier(store).process([row, beat(6)]) == [beat(6)]


def test_what_can_not_fold_apart_is_folded_in_order_and_says_why():
    value_barrier = choose_speculative_layout(load("examples/value_barrier.py"), 8)
    assert (value_barrier.way, value_barrier.shards, value_barrier.has_root) == ("forked", 8, True)
    keyed = choose_speculative_layout(load("examples/key_counter.py"), 8, hot_keys=[1])
    assert (keyed.way, keyed.shards, keyed.has_root) == ("keyed", 8, False)
    assert "a hot key is not spread" in keyed.reasons[-1]
    one = "speculative: one shard folds in order what could be folded in parallel, to retract outputs; "
    for name, why in {
        "floats": "in lanes, the order changes the last bit of a sum",
        "deferring": "outputs of Reading depend on the state",
        "levels": "Day waits for one entry only",
        "limited": "a change of the shared state changes all shards at once",
    }.items():
        layout = choose_speculative_layout(PROGRAMS[name], 8, hot_keys=[1])
        assert (layout.way, layout.shards, layout.has_root) == ("sequential", 1, False)
        assert layout.reasons == (one + why,)


def test_the_run_says_whether_pending_events_fold_apart():
    ahead = "speculative: pending events fold in parallel too, and only events after a change are run again"
    assert explain_run(load("examples/value_barrier.py"))[:2] == [
        "forked: in parallel, from zero: Value; at the root: Barrier",
        ahead,
    ]
    fraud = explain_run(load("examples/fraud.py"))
    assert fraud[2].endswith("to retract outputs; outputs of Txn depend on the state")
    assert not any("speculative" in line for line in explain_run(load("examples/ewma.py")))


def test_a_checkpoint_that_kept_less_of_what_is_pending_is_refused(message):
    program = load("examples/key_counter.py")
    engine = Engine(program, (Channel("s"),), 1)
    stored = {**engine.job.fingerprint(), "mode": "speculative"}
    with pytest.raises(ChangedProgramError) as error:
        check_fingerprint(stored, engine.job.fingerprint())
    message("checkpoint_that_kept_less_of_what_is_pending", str(error.value))


def test_a_mode_that_there_is_not_is_refused(message):
    with pytest.raises(InputError) as error:
        check_mode("eager")
    message("mode_that_there_is_not", str(error.value))


@pytest.mark.spark
def test_a_speculative_stream_taken_through_the_barrier_is_the_settled_one(spark, tmp_path):
    from anabranch.microbatch.runs.published_batches import find_last_batch, read_watermarks
    from anabranch.spark import read_outputs, settle, settle_outputs, write_directory
    from anabranch.spark import run as run_query

    story = Story("taxi_tips")
    parts = story.cut(random.Random(1), most=3)
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")

    def publish(name, stops, shards):
        for count in stops:
            story.write(tmp_path / name / "in", parts[:count])
            files = session.readStream.schema(story.schema).option("maxFilesPerTrigger", 1)
            source = story.source(files.json(str(tmp_path / name / "in")))
            frame = run_query(story.program, source, shards=shards, mode="speculative")
            frame = settle(frame) if name == "barrier" else frame
            folder = tmp_path / name
            write_directory(
                frame, output=folder / "out", checkpoint=folder / "checkpoint", available_now=True
            ).awaitTermination()
        return read_published(tmp_path / name / "out", story.program)

    # In two lives, the second on what the first has left.
    rows = publish("barrier", stops=(2, len(parts)), shards=3)
    assert [row.op for row in rows] == [1] * len(story.expected())
    assert sorted((row.id, row.value) for row in rows) == story.expected()
    rows = publish("emitted", stops=(len(parts),), shards=1)
    ops = [row.op for row in rows]
    assert sum(ops) == len(story.expected())
    assert -1 in ops
    last = find_last_batch(tmp_path / "emitted" / "out")
    frame = settle_outputs(read_outputs(session, last.parent), read_watermarks(last).program)
    assert sorted((row.id, row.value) for row in frame.collect()) == story.expected()


@pytest.mark.spark
def test_a_batch_frame_is_settled_by_its_own_ledger(spark):
    from anabranch.microbatch.exchange.result_rows import COLUMNS
    from anabranch.spark import Result, settle
    from anabranch.spark import run as run_query
    from anabranch.spark.sinks.results import pack_rows

    story = Story("key_counter")
    frame = spark.createDataFrame(story.rows(), story.schema)
    result = run_query(story.program, story.source(frame), shards=2, mode="speculative")
    found = settle(result).rows.collect()
    assert sorted((r.id, r.value) for r in found if r.kind == "output") == story.expected()
    assert {row.kind for row in found} == {"output", "ledger"}
    rows = [
        ResultRow("output", '[5,0,"s",1]#0', 5, "T", "s", 1, 0, "1", "{}", None),
        ResultRow("output", '[5,0,"s",1]#0', 5, "T", "s", 1, 0, "1", "{}", None, -1),
        ResultRow("output", '[5,0,"s",1]#0', 5, "T", "s", 1, 0, "2", "{}", None),
        ResultRow("output", '[6,0,"s",2]#0', 6, "T", "s", 2, 0, "3", "{}", None),
        describe_ledger("shard", 0, Ledger(), {"watermark": 5}),
    ]
    whole, told = (
        Result(pack_rows(spark.createDataFrame(some, COLUMNS))) for some in (rows, rows[:-1])
    )
    made = settle(whole).outputs.collect()
    assert [(row.id, row.value, row.op) for row in made] == [('[5,0,"s",1]#0', "2", 1)]
    emitted = settle(told, watermark=6).outputs.orderBy("time").collect()
    assert [row.value for row in emitted] == ["2", "3"]
