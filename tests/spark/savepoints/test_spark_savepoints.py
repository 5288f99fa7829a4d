"""Savepoints, restores and rescaling on Spark: the answer is what it would have been without them."""

import itertools
import json
import os
import random
from dataclasses import replace

import pytest

from anabranch import Event
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.reference.sequential import run as fold
from anabranch.savepoints.manifest import SavepointError
from anabranch.savepoints.objects import read_snapshot
from anabranch.sources.files import Files
from tests.microbatch.programs import PROGRAMS
from tests.microbatch.streams import Story, Stream, outputs_of, read_published
from tests.microbatch.test_microbatches import draw_items

pytestmark = pytest.mark.spark

ALL = os.environ.get("ANABRANCH_RESCALES") == "all"


def _choose(options):
    """Return options as `run` takes them: whether a run goes by columns, as the path it takes."""
    rest = {name: value for name, value in options.items() if name != "columns"}
    columns = options.get("columns", True)
    return {**rest, "columnar": "auto" if columns else "never"}


class Run:
    """A query on a folder of files, in its places below a folder."""

    def __init__(self, spark, base, story):
        self.spark, self.base, self.story = spark, base, story
        self.folder = base / "in"
        self.files = 0

    def add(self, parts):
        self.story.write(self.folder, parts, self.files)
        self.files += len(parts)

    def sources(self):
        reader = self.spark.readStream.schema(self.story.schema).option("maxFilesPerTrigger", 1)
        return self.story.source(reader.json(str(self.folder)))

    def go(self, name="run", **options):
        from anabranch.spark.runs import run
        from anabranch.spark.sinks.directory import write_directory

        result = run(self.story.program, self.sources(), **_choose(options))
        write_directory(result, **self.name_places(name), available_now=True).awaitTermination()

    def places(self, name="run"):
        return self.base / name, self.base / f"{name}.checkpoint"

    def name_places(self, name="run"):
        return dict(zip(("output", "checkpoint"), self.places(name), strict=True))

    def save(self, name="run", **options):
        from anabranch.spark.savepoints.creation import create_savepoint

        target = self.base / f"savepoint-{random.randrange(10**9)}"
        return create_savepoint(
            target, checkpoint=self.places(name)[1], spark=self.spark, **options
        )

    def restore(self, savepoint, name, program=None, **options):
        from anabranch.spark.savepoints.checkpoint_restore import restore_savepoint

        chosen = self.story.program if program is None else program
        restore_savepoint(
            savepoint, chosen, self.sources(), **self.name_places(name), **_choose(options)
        )

    def rescale(self, **options):
        from anabranch.spark.savepoints.rescaling import rescale

        rescale(self.story.program, self.sources(), **self.name_places(), **_choose(options))

    def outputs(self, *names):
        program = self.story.program
        return outputs_of(
            row for name in names for row in read_published(self.base / name, program)
        )

    def ledger(self, name="run"):
        from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger

        return read_ledger(find_last_batch(self.base / name))


def cut_in_two(story, seed, most=3):
    parts = story.cut(random.Random(seed), most)
    return parts[: max(1, len(parts) // 2)], parts[max(1, len(parts) // 2) :]


def make_floats(seed):
    program = PROGRAMS["floats_per_meter"]
    channels = tuple(Channel(name) for name in "abc")
    items = end_channels(draw_items(random.Random(seed), program, 60), channels=channels)
    stream = Stream(program, channels, items)
    stream.answer = fold(program, items, channels)
    stream.expected = lambda: Story.expected(stream)
    return stream


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("key_counter", True), ("value_barrier", True), ("floats", False),
        *([("page_view", True), ("fraud", False), ("busy_airports", True)] if ALL else []),
    ],
)  # fmt: skip
def test_differential_a_restored_query_goes_on_with_other_shards_and_partitions(
    spark, tmp_path, name, columns
):
    story = make_floats(1) if name == "floats" else Story(name)
    before, after = cut_in_two(story, 5)
    query = Run(spark, tmp_path, story)
    query.add(before)
    query.go(shards=3, columns=columns)
    savepoint = query.save()
    if name == "value_barrier":  # As on another machine.
        query.folder = query.folder.rename(tmp_path / "elsewhere")
    query.restore(savepoint, "copy", shards=5, partitions=3, columns=columns)
    assert query.ledger("copy") == query.ledger("run")
    query.add(after)
    query.go("copy", shards=5, columns=columns)
    assert query.outputs("run", "copy") == story.expected()
    assert query.ledger("copy") == story.answer.ledger
    if name == "key_counter":  # The query that was saved does not know of it.
        query.go("run", shards=3, columns=columns)
        assert query.outputs("run") == story.expected()


@pytest.mark.parametrize("name", ["key_counter", "value_barrier"])
def test_differential_the_reference_goes_on_from_a_savepoint_of_spark(spark, tmp_path, name):
    story = Story(name)
    before, after = cut_in_two(story, 3)
    query = Run(spark, tmp_path, story)
    query.add(before)
    query.go(shards=2)
    snapshot = read_snapshot(query.save(), story.program)
    answer = fold(story.program, [i for part in after for i in part], story.channels, snapshot)
    assert answer.state == story.answer.state
    assert answer.ledger == story.answer.ledger
    emitted = [(o.key, o.index, o.value) for o in answer.outputs]
    known = [(o.key, o.index, o.value) for o in story.answer.outputs]
    assert emitted == known[len(known) - len(emitted) :]


EVERY_PAIR = (1, 2, 1, 4, 1, 8, 2, 4, 2, 8, 4, 8)
"""Closed to a ring, each of four numbers comes once before each of the others."""


def list_changes():
    """Return numbers of shards and of partitions, of which each comes after each."""
    if not ALL:
        return [(4, 1), (1, 8)]
    ring = [*EVERY_PAIR, EVERY_PAIR[0]]
    assert len(set(itertools.pairwise(ring))) == 12
    return list(zip(ring, [*EVERY_PAIR[5:], *EVERY_PAIR[:6]], strict=True))


@pytest.mark.parametrize("name", ["floats", *(["key_counter", "value_barrier"] if ALL else [])])
def test_differential_a_query_is_rescaled_in_place_again_and_again(spark, tmp_path, name):
    story = make_floats(2) if name == "floats" else Story(name)
    columns = name != "floats"
    changes = list_changes()
    parts = story.cut(random.Random(1), 2 * len(changes) + 2)
    query = Run(spark, tmp_path, story)
    shards = partitions = None
    for shards, partitions in changes:
        query.add([parts.pop(0)] if len(parts) > 1 else [])
        if query.places()[1].exists():
            query.rescale(shards=shards, partitions=partitions, columns=columns)
        query.go(shards=shards, columns=columns)
    query.add(parts)
    query.go(shards=shards, columns=columns)
    assert query.outputs("run") == story.expected()
    assert query.ledger() == story.answer.ledger
    numbers = sorted(
        int(path.name.partition("=")[2]) for path in (tmp_path / "run").glob("batch=*")
    )
    assert numbers == list(range(len(numbers)))
    assert json.loads((tmp_path / "run" / "_pair.json").read_text())["id"]


def test_differential_other_partitions_alone_are_dealt_out_by_spark(spark, tmp_path, monkeypatch):
    from anabranch.spark.savepoints import rescaling

    story = Story("value_barrier")
    before, after = cut_in_two(story, 5)
    query = Run(spark, tmp_path, story)
    query.add(before)
    query.go(shards=3)
    monkeypatch.setattr(rescaling, "create_savepoint", None)  # It would be in vain.
    for partitions in (3, 3, 1):
        query.rescale(partitions=partitions)
    query.add(after)
    query.go(shards=3)
    assert query.outputs("run") == story.expected()
    assert query.ledger() == story.answer.ledger


def test_a_savepoint_is_taken_at_a_batch_or_a_watermark_while_the_query_runs(spark, tmp_path):
    from anabranch.spark.runs import run
    from anabranch.spark.sinks.directory import write_directory

    story = Story("key_counter")
    event_type = story.program.event_type("Inc")
    story.items = [
        Event(event_type(10 * n + k, k), "a", 10 * n + k) for n in range(4) for k in range(10)
    ]
    story.channels = (Channel("a"),)
    query = Run(spark, tmp_path, story)
    query.add([story.items[n : n + 10] for n in range(0, 40, 10)])
    trigger = {"processingTime": "0 seconds"}
    result = run(story.program, query.sources(), shards=2)
    started = write_directory(result, **query.name_places(), trigger=trigger)
    try:
        started.processAllAvailable()
        second = read_snapshot(query.save(batch=1), story.program)
        assert (second.ledger.input, second.watermark) == (20, 18)
        assert read_snapshot(query.save(at=15), story.program).watermark == 18
        assert read_snapshot(query.save(at=38), story.program).ledger.input == 40
        with pytest.raises(SavepointError, match="has not reached 39"):
            query.save(at=39)
        assert started.isActive
    finally:
        started.stop()
    for batch, inputs in ((0, 10), (3, 40)):
        snapshot = read_snapshot(query.save(batch=batch), story.program)
        answer = fold(story.program, story.items[:inputs], story.channels)
        assert snapshot.state == answer.state
        assert snapshot.ledger == answer.ledger
        assert list(snapshot.pending) == answer.pending


def test_what_does_not_fit_is_refused_before_anything_is_touched(spark, tmp_path, message):
    from anabranch.spark.savepoints.checkpoint_restore import restore_savepoint

    story = Story("key_counter")
    before, after = cut_in_two(story, 3)
    query = Run(spark, tmp_path, story)
    query.add(before)
    query.go(shards=2)
    savepoint = query.save()
    with pytest.raises(InputError, match="that is not empty"):
        query.restore(savepoint, "run", shards=2)
    other = Story("fraud").program
    with pytest.raises(ValueError, match="can't be migrated"):
        query.restore(savepoint, "other", other, shards=2)
    (source,) = query.sources()
    sources = [Files.of(story.program, query.folder, format="json", channels=source.channels)]
    with pytest.raises(SavepointError) as error:
        restore_savepoint(savepoint, story.program, sources, **query.name_places("other"))
    message("restoring_on_other_channels", str(error.value))
    fewer = [replace(source, channels=(Channel("other"),))]
    with pytest.raises(InputError, match="which no source declares now"):
        restore_savepoint(savepoint, story.program, fewer, **query.name_places("other"))
    assert not (tmp_path / "other").exists()
    query.add(after)
    query.go(shards=2)
    places = {"output": tmp_path / "run", "checkpoint": tmp_path / "new.checkpoint"}
    with pytest.raises(InputError, match="is not where the savepoint was made"):
        restore_savepoint(savepoint, story.program, query.sources(), **places)
    assert query.outputs("run") == story.expected()
    with pytest.raises(SavepointError) as error:
        query.restore(savepoint, "other", shards=2, mode="speculative")
    message("restoring_in_another_mode", str(error.value))
