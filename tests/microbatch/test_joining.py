"""Channels that are added at a restart, on shards: under any cut into batches; no Spark is needed."""

import copy
import dataclasses
import json
import random

import pytest

from anabranch import Event, Heartbeat
from anabranch.eventtime.channels import NEVER, Channel, end_channels
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.idleness import record
from anabranch.microbatch.exchange.partition_keys import find_numbers
from anabranch.microbatch.ingest.channel_verdicts import Standing
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import can_look_ahead
from anabranch.microbatch.ingest.row_reader import Reading as ReadingRows
from anabranch.microbatch.inspect.stored_state import KeptStore, list_standings, read_head
from anabranch.microbatch.job.description import Description
from anabranch.microbatch.job.fingerprint import ChangedProgramError
from anabranch.reference.sequential import run
from anabranch.sources.files import Files
from anabranch.spark.sources.envelope_source import FusedReader
from tests.microbatch.ingest import test_early_folds as early
from tests.microbatch.ingest.test_early_folds import watched as watched  # noqa: PLC0414 - a fixture
from tests.microbatch.programs import PROGRAMS, Reading
from tests.microbatch.speculative.test_keyed_shard import Engine as SpeculativeEngine
from tests.microbatch.test_microbatches import (
    WAYS,
    Engine,
    cut,
    draw_items,
    emitted_rows,
    expected_rows,
    to_row,
)

OLD = (Channel("b", lateness=2), Channel("d"))
NEW = (
    Channel("a", lateness=1),
    Channel("b", lateness=2),
    Channel("c", unique_times=True),
    Channel("d"),
)


def restart(engine, channels, **options):
    """Return an engine of another declaration that goes on from what the shards of this one have kept."""
    job = engine.job
    again = type(engine)(job.program, channels, job.layout.shards, job.layout.hot_keys, **options)
    kept = {name: value for name, value in vars(engine).items() if name not in ("job", "columns")}
    vars(again).update(copy.deepcopy(kept))
    return again


def rename(items, names):
    return [item._replace(channel=names[item.channel]) for item in items]


def draw(rng, program):
    """Draw what two channels bring before and after a restart, and two more after it."""
    known = rename(draw_items(rng, program, 40), {"a": "b", "b": "d", "c": "c"})
    added = rename(draw_items(rng, program, 20), {"a": "a", "b": "x", "c": "x"})
    queues = {name: [i for i in known if i.channel == name] for name in ("b", "c", "d")}
    ends = {name: rng.randint(5, 25) for name in ("b", "d")}
    first = [item for name in ends for item in queues[name][: ends[name]]]
    rest = [item for name in ends for item in queues[name][ends[name] :]]
    return first, rest, queues["c"] + [item for item in added if item.channel == "a"]


def list_joins(engine):
    return [(n, s.joined, None) for n, s in engine.standings.items() if s.joined is not None]


def list_late(engine):
    late = [row for row in engine.emitted if row.kind == "late"]
    return sorted((row.channel, row.seq, int(row.reason.split()[0])) for row in late)


def run_twice(engine, batch):
    """Run a batch that was done once and lost; the repetition comes to the same."""
    lost = copy.deepcopy(engine)
    lost.batch(batch)
    engine.batch(batch)
    assert (lost.emitted, lost.standings) == (engine.emitted, engine.standings)


NAMES = ["silent_meters", "levels", "floats", "deferring", "lasting"]


@WAYS
@pytest.mark.parametrize("name", NAMES)
def test_differential_the_reference_with_the_recorded_joins_gives_the_same_answer(name, columns):
    program = PROGRAMS[name]
    behind = joined = 0
    for seed in range(6 if columns else 10):
        rng = random.Random(seed)
        first, rest, added = draw(rng, program)
        engine = Engine(program, OLD, 1 + seed % 3, columns=columns)
        *batches, planned = cut(rng, first)
        for batch in batches:
            engine.batch(batch)
        before = copy.deepcopy(engine)
        engine.batch(planned)
        if seed % 2 and batches:
            # The last batch was planned and published, and not committed: it is repeated by the new job.
            again = restart(before, NEW, columns=columns)
            again.batch(planned)
            assert (again.emitted, again.ledger) == (engine.emitted, engine.ledger)
            assert (again.standings, again.watermark) == (engine.standings, engine.watermark)
            engine = again
        else:
            engine = restart(engine, NEW, columns=columns)
        for number, batch in enumerate(cut(rng, rest + added)):
            if number == 2:
                engine = restart(engine, NEW, columns=columns)
            run_twice(engine, batch)
        joins = list_joins(engine)
        assert [name for name, _, _ in joins] == ["a", "c"]
        answer = run(program, [*first, *rest, *added, *record(joins)], NEW)
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger
        assert engine.watermark == answer.watermark
        late = sorted((x.event.channel, x.event.seq, x.distance) for x in answer.late)
        assert list_late(engine) == late
        behind += sum(
            "at which its channel joined" in row.reason
            for row in engine.emitted
            if row.kind == "late"
        )
        joined += sum(at > NEVER for _, at, _ in joins)
    assert (behind > 20, joined > 5) == (True, True), (behind, joined)


@pytest.mark.parametrize("name", ["levels", "lasting", "silent_meters"])
def test_differential_a_speculative_run_settles_to_the_same_answer(name):
    program = PROGRAMS[name]
    for seed in range(8):
        rng = random.Random(seed)
        first, rest, added = draw(rng, program)
        engine = SpeculativeEngine(program, OLD, 2)
        for batch in cut(rng, first):
            engine.batch(batch)
        engine = restart(engine, NEW)
        more = end_channels(rest + added, channels=NEW)
        for batch in cut(rng, more):
            engine.batch(batch)
        head = read_kept(engine)[1]
        joins = [(n, Standing(*s).joined, None) for n, s in head.standings.items()]
        joins = [join for join in joins if join[1] is not None]
        answer = run(program, [*first, *more, *record(joins)], NEW)
        engine.emitted = list(engine.standing.values())
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        assert engine.ledger == answer.ledger


def read_kept(engine):
    store = KeptStore({name: engine.stores[0].read(name) for name in ("description", "head")})
    description = Description.read(store.read("description"))
    return description, read_head(description, store)


def readings(name, *pairs):
    return [to_row(Event(Reading(time, 1, 1), name, seq)) for seq, time in pairs]


@WAYS
def test_a_channel_that_is_silent_joins_with_the_second_batch_and_is_waited_for_from_then_on(
    columns,
):
    engine = Engine(PROGRAMS["levels"], [Channel("b")], 2, columns=columns)
    engine.batch([readings("b", (0, 5), (1, 9))])
    assert (engine.watermark, engine.ledger.pending) == (8, 1)
    engine = restart(engine, [Channel("a"), Channel("b")], columns=columns)
    engine.batch([readings("b", (2, 20))])
    assert (engine.watermark, list(engine.standings)) == (19, ["b"])
    description, head = read_kept(engine)
    assert (description.channels, head.announced) == (["a", "b"], ("a",))
    assert list(list_standings(description, head)) == ["b"]
    engine = restart(engine, [Channel("a"), Channel("b")], columns=columns)
    engine.batch([readings("b", (3, 30))])
    assert engine.standings["a"] == Standing(19, joined=19)
    assert (engine.watermark, engine.ledger.pending) == (19, 2)
    engine.batch([readings("a", (0, 12), (1, 19), (2, 25))])
    assert [(row.seq, row.reason) for row in engine.emitted if row.kind == "late"] == [
        (0, "7 behind the watermark at which its channel joined"),
        (1, "0 behind the watermark at which its channel joined"),
    ]
    assert engine.standings["a"] == Standing(24, 25, 2, joined=19)
    engine.batch([readings("a", (3, 3))])
    assert engine.emitted[-1].reason == "21 behind its channel's watermark"


@WAYS
def test_a_channel_that_brings_something_joins_at_once(columns):
    engine = Engine(PROGRAMS["levels"], [Channel("b")], 2, columns=columns)
    engine.batch([readings("b", (0, 5), (1, 9))])
    engine = restart(engine, [Channel("a", lateness=None), Channel("b")], columns=columns)
    beat = to_row(Heartbeat(3, "a", 0)) if columns is False else readings("a", (0, 2))[0]
    engine.batch([readings("b", (2, 20)), [beat]])
    assert engine.standings["a"].joined == 8
    assert engine.watermark == 8


def test_a_channel_joins_a_program_that_has_promised_nothing_with_nothing_promised():
    engine = Engine(PROGRAMS["levels"], [Channel("b", lateness=None)], 1)
    engine.batch([readings("b", (0, 5))])
    engine = restart(engine, [Channel("a"), Channel("b", lateness=None)])
    engine.batch([readings("a", (0, 1))])
    assert engine.standings["a"] == Standing(0, 1, 0, joined=NEVER)
    assert engine.ledger.late == 0


def test_an_estimate_and_a_limit_ahead_begin_at_the_joining_point():
    engine = Engine(PROGRAMS["levels"], [Channel("b")], 1)
    engine.batch([readings("b", (0, 100))])
    added = Channel("a", lateness=Estimated(0.5, within=2), max_ahead=10)
    engine = restart(engine, [added, Channel("b")])
    engine.batch([readings("a", (0, 90), (1, 105), (2, 200))])
    assert (engine.ledger.late, engine.ledger.rejected) == (1, 1)
    assert engine.emitted[-1].reason == "time 200 is 95 ahead of the channel; at most 10"


@pytest.mark.parametrize(("channels", "what"), [
    ([Channel("b"), Channel("c", lateness=1)], "made with other channel 'c'"),
    ([Channel("a"), Channel("b")], "made with channel 'c', which no source declares now"),
])  # fmt: skip
def test_a_channel_that_changes_or_is_missing_is_refused_by_its_name(channels, what):
    engine = Engine(PROGRAMS["levels"], [Channel("b"), Channel("c")], 1)
    engine.batch([readings("b", (0, 5))])
    with pytest.raises(ChangedProgramError, match=what):
        restart(engine, channels).batch([readings("b", (1, 6))])


def test_a_channel_that_has_joined_is_missed_like_any_other():
    engine = Engine(PROGRAMS["levels"], [Channel("b")], 1)
    engine.batch([readings("b", (0, 5))])
    engine = restart(engine, [Channel("a"), Channel("b")])
    engine.batch([readings("b", (1, 6))])
    with pytest.raises(ChangedProgramError, match="channel 'a', which no source"):
        restart(engine, [Channel("b")]).batch([readings("b", (2, 7))])


@pytest.mark.parametrize(
    "case", ["sales_windows", "value_barrier", "sales", "key_counter", "shop_totals"]
)
def test_differential_folders_are_added_and_leaves_stay_folded_where_they_are_read(
    tmp_path, watched, case
):
    program, event_types = early.CASES[case]
    joined = late = 0
    for seed in range(8):
        rng = random.Random(f"{case} {seed}")
        channels = [
            Channel(name, lateness=0 if name == "m" else rng.choice([0, 3])) for name in event_types
        ]
        items, folders = [], {}
        for channel in channels:
            event_type = program.event_type(event_types[channel.name])
            place = tmp_path / f"{seed}" / channel.name
            drawn = early.draw(
                rng, event_type, channel.name, channel, 12 if channel.name == "m" else 60
            )
            for seq, fields in early.write_files(rng, place, event_type, drawn):
                items.append(early.read_item(event_type, fields, channel.name, seq))
            reading = ReadingRows(
                event_type=event_type.__name__, channel=channel.name, heartbeat="beat"
            )
            folders[channel.name] = Folder(Files(place, files_per_batch=rng.randint(1, 3)), reading)
        engine = Engine(program, channels[1:], 1 + seed % 3, columns=True)
        engine.job = dataclasses.replace(engine.job, folders=tuple(folders.values())[1:])
        offset = follow_some(FusedReader(engine.job, 2), engine, rng.randint(1, 4))
        engine = restart(engine, channels, columns=True)
        # The new folder comes first, so the others have another place than before.
        engine.job = dataclasses.replace(engine.job, folders=tuple(folders.values()))
        assert can_look_ahead(engine.job)
        follow_some(FusedReader(engine.job, 2), engine, 1000, offset)
        joins = list_joins(engine)
        assert [name for name, _, _ in joins] == ["a"]
        answer = run(program, [*items, *record(joins)], channels)
        assert emitted_rows(engine) == expected_rows(answer), f"seed {seed}"
        kept = engine.ledger
        assert (kept.late, kept.rejected) == (len(answer.late), len(answer.rejected))
        assert (kept.processed, kept.pending) == (answer.ledger.processed, answer.ledger.pending)
        joined += joins[0][1] > NEVER
        late += kept.late
    assert (joined > 3, late > 20, watched["folded"] > 30) == (True, True, True), (joined, late)


def follow_some(reader, engine, most, offset=None):
    """Run what Spark would run, at most so many batches; return the offset after them."""
    start = reader.initialOffset() if offset is None else offset
    numbers = find_numbers(engine.job.layout.shards)
    for _ in range(most):
        end = reader.latestOffset(start, None)
        if end == start:
            break
        envelopes = [
            (numbers[row["shard"]], row["kind"], row["payload"])
            for part in reader.partitions(start, end)
            for batch in reader.read(part)
            for row in batch.to_pylist()
        ]
        if envelopes:  # Without rows, Spark asks no shard.
            engine.batch_of(envelopes)
        start = json.loads(json.dumps(end))
    return start
