"""What earlier releases have left is read by this one, and gone on from: with the answer of one whole run."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from anabranch.microbatch.exchange.result_rows import encode_json, identify
from anabranch.model.values.fields import encode_value
from anabranch.reference.sequential import run as fold
from anabranch.savepoints.folders import open_savepoint
from anabranch.savepoints.manifest import SavepointError
from anabranch.savepoints.objects import read_snapshot
from tests.golden.folders import PLACE, unpack
from tests.golden.stories import GOLDEN
from tests.microbatch.streams import Stream
from tests.spark.savepoints.test_spark_savepoints import Run
from tests.state.machine.runtimes import Options, Shards

HERE = Path(__file__).parent
SAVEPOINTS = sorted(path.parent for path in HERE.glob("*/*/*/manifest.json"))
CHECKPOINTS = sorted(HERE.glob("*/checkpoints/*.tar.gz"))
ALL = os.environ.get("ANABRANCH_GOLDEN") == "all"
SOME = ("spark/windows", "reference/counted")
ON_SPARK = [one for one in SAVEPOINTS if ALL or any(map(one.match, SOME))]
RUNNING = CHECKPOINTS if ALL else [one for one in CHECKPOINTS if one.match("counted.tar.gz")]


def name_place(place: Path) -> str:
    return place.relative_to(HERE).as_posix()


def keeps_slices(savepoint: Path) -> bool:
    """Say whether open windows were saved as slices, which only a run by columns goes on from."""
    made_by = open_savepoint(savepoint).manifest.fingerprint
    return bool(made_by.get("windows")) and made_by.get("state") == "in columns"


def test_every_story_of_this_release_is_kept():
    kept = {(place.parent.name, place.name) for place in SAVEPOINTS}
    assert kept >= {(runtime, name) for name, one in GOLDEN.items() for runtime in one.runtimes}
    assert {place.name.removesuffix(".tar.gz") for place in CHECKPOINTS} >= {
        name for name, story in GOLDEN.items() if story.checkpoint
    }


def test_all_of_it_is_small():
    sizes = [file.stat().st_size for file in HERE.rglob("*") if file.is_file()]
    assert sum(sizes) < 500_000


@pytest.mark.parametrize("place", SAVEPOINTS, ids=name_place)
def test_the_reference_goes_on_from_a_savepoint(place):
    story = GOLDEN[place.name]
    if keeps_slices(place):
        pytest.skip("windows in slices go on by columns")
    before, after = story.cut()
    begun = fold(story.program, before, story.channels)
    held = read_snapshot(place, story.program)
    assert held.ledger == begun.ledger
    assert held.standings == begun.standings
    assert sorted(held.pending) == sorted(begun.pending)
    whole = fold(story.program, story.list_items(), story.channels)
    answer = fold(story.program, after, story.channels, held)
    assert [*begun.outputs, *answer.outputs] == whole.outputs
    assert (answer.state, answer.ledger) == (whole.state, whole.ledger)


@pytest.mark.parametrize("columns", [False, True], ids=["objects", "columns"])
@pytest.mark.parametrize("place", SAVEPOINTS, ids=name_place)
def test_shards_go_on_from_a_savepoint(place, columns, tmp_path):
    story = GOLDEN[place.name]
    shards = Shards(story.program, story.channels, Options(3, (), columns), tmp_path)
    windows = open_savepoint(place).manifest.fingerprint.get("windows")
    if windows and keeps_slices(place) != (shards.engine.columns is not None):
        pytest.skip("open windows stay in the form in which they were saved")
    shards.restore(place)
    emitted = shards.take(story.cut()[1])
    assert spell(emitted.outputs) == spell(map(encode_value, rest(story).values))
    whole = fold(story.program, story.list_items(), story.channels)
    assert emitted.ledger == tuple(whole.ledger)
    assert emitted.late == sorted((x.event.channel, x.event.seq) for x in rest(story).late)


def rest(story):
    before, after = story.cut()
    return fold(
        story.program, after, story.channels, fold(story.program, before, story.channels).snapshot()
    )


def spell(outputs):
    return sorted(json.dumps(output, sort_keys=True) for output in outputs)


LATER = [(place, name) for place in SAVEPOINTS for name in GOLDEN[place.name].later]


@pytest.mark.parametrize(
    ("place", "name"), LATER, ids=lambda one: one if isinstance(one, str) else name_place(one)
)
def test_a_changed_program_goes_on_from_a_savepoint(place, name, tmp_path):
    story = GOLDEN[place.name]
    program = story.later[name]
    before, after = story.cut()
    old = fold(story.program, before, story.channels).snapshot()
    # What the changes say, done by hand.
    state = {
        meter: type(program.initial.shape.inner.init)(total * 100, count, 7)
        for meter, (count, total, _) in old.state.items()
    }
    held = read_snapshot(place, program)
    assert dict(held.state.items()) == state
    answer = fold(program, after, story.channels, held)
    shards = Shards(program, story.channels, Options(2), tmp_path)
    shards.restore(place)
    emitted = shards.take(after)
    assert spell(emitted.outputs) == spell(map(encode_value, answer.values))
    assert answer.ledger == fold(story.program, story.list_items(), story.channels).ledger


@pytest.fixture
def place_of_old():
    """Have the place where golden data was made: Spark's channel of files goes on only where it began."""
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Another worker may have a test that wants to be there.
        shutil.rmtree(PLACE, ignore_errors=True)
        yield PLACE
        shutil.rmtree(PLACE, ignore_errors=True)


@pytest.mark.spark
@pytest.mark.parametrize("place", ON_SPARK, ids=name_place)
def test_spark_goes_on_from_a_savepoint(place, spark, place_of_old):
    story = GOLDEN[place.name]
    query = Run(spark, place_of_old, Stream(story.program, story.channels, story.list_items()))
    before, after = story.cut()
    half = len(before) // 2
    # What the reference has read was not read from here.
    query.add([before[:half], before[half:]] if place.parent.name == "spark" else [])
    columns = keeps_slices(place) if place.name == "windows" else story.columns
    query.restore(place, "run", shards=3, columns=columns, hot_keys=story.hot_keys)
    query.add([after])
    query.go(shards=3, columns=columns, hot_keys=story.hot_keys)
    assert query.outputs("run") == list_outputs(rest(story))
    assert query.ledger() == rest(story).ledger


@pytest.mark.spark
def test_open_windows_go_on_in_the_form_in_which_they_were_kept(spark, place_of_old, message):
    story = GOLDEN["windows"]
    query = Run(spark, place_of_old, Stream(story.program, story.channels, story.list_items()))
    query.add([])
    with pytest.raises(SavepointError) as error:
        query.restore(HERE / "0.1.0/reference/windows", "run", columns=True)
    message("restoring_windows_in_another_form", str(error.value))
    assert not (place_of_old / "run").exists()


@pytest.mark.spark
@pytest.mark.parametrize("place", RUNNING, ids=name_place)
def test_a_query_goes_on_from_its_checkpoint(place, spark, tmp_path):
    name = place.name.removesuffix(".tar.gz")
    story = GOLDEN[name]
    unpack(place, tmp_path)
    query = Run(spark, tmp_path, Stream(story.program, story.channels, story.list_items()))
    query.files = 10
    query.add([story.cut()[1]])
    query.go(shards=2, columns=story.columns, hot_keys=story.hot_keys)
    whole = fold(story.program, story.list_items(), story.channels)
    assert query.outputs("run") == list_outputs(whole)
    assert query.ledger() == whole.ledger


def list_outputs(answer):
    return sorted((f"{identify(o.key)}#{o.index}", encode_json(o.value)) for o in answer.outputs)


def test_no_file_names_a_place_of_the_machine_that_made_it():
    for file in HERE.glob("*/spark/*/sources/**/*"):
        if file.is_file():
            paths = [part for part in file.read_text().split('"') if part.startswith("file:")]
            assert all(path.startswith(f"file://{PLACE}/") for path in paths), file
